//! The flags of `check`.

use std::net::SocketAddr;

use clap::Args;

use super::values::{CheckOutput, parse_name_server};
use super::{LogArgs, ModelArgs, SourceArgs};

/// What the exit codes mean, for scripts.
const EXIT_CODES: &str =
    "Exit codes: 0 nothing is red, 1 something is, or nothing could be looked at; 2 wrong usage";

/// Flags of `check`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct CheckArgs {
    /// Ask a running server's DNS address directly, such as the cluster IP of its Service [default port: 53]
    #[arg(id = "dns_server", long = "server", env = "GLOBAL_DNS_DNS_SERVER", value_name = "IP[:PORT]", value_parser = parse_name_server)]
    pub server: Option<SocketAddr>,

    /// Ask a running server's --api-listen address, such as http://127.0.0.1:9154, for what only a running server can know
    #[arg(long, env = "GLOBAL_DNS_API", value_name = "URL")]
    pub api: Option<http::Uri>,

    /// The cluster's DNS, which is to forward the zones to the server [default: the first of /etc/resolv.conf]
    #[arg(long, env = "GLOBAL_DNS_RESOLVER", value_name = "IP[:PORT]", value_parser = parse_name_server)]
    pub resolver: Option<SocketAddr>,

    #[command(flatten)]
    pub source: SourceArgs,

    #[command(flatten)]
    pub model: ModelArgs,

    #[command(flatten)]
    pub log: LogArgs,

    /// For people or for programs
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub output: CheckOutput,
}
