//! The flags of `check`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Arg, Args};

use super::groups::{ColorArgs, LogArgs, SourceArgs};
use super::settings::SettingsArgs;
use super::values::{Output, outputs, parse_name, parse_name_server};
use super::view::brief;
use crate::settings::parse_duration;
use crate::zone::Name;

/// Flags of `check`.
#[derive(Debug, Args)]
#[command(mut_args(in_check))]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct CheckArgs {
    /// Address of the DNS Service of global-dns, usually its cluster IP; check queries it directly and through the cluster's DNS [default port: 53]
    #[arg(long, value_name = "IP[:PORT]", value_parser = parse_name_server)]
    pub dns: Option<SocketAddr>,

    /// Name to ask for from end to end: /etc/resolv.conf, the cluster's DNS, the server [default: the smallest service with an alive endpoint]
    #[arg(long, value_name = "NAME", value_parser = parse_name, requires = "dns")]
    pub name: Option<Name>,

    /// Also connect to the answered addresses over TCP, and report the time for each; endpoints of other clusters accept only meshed clients, so run it in a Pod with Linkerd's proxy
    #[arg(long, requires = "dns")]
    pub connect: bool,

    /// API of a running server, for example http://127.0.0.1:9154, for conflicts that only a running server detects
    #[arg(long, value_name = "URL")]
    pub api: Option<http::Uri>,

    /// Address of the cluster's DNS, which should forward the zones to the server [default: the first name server of /etc/resolv.conf]
    #[arg(long, value_name = "IP[:PORT]", value_parser = parse_name_server)]
    pub resolver: Option<SocketAddr>,

    #[command(flatten)]
    pub source: SourceArgs,

    #[command(flatten)]
    pub settings: SettingsArgs,

    #[command(flatten)]
    pub log: LogArgs,

    /// Repeat the checks until none fails, for at most this time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub wait: Option<Duration>,

    /// Format of the output
    #[arg(short, long, value_name = "FORM", default_value = "text", value_parser = outputs(&[Output::Text, Output::Json]))]
    pub output: Output,

    #[command(flatten)]
    pub color: ColorArgs,
}

/// Changes the help of the flags that `check` shares with `serve`.
fn in_check(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "file" => arg.help("Check the Kubernetes objects of this YAML or JSON file instead of a cluster; -: standard input (repeatable)"),
        "namespace" => arg.short('n').help("Check only this namespace, which needs permissions only there (repeatable) [default: all namespaces]"),
        _ => brief(arg),
    }
}
