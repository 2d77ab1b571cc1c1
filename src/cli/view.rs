//! The flags of the commands that show the table: `explain`, `table` and `events`.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Arg, Args};

use super::groups::{LogArgs, SourceArgs};
use super::history::parse_time;
use super::model::ModelArgs;
use super::values::{EventsOutput, ExplainOutput, TableOutput, parse_server, parse_subject};
use crate::model::{Namespace, Timestamp};

/// The section of the flags that only reading objects needs.
const OBJECTS: &str = "Names and members, with --file or --direct";
/// The section of the flags that name the server.
const SERVER: &str = "Server";

/// Flags of `explain`.
#[derive(Debug, Args)]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct ExplainArgs {
    /// Name to explain; db.prod and prod/db are short for db.prod.global.; or an address: the names that return it
    #[arg(value_parser = parse_subject)]
    pub name: String,

    /// Format of the output
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: ExplainOutput,

    /// Show what was answered at this time: 03:12 (the last such local time), -90m, or RFC 3339; only a running server knows it (--history of serve)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = parse_time, conflicts_with_all = ["file", "direct"])]
    pub at: Option<Timestamp>,

    /// Query every ready replica, and print the differences of their explanations; exit code 1 if there are any
    #[arg(long, env = "GLOBAL_DNS_ALL_REPLICAS", conflicts_with_all = ["file", "direct", "server"])]
    pub all_replicas: bool,

    #[command(flatten)]
    pub view: ViewArgs,
}

/// Flags of `table`.
#[derive(Debug, Args)]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct TableArgs {
    /// Show only services with this text in NAMESPACE/SERVICE or SERVICE.NAMESPACE (repeatable)
    pub filter: Vec<String>,

    /// Format of the output
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: TableOutput,

    /// Print the table again when it changes
    #[arg(short, long)]
    pub watch: bool,

    /// Show what was answered at this time: 03:12 (the last such local time), -90m, or RFC 3339; only a running server knows it (--history of serve)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = parse_time, conflicts_with_all = ["file", "direct", "watch"])]
    pub at: Option<Timestamp>,

    #[command(flatten)]
    pub view: ViewArgs,
}

/// Flags of `events`.
#[derive(Debug, Args)]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct EventsArgs {
    /// Show only events of services with this text in NAMESPACE/SERVICE or SERVICE.NAMESPACE (repeatable)
    pub filter: Vec<String>,

    /// Format of the output
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: EventsOutput,

    /// Print the events so far, then each event when it happens
    #[arg(short, long)]
    pub watch: bool,

    /// Show only events of this namespace (repeatable) [default: all namespaces]
    #[arg(
        short,
        long,
        env = "GLOBAL_DNS_NAMESPACE",
        value_name = "NAMESPACE",
        value_delimiter = ','
    )]
    pub namespace: Vec<Namespace>,

    #[command(flatten)]
    pub server: ServerArgs,

    /// Kubeconfig to find the server with [default: in a pod, its ServiceAccount; otherwise as kubectl]
    #[arg(
        long,
        env = "GLOBAL_DNS_KUBECONFIG",
        value_name = "FILE",
        conflicts_with = "server",
        help_heading = SERVER
    )]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context]
    #[arg(
        long,
        env = "GLOBAL_DNS_CONTEXT",
        value_name = "NAME",
        conflicts_with = "server",
        help_heading = SERVER
    )]
    pub context: Option<String>,

    #[command(flatten)]
    pub log: LogArgs,
}

/// The server to query.
#[derive(Debug, Args)]
#[command(next_help_heading = SERVER)]
pub struct ServerArgs {
    /// API of the server to query, its --api-listen: a URL or HOST:PORT [default: a ready replica, through the port-forward of the API server]
    #[arg(long, env = "GLOBAL_DNS_SERVER", value_name = "URL", value_parser = parse_server)]
    pub server: Option<http::Uri>,

    /// Namespace of the server's replicas, which needs permissions only there [default: that of the only Deployment or DaemonSet with the labels of the chart]
    #[arg(
        long,
        env = "GLOBAL_DNS_SERVER_NAMESPACE",
        value_name = "NAMESPACE",
        conflicts_with = "server"
    )]
    pub server_namespace: Option<Namespace>,
}

/// The server or the objects that `explain` and `table` read.
#[derive(Debug, Args)]
#[command(mut_args(in_view))]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct ViewArgs {
    #[command(flatten)]
    pub server: ServerArgs,

    /// Read the objects from the API server instead of querying a replica
    #[arg(
        long,
        env = "GLOBAL_DNS_DIRECT",
        value_parser = BoolishValueParser::new(),
        conflicts_with_all = ["server", "server_namespace", "file"]
    )]
    pub direct: bool,

    #[command(flatten)]
    pub source: SourceArgs,

    #[command(flatten)]
    pub model: ModelArgs,

    #[command(flatten)]
    pub log: LogArgs,
}

/// Changes the help of the flags that `explain` and `table` share with other commands.
fn in_view(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "namespace" => arg.short('n').help_heading(None).help(
            "Show only this namespace; with --file or --direct, read only its objects (repeatable) [default: all namespaces]",
        ),
        "file" => arg
            .help_heading(SERVER)
            .conflicts_with_all(["server", "server_namespace"])
            .help("Read Kubernetes objects from this YAML or JSON file instead; -: standard input (repeatable)"),
        "kubeconfig" => arg
            .help_heading(SERVER)
            .conflicts_with("server")
            .help("Kubeconfig to reach the API server with [default: in a pod, its ServiceAccount; otherwise as kubectl]"),
        "context" => arg.help_heading(SERVER).conflicts_with("server"),
        "direct" => arg.help_heading(SERVER),
        "zone" => arg.help_heading(OBJECTS).help(
            "Zone to answer for (repeatable) [default: global]; with a server: the zone that --output zone prints",
        ),
        id if is_model(id) => arg.help_heading(OBJECTS),
        _ => arg,
    }
}

/// Returns whether a flag is one of [`ModelArgs`].
fn is_model(id: &str) -> bool {
    model_flags().any(|flag| flag == id)
}

/// Returns the names of the flags of [`ModelArgs`].
pub(super) fn model_flags() -> impl Iterator<Item = String> {
    let command = ModelArgs::augment_args(clap::Command::new(""));
    let flags: Vec<_> = command
        .get_arguments()
        .map(|flag| flag.get_id().to_string())
        .collect();
    flags.into_iter()
}
