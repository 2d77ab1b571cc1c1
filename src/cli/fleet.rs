//! The flags of `fleet`.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::PathBuf;

use clap::{ArgMatches, Args};
use hyper::Uri;

use super::groups::{is_given, parse_server};
use super::print::PrintArgs;
use crate::model::Namespace;

/// Flags of `fleet`.
#[derive(Args)]
pub struct FleetArgs {
    /// Contexts of the kubeconfig, one for each cluster; each needs the permissions of explain (repeatable) [default: the replicas of the current context are compared]
    #[arg(long, value_name = "NAME", value_parser = parse_context)]
    contexts: Vec<FleetTarget>,

    /// A cluster by the API of its server: a URL or HOST:PORT (repeatable)
    #[arg(long = "server", value_name = "NAME=URL", value_parser = parse_named_server)]
    fleet_server: Vec<FleetTarget>,

    /// Kubeconfig with the contexts [default: as kubectl]
    #[arg(long, env = "GLOBAL_DNS_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Namespace of the replicas in every cluster, which needs permissions only there [default: that of the only Deployment or DaemonSet with the labels of the chart]
    #[arg(long, env = "GLOBAL_DNS_SERVER_NAMESPACE", value_name = "NAMESPACE")]
    pub server_namespace: Option<Namespace>,

    /// The output.
    #[command(flatten)]
    pub print: PrintArgs,
}

/// A cluster to compare. It is that of the current context, unless one is named.
#[derive(Clone, Default)]
pub struct FleetTarget {
    /// Its name in the output.
    pub name: String,
    /// The context of the kubeconfig with the API server, through which the replicas are found.
    pub context: Option<String>,
    /// The API of its server.
    pub server: Option<Uri>,
}

// === impl FleetArgs ===

impl FleetArgs {
    /// Returns an error if two clusters have one name, or if a flag has no effect.
    pub(super) fn check(&self, flags: &ArgMatches) -> Result<(), String> {
        let has_servers_alone = self.contexts.is_empty() && !self.fleet_server.is_empty();
        let of_contexts = ["kubeconfig", "server_namespace"];
        if has_servers_alone && of_contexts.iter().any(|name| is_given(flags, name)) {
            let why = "--kubeconfig and --server-namespace have an effect on --contexts only; remove them, or name a context";
            return Err(why.to_owned());
        }
        let mut names = BTreeSet::new();
        for FleetTarget { name, .. } in self.places() {
            if !names.insert(name.clone()) {
                return Err(format!("'{name}' is named twice"));
            }
        }
        Ok(())
    }

    /// Returns the clusters; without flags, that of the current context.
    pub fn places(&self) -> Vec<FleetTarget> {
        let places = self.contexts.iter().chain(&self.fleet_server);
        let mut places: Vec<FleetTarget> = places.cloned().collect();
        if places.is_empty() {
            places.push(FleetTarget {
                name: "this cluster".to_owned(),
                ..FleetTarget::default()
            });
        }
        places
    }
}

fn parse_context(name: &str) -> Result<FleetTarget, Infallible> {
    Ok(FleetTarget {
        name: name.to_owned(),
        context: Some(name.to_owned()),
        ..FleetTarget::default()
    })
}

fn parse_named_server(text: &str) -> Result<FleetTarget, String> {
    let (name, server) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("expected the name of the cluster and '=' before it")?;
    Ok(FleetTarget {
        name: name.to_owned(),
        server: Some(parse_server(server)?),
        ..FleetTarget::default()
    })
}
