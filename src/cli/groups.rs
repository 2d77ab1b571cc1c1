//! Groups of flags that several commands have.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use hyper::Uri;
use hyper::http::uri::Authority;

use crate::log::{LogFilter, LogFormat};
use crate::model::{ClusterName, Namespace};
use crate::settings::{Settings, ZoneSetting};
use crate::zone::Grammar;

/// The cluster to connect to, by a kubeconfig.
#[derive(Default, Args)]
#[command(next_help_heading = "Source")]
pub struct KubeconfigArgs {
    /// Kubeconfig to reach the API server with [default: in a pod, its ServiceAccount; otherwise as kubectl]
    #[arg(long, env = "GLOBAL_DNS_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context]
    #[arg(long, env = "GLOBAL_DNS_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,

    /// User to impersonate, which Linkerd passes to its extensions
    #[arg(long = "as", hide = true, value_name = "USER")]
    pub as_user: Option<String>,

    /// Groups to impersonate, in brackets
    #[arg(long = "as-group", hide = true, value_name = "GROUPS")]
    pub as_groups: Vec<String>,
}

/// The source of objects.
#[derive(Default, Args)]
#[command(next_help_heading = "Source")]
pub struct SourceArgs {
    /// Read Kubernetes objects from this YAML or JSON file instead of a cluster; serve reloads it when it changes; -: standard input (repeatable)
    #[arg(short, long, env = "GLOBAL_DNS_FILE", conflicts_with_all = ["kubeconfig", "context"])]
    pub file: Vec<PathBuf>,

    /// The API server.
    #[command(flatten)]
    pub kubeconfig: KubeconfigArgs,

    /// Watch or show only this namespace, which needs permissions only there (repeatable) [default: all namespaces]
    #[arg(short, long, env = "GLOBAL_DNS_NAMESPACE")]
    pub namespace: Vec<Namespace>,
}

/// The settings of names and members. The server and the commands that read objects share them. A flag takes precedence over the
/// file and over the variable `GLOBAL_DNS_SETTINGS`.
#[derive(Args)]
#[command(next_help_heading = "Settings")]
pub struct SettingsArgs {
    /// File with the settings in YAML or JSON; serve --print-settings prints all of them [default: the text in GLOBAL_DNS_SETTINGS]
    #[arg(long, env = "GLOBAL_DNS_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Name of this cluster; use the name that the Links of the other clusters use [default: local]
    #[arg(long, env = "GLOBAL_DNS_CLUSTER_NAME", value_name = "NAME")]
    pub cluster_name: Option<ClusterName>,

    /// Zone to answer for; the longest match decides (repeatable); clusterset.local=mcs: a zone with the names of the Multi-Cluster Services API [default: global]
    #[arg(long, env = "GLOBAL_DNS_ZONE", value_name = "ZONE[=mcs]")]
    pub zone: Option<Vec<ZoneSetting>>,

    /// The settings, with the values of flags.
    #[arg(skip)]
    pub loaded: Settings,
}

/// The log.
#[derive(Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// Minimum level of log messages: error, warn, info, debug, trace, or a filter such as info,global_dns::source=debug [default: info for serve and demo, error for other commands]
    #[arg(
        long,
        global = true,
        env = "GLOBAL_DNS_LOG_LEVEL",
        value_name = "LEVEL"
    )]
    pub log_level: Option<LogFilter>,

    /// Format of log lines: text or json [default: text]
    #[arg(long, global = true, env = "GLOBAL_DNS_LOG_FORMAT", value_name = "FORM", hide_possible_values = true, value_parser = PossibleValuesParser::new(["text", "json"]).try_map(|text| text.parse::<LogFormat>()))]
    pub log_format: Option<LogFormat>,
}

/// The server to query.
#[derive(Args)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    /// API of the server to query: a URL or HOST:PORT, such as localhost:9154 for a demo [default: a ready replica, through the port-forward of the API server]
    #[arg(long, env = "GLOBAL_DNS_SERVER", value_name = "URL", value_parser = parse_server, conflicts_with_all = ["server_namespace", "kubeconfig", "context"])]
    pub server: Option<Uri>,

    /// Namespace of the server's replicas, which needs permissions only there [default: that of the only Deployment or DaemonSet with the labels of the chart]
    #[arg(long, env = "GLOBAL_DNS_SERVER_NAMESPACE", value_name = "NAMESPACE")]
    pub server_namespace: Option<Namespace>,
}

