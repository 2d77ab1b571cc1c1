//! The names that failover orders and expected clusters concern (rules K5, K6 and K8). Models prove which step answers.

use super::*;

/// Returns `prod/db` in east and west.
fn mirrors() -> Vec<Value> {
    vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        mirror("prod", "db", "west"),
        endpoint("prod", "db", "west", "db-0", &["10.96.0.2"]),
    ]
}

/// Returns the Service of this cluster without pods, with an annotation.
fn own(namespace: &str, key: &str, value: &str) -> Value {
    let [mut service, _] = local(namespace, "db", &[]);
    service["metadata"]["annotations"][format!("global-dns/{key}")] = json!(value);
    service["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:01Z");
    service
}

/// Returns the table of `prod/db` with an annotation of the Service of this cluster.
fn annotated(key: &str, value: &str) -> Table {
    table(&[mirrors(), vec![own("prod", key, value)]].concat())
}

#[test]
fn order_concerns_the_name_of_the_service_and_its_ports() {
    check(
        &annotated("failover", "west:east"),
        &[
            ("db.prod.global A", "A 10.96.0.2"),
            ("db.global A", "A 10.96.0.2"),
            (
                "_sql._tcp.db.prod.global SRV",
                "SRV 0 10 26257 db-0.west.db.prod.global.",
            ),
            (
                "_sql._tcp.db.global SRV",
                "SRV 0 10 26257 db-0.west.db.global.",
            ),
            ("east.db.prod.global A", "A 10.96.0.1"),
            ("db-0.east.db.prod.global A", "A 10.96.0.1"),
            (
                "_sql._tcp.east.db.prod.global SRV",
                "SRV 0 10 26257 db-0.east.db.prod.global.",
            ),
            ("east.db.global A", "A 10.96.0.1"),
        ],
    );
    check(
        &annotated("failover", "north"),
        &[
            ("db.prod.global A", "SERVFAIL"),
            ("_sql._tcp.db.prod.global SRV", "SERVFAIL"),
            ("east.db.prod.global A", "A 10.96.0.1"),
        ],
    );
}

#[test]
fn order_comes_from_the_own_service_whatever_its_type() {
    for (part, value) in [
        ("labels", json!({"mirror.linkerd.io/exported": "true"})),
        (
            "spec",
            json!({"type": "ExternalName", "externalName": "db.example.com"}),
        ),
        (
            "spec",
            json!({"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"]}),
        ),
    ] {
        let mut service = own("prod", "failover", "west");
        match part {
            "spec" => service["spec"] = value,
            part => service["metadata"][part] = value,
        }
        let objects = [mirrors(), vec![service]].concat();
        check(&table(&objects), &[("db.prod.global A", "A 10.96.0.2")]);
    }
}

#[test]
fn name_that_waits_for_clusters_fails_and_the_others_are_answered() {
    let table = annotated("expected-clusters", "east+north");
    check(
        &table,
        &[
            // The port may come with the cluster that is missing.
            ("_other._tcp.db.prod.global SRV", "SERVFAIL"),
            ("_tcp.db.prod.global A", "NODATA global."),
            ("prod.global A", "NODATA global."),
            ("east.db.prod.global A", "A 10.96.0.1"),
            ("db-0.west.db.prod.global A", "A 10.96.0.2"),
            (
                "_sql._tcp.east.db.prod.global SRV",
                "SRV 0 10 26257 db-0.east.db.prod.global.",
            ),
            ("west.db.global A", "A 10.96.0.2"),
            // A seed that names one cluster or pod must not be believed absent.
            ("north.db.prod.global A", "SERVFAIL"),
            ("north.db.prod.global NS", "NODATA global."),
            ("db-0.north.db.prod.global A", "SERVFAIL"),
            ("_sql._tcp.db-0.north.db.prod.global SRV", "SERVFAIL"),
            ("_tcp.north.db.prod.global SRV", "NODATA global."),
            ("north.db.global A", "SERVFAIL"),
            ("south.db.prod.global A", "NXDOMAIN global."),
            ("north.db.prod.svc.set A", "NODATA set."),
            ("db-0.north.db.prod.svc.set A", "SERVFAIL"),
            ("south.db.prod.svc.set A", "NXDOMAIN set."),
        ],
    );
    // The hash covers these names.
    let other = annotated("expected-clusters", "east+south");
    assert_ne!(table.answers_hash(), other.answers_hash());
    // A resolver that minimizes names (RFC 9156), such as BIND with `qname-minimization strict`, asks for NS records at
    // `db.prod` before it asks for `east.db.prod`. It fails only for types that services have.
    for name in ["db.prod.global", "db.global", "_sql._tcp.db.prod.global"] {
        for rtype in ["A", "AAAA", "SRV", "ANY"] {
            check(&table, &[(&format!("{name} {rtype}"), "SERVFAIL")]);
        }
        for rtype in ["NS", "SOA", "DS", "TXT", "HTTPS"] {
            check(&table, &[(&format!("{name} {rtype}"), "NODATA global.")]);
        }
    }
    // The hash compares replicas. One that waits and one that answers differ.
    let answers = annotated("expected-clusters", "east");
    assert_ne!(table.answers_hash(), answers.answers_hash());
}

/// A database starts before the first cluster is linked. Its own headless Service tells what it waits for.
#[test]
fn short_name_of_a_headless_service_fails_before_the_first_mirror() {
    let own = |namespace, exported: &str| {
        let mut service = own(namespace, "expected-clusters", "east");
        if exported.is_empty() {
            service["spec"]["selector"] = json!({});
        }
        service["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!(exported);
        service
    };
    let (fails, none) = ("SERVFAIL", "NXDOMAIN global.");
    for (objects, of_prod, of_shop, short) in [
        (vec![own("prod", "true")], fails, none, fails),
        // No namespace gets the short name of another one.
        (
            vec![own("prod", "true"), own("shop", "true")],
            fails,
            fails,
            none,
        ),
        // One that only has settings takes no name from another (rule M5).
        (
            vec![own("prod", "true"), own("shop", "")],
            fails,
            fails,
            fails,
        ),
        (
            vec![own("prod", "true"), mirror("shop", "db", "east")],
            fails,
            none,
            none,
        ),
        (
            vec![own("prod", ""), mirror("shop", "db", "east")],
            fails,
            none,
            none,
        ),
        (vec![own("prod", "")], fails, none, fails),
        (vec![own("prod", ""), own("shop", "")], fails, fails, none),
    ] {
        check(
            &table(&objects),
            &[
                ("db.prod.global A", of_prod),
                ("db.shop.global A", of_shop),
                ("db.global A", short),
            ],
        );
    }
}
