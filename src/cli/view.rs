//! The flags of the commands that show the table: `explain`, `table` and `events`.

use clap::builder::BoolishValueParser;
use clap::{Arg, Args};
use strum::VariantArray as _;

use super::groups::{ColorArgs, KubeconfigArgs, LogArgs, SourceArgs};
use super::print::Form;
use super::settings::SettingsArgs;
use super::time::parse_time;
use super::values::{Output, one_of, outputs, parse_server, parse_subject};
use crate::model::{Namespace, Timestamp};
use crate::settings::parse_duration;
use crate::table::change::ChangeKind;
use crate::view::Filter;

/// The section of the flags that name the server.
const SERVER: &str = "Server";
/// The formats of the commands that show the table.
const OUTPUTS: &[Output] = &[Output::Text, Output::Wide, Output::Json];

/// Flags of `explain`.
#[derive(Debug, Args)]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct ExplainArgs {
    /// Name to explain; db.prod and prod/db are short for db.prod.global.; or an address: the names that return it
    #[arg(value_parser = parse_subject)]
    pub name: String,

    /// Format of the output; wide: all columns
    #[arg(short, long, value_name = "FORM", default_value = "text", value_parser = outputs(OUTPUTS))]
    pub output: Output,

    #[command(flatten)]
    pub color: ColorArgs,

    /// Show what was answered at this time: 03:12 (the last such local time), -90m, or RFC 3339; only a running server knows it (history in its settings)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = parse_time, conflicts_with_all = ["file", "direct"])]
    pub at: Option<Timestamp>,

    #[command(flatten)]
    pub view: ViewArgs,
}

/// Flags of `table`.
#[derive(Debug, Args)]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct TableArgs {
    /// Show only services with this text in NAMESPACE/SERVICE or SERVICE.NAMESPACE (repeatable)
    pub filter: Vec<String>,

    /// Format of the output; wide: all columns; zone: a zone file (RFC 1035) of --zone
    #[arg(short, long, value_name = "FORM", default_value = "text", value_parser = outputs(&[Output::Text, Output::Wide, Output::Json, Output::Zone]))]
    pub output: Output,

    #[command(flatten)]
    pub color: ColorArgs,

    /// Show only services in this state (repeatable)
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = ["ok", "attention", "failing"])]
    pub state: Vec<String>,

    /// Show only services with an endpoint in this cluster (repeatable)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub cluster: Vec<String>,

    /// Show what was answered at this time: 03:12 (the last such local time), -90m, or RFC 3339; only a running server knows it (history in its settings)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = parse_time, conflicts_with_all = ["file", "direct"])]
    pub at: Option<Timestamp>,

    #[command(flatten)]
    pub view: ViewArgs,
}

/// Flags of `events`.
#[derive(Debug, Args)]
#[command(mut_args(of_server))]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct EventsArgs {
    /// Show only events of services with this text in NAMESPACE/SERVICE or SERVICE.NAMESPACE (repeatable)
    pub filter: Vec<String>,

    /// Format of the output; wide: all columns
    #[arg(short, long, value_name = "FORM", default_value = "text", value_parser = outputs(OUTPUTS))]
    pub output: Output,

    #[command(flatten)]
    pub color: ColorArgs,

    /// Print the events so far, then each event when it happens
    #[arg(short, long)]
    pub watch: bool,

    /// Show only events since this time: 1h (ago), 03:12 (the last such local time), or RFC 3339
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = parse_since)]
    pub since: Option<Timestamp>,

    /// Show only events of this cluster (repeatable)
    #[arg(long, value_name = "CLUSTER", value_delimiter = ',')]
    pub cluster: Vec<String>,

    /// Show only events of this kind (repeatable)
    #[arg(long, value_name = "KIND", value_delimiter = ',', hide_possible_values = true, value_parser = one_of(ChangeKind::VARIANTS, ChangeKind::into))]
    pub kind: Vec<ChangeKind>,

    #[command(flatten)]
    pub server: ServerArgs,

    #[command(flatten)]
    pub kubeconfig: KubeconfigArgs,

    #[command(flatten)]
    pub log: LogArgs,
}

