//! Objects of the Multi-Cluster Services API (KEP-1645).

use serde_json::{Value, json};

use super::{MANAGED_BY, SERVICE_NAME, endpoint, slice, sql};

/// Returns a ServiceImport with port http 80, without a status.
pub fn import(namespace: &str, service: &str, form: &str, ips: &[&str]) -> Value {
    json!({
        "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
        "metadata": {"namespace": namespace, "name": service},
        "spec": {"type": form, "ips": ips, "ports": [{"name": "http", "port": 80}]},
    })
}

/// Returns a slice of a ServiceImport with port sql 26257. An endpoint with an empty hostname has none.
pub fn import_slice(
    namespace: &str,
    service: &str,
    cluster: &str,
    endpoints: &[(&str, &str)],
) -> Value {
    let endpoint_of = |(host, ip): &(&str, &str)| {
        let host = (!host.is_empty()).then_some(*host);
        endpoint(host, ip, true)
    };
    let endpoints: Vec<Value> = endpoints.iter().map(endpoint_of).collect();
    let name = format!("derived-{service}-{cluster}-7xk2p");
    let labels = json!({
        SERVICE_NAME: format!("derived-{service}"),
        "multicluster.kubernetes.io/service-name": service,
        "multicluster.kubernetes.io/source-cluster": cluster,
    });
    slice((namespace, &name), &labels, "IPv4", &sql(), &endpoints)
}

/// Returns the slice of Submariner for a Service with a cluster IP in another cluster.
pub fn submariner_slice(
    namespace: &str,
    service: &str,
    cluster: &str,
    ip: &str,
    is_ready: bool,
) -> Value {
    let mut slice = import_slice(namespace, service, cluster, &[]);
    let labels = &mut slice["metadata"]["labels"];
    labels[MANAGED_BY] = json!("lighthouse-agent.submariner.io");
    labels["lighthouse.submariner.io/sourceNamespace"] = json!(namespace);
    slice["endpoints"] = json!([endpoint(None, ip, is_ready)]);
    slice
}
