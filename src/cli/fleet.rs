//! The flags of `fleet`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use http::Uri;

use super::groups::KubeconfigArgs;
use super::print::PrintArgs;
use super::values::parse_server;
use crate::model::{ClusterName, Namespace};
use crate::settings::Period;

/// Flags of `fleet`.
#[derive(Debug, Args)]
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
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub timeout: Period,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

/// The place of a cluster.
pub enum Place {
    /// The replicas of a cluster, found through its API server.
    Cluster(KubeconfigArgs),
    /// The API of a server.
    Server(Uri),
    /// Files with the objects of the cluster.
    Files(ClusterName, Vec<PathBuf>),
}

// === impl FleetArgs ===

impl FleetArgs {
    /// Returns an error if two clusters have one name.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        let places = self.places();
        match places.iter().find(|(name, _)| !names.insert(name)) {
            Some((twice, _)) => Err(format!("'{twice}' is named twice")),
            None => Ok(()),
        }
    }

    /// Returns the clusters with their names; without flags, that of the current context.
    pub fn places(&self) -> Vec<(String, Place)> {
        let of_context = |context: Option<&String>| {
            Place::Cluster(KubeconfigArgs {
                kubeconfig: self.kubeconfig.clone(),
                context: context.cloned(),
            })
        };
        let contexts = self.contexts.iter();
        let contexts = contexts.map(|context| (context.clone(), of_context(Some(context))));
        let servers = self.fleet_server.iter();
        let servers = servers.map(|(name, url)| (name.clone(), Place::Server(url.clone())));
        let mut names = BTreeSet::new();
        let files = self.fleet_file.iter().map(|(name, _)| name);
        let files = files.filter(|name| names.insert(*name)).map(|name| {
            let files = self.fleet_file.iter().filter(|(of, _)| of == name);
            let files = files.map(|(_, file)| file.clone()).collect();
            (name.to_string(), Place::Files(name.clone(), files))
        });
        let mut places: Vec<_> = contexts.chain(servers).chain(files).collect();
        if places.is_empty() {
            places.push(("this cluster".to_owned(), of_context(None)));
        }
        places
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
