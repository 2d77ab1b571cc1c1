//! Objects for `check`, and the permissions of its user.

use std::net::SocketAddr;

use anyhow::Result;
use serde_json::{Value, json};
use support::cluster::Cluster;
pub use support::objects::link_definition;
use support::objects::{self, Manifest, cluster_role, cluster_role_binding, local};
use support::recordings::Event;

use super::USER;
use crate::e2e::linked_clusters::state_after_recordings;

/// Returns the state of the recordings with pods that listen on the port of the Service.
pub fn state() -> Result<Vec<Event>> {
    let mut events = state_after_recordings()?;
    for Event { object, .. } in &mut events {
        let subsets = object["subsets"].as_array_mut().into_iter().flatten();
        let of_pods = subsets.filter_map(|subset| subset["ports"].as_array_mut());
        let mut of_pods: Vec<&mut Value> = of_pods.flatten().collect();
        for port in of_pods.iter_mut().filter(|port| port["port"] == 8080) {
            port["port"] = json!(80);
        }
        let of_service = object["spec"]["ports"].as_array_mut().into_iter().flatten();
        for port in of_service.filter(|port| port["targetPort"] == 8080) {
            port["targetPort"] = json!(80);
        }
    }
    Ok(events)
}

/// Returns a headless Service that this cluster exports, with a pod at an address.
pub fn exported_service(address: SocketAddr) -> Vec<Value> {
    let pod = local("default", "stream")
        .exported()
        .without_selector()
        .ports(&[("data", "TCP", address.port())])
        .endpoint(Some("s-0"), &address.ip().to_string(), true);
    Manifest::from(pod).0
}

/// Returns the rules of the chart's role.
pub fn needed_rules() -> Vec<Value> {
    vec![
        json!({"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]}),
        json!({"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}),
    ]
}

/// Grants the user exactly these rules in all namespaces, and permission to read Links, Leases, Endpoints and Pods if `reads_more` is set.
pub fn grant(cluster: &Cluster, rules: &[Value], reads_more: bool) -> Result<()> {
    let mut rules = rules.to_vec();
    if reads_more {
        rules.push(json!({"apiGroups": ["multicluster.linkerd.io"], "resources": ["links"], "verbs": ["list", "watch"]}));
        rules.push(json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]}));
        rules.push(
            json!({"apiGroups": [""], "resources": ["endpoints", "pods"], "verbs": ["list"]}),
        );
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
