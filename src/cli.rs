//! Every flag with its default and a sentence of help; the only door to `clap`.
//!
//! Values leave this file typed and checked. Every flag has an environment variable, `GLOBAL_DNS_` and its name; lists
//! are separated by commas.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Styles};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand};

mod access;
mod check;
mod encrypted;
mod model;
mod values;

pub use access::AccessArgs;
pub use check::CheckArgs;
pub use encrypted::EncryptedArgs;
pub use model::ModelArgs;

pub use values::{
    CheckOutput, ExplainOutput, GatewayDownArg, LocalMembersArg, LogFormatArg, OrderArg,
    ShortNamesArg, TableOutput,
};
use values::{parse_duration, parse_shrink_guard, parse_text};

use crate::admin::ApiHost;
use crate::mirror::Namespace;
use crate::server::Addresses;
use crate::source::ShrinkGuard;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// One DNS name for a headless service that lives in many linked clusters
#[derive(Debug, Parser)]
#[command(name = "global-dns", version, styles = STYLES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer DNS queries about the mirrors of a cluster, or of files
    Serve(Box<ServeArgs>),
    /// Try it: the same server on a built-in sample of three clusters, at 127.0.0.1:1053
    Demo(Box<DemoArgs>),
    /// Tell why a name has the answer that it has, or none
    Explain(Box<ExplainArgs>),
    /// Print what is served: every endpoint, every skipped object, every conflict
    Table(Box<TableArgs>),
    /// Look for what ails the installation, and say what to do about it
    Check(Box<CheckArgs>),
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

    /// Address of ns.dns.ZONE, which leads to this server, or any replica, at port 53 (repeatable) [default: those of --listen at port 53, wildcards aside]
    #[arg(
        long,
        env = "GLOBAL_DNS_NS_ADDRESS",
        value_name = "IP",
        value_delimiter = ','
    )]
    pub ns_address: Vec<IpAddr>,

    /// Octets that a reply over UDP takes at most, 512 to 4096
    #[arg(long, env = "GLOBAL_DNS_UDP_MAX", value_name = "OCTETS", default_value_t = 1232, value_parser = clap::value_parser!(u16).range(512..=4096))]
    pub udp_max: u16,

    /// Threads that answer over UDP, for each DNS address [default: one for each CPU]
    #[arg(long, env = "GLOBAL_DNS_UDP_WORKERS", value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub udp_workers: Option<u16>,

    /// TCP connections that are open at a time; one more takes the place of the longest idle
    #[arg(long, env = "GLOBAL_DNS_TCP_CONNECTIONS", value_name = "NUMBER", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub tcp_connections: u32,

    /// TCP connections of one client address that are open at a time
    #[arg(long, env = "GLOBAL_DNS_TCP_CONNECTIONS_PER_ADDRESS", value_name = "NUMBER", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub tcp_connections_per_address: u32,

    /// Tell who asks (NSID, id.server) which server this is; a pod's name, for instance
    #[arg(long, env = "GLOBAL_DNS_SERVER_ID", value_name = "TEXT", value_parser = parse_text)]
    pub server_id: Option<String>,

    /// Tell who asks (version.bind) this
    #[arg(long, env = "GLOBAL_DNS_VERSION_BIND", value_name = "TEXT", value_parser = parse_text)]
    pub version_bind: Option<String>,

    /// How often, about, one of the watches, in turn, is relisted
    #[arg(long, env = "GLOBAL_DNS_RELIST", value_name = "DURATION", default_value = "12h", value_parser = parse_duration)]
    pub relist: Duration,

    /// How long a watch may be silent before its connection counts as dead, a few seconds aside
    #[arg(long, env = "GLOBAL_DNS_WATCH_TIMEOUT", value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub watch_timeout: Duration,

    /// Hold a list that would drop more than this share of its watch's services, of more than 10, until another one, within half a minute, says the same; so is any list of the API server that would leave none; off: never
    #[arg(long, env = "GLOBAL_DNS_SHRINK_GUARD", value_name = "PERCENT", default_value = "90", value_parser = parse_shrink_guard)]
    pub shrink_guard: ShrinkGuard,

    /// Save what the table is made from in this file, and answer from it after a restart until the API server has been heard
    #[arg(
        long,
        env = "GLOBAL_DNS_SNAPSHOT",
        value_name = "FILE",
        conflicts_with = "file"
    )]
    pub snapshot: Option<PathBuf>,

    /// How old a snapshot may be that is answered from
    #[arg(long, env = "GLOBAL_DNS_SNAPSHOT_MAX_AGE", value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    pub snapshot_max_age: Duration,

    /// Answer SERVFAIL when a watch, or a file, has given no sign of life for longer than this, at least twice --watch-timeout [default: never]
    #[arg(long, env = "GLOBAL_DNS_MAX_STALE", value_name = "DURATION", value_parser = parse_duration)]
    pub max_stale: Option<Duration>,

    /// How long queries are still answered after SIGTERM or SIGINT
    #[arg(long, env = "GLOBAL_DNS_GRACE", value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub grace: Duration,

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
    pub listen: SocketAddr,

    /// HTTP address of /livez, /readyz and /metrics
    #[arg(
        long,
        env = "GLOBAL_DNS_ADMIN_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9153"
    )]
    pub admin_listen: SocketAddr,

    /// HTTP address of /api/v1
    #[arg(
        long,
        env = "GLOBAL_DNS_API_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9154"
    )]
    pub api_listen: SocketAddr,

    #[command(flatten)]
    pub log: LogArgs,
}

