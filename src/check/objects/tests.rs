use super::*;
use crate::check::NotChecked;
use serde_json::json;

fn parse_one<T: DeserializeOwned>(json: &str) -> Option<T> {
    parse([json]).next()
}

fn slice(labels: serde_json::Value) -> String {
    json!({
        "metadata": {"namespace": "prod", "name": "db-east-x", "labels": labels},
        "endpoints": [
            {"addresses": ["10.96.1.1"], "hostname": "db-0"},
            {"addresses": ["198.51.100.10"]},
        ],
    })
    .to_string()
}

#[test]
fn addresses_without_a_hostname_are_listed() {
    let text = slice(json!({
        "kubernetes.io/service-name": "db-east",
        "mirror.linkerd.io/mirrored-service": "true",
    }));
    let slice = parse_one(&text).unwrap();
    let (mirror, addresses) = addresses_without_hostname(&slice).unwrap();
    assert_eq!(mirror, ("prod", "db-east"));
    assert_eq!(addresses, ["198.51.100.10"]);
}

#[test]
fn slices_of_endpoint_mirrors_and_local_services_are_ignored() {
    let of_endpoint_mirror = slice(json!({
        "kubernetes.io/service-name": "db-0-east",
        "mirror.linkerd.io/mirrored-service": "true",
        "mirror.linkerd.io/headless-mirror-svc-name": "db-east",
    }));
    let of_others = slice(json!({"kubernetes.io/service-name": "db"}));
    for text in [of_endpoint_mirror.as_str(), &of_others, "{}"] {
        let slice = parse_one(text).unwrap();
        assert_eq!(addresses_without_hostname(&slice), None, "{text}");
    }
    assert_eq!(parse_one::<EndpointSlice>("no JSON"), None);
}

#[test]
fn endpoints_of_mirrors_with_an_address_and_their_slices_have_the_name_of_the_mirror() {
    let mirrored = |more: serde_json::Value| {
        let mut labels = json!({"mirror.linkerd.io/mirrored-service": "true"});
        for (key, value) in more.as_object().unwrap() {
            labels[key] = value.clone();
        }
        labels
    };
    let endpoints = |name: &str, labels: serde_json::Value, subsets: serde_json::Value| {
        let metadata = json!({"namespace": "prod", "name": name, "labels": labels});
        json!({"metadata": metadata, "subsets": subsets}).to_string()
    };
    let of_endpoint_mirror =
        mirrored(json!({"mirror.linkerd.io/headless-mirror-svc-name": "db-east"}));
    let ready = json!([{"addresses": [{"ip": "198.51.100.10"}], "ports": [{"port": 4143}]}]);
    let down = json!([{"notReadyAddresses": [{"ip": "198.51.100.10"}]}]);
    let all = [
        endpoints("db-east", mirrored(json!({})), ready.clone()),
        endpoints("db-0-east", of_endpoint_mirror.clone(), ready.clone()),
        endpoints("db-1-east", of_endpoint_mirror, down),
        // Kubernetes writes no slices for these.
        endpoints("idle-east", mirrored(json!({})), json!(null)),
        endpoints("empty-east", mirrored(json!({})), json!([])),
        endpoints(
            "none-east",
            mirrored(json!({})),
            json!([{"addresses": null}]),
        ),
        // Not mirrors.
        endpoints(
            "probe-east",
            json!({"mirror.linkerd.io/cluster-name": "east"}),
            ready.clone(),
        ),
        endpoints(
            "odd-east",
            json!({"mirror.linkerd.io/mirrored-service": "True"}),
            ready,
        ),
        "{}".to_owned(),
        "no JSON".to_owned(),
    ];
    let other_namespace = slice(mirrored(json!({"kubernetes.io/service-name": "db-0-east"})));
    let slices = [
        slice(mirrored(json!({"kubernetes.io/service-name": "db-east"}))),
        other_namespace.replace("\"prod\"", "\"shop\""),
        // No watch selects it.
        slice(json!({"kubernetes.io/service-name": "db-1-east"})),
        slice(mirrored(json!({}))),
    ];
    let endpoints: Vec<Endpoints> = parse_all(all);
    let found: Vec<_> = endpoints.iter().filter_map(mirror_of_endpoints).collect();
    let names = ["db-east", "db-0-east", "db-1-east"];
    assert_eq!(found, names.map(|name| ("prod", name)));
    let slices: Vec<EndpointSlice> = parse_all(slices);
    let found: Vec<_> = slices.iter().filter_map(mirror_of_slice).collect();
    assert_eq!(found, [("prod", "db-east"), ("shop", "db-0-east")]);
}

#[test]
fn link_has_the_name_of_its_cluster() {
    let text = json!({"metadata": {"name": "a-link"}, "spec": {"targetClusterName": "east"}});
    let link = parse_one::<Link>(&text.to_string()).unwrap();
    assert_eq!(link.cluster(), "east");
    assert!(!link.has_own_selector());
    assert_eq!(parse_one::<Link>("{}"), None);
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

#[test]
fn link_status_has_the_reasons_of_services_that_are_not_mirrored() {
    let service = |name: &str, conditions: serde_json::Value| {
        json!({
            "controllerName": "linkerd.io/service-mirror", "conditions": conditions,
            "remoteRef": {"group": "core", "kind": "Service", "namespace": "prod", "name": name},
        })
    };
    let condition = |kind: &str, status: &str| json!([{"type": kind, "status": status, "reason": "MissingNamespace", "message": "there is none"}]);
    let services = [
        service("lost", condition("Mirrored", "False")),
        service("good", condition("Mirrored", "True")),
        service("other", condition("Other", "False")),
        service("new", json!([])),
    ];
    let text =
        json!({"spec": {"targetClusterName": "east"}, "status": {"mirrorServices": services}});
    let link = parse_one::<Link>(&text.to_string()).unwrap();
    let services = link.status.mirror_services.iter();
    let failures: Vec<_> = services
        .map(|one| {
            let reason = one.failure().map(|failure| failure.reason.as_str());
            (one.remote_ref.name.as_str(), reason)
        })
        .collect();
    let expected = [
        ("lost", Some("MissingNamespace")),
        ("good", None),
        ("other", None),
        ("new", None),
    ];
    assert_eq!(failures, expected);
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

#[test]
fn only_endpoint_mirrors_need_the_annotation() {
    assert_eq!(unmarked_ports(&mirror_with_ports(None, json!({}))), None);
    let mut headless = mirror_with_ports(None, json!({}));
    headless.spec.as_mut().unwrap().cluster_ip = Some("None".to_owned());
    assert_eq!(unmarked_ports(&headless), None);
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
fn headless_service_is_exported_by_its_label() {
    let is_exported = |address: &str, label: &str| {
        let labels = json!({"mirror.linkerd.io/exported": label});
        let service = json!({"metadata": {"labels": labels}, "spec": {"clusterIP": address}});
        is_exported_headless(&parse_one(&service.to_string()).unwrap())
    };
    assert!(is_exported("None", "true"));
    assert!(!is_exported("10.96.0.9", "true"));
    assert!(!is_exported("None", "remote-discovery"));
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
