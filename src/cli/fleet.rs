//! The flags of `fleet`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use http::Uri;

use super::groups::SourceArgs;
use super::print::PrintArgs;
use super::values::parse_server;
use crate::model::{ClusterName, Namespace};
use crate::settings::parse_duration;

/// Flags of `fleet`.
#[derive(Debug, Args)]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct FleetArgs {
    /// Contexts of the kubeconfig, one for each cluster; each needs the permissions of explain (repeatable) [default: the replicas of the current context are compared]
    #[arg(long, value_name = "NAME")]
    pub contexts: Vec<String>,

    /// A cluster by the API of its server: a URL or HOST:PORT (repeatable)
    #[arg(long = "server", value_name = "NAME=URL", value_parser = parse_named_server)]
    pub fleet_server: Vec<(String, Uri)>,

    /// A cluster by a YAML or JSON file with its objects, for a server with default settings; NAME is its clusterName (repeatable, also for one cluster)
    #[arg(short = 'f', long = "file", value_name = "NAME=FILE", value_parser = parse_named_file)]
    pub fleet_file: Vec<(ClusterName, PathBuf)>,

    /// Kubeconfig with the contexts [default: as kubectl]
    #[arg(long, env = "GLOBAL_DNS_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Namespace of the replicas in every cluster, which needs permissions only there [default: that of the only Deployment or DaemonSet with the labels of the chart]
    #[arg(long, env = "GLOBAL_DNS_SERVER_NAMESPACE", value_name = "NAMESPACE")]
    pub server_namespace: Option<Namespace>,

    /// Maximum time for each cluster; all are read at the same time
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub timeout: Duration,

    #[command(flatten)]
    pub print: PrintArgs,
}

// === impl FleetArgs ===

impl FleetArgs {
    /// Returns an error if two clusters have one name.
    pub(super) fn check(&self) -> Result<(), String> {
        let files = self.fleet_file.iter().map(|(name, _)| name.as_str());
        let mut names: BTreeSet<&str> = files.collect();
        let contexts = self.contexts.iter().map(String::as_str);
        let servers = self.fleet_server.iter().map(|(name, _)| name.as_str());
        match contexts.chain(servers).find(|name| !names.insert(name)) {
            Some(twice) => Err(format!("'{twice}' is named twice")),
            None => Ok(()),
        }
    }

    /// Returns the source of the files of a cluster.
    pub fn files_of(&self, name: &ClusterName) -> SourceArgs {
        let files = self.fleet_file.iter().filter(|(of, _)| of == name);
        SourceArgs {
            file: files.map(|(_, file)| file.clone()).collect(),
            ..SourceArgs::default()
        }
    }
}

fn split(text: &str) -> Result<(&str, &str), String> {
    let named = text.split_once('=').filter(|(name, _)| !name.is_empty());
    named.ok_or_else(|| "expected the name of the cluster and '=' before it".to_owned())
}

fn parse_named_server(text: &str) -> Result<(String, Uri), String> {
    let (name, server) = split(text)?;
    Ok((name.to_owned(), parse_server(server)?))
}

fn parse_named_file(text: &str) -> Result<(ClusterName, PathBuf), String> {
    let (name, file) = split(text)?;
    let name = name.parse().map_err(|error| format!("{error}"))?;
    Ok((name, file.into()))
}
