//! Headless Services of this cluster with their slices, as Kubernetes writes them.

use serde_json::{Value, json};

/// A headless Service, with what its slices have too.
#[derive(Clone, Copy, Debug)]
pub struct LocalService<'s> {
    pub namespace: &'s str,
    pub name: &'s str,
    pub ports: &'s Value,
}

// === impl LocalService ===

impl LocalService<'_> {
    /// The Service itself, with its annotations.
    pub fn service(&self, is_exported: bool, annotations: Value) -> Value {
        let labels = match is_exported {
            true => json!({"mirror.linkerd.io/exported": "true"}),
            false => json!({}),
        };
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": self.name, "namespace": self.namespace,
                "labels": labels, "annotations": annotations,
            },
            "spec": {"clusterIP": "None", "clusterIPs": ["None"], "ports": self.ports},
        })
    }

    /// A slice of one family, `IPv4` or `IPv6`, as Kubernetes writes it for a Service with a selector.
    pub fn slice(&self, name: &str, family: &str, endpoints: Vec<Value>) -> Value {
        let labels = json!({
            "kubernetes.io/service-name": self.name,
            "service.kubernetes.io/headless": "",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        });
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels},
            "addressType": family, "ports": self.ports, "endpoints": endpoints,
        })
    }
}

/// An endpoint of a slice, with the name of its host and the pod behind it, where there are.
pub fn endpoint(address: &str, is_ready: bool, host: Option<&str>, pod: Option<&str>) -> Value {
    let mut endpoint = json!({"addresses": [address], "conditions": {"ready": is_ready}});
    if let Some(host) = host {
        endpoint["hostname"] = json!(host);
    }
    if let Some(pod) = pod {
        endpoint["targetRef"] = json!({"kind": "Pod", "name": pod, "uid": format!("uid-of-{pod}")});
    }
    endpoint
}
