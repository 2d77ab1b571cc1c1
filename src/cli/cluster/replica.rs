//! The ready replicas of the server in a cluster, and connections to their API through the port-forward of the API server.
//!
//! Commands use them, so that the settings of `serve` need not be repeated. Everybody who may create a pod somewhere can give it
//! the labels of the chart, and could answer in place of the server. So pods count in one namespace only: the one that the
//! user names, or that of the only Deployment or DaemonSet of the chart. If there are several, the user decides.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use futures::future::{BoxFuture, try_join};
use futures::{FutureExt as _, TryFutureExt as _};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api as KubeApi, Resource};
use serde_json::Value;
use tokio::io::DuplexStream;

use super::Cluster;
use crate::check::cluster::{REQUEST_TIMEOUT, list};
use crate::check::finding::{condition, items, name_of, text};
use crate::http::{Api, CloseReason, Connect, Unreachable};
use crate::model::Namespace;
use crate::settings::API_PORT;
use crate::source::kube::{RequestFailure, within};

/// The selector of the server's pods, and of their workload: labels of the chart.
const SELECTOR: &str = "app.kubernetes.io/name=global-dns,app.kubernetes.io/component=server";
/// The label with the name of the release.
const RELEASE_LABEL: &str = "app.kubernetes.io/instance";

/// The name of the container port of the API. The chart gives it to the port on loopback, which alone a port-forward reaches.
const API_PORT_NAME: &str = "api";

/// A ready replica.
#[derive(Debug, PartialEq, Eq)]
struct ReadyPod {
    namespace: String,
    /// The name of its pod.
    pod: String,
    /// The port of the API on the loopback address of the pod.
    port: u16,
}

/// The way to a replica: the port-forward of the API server.
struct PortForward {
    cluster: Arc<Cluster>,
    replica: ReadyPod,
}

// === impl Cluster ===

impl Cluster {
    /// Lists the ready replicas of the only release, or of the only one in a namespace, sorted by name.
    ///
    /// # Errors
    ///
    /// If there is none, if there are several releases, or if the objects cannot be listed.
    pub async fn replicas(self: &Arc<Self>, namespace: Option<&Namespace>) -> Result<Vec<Api>> {
        let (namespace, pods) = self.pods(namespace).await?;
        let releases = pods
            .iter()
            .map(|pod| format!("release {}", release_of(pod)));
        only(releases, "--server")?;
        let mut replicas: Vec<_> = pods.iter().filter_map(ReadyPod::of).collect();
        replicas.sort_by_key(|one| one.pod.clone());
        ensure!(
            !replicas.is_empty(),
            "no ready pod of global-dns in namespace {namespace}"
        );
        Ok(replicas
            .into_iter()
            .map(|replica| {
                let cluster = self.clone();
                Api::Replica(Box::new(PortForward { cluster, replica }))
            })
            .collect())
    }

    /// Lists the pods of the only release, or those in a namespace, ready or not. Returns them with their namespace.
    ///
    /// # Errors
    ///
    /// If the release is not found, or if the objects cannot be listed.
    pub async fn pods(&self, namespace: Option<&Namespace>) -> Result<(String, Vec<Value>)> {
        let (namespace, selector) = match namespace {
            Some(namespace) => (namespace.to_string(), SELECTOR.to_owned()),
            None => self.release().await?,
        };
        let grant = "grant \"list\" on pods, or set --server";
        let listed = self
            .of_chart::<Pod>(Some(&namespace), &selector, grant)
            .await;
        Ok((namespace, listed?))
    }

    /// Returns the namespace of the only release, and the selector of its pods.
    async fn release(&self) -> Result<(String, String)> {
        let grant = "grant \"list\" on deployments and daemonsets in all namespaces, or set --server-namespace or --server";
        let deployments = self.of_chart::<Deployment>(None, SELECTOR, grant);
        let daemon_sets = self.of_chart::<DaemonSet>(None, SELECTOR, grant);
        let (mut workloads, daemon_sets) = try_join(deployments, daemon_sets).await?;
        workloads.extend(daemon_sets);
        let names = workloads.iter().map(|one| name_of(one).join("/"));
        only(names, "--server-namespace")?;
        let Some(workload) = workloads.first() else {
            bail!("no Deployment or DaemonSet of global-dns in any namespace")
        };
        let selector = format!("{SELECTOR},{RELEASE_LABEL}={}", release_of(workload));
        Ok((text(workload, "metadata.namespace").to_owned(), selector))
    }

