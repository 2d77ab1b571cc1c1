//! Builders of Kubernetes objects in the form that Linkerd's mirror controller and Kubernetes write.
//!
//! [`mirror()`] and [`local()`] build whole services. A builder converts into a [`Manifest`] with all objects of the
//! service, and also returns single objects.

mod cluster_ip;
mod local;
mod mirror;

use serde_json::{Value, json};

/// The labels and annotations that the program reads.
pub const KEYS: [&str; 18] = [
    "mirror.linkerd.io/mirrored-service",
    "mirror.linkerd.io/cluster-name",
    "mirror.linkerd.io/headless-mirror-svc-name",
    "mirror.linkerd.io/remote-svc-fq-name",
    "mirror.linkerd.io/exported",
    "multicluster.linkerd.io/remote-discovery",
    "multicluster.linkerd.io/remote-service",
    "multicluster.linkerd.io/local-discovery",
    "service.kubernetes.io/headless",
    "kubernetes.io/service-name",
    "endpointslice.kubernetes.io/managed-by",
    "multicluster.kubernetes.io/service-name",
    "multicluster.kubernetes.io/source-cluster",
    "endpoints.kubernetes.io/last-change-trigger-time",
    "global-dns/ttl",
    "global-dns/gateway-down",
    "global-dns/failover",
    "global-dns/expected-clusters",
];

pub use cluster_ip::{ClusterIp, exported, federated, flat_mirror, gateway_mirror};
pub use local::{Local, local, members};
pub use mirror::{Gateway, Mirror, mirror, numbered_mirror};

/// The objects of a file.
#[derive(Clone, Debug, Default)]
pub struct Manifest(pub Vec<Value>);

/// A port of a Service or a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    name: Option<String>,
    protocol: String,
    number: u16,
}

const MIRRORED: &str = "mirror.linkerd.io/mirrored-service";
const CLUSTER_NAME: &str = "mirror.linkerd.io/cluster-name";
const FQ_NAME: &str = "mirror.linkerd.io/remote-svc-fq-name";
const EXPORTED: &str = "mirror.linkerd.io/exported";
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Manages the slices of Services of this cluster.
const CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// Default address of a gateway, also in slices of other Services with a cluster IP. It must never be in an answer.
const GATEWAY: &str = "198.51.100.10";

/// Returns an empty manifest.
pub fn objects() -> Manifest {
    Manifest::default()
}

/// Returns a port with a name.
pub fn port(name: &str, protocol: &str, number: u16) -> Port {
    Port {
        name: Some(name.to_owned()),
        ..nameless_port(protocol, number)
    }
}

/// Returns a port without a name.
pub fn nameless_port(protocol: &str, number: u16) -> Port {
    Port {
        name: None,
        protocol: protocol.to_owned(),
        number,
    }
}

/// Returns a Namespace object.
pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Returns a Node object.
pub fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

/// Returns a Link to a cluster.
pub fn link(namespace: &str, name: &str, cluster: &str) -> Value {
    json!({
        "apiVersion": "multicluster.linkerd.io/v1alpha3", "kind": "Link",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"targetClusterName": cluster},
    })
}

/// Returns a definition of the kind Link with the versions, the status and the used fields of Linkerd's.
pub fn link_definition() -> Value {
    let text = json!({"type": "string"});
    let version = |name: &str| {
        json!({
            "name": name, "served": true, "storage": name == "v1alpha3",
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                    "targetClusterName": text, "targetClusterDomain": text, "gatewayAddress": text,
                }},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}},
        })
    };
    let versions = ["v1alpha1", "v1alpha2", "v1alpha3"].map(version);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "links.multicluster.linkerd.io"},
        "spec": {
            "group": "multicluster.linkerd.io", "scope": "Namespaced",
            "names": {"plural": "links", "singular": "link", "kind": "Link"},
            "versions": versions,
        },
    })
}

/// Returns a ClusterRole with these rules.
pub fn cluster_role(name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": rules,
    })
}

/// Returns the binding of a ClusterRole of the same name to a user.
pub fn cluster_role_binding(name: &str, user: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })
}

/// Converts a headless Service into one with a cluster IP.
pub fn with_cluster_ip(mut service: Value, address: &str) -> Value {
    service["spec"]["clusterIP"] = json!(address);
    service["spec"]["clusterIPs"] = json!([address]);
    service
}

/// Returns the labels of a release of the chart.
fn release_labels(release: &str) -> Value {
    json!({
        "app.kubernetes.io/name": "global-dns", "app.kubernetes.io/instance": release,
        "app.kubernetes.io/component": "server", "helm.sh/chart": "global-dns-0.1.0",
    })
}