/// Flags of `explain`.
#[derive(Debug, Args)]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct ExplainArgs {
    /// The name, as you would ask dig for it
    pub name: String,

    #[command(flatten)]
    pub view: ViewArgs,

    /// For people or for programs
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub output: ExplainOutput,
}

/// Flags of `table`.
#[derive(Debug, Args)]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct TableArgs {
    #[command(flatten)]
    pub view: ViewArgs,

    /// For people, for programs, or as a zone file
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub output: TableOutput,
}

/// What `explain` and `table` look at.
#[derive(Debug, Args)]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct ViewArgs {
    /// Ask a running server's --api-listen address, such as http://127.0.0.1:9154
    #[arg(long, env = "GLOBAL_DNS_SERVER", value_name = "URL", conflicts_with_all = ["file", "kubeconfig", "context"])]
    pub server: Option<http::Uri>,

    #[command(flatten)]
    pub source: SourceArgs,

    #[command(flatten)]
    pub model: ModelArgs,

    #[command(flatten)]
    pub log: LogArgs,
}

/// Where objects come from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Source")]
pub struct SourceArgs {
    /// Read Kubernetes objects from this YAML or JSON file, and no cluster (repeatable)
    #[arg(long, env = "GLOBAL_DNS_FILE", value_name = "FILE", value_delimiter = ',', conflicts_with_all = ["kubeconfig", "context"])]
    pub file: Vec<PathBuf>,

    /// Reach the API server as this file says [default: as a pod of the cluster]
    #[arg(long, env = "GLOBAL_DNS_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current one]
    #[arg(long, env = "GLOBAL_DNS_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,

    /// Watch only this namespace, which needs permissions in it alone (repeatable) [default: all]
    #[arg(
        long,
        env = "GLOBAL_DNS_NAMESPACE",
        value_name = "NAMESPACE",
        value_delimiter = ','
    )]
    pub namespace: Vec<Namespace>,
}

/// Where to listen.
#[derive(Debug, Args)]
#[command(next_help_heading = "Listeners")]
pub struct ListenArgs {
    /// Where DNS is served; empty: every address of both families, at port 5353.
    #[arg(
        help = "DNS address, UDP and TCP (repeatable) [default: 0.0.0.0:5353 and [::]:5353]",
        long,
        env = "GLOBAL_DNS_LISTEN",
        value_name = "ADDRESS",
        value_delimiter = ','
    )]
    pub listen: Vec<SocketAddr>,

    /// Where `/livez`, `/readyz` and `/metrics` are; empty: every address of both families, at port 9153.
    #[arg(
        help = "HTTP address of /livez, /readyz and /metrics (repeatable) [default: 0.0.0.0:9153 and [::]:9153]",
        long,
        env = "GLOBAL_DNS_ADMIN_LISTEN",
        value_name = "ADDRESS",
        value_delimiter = ','
    )]
    pub admin_listen: Vec<SocketAddr>,

    /// HTTP address of /api/v1, which shows every namespace (repeatable)
    #[arg(
        long,
        env = "GLOBAL_DNS_API_LISTEN",
        value_name = "ADDRESS",
        value_delimiter = ',',
        default_value = "127.0.0.1:9154"
    )]
    pub api_listen: Vec<SocketAddr>,

    /// Name or address that requests to the API may give as their Host, such as an Ingress's; localhost, loopback addresses, and the address that a request comes to always may (repeatable)
    #[arg(
        long,
        env = "GLOBAL_DNS_API_HOST",
        value_name = "HOST",
        value_delimiter = ','
    )]
    pub api_host: Vec<ApiHost>,
}

