//! The replicas of one release of the chart, reached through the port-forward of the API server.
//!
//! Commands use them, so that the settings of `serve` need not be repeated. Everybody who may create a pod somewhere can give it
//! the labels of the chart, and could answer in place of the server. So pods count in one namespace only: the one that the
//! user names, or that of the only Deployment or DaemonSet of the chart. If there are several, the user decides.

mod error;

use std::fmt;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, try_join};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ListParams;
use kube::core::{Request, Selector};
use kube::{Api, Resource};
use serde::Deserialize as _;
use serde_json::Value;
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
        let missing = MissingPermission::Pods;
        let pods = self.selected::<Pod>(Some(&namespace), &selector, missing);
        let mut replicas: Vec<_> = pods.await?.iter().filter_map(Replica::of).collect();
        replicas.sort_by(|one, other| one.pod.cmp(&other.pod));
        let mut releases: Vec<&str> = replicas.iter().map(|one| one.release.as_str()).collect();
        releases.sort_unstable();
        releases.dedup();
        let named = |release: &&str| format!("release {release} in namespace {namespace}");
        match releases.as_slice() {
            [] => Err(ReplicaError::NotReady(namespace)),
            [_] => Ok(replicas),
            several => Err(ReplicaError::Several {
                found: several.iter().map(named).collect(),
                flag: "--server",
            }),
        }
    }

    /// Returns the namespace of the only release, and the selector of its pods.
    pub(super) async fn release(&self) -> Result<(String, String), ReplicaError> {
        let missing = MissingPermission::Workloads;
        let deployments = self.selected::<Deployment>(None, SELECTOR, missing);
        let daemon_sets = self.selected::<DaemonSet>(None, SELECTOR, missing);
        let (mut workloads, daemon_sets) = try_join(deployments, daemon_sets).await?;
        workloads.extend(daemon_sets);
        let name = |workload: &Value| {
            let metadata = &workload["metadata"];
            format!(
                "{}/{}",
                text(&metadata["namespace"]),
                text(&metadata["name"])
            )
        };
        match workloads.as_slice() {
            [] => Err(ReplicaError::None),
            [workload] => {
                let failed = |reason: String| {
                    self.failed(format!("use the selector of {}", name(workload)), reason)
                };
                let selector = LabelSelector::deserialize(&workload["spec"]["selector"]);
                let selector = selector.map_err(|error| failed(error.to_string()))?;
                let selector = Selector::try_from(selector);
                let selector = selector.map_err(|error| failed(error.to_string()))?;
                let namespace = text(&workload["metadata"]["namespace"]);
                Ok((namespace.to_owned(), selector.to_string()))
            }
            several => {
                let mut found: Vec<String> = several.iter().map(name).collect();
                found.sort();
                let flag = "--server-namespace";
                Err(ReplicaError::Several { found, flag })
            }
        }
    }

    /// Lists the objects of the chart that a selector selects, in a namespace or in all.
    async fn selected<K: Resource<DynamicType = ()>>(
        &self,
        namespace: Option<&str>,
        selector: &str,
        missing: MissingPermission,
    ) -> Result<Vec<Value>, ReplicaError> {
        let place = namespace.map(|namespace| format!("namespace {namespace}"));
        let place = place.unwrap_or_else(|| "all namespaces".to_owned());
        let action = format!("list {} in {place}", K::plural(&()));
        let list = async {
            let params = ListParams::default().labels(selector);
            let request = Request::new(K::url_path(&(), namespace)).list(&params);
            let request = request.map_err(kube::Error::BuildRequest)?;
            self.client.request::<Value>(request).await
        };
        let mut list = self.within(action, missing, list).await?;
        let items = list["items"].as_array_mut().map(std::mem::take);
        let mut items = items.unwrap_or_default();
        items.retain(is_of_chart);
        Ok(items)
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
        let port = replica.port;
        let action = format!("forward port {port} of {replica}");
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &replica.namespace);
        let ports = [port];
        let forwarding = pods.portforward(&replica.pod, &ports);
        let missing = MissingPermission::PortForward;
        let mut forwarder = self.within(action.clone(), missing, forwarding).await?;
        let (stream, error) = (forwarder.take_stream(port), forwarder.take_error(port));
        let opened = stream.zip(error.map(FutureExt::boxed));
        opened.ok_or_else(|| self.failed(action, "the API server did not open a stream".to_owned()))
    }

    /// Returns the URL of the API server for messages.
    pub fn address(&self) -> String {
        self.url().trim_end_matches('/').to_owned()
    }

    /// Waits for a request, up to a limit.
    async fn within<T>(
        &self,
        action: String,
        missing: MissingPermission,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ReplicaError> {
        let url = self.address();
        let Ok(done) = timeout(REQUEST_TIMEOUT, request).await else {
            let seconds = REQUEST_TIMEOUT.as_secs();
            let reason = format!("no response within {seconds} s");
            return Err(ReplicaError::NoApiServer { url, reason });
        };
        done.map_err(|error| match &error {
            kube::Error::Api(status) => {
                let reason = format!("{} {}", status.code, status.message);
                match status.code {
                    403 => ReplicaError::Forbidden {
                        action,
                        url,
                        reason,
                        missing,
                    },
                    _ => self.failed(action, reason),
                }
            }
            kube::Error::HyperError(_) | kube::Error::Service(_) => ReplicaError::NoApiServer {
                url,
                reason: error_chain(&error),
            },
            _ => self.failed(action, error_chain(&error)),
        })
    }

    fn failed(&self, action: String, reason: String) -> ReplicaError {
        let url = self.address();
        ReplicaError::Failed {
            action,
            url,
            reason,
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
    /// Returns the replica that a pod of the chart is, if it is ready and not being deleted.
    fn of(pod: &Value) -> Option<Self> {
        let metadata = &pod["metadata"];
        let mut conditions = items(&pod["status"]["conditions"]);
        let is_ready = conditions.any(|one| one["type"] == "Ready" && one["status"] == "True");
        if !is_ready || !metadata["deletionTimestamp"].is_null() {
            return None;
        }
        let containers = items(&pod["spec"]["containers"]);
        let mut ports = containers.flat_map(|one| items(&one["ports"]));
        let port = ports.find(|port| port["name"] == API_PORT_NAME);
        let port = port.and_then(|port| port["containerPort"].as_u64()?.try_into().ok());
        Some(Self {
            namespace: metadata["namespace"].as_str()?.to_owned(),
            pod: metadata["name"].as_str()?.to_owned(),
            uid: text(&metadata["uid"]).to_owned(),
            release: text(&metadata["labels"][RELEASE_LABEL]).to_owned(),
            port: port.unwrap_or(API_PORT),
        })
    }
}

/// Returns whether the labels of an object are those of the chart.
fn is_of_chart(object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    let version = text(&labels[CHART_LABEL]).strip_prefix(NAME);
    let version = version.and_then(|end| end.strip_prefix('-'));
    let is_chart = version.is_some_and(|end| end.starts_with(|c: char| c.is_ascii_digit()));
    is_chart || labels[NAME_LABEL] == NAME
}

/// Returns a text, or an empty one.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the values of a list, if it is one.
fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests;
