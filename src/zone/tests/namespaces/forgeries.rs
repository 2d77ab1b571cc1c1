//! Forged objects of an attacker with another namespace: random objects, and one case for each field.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::VICTIM;
use crate::model::ClusterName;
use crate::model::key;
use crate::table::Rules;
use crate::testing::{endpoint, gateway, local, mirror, rules, service_mirror};

// === Random objects ===

/// Generates labels of the victim, labels of the attacker, and invalid labels.
fn any_label() -> impl Strategy<Value = String> {
    let labels = [
        "db",
        "cache",
        "idle",
        "solo",
        "prod",
        "evil",
        "east",
        "west",
        "hub",
        "north",
        "db-0",
        "db-1",
        "evil-0",
        "db-east",
        "db-west",
        "db-0-east",
        "db-0-west",
        "down-0-west",
        "DB",
        "",
        "prod/db",
        "db.prod",
        "*",
        "_sql",
    ];
    select(labels.to_vec()).prop_map(str::to_owned)
}

fn any_fq_name() -> impl Strategy<Value = String> {
    let labels = prop::collection::vec(any_label(), 1..5);
    let ends = [
        "",
        ".svc.cluster.local",
        ".prod.svc.cluster.local",
        ".evil.svc.cluster.local",
    ];
    (labels, select(ends.to_vec())).prop_map(|(labels, end)| labels.join(".") + end)
}

fn any_address() -> impl Strategy<Value = &'static str> {
    // Addresses of the victim, of the attacker, and invalid ones
    select(vec![
        "10.96.0.1",
        "192.0.2.1",
        "10.66.6.6",
        "2001:db8::66",
        "0.0.0.0",
        "None",
        "x",
    ])
}

fn any_ports() -> impl Strategy<Value = Value> {
    select(vec![
        json!([{"name": "sql", "port": 666}]),
        json!([{"name": "evil", "port": 666}, {"name": "dns", "protocol": "UDP", "port": 666}]),
        json!([{"name": "sql", "port": 26257}, {"port": 0}]),
        json!([]),
        json!("sql"),
    ])
}

/// Generates namespaces of the attacker. Some have names that occur in the victim's namespace.
fn any_namespace() -> impl Strategy<Value = &'static str> {
    select(vec![
        "evil",
        "shop",
        "db",
        "east",
        "cache",
        "dns",
        "prod-2",
        "PROD",
        "prod.evil",
        "",
    ])
}

fn any_metadata() -> impl Strategy<Value = Value> {
    let maybe = |key: &'static str, value: BoxedStrategy<String>, percent: f64| {
        prop::option::weighted(percent, value)
            .prop_map(move |value| value.map(|value| (key, value)))
    };
    let of = |values: &[&'static str]| select(values.to_vec()).prop_map(str::to_owned).boxed();
    let labels = (
        maybe(
            key::MIRRORED_SERVICE,
            of(&["true", "true", "true", "false"]),
            0.8,
        ),
        maybe(key::CLUSTER_NAME, any_label().boxed(), 0.9),
        maybe(key::HEADLESS_MIRROR, any_label().boxed(), 0.5),
        maybe(
            key::EXPORTED,
            of(&["true", "false", "remote-discovery"]),
            0.3,
        ),
        maybe(key::REMOTE_DISCOVERY, any_label().boxed(), 0.1),
        maybe(key::HEADLESS, of(&["", "true"]), 0.3),
        maybe(key::SERVICE_NAME, any_label().boxed(), 0.6),
        maybe(
            key::MANAGED_BY,
            of(&["endpointslice-controller.k8s.io", "evil"]),
            0.5,
        ),
    )
        .prop_map(|(a, b, c, d, e, f, g, h)| map([a, b, c, d, e, f, g, h]));
    let annotations = (
        maybe(key::REMOTE_FQ_NAME, any_fq_name().boxed(), 0.7),
        maybe(key::TTL, of(&["1", "30", "0", "-1", "99999999999"]), 0.3),
        maybe(
            key::GATEWAY_DOWN,
            of(&["include", "last-resort", "never"]),
            0.3,
        ),
    )
        .prop_map(|(a, b, c)| map([a, b, c]));
    (any_namespace(), any_label(), labels, annotations).prop_map(
        |(namespace, name, labels, annotations)| {
            json!({
                "namespace": namespace, "name": name, "labels": labels, "annotations": annotations,
            })
        },
    )
}