/// Returns the Deployment or DaemonSet of the release `dns` of the chart.
pub fn workload(kind: &str, namespace: &str, name: &str) -> Value {
    let labels = release_labels("dns");
    let mut selector = labels.clone();
    selector.as_object_mut().unwrap().remove("helm.sh/chart");
    let containers = json!([{"name": "global-dns", "image": "global-dns"}]);
    json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": selector},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    })
}

/// Returns a pod of a gateway of Linkerd, whose proxy keeps an address for this time. It has no node.
pub fn gateway_pod(timeout: &str) -> Value {
    let labels = json!({"component": "gateway", "linkerd.io/extension": "multicluster"});
    let variable =
        json!({"name": "LINKERD2_PROXY_OUTBOUND_DISCOVERY_IDLE_TIMEOUT", "value": timeout});
    let proxy = json!({"name": "linkerd-proxy", "image": "proxy", "env": [variable]});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "linkerd-multicluster", "name": "linkerd-gateway", "labels": labels},
        "spec": {"containers": [proxy]},
    })
}

/// Returns a ready pod of the release `dns` of the chart, on the node `node-0`. Its API listens on a port of loopback.
pub fn replica(namespace: &str, name: &str, api_port: u16) -> Value {
    let container = json!({
        "name": "global-dns", "image": "global-dns",
        "args": ["serve", "--cluster-name=hub", format!("--api-listen=127.0.0.1:{api_port}")],
        "ports": [{"name": "api", "containerPort": api_port}],
    });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": release_labels("dns")},
        "spec": {"nodeName": "node-0", "hostNetwork": true, "containers": [container]},
        "status": pod_status("192.0.2.1", true),
    })
}

/// Returns the status of a pod, as a kubelet reports it.
pub fn pod_status(address: &str, is_ready: bool) -> Value {
    let ready = if is_ready { "True" } else { "False" };
    json!({
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": ready}],
    })
}

fn service(
    (namespace, name): (&str, &str),
    labels: &Value,
    annotations: &Value,
    addresses: &[&str],
    ports: &[Port],
) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "namespace": namespace, "name": name, "labels": labels, "annotations": annotations,
        },
        "spec": {
            "clusterIP": addresses.first(), "clusterIPs": addresses, "ports": all(ports),
        },
    });
    if addresses.len() > 1 {
        // The API server refuses two addresses with the default policy, SingleStack.
        service["spec"]["ipFamilyPolicy"] = json!("PreferDualStack");
    }
    service
}

fn slice(
    (namespace, name): (&str, &str),
    labels: &Value,
    family: &str,
    ports: &[Port],
    endpoints: &[Value],
) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "addressType": family, "ports": all(ports), "endpoints": endpoints,
    })
}

/// Returns an endpoint of a slice.
pub fn endpoint(host: Option<&str>, address: &str, is_ready: bool) -> Value {
    let mut endpoint = json!({"addresses": [address], "conditions": {"ready": is_ready}});
    if let Some(host) = host {
        endpoint["hostname"] = json!(host);
    }
    endpoint
}

fn all(ports: &[Port]) -> Value {
    ports.iter().map(Port::object).collect()
}

/// Returns port `sql` 26257, the default port of services.
fn sql() -> Vec<Port> {
    vec![port("sql", "TCP", 26257)]
}

// === impl Manifest ===

impl Manifest {
    /// Adds a service or a single object.
    #[must_use]
    pub fn with(mut self, part: impl Into<Self>) -> Self {
        self.0.extend(part.into().0);
        self
    }

    /// Returns the objects as YAML documents. Each document is JSON, which is valid YAML.
    pub fn text(&self) -> String {
        let documents = self.0.iter().map(|object| format!("---\n{object}\n"));
        documents.collect()
    }

    /// Returns the objects as one Kubernetes List, in JSON.
    pub fn list(&self) -> String {
        json!({"apiVersion": "v1", "kind": "List", "items": self.0}).to_string()
    }
}

impl From<Value> for Manifest {
    fn from(object: Value) -> Self {
        Self(vec![object])
    }
}

impl<P: Into<Self>> FromIterator<P> for Manifest {
    fn from_iter<I: IntoIterator<Item = P>>(parts: I) -> Self {
        parts.into_iter().fold(objects(), Self::with)
    }
}

// === impl Port ===

impl Port {
    fn object(&self) -> Value {
        let mut object = json!({"protocol": self.protocol, "port": self.number});
        if let Some(name) = &self.name {
            object["name"] = json!(name);
        }
        object
    }
}
