//! Objects for `check`, and the permissions of its user.

use anyhow::Result;
use serde_json::{Value, json};
use support::cluster::Cluster;
pub use support::objects::link_definition;
use support::objects::{self, cluster_role, cluster_role_binding, local, mirror};

use super::USER;

/// Returns the rules of the chart's role.
pub fn needed_rules() -> Vec<Value> {
    vec![
        json!({"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]}),
        json!({"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}),
    ]
}

/// Grants the user exactly these rules in all namespaces, and permission to read Links, Leases and Endpoints if `reads_more` is
/// set.
pub fn grant(cluster: &Cluster, rules: &[Value], reads_more: bool) -> Result<()> {
    let mut rules = rules.to_vec();
    if reads_more {
        rules.push(json!({"apiGroups": ["multicluster.linkerd.io"], "resources": ["links"], "verbs": ["list", "watch"]}));
        rules.push(json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]}));
        rules.push(json!({"apiGroups": [""], "resources": ["endpoints"], "verbs": ["list"]}));
    }
    cluster.put(&cluster_role("doctor", &Value::Array(rules)))?;
    cluster.put(&binding())?;
    Ok(())
}

pub fn binding() -> Value {
    cluster_role_binding("doctor", USER)
}

pub fn link(cluster: &str) -> Value {
    objects::link("linkerd-multicluster", cluster, cluster)
}

/// Returns the Link of west with three failed Services. One of them is headless, which Linkerd always reports as
/// failed.
pub fn failing_link() -> Value {
    let condition = |namespace: &str, name: &str, reason: &str| {
        json!({
            "controllerName": "linkerd.io/service-mirror",
            "remoteRef": {"group": "core", "kind": "Service", "namespace": namespace, "name": name},
            "conditions": [{"type": "Mirrored", "status": "False", "reason": reason, "message": "example message"}],
        })
    };
    let mut link = link("west");
    link["status"] = json!({"mirrorServices": [
        condition("default", "nginx", "InvalidService"),
        condition("default", "web", "Error"),
        condition("nowhere", "web", "MissingNamespace"),
    ]});
    link
}

/// Returns a Service that is neither headless nor mirrored.
pub fn plain_service() -> Value {
    let mut service = local("default", "plain").service();
    service["spec"] = json!({"ports": [{"port": 80}]});
    service
}

/// Returns a Service with an invalid value of the mirror label.
pub fn odd_service() -> Value {
    let mut service = mirror("default", "odd", "east").service();
    service["metadata"]["labels"]["mirror.linkerd.io/mirrored-service"] = json!("True");
    service
}

/// Returns the probe Service of a gateway, as in Linkerd's chart.
pub fn probe_service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "probe-east", "namespace": "linkerd-multicluster",
            "labels": {
                "linkerd.io/extension": "multicluster",
                "mirror.linkerd.io/cluster-name": "east",
                "mirror.linkerd.io/mirrored-gateway": "true",
            },
            "annotations": {"linkerd.io/created-by": "linkerd/helm edge-26.8.3"},
        },
        "spec": {"ports": [{"name": "mc-probe", "port": 4191}]},
    })
}
