//! The replicas of one release of the chart, reached through the port-forward of the API server.
//!
//! Commands use them, so that the settings of `serve` need not be repeated. Everybody who may create a pod somewhere can give it
//! the labels of the chart, and could answer in place of the server. So pods count in one namespace only: the one that the
//! user names, or that of the only Deployment or DaemonSet of the chart. If there are several, the user decides.

mod error;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, try_join};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{ApiResource, ListParams, NotUsed, Object, ObjectList};
use kube::core::{NamespaceResourceScope, ParseExpressionError, Selector};
use kube::{Api, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use error::MissingPermission;
pub use error::ReplicaError;

use super::Cluster;
use crate::log::error_chain;
use crate::model::Namespace;

/// The selector of the server's pods, and of their workload. The name is compared later.
pub(super) const SELECTOR: &str = "app.kubernetes.io/component=server";
/// The label with the name of the chart.
const NAME_LABEL: &str = "app.kubernetes.io/name";
/// The label with the name and version of the chart.
const CHART_LABEL: &str = "helm.sh/chart";
/// The label with the name of the release.
const RELEASE_LABEL: &str = "app.kubernetes.io/instance";
/// The name of the chart.
const NAME: &str = "global-dns";

/// The name of the container port of the API. The chart gives it to the port on loopback, which alone a port-forward reaches.
const API_PORT_NAME: &str = "api";
/// The port of the API, if no container port has the name: the default of `--api-listen`.
const API_PORT: u16 = 9154;

/// Maximum time for a request. Reading the objects directly is the alternative, so this is short.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// A ready replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Its namespace.
    pub namespace: String,
    /// The name of its pod.
    pub pod: String,
    /// The unique ID of its pod.
    pub uid: String,
    /// The release of its pod.
    release: String,
    /// The port of the API on the loopback address of the pod.
    port: u16,
}

/// A Deployment or DaemonSet with the fields that are read.
type ListedWorkload = Object<WorkloadSpec, NotUsed>;

/// `spec` of a Deployment or DaemonSet.
#[derive(Clone, Debug, Deserialize)]
struct WorkloadSpec {
    selector: LabelSelector,
}

/// A pod with the fields that are read. The code that reads a whole pod is 0.4 MB.
type ListedPod = Object<PodSpec, PodStatus>;

/// `spec` of a pod.
#[derive(Clone, Debug, Deserialize)]
struct PodSpec {
    containers: Vec<Container>,
}

/// `status` of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
struct PodStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

/// A condition of a pod.
#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// A container of a pod.
#[derive(Clone, Debug, Deserialize)]
struct Container {
    #[serde(default)]
    ports: Vec<ContainerPort>,
}

/// A port of a container.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerPort {
    #[serde(default)]
    name: String,
    container_port: u16,
}

/// A stream to the API of a replica.
pub trait ReplicaStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ReplicaStream for T {}

/// Resolves to the reason for the end of a stream, if the node sends one.
type StreamError = BoxFuture<'static, Option<String>>;

// === impl Cluster ===

impl Cluster {
    /// Lists the ready replicas of the only release, or of the only one in a namespace, sorted by name.
    ///
    /// # Errors
    ///
    /// If there is none, if there are several releases, or if the objects cannot be listed.
    pub async fn replicas(
        &self,
        namespace: Option<&Namespace>,
    ) -> Result<Vec<Replica>, ReplicaError> {
        let (namespace, selector) = match namespace {
            Some(namespace) => (namespace.to_string(), SELECTOR.to_owned()),
            None => self.release().await?,
        };
        let kind = ApiResource::erase::<Pod>(&());
        let pods = Api::<ListedPod>::namespaced_with(self.client.clone(), &namespace, &kind);
        let action = format!("list pods in namespace {namespace}");
        let listed = self
            .list_selected(pods, &selector, action, MissingPermission::Pods)
            .await?;
        let mut replicas: Vec<Replica> = listed.iter().filter_map(Replica::of).collect();
        replicas.sort_by(|one, other| one.pod.cmp(&other.pod));
        let mut releases: Vec<&str> = replicas.iter().map(|one| one.release.as_str()).collect();
        releases.sort_unstable();
        releases.dedup();
        match releases.as_slice() {
            [] => Err(ReplicaError::NotReady(namespace)),
            [_] => Ok(replicas),
            several => Err(ReplicaError::Several {
                found: several
                    .iter()
                    .map(|release| format!("release {release} in namespace {namespace}"))
                    .collect(),
                flag: "--server",
            }),
        }
    }

    /// Returns the namespace of the only release, and the selector of its pods.
    pub(super) async fn release(&self) -> Result<(String, String), ReplicaError> {
        let (mut workloads, daemon_sets) = try_join(
            self.workloads::<Deployment>("deployments"),
            self.workloads::<DaemonSet>("daemonsets"),
        )
        .await?;
        workloads.extend(daemon_sets);
        let name = |workload: &ListedWorkload| {
            let namespace = workload.metadata.namespace.clone().unwrap_or_default();
            let name = workload.metadata.name.clone().unwrap_or_default();
            (namespace, name)
        };
        match workloads.as_slice() {
            [] => Err(ReplicaError::None),
            [workload] => {
                let (namespace, name) = name(workload);
                let selector: Selector = workload.spec.selector.clone().try_into().map_err(
                    |error: ParseExpressionError| ReplicaError::Failed {
                        action: format!("use the selector of {namespace}/{name}"),
                        url: self.address(),
                        reason: error.to_string(),
                    },
                )?;
                Ok((namespace, selector.to_string()))
            }
            several => {
                let mut found: Vec<_> = several.iter().map(name).collect();
                found.sort();
                let named = |(namespace, name)| format!("{namespace}/{name}");
                Err(ReplicaError::Several {
                    found: found.into_iter().map(named).collect(),
                    flag: "--server-namespace",
                })
            }
        }
    }