/// What to log.
#[derive(Debug, Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// error, warn, info, debug, trace, or a filter such as info,global_dns::source=debug [default: info; error for explain, table and check, which tell the rest themselves]
    #[arg(long, env = "GLOBAL_DNS_LOG_LEVEL", value_name = "LEVEL")]
    pub log_level: Option<String>,

    /// Form of log lines
    #[arg(
        long,
        env = "GLOBAL_DNS_LOG_FORMAT",
        value_name = "FORM",
        default_value = "text"
    )]
    pub log_format: LogFormatArg,
}

/// Reads the command line. Ends the process with exit code 2 if it makes no sense.
pub fn read() -> Cli {
    let cli = Cli::parse();
    if let Err(problem) = cli.command.check_zones() {
        Cli::command()
            .error(ErrorKind::ValueValidation, problem)
            .exit();
    }
    cli
}

// === What the flags mean ===

impl Command {
    /// Refuses zones that cannot be served together.
    fn check_zones(&self) -> Result<(), String> {
        match self {
            Self::Serve(args) => args.model.check_zones(),
            Self::Explain(args) => args.view.model.check_zones(),
            Self::Table(args) => args.view.model.check_zones(),
            Self::Check(args) => args.model.check_zones(),
            Self::Demo(_) => Ok(()),
        }
    }
}

impl ListenArgs {
    /// Returns where DNS is served.
    pub fn dns(&self) -> Addresses {
        given_or(&self.listen, 5353)
    }

    /// Returns where `/livez`, `/readyz` and `/metrics` are.
    pub fn admin(&self) -> Addresses {
        given_or(&self.admin_listen, 9153)
    }

    /// Returns where `/api/v1` is.
    pub fn api(&self) -> Addresses {
        Addresses::Given(self.api_listen.clone())
    }
}

fn given_or(given: &[SocketAddr], port: u16) -> Addresses {
    match given {
        [] => Addresses::EveryAt(port),
        given => Addresses::Given(given.to_vec()),
    }
}

impl From<DemoArgs> for ServeArgs {
    /// Makes `demo` a `serve` with defaults that suit a laptop. The file is still to be named.
    fn from(demo: DemoArgs) -> Self {
        let DemoArgs {
            listen,
            admin_listen,
            api_listen,
            log,
        } = demo;
        // The defaults of `serve`, as if nothing had been said, environment aside.
        let Command::Serve(mut serve) = Cli::parse_from(["global-dns", "serve"]).command else {
            unreachable!("the subcommand is named on the line above")
        };
        serve.listeners = ListenArgs {
            listen: vec![listen],
            admin_listen: vec![admin_listen],
            api_listen: vec![api_listen],
            api_host: Vec::new(),
        };
        serve.encrypted = EncryptedArgs::default();
        serve.snapshot = None; // the sample is no cluster's
        serve.log = log;
        *serve
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_has_help_and_an_environment_variable() {
        Cli::command().debug_assert();
        for command in Cli::command().get_subcommands() {
            for flag in command.get_arguments().filter(|a| !a.is_positional()) {
                let name = flag.get_id().as_str();
                assert!(flag.get_help().is_some(), "--{name} has no help");
                if matches!(name, "help" | "version" | "output") {
                    continue;
                }
                let env = format!("GLOBAL_DNS_{}", name.to_uppercase());
                assert_eq!(flag.get_env().and_then(|e| e.to_str()), Some(env.as_str()));
                let help = flag.get_help().unwrap().to_string();
                assert!(!help.ends_with('.'), "help of --{name} ends in a full stop");
            }
        }
    }

    /// A pod may have the variables of its namespace's Services, and one of those may be called global-dns, or begin so.
    #[test]
    fn no_flag_reads_a_variable_that_kubernetes_makes_for_a_service() {
        for command in Cli::command().get_subcommands() {
            for flag in command.get_arguments() {
                let Some(variable) = flag.get_env().and_then(|name| name.to_str()) else {
                    continue;
                };
                let ends = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"];
                let has_part = ["_SERVICE_PORT_", "_PORT_"].map(|part| variable.contains(part));
                let is_made = ends.iter().any(|end| variable.ends_with(end));
                assert!(!is_made && has_part == [false; 2], "{variable}");
            }
        }
    }
}
