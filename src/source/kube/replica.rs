//! The replicas of the server: found by the labels of the chart, reached through the port-forward of the API server.
//!
//! Commands use them, so that flags of `serve` need not be repeated.

use std::net::IpAddr;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ApiResource, ListParams, Object};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::Cluster;
use crate::log::error_chain;
use crate::mirror::Namespace;

/// The selector of the server's pods. The name is compared later, because `nameOverride` of the chart changes it.
const SELECTOR: &str = "app.kubernetes.io/component=server";
/// The label with the name of the chart, unless `nameOverride` changes it.
const NAME_LABEL: &str = "app.kubernetes.io/name";
/// The label with the name and version of the chart.
const CHART_LABEL: &str = "helm.sh/chart";
/// The name of the chart.
const NAME: &str = "global-dns";

/// The flag of `serve` with the address of the API, and its variable.
const API_FLAG: &str = "--api-listen";
const API_VARIABLE: &str = "GLOBAL_DNS_API_LISTEN";
/// The default port of the API.
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
    /// The port of the API on the loopback address of the pod.
    port: u16,
}

/// The reason why no replica can be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaError {
    /// The API server did not respond.
    #[error("cannot reach the API server at {url}: {reason}")]
    NoApiServer {
        /// The URL of the API server.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The user lacks a permission.
    #[error(
        "cannot {action} at {url}: {reason}; grant \"list\" on pods and \"get\" and \"create\" on pods/portforward, or set --server{alternative}"
    )]
    Forbidden {
        /// The failure.
        action: String,
        /// The URL of the API server.
        url: String,
        /// The response of the API server.
        reason: String,
        /// A further way out.
        alternative: &'static str,
    },
    /// No replica exists, or none is ready.
    #[error("no ready pod of global-dns in {}", place(.0.as_ref()))]
    None(Option<Namespace>),
    /// The request failed for another reason.
    #[error("cannot {action} at {url}: {reason}")]
    Failed {
        /// The failure.
        action: String,
        /// The URL of the API server.
        url: String,
        /// The reason.
        reason: String,
    },
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
    command: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<Variable>,
}

/// An environment variable of a container.
#[derive(Clone, Debug, Deserialize)]
struct Variable {
    name: String,
    value: Option<String>,
}

/// A stream to the API of a replica.
pub trait ReplicaStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ReplicaStream for T {}

/// Resolves to the reason for the end of a stream, if the node sends one.
pub type StreamError = BoxFuture<'static, Option<String>>;

fn place(namespace: Option<&Namespace>) -> String {
    match namespace {
        Some(namespace) => format!("namespace {namespace}"),
        None => "any namespace".to_owned(),
    }
}

// === impl Cluster ===

impl Cluster {
    /// Lists the ready replicas in a namespace, or in all, sorted by name.
    ///
    /// # Errors
    ///
    /// If there is none, or the pods cannot be listed.
    pub async fn replicas(
        &self,
        namespace: Option<&Namespace>,
    ) -> Result<Vec<Replica>, ReplicaError> {
        let (client, kind) = (self.client.clone(), ApiResource::erase::<Pod>(&()));
        let pods: Api<ListedPod> = match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace.as_str(), &kind),
            None => Api::all_with(client, &kind),
        };
        let params = ListParams::default().labels(SELECTOR);
        let action = format!("list pods in {}", place(namespace));
        let listed = timeout(REQUEST_TIMEOUT, pods.list(&params)).await;
        let listed = listed.map_err(|_| self.timed_out())?;
        let alternative = match namespace {
            Some(_) => "",
            None => " or --server-namespace",
        };
        let listed = listed.map_err(|error| self.failure(&error, action, alternative))?;
        let mut replicas: Vec<Replica> = listed.iter().filter_map(Replica::of).collect();
        replicas
            .sort_by(|one, other| (&one.namespace, &one.pod).cmp(&(&other.namespace, &other.pod)));
        match replicas.is_empty() {
            true => Err(ReplicaError::None(namespace.cloned())),
            false => Ok(replicas),
        }
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
            port,
        } = replica;
        let action = format!("forward port {port} of pod {namespace}/{pod}");
        let failed = |reason: &str| ReplicaError::Failed {
            action: action.clone(),
            url: self.address(),
            reason: reason.to_owned(),
        };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let ports = [*port];
        let forwarding = timeout(REQUEST_TIMEOUT, pods.portforward(pod, &ports)).await;
        let forwarding = forwarding.map_err(|_| self.timed_out())?;
        let mut forwarder = forwarding.map_err(|error| self.failure(&error, action.clone(), ""))?;
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
        alternative: &'static str,
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
                alternative,
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

impl Replica {
    /// Returns the replica that a pod is, if it is ready and its API listens on loopback.
    fn of(pod: &ListedPod) -> Option<Self> {
        let labels = pod.metadata.labels.as_ref()?;
        let chart = labels.get(CHART_LABEL).map_or("", String::as_str);
        let chart = chart
            .strip_prefix(NAME)
            .and_then(|end| end.strip_prefix('-'));
        let is_chart = chart.is_some_and(|end| end.starts_with(|c: char| c.is_ascii_digit()));
        let has_name = labels.get(NAME_LABEL).is_some_and(|name| name == NAME);
        if !(is_chart || has_name) || !is_ready(pod) {
            return None;
        }
        let containers = &pod.spec.containers;
        let serves = |container: &&Container| {
            let mut words = container.command.iter().chain(&container.args);
            words.any(|word| word == "serve")
        };
        let server = containers.iter().find(serves).or(containers.first())?;
        Some(Self {
            namespace: pod.metadata.namespace.clone()?,
            pod: pod.metadata.name.clone()?,
            port: api_port(server)?,
        })
    }
}

