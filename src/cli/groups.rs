//! Groups of flags that several commands have.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::{Args, ColorChoice};
use strum::VariantArray as _;

use super::cluster::KubeAccess;
use super::values::one_of;
use crate::log::{LogFilter, LogFormat};
use crate::model::Namespace;
use crate::server::ListenAddress;
use crate::settings::LogSettings;

/// The cluster to connect to, by a kubeconfig.
#[derive(Debug, Default, Args)]
pub struct KubeconfigArgs {
    /// Kubeconfig to reach the API server with [default: in a pod, its ServiceAccount; otherwise as kubectl]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// The source of objects.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Source")]
pub struct SourceArgs {
    /// Read Kubernetes objects from this YAML or JSON file instead of a cluster; serve reloads it when it changes; -: standard input (repeatable)
    #[arg(short, long, value_name = "FILE", value_delimiter = ',', conflicts_with_all = ["kubeconfig", "context"])]
    pub file: Vec<PathBuf>,

    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened groups take no help of their own")]
    pub kubeconfig: KubeconfigArgs,

    /// Watch only this namespace, which needs permissions only there (repeatable) [default: all namespaces]
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',')]
    pub namespace: Vec<Namespace>,
}

/// The listeners.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Listeners")]
pub struct ListenArgs {
    /// DNS address for UDP and TCP: IP:PORT, :PORT for all addresses, or localhost:PORT (repeatable) [default: :5353]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub listen: Vec<ListenAddress>,

    /// HTTP address of /livez, /readyz and /metrics (repeatable) [default: :9153]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub admin_listen: Vec<ListenAddress>,

    /// HTTP address of /api/v1, which shows all namespaces (repeatable) [default: 127.0.0.1:9154]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub api_listen: Vec<ListenAddress>,
}

/// The colors of the output.
#[derive(Debug, Args)]
pub struct ColorArgs {
    /// Whether text has colors; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

/// The log.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// Minimum level of log messages: error, warn, info, debug, trace, or a filter such as info,global_dns::source=debug [default: info; error for explain, table, events and check]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<LogFilter>,

    /// Format of log lines: text or json [default: text]
    #[arg(long, value_name = "FORM", hide_possible_values = true, value_parser = one_of(LogFormat::VARIANTS, LogFormat::into))]
    pub log_format: Option<LogFormat>,
}

impl KubeconfigArgs {
    /// Returns whether a flag names the cluster.
    pub fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// Returns how a command reaches the API server.
    pub fn access(&self) -> KubeAccess {
        self.access_or(KubeAccess::Auto)
    }

    /// Returns how to reach the API server: as the flags say, or else in this way.
    pub fn access_or(&self, default: KubeAccess) -> KubeAccess {
        if self.is_given() {
            KubeAccess::Kubeconfig {
                path: self.kubeconfig.clone(),
                context: self.context.clone(),
            }
        } else {
            default
        }
    }
}

impl ColorArgs {
    /// Returns whether the text on standard output has colors (no-color.org).
    pub fn is_shown(&self) -> bool {
        let is_disabled = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => std::io::stdout().is_terminal() && !is_disabled(),
        }
    }
}

impl LogArgs {
    /// Replaces the settings that a flag has.
    pub(super) fn apply(&self, settings: &mut LogSettings) {
        if let Some(level) = &self.log_level {
            settings.level = level.clone();
        }
        settings.format = self.log_format.unwrap_or(settings.format);
    }
}
