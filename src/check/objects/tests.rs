use serde_json::json;

use super::*;

const EXPORT: &str = "mirror.linkerd.io/exported";
const MIRRORED: &str = "mirror.linkerd.io/mirrored-service";

fn told(settings: &Value) -> Told<'_> {
    Told {
        settings,
        services: &[],
        own_endpoints: &[],
        cluster: "hub",
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
fn only_the_default_selector_is_recognized_as_default() {
    let one_of = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    for (selector, is_other) in [
        (json!(null), false),
        (json!({"matchLabels": {EXPORT: "true"}}), false),
        (one_of(EXPORT, "In", &["true"]), false),
        (json!({"matchLabels": {EXPORT: "to-west"}}), true),
        (json!({"matchLabels": {"team.example/global": "yes"}}), true),
        (json!({"matchLabels": {EXPORT: "true", "tier": "db"}}), true),
        (one_of(EXPORT, "In", &["true", "to-west"]), true),
        (one_of(EXPORT, "NotIn", &["true"]), true),
        (one_of(EXPORT, "Exists", &[]), true),
        (json!({}), true),
    ] {
        let link = json!({"spec": {"targetClusterName": "east", "selector": selector}});
        assert_eq!(selects_by_other_labels(&link), is_other, "{link}");
    }
}

#[test]
fn link_reports_services_that_are_not_mirrored() {
    let settings = json!({"clusterAliases": {"east": "ost"}, "namespaces": ["prod"]});
    let services =
        [json!({"namespace": "prod", "service": "db", "clusters": [{"cluster": "ost"}]})];
    let told = Told {
        services: &services,
        ..told(&settings)
    };
    for (reason, namespace, expected) in [
        (
            "Error",
            "prod",
            "Links report that mirroring fails: prod/db of cluster 'ost' (Error: why)",
        ),
        // With headless mirroring on, every headless Service has this condition.
        (
            "InvalidService",
            "prod",
            "no Link reports that mirroring fails",
        ),
        ("Error", "unwatched", "no Link reports that mirroring fails"),
        (
            "MissingNamespace",
            "prod",
            "no Link reports that mirroring fails",
        ),
    ] {
        assert_eq!(
            link_status(&[link(reason, namespace)], &told).sentence,
            expected
        );
    }
}

#[test]
fn missing_namespaces_are_those_of_links_and_settings() {
    let settings = json!({"shortNames": {"pinned": {"db": "prod"}, "defaultNamespace": "shop"}});
    let all = [object("", "prod", json!({}), json!({}))];
    let finding = namespaces(&all, &[link("MissingNamespace", "gone")], &told(&settings));
    assert_eq!(
        finding.sentence,
        "namespaces that do not exist here: 'gone', of db in cluster 'east', 'shop', which the settings name"
    );
}

#[test]
fn ports_of_unknown_protocol_are_not_opaque_unless_the_endpoint_mirror_lists_them() {
    let labels = json!({MIRRORED: "true", "mirror.linkerd.io/headless-mirror-svc-name": "db-east"});
    let ports = json!({"ports": [
        {"name": "sql", "port": 26257, "protocol": "TCP"}, {"port": 4222}, {"name": "http", "port": 80},
        {"name": "grpc", "port": 9000}, {"name": "x", "port": 9001, "appProtocol": "kubernetes.io/h2c"},
        {"name": "postgres", "port": 5432}, {"name": "dns", "port": 53, "protocol": "UDP"},
    ]});
    let unmarked = |opaque: Option<&str>| {
        let mut service = object("prod", "db-0-east", labels.clone(), ports.clone());
        if let Some(opaque) = opaque {
            service["metadata"]["annotations"][OPAQUE_PORTS] = json!(opaque);
        }
        opaque_ports(&[service]).sentence
    };
    let start = "not marked opaque: Service/prod/db-east";
    assert_eq!(unmarked(None), format!("{start} 26257 (sql), 4222"));
    // The annotation replaces the list of Linkerd, in which 5432 is.
    assert_eq!(
        unmarked(Some("26257,4222")),
        format!("{start} 5432 (postgres)")
    );
    assert_eq!(
        unmarked(Some("26257,sql,-,4222-")),
        format!("{start} 4222, 5432 (postgres)")
    );
    let none = "no port of an endpoint mirror needs to be marked opaque";
    for all in [
        "26257,4222,5432",
        " 4222 , 5432, 26257,",
        "1-65535",
        "4222-5432,26000 - 27000",
    ] {
        assert_eq!(unmarked(Some(all)), none, "{all}");
    }
}

#[test]
fn endpoints_of_mirrors_need_slices() {
    let labels = json!({MIRRORED: "true"});
    let mirror = |name: &str| object("prod", name, labels.clone(), json!({}));
    let endpoints = |name: &str| {
        let mut one = mirror(name);
        one["subsets"] = json!([{"notReadyAddresses": [{"ip": "192.0.2.1"}]}]);
        one
    };
    let services = ["a", "b"].map(mirror);
    // Endpoints outlive their mirror, and those without an address are not copied.
    let written = [
        endpoints("a"),
        endpoints("b"),
        endpoints("gone"),
        mirror("empty"),
    ];
    let mut slice = mirror("a-1");
    slice["metadata"]["labels"]["kubernetes.io/service-name"] = json!("a");
    let none = endpoint_slices(&services, &written, &[]);
    assert_eq!(none.state, State::Failing);
    let some = endpoint_slices(&services, &written, &[slice]);
    assert_eq!(some.state, State::Attention);
    let expected = "Endpoints of mirrors without an EndpointSlice (1 of 2): Endpoints/prod/b";
    assert_eq!(some.sentence, expected);
}

#[test]
fn objects_with_another_value_of_the_label_are_ignored() {
    let odd = object("prod", "odd", json!({MIRRORED: "True"}), json!({}));
    let own = object("prod", "own", json!({}), json!({}));
    let finding = mirror_labels(&[odd, own], &[]);
    assert!(
        finding.sentence.ends_with(": Service/prod/odd ('True')"),
        "{finding:?}"
    );
}

#[test]
fn gateway_of_an_exported_headless_service_must_forget_addresses() {
    let exported = object(
        "prod",
        "db",
        json!({EXPORT: "true"}),
        json!({"clusterIP": "None", "ports": [{"port": 1}]}),
    );
    let gateway = |value: Value| {
        let template = json!({"template": {"metadata": {"annotations": {CACHE_TIMEOUT: value}}}});
        object("linkerd", "gateway", json!({}), template)
    };
    let mut namespace = object("", "linkerd", json!({}), json!({}));
    let finding = |gateway: Value, namespace: &Value| {
        let objects = Objects {
            services: Ok(Vec::new()),
            exported: Ok(vec![exported.clone()]),
            slices: Ok(Vec::new()),
            endpoints: Ok(Vec::new()),
            links: Ok(Vec::new()),
            gateways: Ok(vec![gateway]),
            namespaces: Ok(vec![namespace.clone()]),
        };
        gateway_cache(&[exported.clone()], &objects)
    };
    assert_eq!(finding(gateway(json!("0s")), &namespace).state, State::Ok);
    let wrong = finding(gateway(json!("1s")), &namespace);
    assert!(
        wrong
            .sentence
            .ends_with(": Deployment/linkerd/gateway (1s)"),
        "{wrong:?}"
    );
    assert_eq!(
        finding(gateway(json!(null)), &namespace).state,
        State::Attention
    );
    namespace["metadata"]["annotations"][CACHE_TIMEOUT] = json!("0s");
    assert_eq!(finding(gateway(json!(null)), &namespace).state, State::Ok);
}

#[test]
fn exported_service_that_cannot_be_mirrored_is_named_with_the_reason() {
    let settings = json!({});
    let service = |name: &str, ports: Value| {
        object(
            "prod",
            name,
            json!({EXPORT: "true"}),
            json!({"clusterIP": "None", "ports": ports}),
        )
    };
    let finding = not_mirrorable(
        &[
            service("db", json!([{"port": 1}])),
            service("np", json!([])),
        ],
        &told(&settings),
    );
    assert!(
        finding
            .sentence
            .contains("prod/np (it has no ports, so that Linkerd skips it; "),
        "{finding:?}"
    );
    assert!(!finding.sentence.contains("prod/db"), "{finding:?}");
}