/// Returns whether a pod is ready and not being deleted.
fn is_ready(pod: &ListedPod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    let mut ready = conditions.filter(|one| one.kind == "Ready" && one.status == "True");
    pod.metadata.deletion_timestamp.is_none() && ready.next().is_some()
}

/// Returns the port of the API on loopback, from the flag, the variable or the default. A port-forward reaches only
/// loopback. Returns `None` if the API does not listen there.
fn api_port(container: &Container) -> Option<u16> {
    let words: Vec<&str> = container
        .command
        .iter()
        .chain(&container.args)
        .map(String::as_str)
        .collect();
    let separate = words
        .windows(2)
        .filter(|two| two[0] == API_FLAG)
        .map(|two| two[1]);
    let joined = words
        .iter()
        .filter_map(|word| word.strip_prefix(API_FLAG)?.strip_prefix('='));
    let mut given: Vec<&str> = joined.chain(separate).collect();
    if given.is_empty() {
        let set = container.env.iter().filter(|one| one.name == API_VARIABLE);
        given.extend(set.filter_map(|one| one.value.as_deref()));
    }
    if given.is_empty() {
        return Some(API_PORT);
    }
    given
        .iter()
        .flat_map(|list| list.split(','))
        .find_map(loopback_port)
}

/// Returns the port of an address, if connections to loopback reach it.
fn loopback_port(address: &str) -> Option<u16> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_matches(['[', ']']);
    let is_reachable = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
    match host {
        "" | "localhost" => port.parse().ok(),
        ip => ip
            .parse()
            .is_ok_and(is_reachable)
            .then(|| port.parse().ok())?,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(change: impl FnOnce(&mut Value)) -> ListedPod {
        let mut pod = json!({
            "metadata": {"namespace": "dns", "name": "global-dns-0", "labels": {
                "app.kubernetes.io/name": "global-dns", "helm.sh/chart": "global-dns-0.1.0"}},
            "spec": {"containers": [{"name": "global-dns", "args": ["serve"]}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        change(&mut pod);
        serde_json::from_value(pod).unwrap()
    }

    fn port(arguments: &[&str]) -> Option<u16> {
        let pod = pod(|pod| {
            let words = [&["serve"], arguments].concat();
            pod["spec"]["containers"][0]["args"] = json!(words);
        });
        Replica::of(&pod).map(|replica| replica.port)
    }

    #[test]
    fn ready_pod_of_the_chart_is_a_replica() {
        let expected = Replica {
            namespace: "dns".to_owned(),
            pod: "global-dns-0".to_owned(),
            port: 9154,
        };
        assert_eq!(Replica::of(&pod(|_| ())), Some(expected.clone()));
        let renamed = pod(|pod| pod["metadata"]["labels"][NAME_LABEL] = json!("dns"));
        assert_eq!(Replica::of(&renamed), Some(expected));
    }

    #[test]
    fn other_pods_and_pods_that_are_not_ready_are_no_replicas() {
        let labels = |name: &str, chart: &str| {
            let labels = json!({NAME_LABEL: name, CHART_LABEL: chart});
            pod(|pod| pod["metadata"]["labels"] = labels)
        };
        for other in [
            labels("argocd", "argo-cd-8.0.0"),
            labels("argocd", "global-dns-ui-1.0.0"),
            pod(|pod| pod["status"]["conditions"][0]["status"] = json!("False")),
            pod(|pod| pod["status"] = json!({})),
            pod(|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T15:00:00Z")),
            pod(|pod| pod["metadata"]["labels"] = Value::Null),
        ] {
            assert_eq!(Replica::of(&other), None, "{other:?}");
        }
    }

    #[test]
    fn port_is_that_of_the_flag_or_the_variable_if_it_is_on_loopback() {
        for (arguments, expected) in [
            (&["--ttl=5"][..], Some(9154)),
            (&["--api-listen=127.0.0.1:19154"], Some(19154)),
            (&["--api-listen", "[::1]:19154"], Some(19154)),
            (&["--api-listen=0.0.0.0:80"], Some(80)),
            (&["--api-listen=:80"], Some(80)),
            (&["--api-listen=localhost:80"], Some(80)),
            (&["--api-listen=192.0.2.1:80,127.0.0.1:81"], Some(81)),
            (
                &["--api-listen=192.0.2.1:80", "--api-listen=[::]:82"],
                Some(82),
            ),
            (&["--api-listen=192.0.2.1:80"], None),
            (&["--api-listen=$(POD_IP):80"], None),
        ] {
            assert_eq!(port(arguments), expected, "{arguments:?}");
        }
        let by_variable = pod(|pod| {
            let variable = json!([{"name": "GLOBAL_DNS_API_LISTEN", "value": "127.0.0.1:7"}]);
            pod["spec"]["containers"][0]["env"] = variable;
        });
        assert_eq!(Replica::of(&by_variable).map(|one| one.port), Some(7));
    }

    #[test]
    fn container_that_serves_is_the_server() {
        let with_sidecar = pod(|pod| {
            let proxy = json!({"name": "proxy", "args": ["--api-listen=127.0.0.1:1"]});
            let server = json!({"name": "dns", "args": ["serve", "--api-listen=127.0.0.1:2"]});
            pod["spec"]["containers"] = json!([proxy, server]);
        });
        assert_eq!(Replica::of(&with_sidecar).map(|one| one.port), Some(2));
    }
}