/// Parses a time as `--at` does, and also how long it has passed without a sign.
fn parse_since(text: &str) -> Result<Timestamp, String> {
    if parse_duration(text).is_ok() {
        return parse_time(&format!("-{text}"));
    }
    parse_time(text).map_err(|_| {
        "a time is like 1h (ago), 03:12 (the last such local time), or 2026-11-24T03:12:00Z"
            .to_owned()
    })
}

/// The server to query.
#[derive(Debug, Args)]
#[command(next_help_heading = SERVER)]
pub struct ServerArgs {
    /// API of the server to query: a URL or HOST:PORT [default: a ready replica, through the port-forward of the API server; without one, the server or demo of this host at port 9154]
    #[arg(long, value_name = "URL", value_parser = parse_server)]
    pub server: Option<http::Uri>,

    /// Namespace of the server's replicas, which needs permissions only there [default: that of the only Deployment or DaemonSet with the labels of the chart]
    #[arg(long, value_name = "NAMESPACE", conflicts_with = "server")]
    pub server_namespace: Option<Namespace>,
}

/// The server or the objects that `explain` and `table` read.
#[derive(Debug, Args)]
#[command(mut_args(in_view))]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct ViewArgs {
    #[command(flatten)]
    pub server: ServerArgs,

    /// Show all namespaces: the default, unless GLOBAL_DNS_NAMESPACE is set
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,

    /// Read the objects from the API server instead of querying a replica
    #[arg(
        long,
        value_parser = BoolishValueParser::new(),
        conflicts_with_all = ["server", "server_namespace", "file"]
    )]
    pub direct: bool,

    #[command(flatten)]
    pub source: SourceArgs,

    #[command(flatten)]
    pub settings: SettingsArgs,

    #[command(flatten)]
    pub log: LogArgs,
}

impl ViewArgs {
    /// Returns whether the command reads objects instead of querying a server.
    pub fn reads_objects(&self) -> bool {
        self.direct || !self.source.file.is_empty()
    }
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
        "direct" => arg.help_heading(SERVER),
        "all_namespaces" => arg.help_heading(None),
        _ => of_server(arg),
    }
}

/// Moves the flags of the cluster to those of the server, which they find.
fn of_server(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "kubeconfig" | "context" => arg.help_heading(SERVER).conflicts_with("server"),
        _ => brief(arg),
    }
}

/// Keeps the help of the flags that commands share with `serve` short.
pub(super) fn brief(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "cluster_name" => arg.help("Name of this cluster [default: local]"),
        "zone" => arg.help("Zone to answer for (repeatable) [default: global]"),
        _ => arg,
    }
}

/// Returns the names of the flags of [`SettingsArgs`].
pub(super) fn setting_flags() -> impl Iterator<Item = String> {
    let command = SettingsArgs::augment_args(clap::Command::new(""));
    let flags: Vec<_> = command
        .get_arguments()
        .map(|flag| flag.get_id().to_string())
        .collect();
    flags.into_iter()
}

impl ViewArgs {
    /// Reads the settings and applies the flags.
    pub(super) fn load(&mut self) -> Result<(), String> {
        self.settings.load(&self.source.namespace, |_| {})
    }
}

impl ExplainArgs {
    /// Returns how the document is printed.
    pub fn form(&self) -> Form {
        Form::new(self.output, &self.color)
    }
}

impl TableArgs {
    /// Returns how the document is printed.
    pub fn form(&self) -> Form {
        Form::new(self.output, &self.color)
    }
}

impl EventsArgs {
    /// Returns how the document is printed.
    pub fn form(&self) -> Form {
        Form::new(self.output, &self.color)
    }

    /// Returns which events are selected.
    pub fn events_filter(&self) -> Filter {
        let kinds = self.kind.iter().map(|kind| <&str>::from(kind).to_owned());
        Filter {
            text: self.filter.clone(),
            cluster: self.cluster.clone(),
            kind: kinds.collect(),
            since: self.since,
            ..Filter::default()
        }
    }
}
