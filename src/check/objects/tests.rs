use serde_json::json;

use super::*;

const EXPORT: &str = "mirror.linkerd.io/exported";

fn told(settings: Value) -> Told {
    Told {
        status: json!({"settings": settings, "cluster": "hub"}),
        ..Told::default()
    }
}

/// Returns objects of some kinds, and none of the others.
fn objects(some: Vec<(&str, Vec<Value>)>) -> Objects {
    let kinds = "Service Link Deployment Namespace";
    let none = kinds
        .split(' ')
        .map(|kind| (kind.to_owned(), Ok(Vec::new())));
    let some = some
        .into_iter()
        .map(|(kind, objects)| (kind.to_owned(), Ok(objects)));
    Objects(none.chain(some).collect())
}

/// Returns what a check finds.
fn wrong(found: Wrong) -> Vec<String> {
    found.1.into_iter().collect()
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
    let mut told = told(settings);
    let service = json!({"namespace": "prod", "service": "db", "clusters": [{"cluster": "ost"}]});
    told.table.services = vec![service];
    let db = |reason: &str| Some(format!("prod/db of cluster 'ost' ({reason}: why)"));
    for (reason, namespace, expected) in [
        ("Error", "prod", db("Error")),
        // With headless mirroring on, every headless Service has this condition.
        ("InvalidService", "prod", None),
        ("Error", "unwatched", None),
        ("MissingNamespace", "prod", db("MissingNamespace")),
    ] {
        let objects = objects(vec![("Link", vec![link(reason, namespace)])]);
        let found = wrong(link_status(&objects, &told));
        assert_eq!(found, Vec::from_iter(expected), "{reason}");
    }
}

#[test]
fn list_that_cannot_be_read_is_not_checked() {
    let mut objects = objects(Vec::new());
    objects.0.insert("Link".to_owned(), Err("403".to_owned()));
    let findings = check(&objects, &told(json!({})));
    let unknown = findings.iter().filter(|one| one.state != State::Ok);
    let unknown: Vec<(State, &str)> = unknown.map(|one| (one.state, one.name.as_str())).collect();
    assert_eq!(unknown, [(State::Unknown, "link-status")]);
    // Nobody asked for objects.
    assert_eq!(check(&Objects::default(), &told(json!({}))), []);
}

#[test]
fn gateway_of_an_exported_headless_service_must_forget_addresses() {
    let spec = json!({"clusterIP": "None", "ports": [{"port": 1}]});
    let exported = object("prod", "db", json!({EXPORT: "true"}), spec);
    let gateway = |value: Value| {
        let template = json!({"template": {"metadata": {"annotations": {CACHE_TIMEOUT: value}}}});
        let labels = json!({"component": "gateway", "linkerd.io/extension": "multicluster"});
        object("linkerd", "gateway", labels, template)
    };
    let mut namespace = object("", "linkerd", json!({}), json!({}));
    let found = |gateway: Value, namespace: &Value| {
        let objects = objects(vec![
            ("Service", vec![exported.clone()]),
            ("Deployment", vec![gateway]),
            ("Namespace", vec![namespace.clone()]),
        ]);
        wrong(gateway_cache(&objects, &told(json!({})))).concat()
    };
    let named = |value: &str| format!("Deployment/linkerd/gateway ({value})");
    assert_eq!(found(gateway(json!("0s")), &namespace), "");
    assert_eq!(found(gateway(json!("1s")), &namespace), named("1s"));
    assert_eq!(found(gateway(json!(null)), &namespace), named("not set"));
    namespace["metadata"]["annotations"][CACHE_TIMEOUT] = json!("0s");
    assert_eq!(found(gateway(json!(null)), &namespace), "");
}
