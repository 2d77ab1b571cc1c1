//! Forged objects of an attacker with another namespace: one case for each field.

use serde_json::{Value, json};

use crate::model::key;
use crate::testing::{endpoint, gateway, local, mirror, service_mirror};

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
