//! The flags of `check`.

use std::net::SocketAddr;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use super::values::{CheckOutput, parse_name_server};
use super::{LogArgs, ModelArgs, SourceArgs};
use crate::check::Check;

/// The meaning of the exit codes, for scripts.
const EXIT_CODES: &str =
    "Exit codes: 0 no line is red; 1 a line is red, or the facts cannot be read; 2 wrong usage";

/// Flags of `check`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct CheckArgs {
    /// Print the documentation of this check, and check nothing
    #[arg(long, value_name = "NAME")]
    pub explain: Option<Check>,

    /// DNS address of the server to query, for example the cluster IP of its Service [default port: 53]
    #[arg(id = "dns_server", long = "server", env = "GLOBAL_DNS_DNS_SERVER", value_name = "IP[:PORT]", value_parser = parse_name_server)]
    pub server: Option<SocketAddr>,

    /// Address of --api-listen of a running server, for example http://127.0.0.1:9154, for conflicts that only a running server detects
    #[arg(long, env = "GLOBAL_DNS_API", value_name = "URL")]
    pub api: Option<http::Uri>,

    /// Address of the cluster's DNS, which should forward the zones to the server [default: the first name server of /etc/resolv.conf]
    #[arg(long, env = "GLOBAL_DNS_RESOLVER", value_name = "IP[:PORT]", value_parser = parse_name_server)]
    pub resolver: Option<SocketAddr>,

    #[command(flatten)]
    pub source: SourceArgs,

    #[command(flatten)]
    pub model: ModelArgs,

    #[command(flatten)]
    pub log: LogArgs,

    /// Format of the output
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub output: CheckOutput,
}

impl ValueEnum for Check {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}
