//! Builders of Kubernetes objects, as Linkerd's mirror controller and Kubernetes write them.
//!
//! [`mirror()`] and [`local()`] build whole services: all their objects are in the [`Manifest`] that they become. Who needs one
//! object of them at a time has it from the same builder.

mod local;
mod mirror;

use serde_json::{Map, Value, json};

pub use local::{Local, local, members};
pub use mirror::{Gateway, Mirror, mirror};

/// What a file holds.
#[derive(Clone, Debug, Default)]
pub struct Manifest(pub Vec<Value>);

/// A port of a Service or a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    name: Option<String>,
    protocol: String,
    number: u16,
}

/// An empty manifest.
pub fn objects() -> Manifest {
    Manifest::default()
}

/// A port with a name and a protocol.
pub fn port(name: &str, protocol: &str, number: u16) -> Port {
    Port {
        name: Some(name.to_owned()),
        ..nameless_port(protocol, number)
    }
}

/// A port without a name.
pub fn nameless_port(protocol: &str, number: u16) -> Port {
    Port {
        name: None,
        protocol: protocol.to_owned(),
        number,
    }
}

/// A namespace.
pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// A node.
pub fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

/// A Service that is not headless, made of one that is.
pub fn with_cluster_ip(mut service: Value, address: &str) -> Value {
    service["spec"]["clusterIP"] = json!(address);
    service["spec"]["clusterIPs"] = json!([address]);
    service
}

/// What a kubelet reports of a pod.
pub fn pod_status(address: &str, is_ready: bool) -> Value {
    let ready = if is_ready { "True" } else { "False" };
    json!({
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": ready}],
    })
}

fn service(
    (namespace, name): (&str, &str),
    labels: Value,
    annotations: &Map<String, Value>,
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
        // The API server refuses two addresses for the default, SingleStack.
        service["spec"]["ipFamilyPolicy"] = json!("PreferDualStack");
    }
    service
}

fn slice(
    (namespace, name): (&str, &str),
    labels: Value,
    family: &str,
    ports: &[Port],
    endpoints: Vec<Value>,
) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "addressType": family, "ports": all(ports), "endpoints": endpoints,
    })
}

fn all(ports: &[Port]) -> Value {
    ports.iter().map(Port::object).collect()
}

/// Port `sql` 26257, which services have until they are given others.
fn sql() -> Vec<Port> {
    vec![port("sql", "TCP", 26257)]
}

// === impl Manifest ===

impl Manifest {
    /// Adds a service, or a bare object.
    #[must_use]
    pub fn with(mut self, part: impl Into<Self>) -> Self {
        self.0.extend(part.into().0);
        self
    }

    /// Several YAML documents; every JSON text is one.
    pub fn text(&self) -> String {
        let documents = self.0.iter().map(|object| format!("---\n{object}\n"));
        documents.collect()
    }

    /// One list; JSON is YAML.
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
