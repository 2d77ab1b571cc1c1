//! The command line: every flag with its default and its help. Only this module uses `clap`.
//!
//! Values leave this module typed and checked. Every flag has an environment variable: `GLOBAL_DNS_` and the name of the
//! flag. Commas separate the items of lists. `README.md` in `cli/` is generated from the definitions here.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand};

mod access;
mod check;
mod completions;
mod corefile;
mod encrypted;
mod environment;
mod failover;
mod help;
mod model;
mod parse;
mod program;
mod values;
mod view;

pub use access::AccessArgs;
pub use check::CheckArgs;
pub use completions::CompletionsArgs;
pub use corefile::CorefileArgs;
pub use encrypted::EncryptedArgs;
pub use environment::{UnknownVariable, unknown_variables};
pub use help::{HelpArgs, HelpOutput, Topic};
pub use model::ModelArgs;
pub use view::{EventsArgs, ExplainArgs, ServerArgs, TableArgs, ViewArgs};

pub use failover::DelayArgs;
use parse::parse;
pub use values::{
    CheckOutput, EventsOutput, ExplainOutput, GatewayDownArg, LocalMembersArg, LogFormatArg,
    OrderArg, ShortNamesArg, TableOutput, ZoneArg, parse_zone,
};
use values::{parse_duration, parse_shrink_guard, parse_text};

use crate::admin::ApiHost;
use crate::log::LogFilter;
use crate::model::Namespace;
use crate::server::{Addresses, ListenAddress};
use crate::source::ShrinkGuard;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// One DNS name for a headless service that lives in many linked clusters
#[derive(Debug, Parser)]
#[command(name = "global-dns", version, styles = STYLES, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer DNS queries for the mirrors in a cluster or in files
    Serve(Box<ServeArgs>),
    /// Try the server with built-in sample data of three clusters, at 127.0.0.1:1053
    Demo(Box<DemoArgs>),
    /// Explain the answer for a name, or why there is none
    Explain(Box<ExplainArgs>),
    /// Print the table: every endpoint, every skipped object, every conflict
    Table(Box<TableArgs>),
    /// Print the last changes of the answers, as a running server recorded them
    Events(Box<EventsArgs>),
    /// Diagnose an installation, with a hint for each problem
    Check(Box<CheckArgs>),
    /// Print the setting that makes the DNS of a platform forward the zones to the server; writes nothing to the cluster
    Corefile(Box<CorefileArgs>),
    /// Print a script that completes commands and flags in a shell
    Completions(CompletionsArgs),
    /// Print this help, the help of a command, or a table of all flags of serve
    Help(HelpArgs),
}

