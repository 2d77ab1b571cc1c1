//! Headless mirrors with their endpoint mirrors and slices, as Linkerd's mirror controller writes them.

use serde_json::{Map, Value, json};

/// A headless mirror, with what its endpoint mirrors have too.
#[derive(Clone, Copy, Debug)]
pub struct HeadlessMirror<'m> {
    /// The name of the object.
    pub name: &'m str,
    pub namespace: &'m str,
    pub cluster: &'m str,
    /// The name of the Service in its own cluster.
    pub service: &'m str,
    pub ports: &'m Value,
}

// === impl HeadlessMirror ===

impl HeadlessMirror<'_> {
    /// The mirror itself, with the annotations that Linkerd copies.
    pub fn service(&self, mut annotations: Map<String, Value>) -> Value {
        annotations.insert(FQ_NAME.to_owned(), json!(self.fq_name("")));
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": self.name, "namespace": self.namespace,
                "labels": self.labels(), "annotations": annotations,
            },
            "spec": {"clusterIP": "None", "clusterIPs": ["None"], "ports": self.ports},
        })
    }

    /// An endpoint mirror: the object's name, the host's, its addresses.
    pub fn endpoint(&self, name: &str, host: &str, addresses: &[String]) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": name, "namespace": self.namespace, "labels": self.endpoint_labels(),
                "annotations": {FQ_NAME: self.fq_name(&format!("{host}."))},
            },
            "spec": {"clusterIP": addresses[0], "clusterIPs": addresses, "ports": self.ports},
        })
    }

    /// The slice of an endpoint mirror, which tells whether its gateway is up.
    pub fn slice(&self, endpoint_mirror: &str, is_up: bool) -> Value {
        let mut labels = self.endpoint_labels();
        labels["kubernetes.io/service-name"] = json!(endpoint_mirror);
        labels["endpointslice.kubernetes.io/managed-by"] =
            json!("endpointslicemirroring-controller.k8s.io");
        let name = format!("{endpoint_mirror}-7xk2p");
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels},
            "addressType": "IPv4",
            "ports": [{"name": "sql", "protocol": "TCP", "port": 4143}],
            "endpoints": [{"addresses": ["198.51.100.10"], "conditions": {"ready": is_up}}],
        })
    }

    fn labels(&self) -> Value {
        json!({
            "mirror.linkerd.io/mirrored-service": "true",
            "mirror.linkerd.io/cluster-name": self.cluster,
        })
    }

    fn endpoint_labels(&self) -> Value {
        let mut labels = self.labels();
        labels["mirror.linkerd.io/headless-mirror-svc-name"] = json!(self.name);
        labels
    }

    fn fq_name(&self, prefix: &str) -> String {
        let (service, namespace) = (self.service, self.namespace);
        format!("{prefix}{service}.{namespace}.svc.cluster.local")
    }
}

const FQ_NAME: &str = "mirror.linkerd.io/remote-svc-fq-name";
