//! Services with cluster IPs, in the form that Linkerd's mirror controller writes, and exported Services.

use serde_json::{Value, json};

use super::{Manifest, port, slice};

/// Builder of a Service with a cluster IP and its slice.
#[derive(Clone, Debug)]
pub struct ClusterIp {
    service: Value,
    /// The labels of its slice, and whether an address is ready. `None` if it never has a slice.
    slice: Option<(Value, bool)>,
}

/// The port of every such Service.
const PORT: (&str, u16) = ("http", 80);

/// Starts a mirror of a Service that is exported through a gateway. The gateway is up.
pub fn gateway_mirror(namespace: &str, service: &str, cluster: &str, address: &str) -> ClusterIp {
    let labels = json!({
        "mirror.linkerd.io/mirrored-service": "true",
        "mirror.linkerd.io/cluster-name": cluster,
    });
    let annotations = fq_name(namespace, service);
    ClusterIp {
        service: object(
            namespace,
            &format!("{service}-{cluster}"),
            &labels,
            annotations,
            address,
        ),
        slice: Some((labels, true)),
    }
}

/// Starts a mirror of a Service in a flat network.
pub fn flat_mirror(namespace: &str, service: &str, cluster: &str, address: &str) -> ClusterIp {
    let mut mirror = gateway_mirror(namespace, service, cluster, address);
    let labels = &mut mirror.service["metadata"]["labels"];
    labels["multicluster.linkerd.io/remote-discovery"] = json!(cluster);
    labels["multicluster.linkerd.io/remote-service"] = json!(service);
    mirror.slice = None;
    mirror
}

/// Starts a federated service with members such as `web@east,web@west`.
pub fn federated(namespace: &str, service: &str, address: &str, members: &str) -> ClusterIp {
    let labels = json!({"mirror.linkerd.io/mirrored-service": "true"});
    let annotations = json!({"multicluster.linkerd.io/remote-discovery": members});
    let name = format!("{service}-federated");
    ClusterIp {
        service: object(namespace, &name, &labels, annotations, address),
        slice: None,
    }
}

/// Starts an exported Service of this cluster, with a ready pod.
pub fn exported(namespace: &str, service: &str, address: &str) -> ClusterIp {
    let labels = json!({"mirror.linkerd.io/exported": "true"});
    let slice_labels = json!({
        "mirror.linkerd.io/exported": "true",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    });
    ClusterIp {
        service: object(namespace, service, &labels, json!({}), address),
        slice: Some((slice_labels, true)),
    }
}

// === impl ClusterIp ===

impl ClusterIp {
    /// Removes the ready endpoint: the gateway is down, or no pod is ready.
    #[must_use]
    pub fn without_ready_endpoint(mut self) -> Self {
        if let Some((_, ready)) = &mut self.slice {
            *ready = false;
        }
        self
    }

    /// Returns the objects to write into a cluster with running controllers: they derive slices from Endpoints.
    pub fn writes(&self) -> Vec<Value> {
        let metadata = &self.service["metadata"];
        let endpoints = self.slice.as_ref().map(|(labels, ready)| {
            let addresses = json!([{"ip": BACKEND}]);
            let field = if *ready {
                "addresses"
            } else {
                "notReadyAddresses"
            };
            let mut subset = json!({"ports": [{"name": PORT.0, "port": 4143}]});
            subset[field] = addresses;
            let mut labels = labels.clone();
            if let Some(labels) = labels.as_object_mut() {
                labels.remove("endpointslice.kubernetes.io/managed-by");
            }
            json!({
                "apiVersion": "v1", "kind": "Endpoints",
                "metadata": {
                    "namespace": metadata["namespace"], "name": metadata["name"], "labels": labels,
                },
                "subsets": [subset],
            })
        });
        std::iter::once(self.service.clone())
            .chain(endpoints)
            .collect()
    }
}

/// Address behind every cluster IP. It must never be in an answer.
const BACKEND: &str = "198.51.100.10";

fn fq_name(namespace: &str, service: &str) -> Value {
    json!({"mirror.linkerd.io/remote-svc-fq-name": format!("{service}.{namespace}.svc.cluster.local")})
}

fn object(namespace: &str, name: &str, labels: &Value, annotations: Value, address: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "namespace": namespace, "name": name, "labels": labels, "annotations": annotations,
        },
        "spec": {
            "clusterIP": address, "clusterIPs": [address],
            "ports": [{"name": PORT.0, "port": PORT.1, "protocol": "TCP"}],
        },
    })
}

impl From<ClusterIp> for Manifest {
    fn from(service: ClusterIp) -> Self {
        let metadata = &service.service["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        let slices = service.slice.as_ref().map(|(labels, ready)| {
            let mut labels = labels.clone();
            labels["kubernetes.io/service-name"] = metadata["name"].clone();
            let endpoint = json!({"addresses": [BACKEND], "conditions": {"ready": ready}});
            let name = format!("{}-c4x5t", text("name"));
            let ports = [port(PORT.0, "TCP", 4143)];
            slice(
                (text("namespace"), name.as_str()),
                labels,
                "IPv4",
                &ports,
                vec![endpoint],
            )
        });
        Self(
            std::iter::once(service.service.clone())
                .chain(slices)
                .collect(),
        )
    }
}