    /// Lists the objects that a selector selects, in a namespace or in all. `grant` says how to permit it.
    async fn of_chart<K: Resource<DynamicType = ()>>(
        &self,
        namespace: Option<&str>,
        selector: &str,
        grant: &str,
    ) -> Result<Vec<Value>, Unreachable> {
        list(&self.client, K::url_path(&(), namespace), selector)
            .await
            .map_err(|failure| {
                let place = match namespace {
                    Some(namespace) => format!("namespace {namespace}"),
                    None => "all namespaces".to_owned(),
                };
                let action = format!("list {} in {place}", K::plural(&()));
                self.cannot(&action, grant, failure)
            })
    }

    /// Returns the sentence about a failed request. `grant` says how to permit it.
    fn cannot(&self, action: &str, grant: &str, failure: RequestFailure) -> Unreachable {
        let url = self.url();
        let why = match failure {
            // The client has named the URL.
            RequestFailure::Broken(why) if why.contains(&url) => return Unreachable(why),
            RequestFailure::Refused { code: 403, message } => format!("403 {message}; {grant}"),
            failure => failure.to_string(),
        };
        Unreachable(format!("cannot {action} at {url}: {why}"))
    }
}

/// Returns the name of the release of an object of the chart.
fn release_of(object: &Value) -> &str {
    object["metadata"]["labels"][RELEASE_LABEL]
        .as_str()
        .unwrap_or_default()
}

/// Returns an error if there are several servers: a flag must say which is meant.
fn only(found: impl Iterator<Item = String>, flag: &str) -> Result<()> {
    let found: BTreeSet<String> = found.collect();
    if found.len() > 1 {
        let names = Vec::from_iter(found).join(", ");
        bail!("found several servers: {names}; choose one with {flag}");
    }
    Ok(())
}

// === impl PortForward ===

impl fmt::Display for PortForward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {}/{}", self.replica.namespace, self.replica.pod)
    }
}

impl Connect for PortForward {
    fn connect(&self) -> BoxFuture<'_, Result<(DuplexStream, CloseReason), Unreachable>> {
        let Self { cluster, replica } = self;
        let port = replica.port;
        let connect = async move {
            let pods = KubeApi::<Pod>::namespaced(cluster.client.clone(), &replica.namespace);
            let ports = [port];
            let forward = pods.portforward(&replica.pod, &ports);
            let mut forwarder = within(REQUEST_TIMEOUT, forward).await?;
            let opened = forwarder.take_stream(port).zip(forwarder.take_error(port));
            let closed =
                || RequestFailure::Ended("the API server did not open a stream".to_owned());
            let (stream, reason) = opened.ok_or_else(closed)?;
            Ok((stream, reason.boxed()))
        };
        let cannot = move |failure| {
            let action = format!("forward port {port} of {self}");
            let grant = "grant \"get\" and \"create\" on pods/portforward, or set --server";
            cluster.cannot(&action, grant, failure)
        };
        connect.map_err(cannot).boxed()
    }
}

// === impl ReadyPod ===

impl ReadyPod {
    /// Returns the replica that a pod of the chart is, if it is ready and not being deleted.
    fn of(pod: &Value) -> Option<Self> {
        let metadata = &pod["metadata"];
        let is_ready = condition(pod, "Ready")["status"] == "True";
        if !is_ready || !metadata["deletionTimestamp"].is_null() {
            return None;
        }
        let port = items(pod, "spec.containers")
            .flat_map(|one| items(one, "ports"))
            .find(|port| port["name"] == API_PORT_NAME);
        let port = port.and_then(|port| port["containerPort"].as_u64()?.try_into().ok());
        Some(Self {
            namespace: metadata["namespace"].as_str()?.to_owned(),
            pod: metadata["name"].as_str()?.to_owned(),
            port: port.unwrap_or(API_PORT),
        })
    }
}

#[cfg(test)]
mod tests;
