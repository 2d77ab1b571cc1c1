//! The flags of `serve` and `demo`.

use std::net::IpAddr;
use std::time::Duration;

use clap::{Arg, Args};

use super::access::AccessArgs;
use super::encrypted::EncryptedArgs;
use super::failover::DelayArgs;
use super::groups::{ListenArgs, LogArgs, SourceArgs};
use super::history::HistoryArgs;
use super::model::ModelArgs;
use super::values::{parse_duration, parse_text};
use super::view::brief;
use crate::server::ListenAddress;
use crate::zone::AnswerOrder;

/// Flags of `serve`.
#[derive(Debug, Args)]
#[command(mut_args(in_serve))]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct ServeArgs {
    #[command(flatten)]
    pub source: SourceArgs,

    #[command(flatten)]
    pub model: ModelArgs,

    #[command(flatten)]
    pub listeners: ListenArgs,

    #[command(flatten)]
    pub encrypted: EncryptedArgs,

    #[command(flatten)]
    pub access: AccessArgs,

    /// Order of the records in an answer; the set is always complete
    #[arg(long, value_name = "ORDER", default_value = "rotate")]
    pub order: AnswerOrder,

    /// Address of ns.dns.ZONE: resolvers that follow NS records query it at port 53, so it must reach this server or any replica; the chart sets the cluster IP of the Service (repeatable) [default: the addresses of --listen with port 53, except wildcard addresses]
    #[arg(long, value_name = "IP", value_delimiter = ',')]
    pub ns_address: Vec<IpAddr>,

    /// Maximum size of a reply over UDP in octets, 512 to 4096
    #[arg(long, value_name = "OCTETS", default_value_t = 1232, value_parser = clap::value_parser!(u16).range(512..=4096))]
    pub udp_max: u16,

    /// Number of threads that answer over UDP, for each address of --listen [default: one for each CPU]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub udp_workers: Option<u16>,

    /// Maximum number of open TCP connections, and separately of TLS connections; a further connection replaces the one that has been idle longest; lower if the hard limit of open files requires it
    #[arg(long, value_name = "NUMBER", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub tcp_connections: u32,

    /// Maximum number of open TCP connections from the client addresses of one /24 (IPv6: /56), and separately of TLS connections; a further connection replaces one of the address with most
    #[arg(long, value_name = "NUMBER", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub tcp_connections_per_address: u32,

    /// Identity of this server in answers to NSID and id.server, for example the name of the pod [default: not answered]
    #[arg(long, value_name = "TEXT", value_parser = parse_text)]
    pub server_id: Option<String>,

    /// Time during which queries are still answered after SIGTERM or SIGINT
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub grace: Duration,

    #[command(flatten)]
    pub delays: DelayArgs,

    #[command(flatten)]
    pub history: HistoryArgs,

    #[command(flatten)]
    pub log: LogArgs,
}

/// Changes the help of the flags that `serve` shares with commands.
fn in_serve(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "kubeconfig" => arg.help(
            "Kubeconfig to reach the API server with [default: the ServiceAccount of the pod]",
        ),
        _ => arg,
    }
}

/// Flags of `demo`.
#[derive(Debug, Args)]
#[command(mut_args(brief))]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct DemoArgs {
    /// DNS address, UDP and TCP
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:1053")]
    pub listen: ListenAddress,

    /// HTTP address of /livez, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9153")]
    pub admin_listen: ListenAddress,

    /// HTTP address of /api/v1
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9154")]
    pub api_listen: ListenAddress,

    /// Change the sample in a loop, one scene after each DURATION: clusters are linked, pods restart, gateways fail
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "8s", value_parser = parse_duration)]
    pub live: Option<Duration>,

    #[command(flatten)]
    pub log: LogArgs,
}
