//! The flags of `fleet`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use hyper::Uri;

use super::print::PrintArgs;
use super::values::parse_server;
use crate::model::Namespace;

/// Flags of `fleet`.
#[derive(Args)]
pub struct FleetArgs {
    /// Contexts of the kubeconfig, one for each cluster; each needs the permissions of explain (repeatable) [default: the replicas of the current context are compared]
    #[arg(long, value_name = "NAME")]
    contexts: Vec<String>,

    /// A cluster by the API of its server: a URL or HOST:PORT (repeatable)
    #[arg(long = "server", value_name = "NAME=URL", value_parser = parse_named_server)]
    fleet_server: Vec<(String, Uri)>,

    /// Kubeconfig with the contexts [default: as kubectl]
    #[arg(long, env = "GLOBAL_DNS_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Namespace of the replicas in every cluster, which needs permissions only there [default: that of the only Deployment or DaemonSet with the labels of the chart]
    #[arg(long, env = "GLOBAL_DNS_SERVER_NAMESPACE", value_name = "NAMESPACE")]
    pub server_namespace: Option<Namespace>,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

/// The place of a cluster.
pub enum ClusterAddress {
    /// The replicas that are found through the API server of a context of the kubeconfig. `None`: the current one.
    Context(Option<String>),
    /// The API of a server.
    Server(Uri),
}

// === impl FleetArgs ===

impl FleetArgs {
    /// Returns an error if two clusters have one name, or if a flag has no effect.
    pub(super) fn check(&self, is_given: &dyn Fn(&str) -> bool) -> Result<(), String> {
        let has_servers_alone = self.contexts.is_empty() && !self.fleet_server.is_empty();
        if has_servers_alone && (is_given("kubeconfig") || is_given("server_namespace")) {
            let why = "--kubeconfig and --server-namespace have an effect on --contexts only; remove them, or name a context";
            return Err(why.to_owned());
        }
        let mut names = BTreeSet::new();
        match self.places().iter().find(|(name, _)| !names.insert(name)) {
            Some((twice, _)) => Err(format!("'{twice}' is named twice")),
            None => Ok(()),
        }
    }

    /// Returns the clusters with their names; without flags, that of the current context.
    pub fn places(&self) -> Vec<(String, ClusterAddress)> {
        let mut places = Vec::new();
        for name in &self.contexts {
            places.push((name.clone(), ClusterAddress::Context(Some(name.clone()))));
        }
        for (name, url) in &self.fleet_server {
            places.push((name.clone(), ClusterAddress::Server(url.clone())));
        }
        if places.is_empty() {
            places.push(("this cluster".to_owned(), ClusterAddress::Context(None)));
        }
        places
    }
}

fn parse_named_server(text: &str) -> Result<(String, Uri), String> {
    let (name, server) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("expected the name of the cluster and '=' before it")?;
    Ok((name.to_owned(), parse_server(server)?))
}
