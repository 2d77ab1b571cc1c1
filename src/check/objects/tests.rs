use super::*;
use crate::check::NotChecked;
use serde_json::json;

fn parse_one<T: DeserializeOwned>(json: &str) -> Option<T> {
    parse([json]).next()
}

#[test]
fn only_the_default_selector_is_recognized_as_default() {
    let exported = "mirror.linkerd.io/exported";
    let one_of = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    for (selector, is_own) in [
        (json!(null), false),
        (json!({"matchLabels": {exported: "true"}}), false),
        (one_of(exported, "In", &["true"]), false),
        (json!({"matchLabels": {exported: "to-west"}}), true),
        (json!({"matchLabels": {"team.example/global": "yes"}}), true),
        (
            json!({"matchLabels": {exported: "true", "tier": "db"}}),
            true,
        ),
        (one_of(exported, "In", &["true", "to-west"]), true),
        (one_of(exported, "NotIn", &["true"]), true),
        (one_of(exported, "Exists", &[]), true),
        (json!({}), true),
    ] {
        let text = json!({"spec": {"targetClusterName": "east", "selector": selector}});
        let link: Link = parse_one(&text.to_string()).unwrap();
        assert_eq!(link.has_own_selector(), is_own, "{text}");
    }
}

/// A mirror with ports, an annotation and further labels.
fn mirror_with_ports(opaque: Option<&str>, labels: serde_json::Value) -> KubeService {
    let mut service = json!({
        "metadata": {"namespace": "prod", "name": "db-0-east", "annotations": {}, "labels": labels},
        "spec": {"clusterIP": "10.96.0.7", "selector": null, "ports": [
            {"name": "sql", "port": 26257, "protocol": "TCP"},
            {"port": 4222},
            {"name": "http", "port": 80},
            {"name": "http-admin", "port": 8080},
            {"name": "grpc", "port": 9000},
            {"name": "x", "port": 9001, "appProtocol": "kubernetes.io/h2c"},
            {"name": "postgres", "port": 5432},
            {"name": "dns", "port": 53, "protocol": "UDP"},
        ]},
    });
    service["metadata"]["labels"]["mirror.linkerd.io/mirrored-service"] = json!("true");
    if let Some(opaque) = opaque {
        service["metadata"]["annotations"]["config.linkerd.io/opaque-ports"] = json!(opaque);
    }
    parse_one(&service.to_string()).unwrap()
}

#[test]
fn tcp_ports_of_unknown_protocol_are_unmarked_unless_the_endpoint_mirror_lists_them() {
    let unmarked = |opaque: Option<&str>| {
        let labels = json!({"mirror.linkerd.io/headless-mirror-svc-name": "db-east"});
        let service = mirror_with_ports(opaque, labels);
        let (mirror, ports) = unmarked_ports(&service).unwrap();
        assert_eq!(mirror, ("prod", "db-east"));
        ports
    };
    assert_eq!(unmarked(None), ["26257 (sql)", "4222"]);
    // The annotation replaces the list of Linkerd, in which 5432 is.
    assert_eq!(unmarked(Some("26257,4222")), ["5432 (postgres)"]);
    let all = ["26257 (sql)", "4222", "5432 (postgres)"];
    assert_eq!(unmarked(Some("")), all);
    assert_eq!(unmarked(Some("26257,sql,-,4222-")), all[1..]);
    for all in [
        "26257,4222,5432",
        " 4222 , 5432, 26257,",
        "1-65535",
        "4222-5432,26000 - 27000",
    ] {
        assert_eq!(unmarked(Some(all)), [""; 0], "{all}");
    }
}

/// Returns what is known of a gateway, with the annotations of its template and of its namespace.
fn gateway(template: serde_json::Value, namespace: Fact<serde_json::Value>) -> Fact<Gateway> {
    let deployment = json!({
        "metadata": {
            "namespace": "linkerd-multicluster", "name": "linkerd-gateway",
            "labels": {"component": "gateway", "linkerd.io/extension": "multicluster"},
        },
        "spec": {
            "selector": {},
            "template": if template.is_null() { json!({}) } else { json!({"metadata": template}) },
        },
    });
    let deployment = parse_one(&deployment.to_string()).unwrap();
    let namespace =
        namespace.map(|metadata| parse_one(&json!({"metadata": metadata}).to_string()).unwrap());
    Gateway::read(&deployment, &namespace)
}

#[test]
fn annotation_of_a_gateway_is_that_of_the_template_else_of_the_namespace() {
    let of = |value: &str| json!({"annotations": {CACHE_TIMEOUT: value}});
    let timeout = |template, namespace| gateway(template, Ok(namespace)).unwrap().cache_timeout;
    assert_eq!(timeout(of("0s"), of("5s")).as_deref(), Some("0s"));
    assert_eq!(
        timeout(json!({"labels": {}}), of("0s")).as_deref(),
        Some("0s")
    );
    for none in [
        json!(null),
        json!({}),
        json!({"annotations": {}}),
        json!({"annotations": null}),
    ] {
        let namespace = if none.is_null() {
            json!({})
        } else {
            none.clone()
        };
        assert_eq!(timeout(none, namespace), None);
    }
    let denied = NotChecked::new("cannot list namespaces", "permit it");
    assert_eq!(gateway(json!({}), Err(denied.clone())), Err(denied.clone()));
    let known = gateway(of(" 0s"), Err(denied)).unwrap();
    assert_eq!(known.cache_timeout.as_deref(), Some(" 0s"));
    assert_eq!(known.name, "linkerd-multicluster/linkerd-gateway");
}

#[test]
fn unwatched_object_has_the_value_of_its_label() {
    let service = |value: serde_json::Value| {
        let labels = json!({"mirror.linkerd.io/mirrored-service": value});
        let labels = if value.is_null() { json!({}) } else { labels };
        let metadata = json!({"namespace": "prod", "name": "db-east", "labels": labels});
        unwatched_object(Kind::Service, &serde_json::from_value(metadata).unwrap())
    };
    let unwatched = Some("Service/prod/db-east ('True')".to_owned());
    assert_eq!(service(json!("True")), unwatched);
    assert_eq!(service(json!("true")), None);
    assert_eq!(service(json!(null)), None);
}

#[test]
fn only_probe_services_have_a_linkerd_version() {
    let version = |labels: serde_json::Value| {
        let annotations = json!({"linkerd.io/created-by": "linkerd/helm edge-26.8.3"});
        let service = json!({"metadata": {"labels": labels, "annotations": annotations}});
        let service = parse_one(&service.to_string()).unwrap();
        linkerd_version(&service).map(str::to_owned)
    };
    let probe = json!({"mirror.linkerd.io/mirrored-gateway": "true"});
    assert_eq!(version(probe).as_deref(), Some("linkerd/helm edge-26.8.3"));
    assert_eq!(version(json!({})), None);
}
