use serde_json::json;

use super::*;
use crate::check::finding::FindingState;

const EXPORT: &str = "mirror.linkerd.io/exported";

fn facts(settings: Value) -> ServerFacts {
    ServerFacts {
        status: json!({"settings": settings, "cluster": "hub"}),
        ..ServerFacts::default()
    }
}

fn objects() -> ClusterObjects {
    ClusterObjects {
        services: Ok(Vec::new()),
        links: Ok(Vec::new()),
        gateways: Ok(Vec::new()),
    }
}

fn object(namespace: &str, name: &str, labels: Value, spec: Value) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name, "labels": labels, "annotations": {}}, "spec": spec})
}

fn link(reason: &str, namespace: &str) -> Value {
    json!({"spec": {"targetClusterName": "east"}, "status": {"mirrorServices": [{
        "remoteRef": {"namespace": namespace, "name": "db"},
        "conditions": [{"type": "Mirrored", "status": "False", "reason": reason, "message": "why"}],
    }]}})
}

#[test]
fn link_reports_services_that_are_not_mirrored() {
    let settings = json!({"clusterAliases": {"east": "ost"}, "namespaces": ["prod"]});
    let mut facts = facts(settings);
    let service = json!({"namespace": "prod", "service": "db", "clusters": [{"cluster": "ost"}]});
    facts.services = vec![service];
    let db = |reason: &str| {
        let what = "Links report that mirroring fails";
        format!("{what}: prod/db of cluster 'ost' ({reason}: why)")
    };
    let ok = || "nothing is wrong".to_owned();
    for (reason, namespace, expected) in [
        ("Error", "prod", db("Error")),
        // With headless mirroring on, every headless Service has this condition.
        ("InvalidService", "prod", ok()),
        ("Error", "unwatched", ok()),
        ("MissingNamespace", "prod", db("MissingNamespace")),
    ] {
        let mut objects = objects();
        objects.links = Ok(vec![link(reason, namespace)]);
        assert_eq!(check_links(&objects, &facts).unwrap().sentence, expected);
    }
}

#[test]
fn list_that_cannot_be_read_is_not_checked() {
    let mut objects = objects();
    objects.links = Err(RequestFailure::Broken("403".to_owned()));
    let findings = check(&objects, &facts(json!({})));
    let unknown = findings.iter().filter(|one| one.state != FindingState::Ok);
    let unknown: Vec<(FindingState, &str)> =
        unknown.map(|one| (one.state, one.name.as_str())).collect();
    assert_eq!(unknown, [(FindingState::Unknown, "link-status")]);
}

#[test]
fn gateway_of_an_exported_headless_service_must_forget_addresses() {
    let spec = json!({"clusterIP": "None", "ports": [{"port": 1}]});
    let exported = object("prod", "db", json!({EXPORT: "true"}), spec);
    let gateway = |list: &str, value: Value| {
        let proxy = json!([{"env": [{"name": CACHE_TIMEOUT, "value": value}]}]);
        object("linkerd", "gateway", json!({}), json!({list: proxy}))
    };
    let found = |gateways: &[Value]| {
        let objects = ClusterObjects {
            services: Ok(vec![exported.clone()]),
            gateways: Ok(gateways.to_vec()),
            ..objects()
        };
        check_gateways(&objects).unwrap().sentence
    };
    let what = "gateways that keep the address of a pod that is gone";
    let named = |value: &str| format!("{what}: Pod/linkerd/gateway ({value})");
    let ok = "nothing is wrong";
    assert_eq!(found(&[gateway("containers", json!("0s"))]), ok);
    assert_eq!(found(&[gateway("initContainers", json!("500ms"))]), ok);
    assert_eq!(found(&[gateway("containers", json!("1s"))]), named("1s"));
    assert_eq!(
        found(&[gateway("containers", json!(null))]),
        named("not set")
    );
    let mut evicted = gateway("containers", json!("5s"));
    evicted["status"] = json!({"phase": "Failed"});
    assert_eq!(
        found(&[evicted.clone(), gateway("containers", json!("0s"))]),
        ok
    );
    let none = found(&[evicted]);
    assert!(
        none.ends_with("no Pod has the labels of a gateway"),
        "{none}"
    );
}
