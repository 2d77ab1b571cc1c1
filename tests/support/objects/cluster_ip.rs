//! Services with cluster IPs, in the form that Linkerd's mirror controller writes, and exported Services.

use serde_json::{Value, json};

use super::{
    CLUSTER_NAME, CONTROLLER, EXPORTED, FQ_NAME, GATEWAY, MANAGED_BY, MIRRORED, Manifest,
    SERVICE_NAME, endpoint, port, service, slice,
};

/// Builder of a Service with a cluster IP and its slice.
#[derive(Clone, Debug)]
pub struct ClusterIp {
    service: Value,
    /// Whether an address in its slice is ready. `None` if it never has a slice.
    is_ready: Option<bool>,
}

/// Starts a mirror of a Service that is exported through a gateway. The gateway is up.
pub fn gateway_mirror(namespace: &str, service: &str, cluster: &str, address: &str) -> ClusterIp {
    let name = format!("{service}-{cluster}");
    let labels = json!({MIRRORED: "true", CLUSTER_NAME: cluster});
    let annotations = json!({FQ_NAME: format!("{service}.{namespace}.svc.cluster.local")});
    let service = object((namespace, &name), &labels, &annotations, address);
    let is_ready = Some(true);
    ClusterIp { service, is_ready }
}

/// Starts a mirror of a Service in a flat network.
pub fn flat_mirror(namespace: &str, service: &str, cluster: &str, address: &str) -> ClusterIp {
    let mut mirror = gateway_mirror(namespace, service, cluster, address);
    let labels = &mut mirror.service["metadata"]["labels"];
    labels["multicluster.linkerd.io/remote-discovery"] = json!(cluster);
    labels["multicluster.linkerd.io/remote-service"] = json!(service);
    mirror.is_ready = None;
    mirror
}

/// Starts a federated service with members such as `web@east,web@west`.
pub fn federated(namespace: &str, service: &str, address: &str, members: &str) -> ClusterIp {
    let name = format!("{service}-federated");
    let labels = json!({MIRRORED: "true"});
    let annotations = json!({"multicluster.linkerd.io/remote-discovery": members});
    let service = object((namespace, &name), &labels, &annotations, address);
    let is_ready = None;
    ClusterIp { service, is_ready }
}

/// Starts an exported Service of this cluster, with a ready pod.
pub fn exported(namespace: &str, name: &str, address: &str) -> ClusterIp {
    let labels = json!({EXPORTED: "true"});
    let service = object((namespace, name), &labels, &json!({}), address);
    let is_ready = Some(true);
    ClusterIp { service, is_ready }
}

// === impl ClusterIp ===

impl ClusterIp {
    /// Removes the ready endpoint: the gateway is down, or no pod is ready.
    #[must_use]
    pub fn without_ready_endpoint(mut self) -> Self {
        self.is_ready = self.is_ready.and(Some(false));
        self
    }

    /// Returns the objects to write into a cluster with running controllers: they derive slices from Endpoints.
    pub fn writes(&self) -> Vec<Value> {
        let metadata = &self.service["metadata"];
        let endpoints = self.is_ready.map(|is_ready| {
            let addresses = if is_ready {
                "addresses"
            } else {
                "notReadyAddresses"
            };
            json!({
                "apiVersion": "v1", "kind": "Endpoints",
                "metadata": {
                    "namespace": metadata["namespace"], "name": metadata["name"],
                    "labels": metadata["labels"],
                },
                "subsets": [{addresses: [{"ip": GATEWAY}], "ports": [{"name": "http", "port": 4143}]}],
            })
        });
        [self.service()].into_iter().chain(endpoints).collect()
    }

    /// Returns the Service.
    pub fn service(&self) -> Value {
        self.service.clone()
    }

    /// Returns a slice of the Service.
    pub fn slice(&self, is_ready: bool) -> Value {
        let metadata = &self.service["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        let mut labels = metadata["labels"].clone();
        labels[SERVICE_NAME] = metadata["name"].clone();
        if labels[EXPORTED].is_string() {
            labels[MANAGED_BY] = json!(CONTROLLER);
        }
        let name = format!("{}-c4x5t", text("name"));
        let place = (text("namespace"), &*name);
        let ports = [port("http", "TCP", 4143)];
        let endpoint = endpoint(None, GATEWAY, is_ready);
        slice(place, &labels, "IPv4", &ports, &[endpoint])
    }
}

fn object(place: (&str, &str), labels: &Value, annotations: &Value, address: &str) -> Value {
    let ports = [port("http", "TCP", 80)];
    service(place, labels, annotations, &[address], &ports)
}

impl From<ClusterIp> for Manifest {
    fn from(service: ClusterIp) -> Self {
        let slices = service.is_ready.map(|is_ready| service.slice(is_ready));
        Self([service.service()].into_iter().chain(slices).collect())
    }
}