/// Flags of `serve`.
#[derive(Debug, Args)]
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
    #[arg(
        long,
        env = "GLOBAL_DNS_ORDER",
        value_name = "ORDER",
        default_value = "rotate"
    )]
    pub order: OrderArg,

    /// Address of ns.dns.ZONE: resolvers that follow NS records query it at port 53, so it must reach this server or any replica; the chart sets the cluster IP of the Service (repeatable) [default: the addresses of --listen with port 53, except wildcard addresses]
    #[arg(
        long,
        env = "GLOBAL_DNS_NS_ADDRESS",
        value_name = "IP",
        value_delimiter = ','
    )]
    pub ns_address: Vec<IpAddr>,

    /// Maximum size of a reply over UDP in octets, 512 to 4096
    #[arg(long, env = "GLOBAL_DNS_UDP_MAX", value_name = "OCTETS", default_value_t = 1232, value_parser = clap::value_parser!(u16).range(512..=4096))]
    pub udp_max: u16,

    /// Number of threads that answer over UDP, for each address of --listen [default: one for each CPU]
    #[arg(long, env = "GLOBAL_DNS_UDP_WORKERS", value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub udp_workers: Option<u16>,

    /// Maximum number of open TCP connections, and separately of TLS and HTTPS connections together; a further connection replaces the one that has been idle longest; lower if the hard limit of open files requires it
    #[arg(long, env = "GLOBAL_DNS_TCP_CONNECTIONS", value_name = "NUMBER", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub tcp_connections: u32,

    /// Maximum number of open TCP connections from the client addresses of one /24 (IPv6: /56), and separately of TLS and HTTPS connections together; a further connection replaces one of the address with most
    #[arg(long, env = "GLOBAL_DNS_TCP_CONNECTIONS_PER_ADDRESS", value_name = "NUMBER", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub tcp_connections_per_address: u32,

    /// Identity of this server in answers to NSID and id.server, for example the name of the pod [default: not answered]
    #[arg(long, env = "GLOBAL_DNS_SERVER_ID", value_name = "TEXT", value_parser = parse_text)]
    pub server_id: Option<String>,

    /// Text of the answer to version.bind [default: not answered]
    #[arg(long, env = "GLOBAL_DNS_VERSION_BIND", value_name = "TEXT", value_parser = parse_text)]
    pub version_bind: Option<String>,

    /// Approximate interval between relists; each relists one of the watches, in turn
    #[arg(long, env = "GLOBAL_DNS_RELIST", value_name = "DURATION", default_value = "12h", value_parser = parse_duration)]
    pub relist: Duration,

    /// Maximum silence of a watch; a few seconds later, its connection is considered dead
    #[arg(long, env = "GLOBAL_DNS_WATCH_TIMEOUT", value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub watch_timeout: Duration,

    /// Percentage of the services, of more than 10: a list that removes more is held until a second list, within half a minute, confirms it; a list from the API server that removes all is held too, however few there are; a service counts as removed if it would lose more than this percentage of its endpoints; mirrors, Services of this cluster and ServiceImports count by themselves; with --namespace, each namespace counts by itself; off: never hold a list
    #[arg(long, env = "GLOBAL_DNS_SHRINK_GUARD", value_name = "PERCENT", default_value = "90", value_parser = parse_shrink_guard)]
    pub shrink_guard: ShrinkGuard,

    /// File to save the objects of the table in; after a restart, the server answers from it until the API server has been read [default: none; the chart sets a file in a volume of the pod]
    #[arg(
        long,
        env = "GLOBAL_DNS_SNAPSHOT",
        value_name = "FILE",
        conflicts_with = "file"
    )]
    pub snapshot: Option<PathBuf>,

    /// Maximum age of a snapshot that the server answers from
    #[arg(long, env = "GLOBAL_DNS_SNAPSHOT_MAX_AGE", value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    pub snapshot_max_age: Duration,

    /// Answer SERVFAIL (EDE 24), and stay ready, if a watch or a file has not been heard from for longer; at least twice --watch-timeout, and longer than a list takes [default: never]
    #[arg(long, env = "GLOBAL_DNS_MAX_STALE", value_name = "DURATION", value_parser = parse_duration)]
    pub max_stale: Option<Duration>,

    /// Time during which queries are still answered after SIGTERM or SIGINT
    #[arg(long, env = "GLOBAL_DNS_GRACE", value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub grace: Duration,

    #[command(flatten)]
    pub delays: DelayArgs,

    #[command(flatten)]
    pub log: LogArgs,
}

/// Flags of `demo`.
#[derive(Debug, Args)]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct DemoArgs {
    /// DNS address, UDP and TCP
    #[arg(
        long,
        env = "GLOBAL_DNS_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:1053"
    )]
    pub listen: ListenAddress,

    /// HTTP address of /livez, /readyz and /metrics
    #[arg(
        long,
        env = "GLOBAL_DNS_ADMIN_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9153"
    )]
    pub admin_listen: ListenAddress,

    /// HTTP address of /api/v1
    #[arg(
        long,
        env = "GLOBAL_DNS_API_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9154"
    )]
    pub api_listen: ListenAddress,

    /// Change the sample in a loop, one scene after each DURATION: clusters are linked, pods restart, gateways fail
    #[arg(long, env = "GLOBAL_DNS_LIVE", value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "8s", value_parser = parse_duration)]
    pub live: Option<Duration>,

    #[command(flatten)]
    pub log: LogArgs,
}

/// The source of objects.
#[derive(Debug, Args)]
#[command(next_help_heading = "Source")]
pub struct SourceArgs {
    /// Read Kubernetes objects from this YAML or JSON file instead of a cluster; serve reloads it when it changes; -: standard input (repeatable)
    #[arg(short, long, env = "GLOBAL_DNS_FILE", value_name = "FILE", value_delimiter = ',', conflicts_with_all = ["kubeconfig", "context"])]
    pub file: Vec<PathBuf>,

    /// Kubeconfig to reach the API server with [default: the ServiceAccount of the pod]
    #[arg(long, env = "GLOBAL_DNS_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context]
    #[arg(long, env = "GLOBAL_DNS_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,

    /// Watch only this namespace, which needs permissions only there (repeatable) [default: all namespaces]
    #[arg(
        long,
        env = "GLOBAL_DNS_NAMESPACE",
        value_name = "NAMESPACE",
        value_delimiter = ','
    )]
    pub namespace: Vec<Namespace>,
}