    /// Lists the workloads of the chart of one kind, in all namespaces.
    async fn workloads<K>(&self, kinds: &str) -> Result<Vec<ListedWorkload>, ReplicaError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let kind = ApiResource::erase::<K>(&());
        let workloads = Api::<ListedWorkload>::all_with(self.client.clone(), &kind);
        let action = format!("list {kinds} in all namespaces");
        let listed = self
            .list_selected(workloads, SELECTOR, action, MissingPermission::Workloads)
            .await?;
        let is_of_chart = |one: &ListedWorkload| is_of_chart(one.metadata.labels.as_ref());
        Ok(listed.into_iter().filter(is_of_chart).collect())
    }

    /// Lists the objects that a selector selects.
    async fn list_selected<K: Clone + fmt::Debug + DeserializeOwned>(
        &self,
        objects: Api<K>,
        selector: &str,
        action: String,
        missing: MissingPermission,
    ) -> Result<ObjectList<K>, ReplicaError> {
        let params = ListParams::default().labels(selector);
        let listed = timeout(REQUEST_TIMEOUT, objects.list(&params))
            .await
            .map_err(|_| self.timed_out())?;
        listed.map_err(|error| self.failure(&error, action, missing))
    }

    /// Connects to the API of a replica, through the port-forward of the API server.
    ///
    /// # Errors
    ///
    /// If the port cannot be forwarded.
    pub async fn connect(
        &self,
        replica: &Replica,
    ) -> Result<(impl ReplicaStream + use<>, StreamError), ReplicaError> {
        let Replica {
            namespace,
            pod,
            uid: _,
            release: _,
            port,
        } = replica;
        let action = format!("forward port {port} of {replica}");
        let failed = |reason: &str| ReplicaError::Failed {
            action: action.clone(),
            url: self.address(),
            reason: reason.to_owned(),
        };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let ports = [*port];
        let forwarding = timeout(REQUEST_TIMEOUT, pods.portforward(pod, &ports))
            .await
            .map_err(|_| self.timed_out())?;
        let mut forwarder = forwarding.map_err(|error| {
            self.failure(&error, action.clone(), MissingPermission::PortForward)
        })?;
        let (stream, error) = (forwarder.take_stream(*port), forwarder.take_error(*port));
        let opened = stream.zip(error.map(FutureExt::boxed));
        opened.ok_or_else(|| failed("the API server did not open a stream"))
    }

    /// Returns the URL of the API server for messages.
    pub fn address(&self) -> String {
        self.url().trim_end_matches('/').to_owned()
    }

    fn timed_out(&self) -> ReplicaError {
        let seconds = REQUEST_TIMEOUT.as_secs();
        ReplicaError::NoApiServer {
            url: self.address(),
            reason: format!("no response within {seconds} s"),
        }
    }

    /// Converts an error of the client.
    fn failure(
        &self,
        error: &kube::Error,
        action: String,
        missing: MissingPermission,
    ) -> ReplicaError {
        let url = self.address();
        let reason = if let kube::Error::Api(status) = error {
            format!("{} {}", status.code, status.message)
        } else {
            error_chain(error)
        };
        if matches!(error, kube::Error::Api(status) if status.code == 403) {
            ReplicaError::Forbidden {
                action,
                url,
                reason,
                missing,
            }
        } else if matches!(error, kube::Error::HyperError(_) | kube::Error::Service(_)) {
            ReplicaError::NoApiServer { url, reason }
        } else {
            ReplicaError::Failed {
                action,
                url,
                reason,
            }
        }
    }
}

// === impl Replica ===

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {}/{}", self.namespace, self.pod)
    }
}

impl Replica {
    /// Returns the replica that a pod is, if it is ready.
    fn of(pod: &ListedPod) -> Option<Self> {
        let labels = pod.metadata.labels.as_ref();
        if !is_of_chart(labels) || !is_ready(pod) {
            return None;
        }
        let release = labels.and_then(|labels| labels.get(RELEASE_LABEL));
        let mut ports = pod.spec.containers.iter().flat_map(|one| &one.ports);
        let port = ports.find(|port| port.name == API_PORT_NAME);
        Some(Self {
            namespace: pod.metadata.namespace.clone()?,
            pod: pod.metadata.name.clone()?,
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            release: release.cloned().unwrap_or_default(),
            port: port.map_or(API_PORT, |port| port.container_port),
        })
    }
}

/// Returns whether labels are those of the chart.
fn is_of_chart(labels: Option<&BTreeMap<String, String>>) -> bool {
    let label = |key| {
        labels
            .and_then(|labels| labels.get(key))
            .map_or("", String::as_str)
    };
    let version = label(CHART_LABEL)
        .strip_prefix(NAME)
        .and_then(|end| end.strip_prefix('-'));
    let is_chart = version.is_some_and(|end| end.starts_with(|c: char| c.is_ascii_digit()));
    is_chart || label(NAME_LABEL) == NAME
}

/// Returns whether a pod is ready and not being deleted.
fn is_ready(pod: &ListedPod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    let mut ready = conditions.filter(|one| one.kind == "Ready" && one.status == "True");
    pod.metadata.deletion_timestamp.is_none() && ready.next().is_some()
}

#[cfg(test)]
mod tests;