fn map<const N: usize>(pairs: [Option<(&'static str, String)>; N]) -> Value {
    let pairs = pairs.into_iter().flatten();
    pairs
        .map(|(key, value)| (key.to_owned(), Value::from(value)))
        .collect()
}

pub(super) fn any_forgery() -> impl Strategy<Value = Value> {
    let addresses = || prop::collection::vec(any_address(), 0..3);
    let service = (any_metadata(), any_address(), addresses(), any_ports()).prop_map(|(metadata, ip, ips, ports)| {
        json!({"metadata": metadata, "spec": {"clusterIP": ip, "clusterIPs": ips, "ports": ports}})
    });
    let entry = (addresses(), any_label(), any::<bool>()).prop_map(|(addresses, host, ready)| {
        json!({
            "addresses": addresses, "hostname": host, "conditions": {"ready": ready},
            "targetRef": {"kind": "Pod", "namespace": VICTIM, "name": host, "uid": format!("uid-of-{host}")},
        })
    });
    let slice = (
        any_metadata(),
        prop::collection::vec(entry, 0..3),
        any_ports(),
    ).prop_map(|(mut metadata, endpoints, ports)| {
        metadata["ownerReferences"] =
            json!([{"kind": "Service", "name": "db-0-east", "controller": true}]);
        json!({"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints, "ports": ports})
    });
    prop_oneof![service, slice, any_plausible()]
}

/// Generates well-formed forgeries of any service, cluster and host, from an attacker who knows the rules.
fn any_plausible() -> impl Strategy<Value = Value> {
    let label = || {
        select(vec![
            "db", "cache", "idle", "solo", "prod", "east", "west", "hub", "north", "evil-0",
        ])
    };
    let namespace = || select(vec!["evil", "shop", "db", "east", "cache"]);
    prop_oneof![
        (namespace(), label(), label()).prop_map(|(n, s, c)| mirror(n, s, c)),
        (namespace(), label(), label(), label()).prop_map(|(n, s, c, h)| endpoint(
            n,
            s,
            c,
            h,
            &["10.66.6.6"]
        )),
        (namespace(), label()).prop_map(|(n, s)| {
            let [mut service, _] = local(n, s, &[]);
            service["metadata"]["labels"] = json!({key::EXPORTED: "true"});
            service
        }),
        (namespace(), label())
            .prop_map(|(n, s)| local(n, s, &[("evil-0", "10.66.6.6", true)])[1].clone()),
    ]
}

pub(super) fn any_rules() -> impl Strategy<Value = Rules> {
    let cluster = |name: &str| name.parse::<ClusterName>().unwrap();
    select(vec![
        rules(),
        Rules {
            cluster_aliases: [(cluster("west"), cluster("east"))].into(),
            ..rules()
        },
        Rules {
            excluded_clusters: [cluster("west")].into(),
            ..rules()
        },
        Rules {
            default_namespace: Some(VICTIM.parse().unwrap()),
            ..rules()
        },
    ])
}

// === Single fields ===

/// Returns one forgery for each field that is parsed, with the name of the field. Each would change the replies of the
/// victim if it had an effect there.
pub(super) fn forgeries() -> Vec<(&'static str, Vec<Value>)> {
    let fq_name = |name: &str| json!({key::REMOTE_FQ_NAME: name});
    let evil = |service: &str, cluster: &str| mirror("evil", service, cluster);
    let host =
        |service: &str, cluster: &str| endpoint("evil", service, cluster, "evil-0", &["10.66.6.6"]);
    let set = |mut object: Value, part: &str, value: Value| {
        object["metadata"][part] = value;
        object
    };
    let local_of = |service: &str| {
        let [service, slice] = local("evil", service, &[("evil-0", "10.66.6.6", true)]);
        vec![service, slice]
    };
    let foreign = |mut slice: Value| {
        slice["metadata"]["labels"] = json!({key::SERVICE_NAME: "db", key::MANAGED_BY: "evil"});
        slice
    };
    let with_annotation =
        |key: &str, value: &str| vec![set(evil("db", "north"), "annotations", json!({key: value}))];
    let not_headless = |label: Option<&str>| {
        let mut service = service_mirror("evil", "db", "north", "10.66.6.6");
        if let Some(label) = label {
            service["metadata"]["labels"][label] = json!("north");
        }
        vec![service]
    };
    vec![
        (
            "metadata.name of a mirror",
            vec![set(
                set(evil("x", "east"), "name", json!("db-east")),
                "annotations",
                json!({}),
            )],
        ),
        ("metadata.name of a local Service", local_of("solo")),
        (
            "fq-name of a headless mirror",
            vec![
                set(evil("x", "north"), "annotations", fq_name("db.prod.svc.x")),
                host("db", "north"),
            ],
        ),
        (
            "fq-name of an endpoint mirror",
            vec![
                evil("db", "east"),
                set(
                    host("db", "east"),
                    "annotations",
                    fq_name("evil-0.db.prod.svc.cluster.local"),
                ),
            ],
        ),
        (
            "fq-name with more labels",
            vec![
                evil("db", "east"),
                set(
                    host("db", "east"),
                    "annotations",
                    fq_name("evil-0.db.evil.prod.svc.cluster.local"),
                ),
            ],
        ),
        ("cluster name", vec![evil("db", "east"), host("db", "east")]),
        ("headless-mirror-svc-name alone", vec![host("db", "east")]),
        (
            "mirrored-service with a host of the victim",
            vec![
                evil("db", "east"),
                endpoint("evil", "db", "east", "db-0", &["10.66.6.6"]),
            ],
        ),
        (
            "ports",
            vec![evil("db", "east"), {
                let mut mirror = host("db", "east");
                mirror["spec"]["ports"] = json!([{"name": "evil", "port": 666}]);
                mirror
            }],
        ),
        (
            "addresses of the victim",
            vec![
                evil("db", "north"),
                endpoint("evil", "db", "north", "evil-0", &["10.96.0.1"]),
            ],
        ),
        (
            "slice of an endpoint mirror, gateway down",
            vec![gateway("evil", "db-0-east", false)],
        ),
        (
            "slice of an endpoint mirror, gateway up",
            vec![
                gateway("evil", "down-0-west", true),
                gateway("evil", "db-1-east", true),
            ],
        ),
        ("slice of a local Service", vec![local_of("db").remove(1)]),
        (
            "slice of another controller",
            vec![foreign(local_of("db").remove(1))],
        ),
        (
            "targetRef and hostname of a pod",
            vec![{
                let mut slice = local_of("db").remove(1);
                slice["endpoints"][0]["hostname"] = json!("db-0");
                slice["endpoints"][0]["targetRef"] = json!({"uid": "uid-of-db-0"});
                slice
            }],
        ),
        ("ttl", with_annotation(key::TTL, "1")),
        (
            "gateway-down",
            with_annotation(key::GATEWAY_DOWN, "include"),
        ),
        ("an invalid annotation", with_annotation(key::TTL, "soon")),
        (
            "exported",
            vec![
                set(
                    local_of("idle").remove(0),
                    "labels",
                    json!({key::EXPORTED: "true"}),
                ),
                local_of("idle").remove(1),
            ],
        ),
        ("a mirror with a cluster IP", not_headless(None)),
        (
            "remote-discovery",
            not_headless(Some(key::REMOTE_DISCOVERY)),
        ),
    ]
}