/// The listeners.
#[derive(Debug, Args)]
#[command(next_help_heading = "Listeners")]
pub struct ListenArgs {
    /// DNS addresses. Empty: all addresses of both families, at port 5353.
    #[arg(
        help = "DNS address for UDP and TCP: IP:PORT, :PORT for all addresses, or localhost:PORT (repeatable) [default: 0.0.0.0:5353 and [::]:5353]",
        long,
        env = "GLOBAL_DNS_LISTEN",
        value_name = "ADDRESS",
        value_delimiter = ','
    )]
    pub listen: Vec<ListenAddress>,

    /// Addresses of `/livez`, `/readyz` and `/metrics`. Empty: all addresses of both families, at port 9153.
    #[arg(
        help = "HTTP address of /livez, /readyz and /metrics (repeatable) [default: 0.0.0.0:9153 and [::]:9153]",
        long,
        env = "GLOBAL_DNS_ADMIN_LISTEN",
        value_name = "ADDRESS",
        value_delimiter = ','
    )]
    pub admin_listen: Vec<ListenAddress>,

    /// HTTP address of /api/v1, which shows all namespaces (repeatable)
    #[arg(
        long,
        env = "GLOBAL_DNS_API_LISTEN",
        value_name = "ADDRESS",
        value_delimiter = ',',
        default_value = "127.0.0.1:9154"
    )]
    pub api_listen: Vec<ListenAddress>,

    /// Additional name or address that API requests may have as Host or Origin, for example that of an Ingress; localhost, loopback addresses and the address that received the request are always allowed (repeatable)
    #[arg(
        long,
        env = "GLOBAL_DNS_API_HOST",
        value_name = "HOST",
        value_delimiter = ','
    )]
    pub api_host: Vec<ApiHost>,
}

/// The log.
#[derive(Debug, Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// Minimum level of log messages: error, warn, info, debug, trace, or a filter such as info,global_dns::source=debug [default: info; error for explain, table, events and check]
    #[arg(long, env = "GLOBAL_DNS_LOG_LEVEL", value_name = "LEVEL")]
    pub log_level: Option<LogFilter>,

    /// Format of log lines
    #[arg(
        long,
        env = "GLOBAL_DNS_LOG_FORMAT",
        value_name = "FORM",
        default_value = "text"
    )]
    pub log_format: LogFormatArg,
}

/// Reads the command line. Ends the process with exit code 2 if the command line is invalid, and with exit code 0 after
/// `help`, except for the table of flags.
pub fn read() -> Cli {
    let cli = parse(std::env::args_os().collect());
    if let Command::Help(args) = &cli.command
        && let Some(help) = args.clap_help()
    {
        help.exit();
    }
    cli
}

// === Values of flags ===

impl Command {
    /// Returns an error if values of flags contradict each other.
    fn check(&self) -> Result<(), String> {
        let model = match self {
            Self::Serve(args) => &args.model,
            Self::Explain(args) => &args.view.model,
            Self::Table(args) => &args.view.model,
            Self::Check(args) => &args.model,
            _ => return Ok(()),
        };
        model.check_zones().and_then(|()| model.check_failover())
    }
}

impl ListenArgs {
    /// Returns the addresses of DNS.
    pub fn dns(&self) -> Addresses {
        addresses_or_default(&self.listen, 5353)
    }

    /// Returns the addresses of `/livez`, `/readyz` and `/metrics`.
    pub fn admin(&self) -> Addresses {
        addresses_or_default(&self.admin_listen, 9153)
    }

    /// Returns the addresses of `/api/v1`.
    pub fn api(&self) -> Addresses {
        Addresses::Given(self.api_listen.clone())
    }
}

fn addresses_or_default(addresses: &[ListenAddress], port: u16) -> Addresses {
    match addresses {
        [] => Addresses::EveryAt(port),
        given => Addresses::Given(given.to_vec()),
    }
}

impl From<DemoArgs> for ServeArgs {
    /// Converts the flags of `demo` to those of `serve`. The caller adds the file.
    fn from(demo: DemoArgs) -> Self {
        let DemoArgs {
            listen,
            admin_listen,
            api_listen,
            live: _, // the caller plays the scenes
            log,
        } = demo;
        // The defaults of `serve`, and the values of its environment variables.
        let Command::Serve(mut serve) =
            parse(["global-dns", "serve"].map(OsString::from).into()).command
        else {
            unreachable!("the subcommand is named on the line above")
        };
        serve.listeners = ListenArgs {
            listen: vec![listen],
            admin_listen: vec![admin_listen],
            api_listen: vec![api_listen],
            api_host: Vec::new(),
        };
        serve.encrypted = EncryptedArgs::default();
        serve.snapshot = None; // the sample data is not from a cluster
        serve.log = log;
        *serve
    }
}

#[cfg(test)]
mod tests;