/// The server or the objects that `explain`, `table` and `check` read.
#[derive(Args)]
#[command(next_help_heading = "Server", mut_arg("file", |file| file.conflicts_with_all(["server", "server_namespace"])))]
pub struct ViewArgs {
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,

    /// Read the objects from the API server instead of querying a replica
    #[arg(long, conflicts_with_all = ["server", "server_namespace", "file"])]
    pub direct: bool,

    /// The source of objects.
    #[command(flatten)]
    pub source: SourceArgs,

    /// The settings of names and members.
    #[command(flatten)]
    pub settings: SettingsArgs,
}

// === impl KubeconfigArgs ===

impl KubeconfigArgs {
    /// Returns whether a flag names the cluster.
    pub fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }
}

// === impl SettingsArgs ===

impl SettingsArgs {
    /// Reads the settings and applies the flags: those of this group, the namespaces, and those of the command.
    pub(super) fn load(
        &mut self,
        namespaces: &[Namespace],
        apply: impl FnOnce(&mut Settings),
    ) -> Result<(), String> {
        let mut settings = Settings::load(self.config.as_deref())?;
        override_by(&mut settings.cluster_name, &self.cluster_name);
        for zone in self.zone.iter_mut().flatten() {
            // A name alone is that of a zone in the settings, if there is one.
            let known = settings.zones.iter().find(|one| one.name == zone.name);
            if let Some(known) = known.filter(|_| zone.grammar == Grammar::Global) {
                zone.clone_from(known);
            }
        }
        override_by(&mut settings.zones, &self.zone);
        if !namespaces.is_empty() {
            settings.namespaces = namespaces.to_vec();
        }
        apply(&mut settings);
        self.loaded = settings.checked("the flags")?;
        Ok(())
    }
}

/// Returns whether a flag is on the command line. Variables are defaults.
pub(super) fn is_given(flags: &ArgMatches, name: &str) -> bool {
    flags.value_source(name) == Some(ValueSource::CommandLine)
}

/// Replaces a setting by the value of a flag, if the flag is given.
pub(super) fn override_by<T: Clone>(setting: &mut T, flag: &Option<T>) {
    if let Some(value) = flag {
        setting.clone_from(value);
    }
}

// === impl ViewArgs ===

impl ViewArgs {
    /// Returns whether the command reads objects instead of querying a server.
    pub fn reads_objects(&self) -> bool {
        self.direct || !self.source.file.is_empty()
    }

    /// Reads the settings and applies the flags.
    ///
    /// # Errors
    ///
    /// If flags of settings have no effect, because the queried server decides. `table` may select a zone of the server.
    pub(super) fn load(&mut self, selects_zone: bool, flags: &ArgMatches) -> Result<(), String> {
        let loaded = self.settings.load(&self.source.namespace, |_| {});
        if self.reads_objects() {
            return loaded;
        }
        for name in ["config", "cluster_name", "zone"] {
            if is_given(flags, name) && !(selects_zone && name == "zone") {
                let flag = name.replace('_', "-");
                return Err(format!(
                    "the server decides, not --{flag}; remove it, or read the objects with --file or --direct"
                ));
            }
        }
        // A server knows its own settings, and variables may be wrong: they are defaults.
        Ok(())
    }
}

// === Values ===

/// Parses the address of a server's API: an `http` URL, or a host and a port.
pub(super) fn parse_server(text: &str) -> Result<Uri, String> {
    let url = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let url = url.parse().ok().filter(|url: &Uri| {
        // A port that is no number up to 65535 is a part of the authority, and no port.
        url.scheme_str() == Some("http")
            && (url.port().is_some()
                || text.contains("://") && url.authority().map(Authority::as_str) == url.host())
    });
    let forms =
        "expected HOST:PORT or an http:// URL, as kubectl port-forward provides: localhost:9154";
    url.ok_or_else(|| forms.to_owned())
}
