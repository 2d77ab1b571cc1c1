//! The names that failover orders and expected clusters concern (rules K5 and K8).

use super::*;
use crate::testing::gateway;

/// Returns `prod/db` in east and west, and the Service of this cluster with an annotation.
fn objects(key: &str, value: &str) -> Vec<Value> {
    let [mut service, _] = local("prod", "db", &[]);
    service["metadata"]["annotations"][key] = json!(value);
    service["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:01Z");
    vec![
        service,
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        mirror("prod", "db", "west"),
        endpoint("prod", "db", "west", "db-0", &["10.96.0.2"]),
    ]
}

/// Asserts the A record, or SRV record of a name with a port, of each name below `global`.
fn check(table: &Table, cases: &[(&str, &str)]) {
    let zones = zones(&["global"]);
    for (name, expected) in cases {
        let rtype = if name.starts_with('_') {
            RecordType::SRV
        } else {
            RecordType::A
        };
        let answer = ask(&zones, table, &format!("{name}.global"), rtype);
        assert_eq!(answer, *expected, "{name}");
    }
}

#[test]
fn order_concerns_the_name_of_the_service_and_its_ports() {
    let table = table(&objects("global-dns/failover", "west:east"));
    check(
        &table,
        &[
            ("db.prod", "A 10.96.0.2"),
            ("db", "A 10.96.0.2"),
            (
                "_sql._tcp.db.prod",
                "SRV 0 10 26257 db-0.west.db.prod.global.",
            ),
            ("_sql._tcp.db", "SRV 0 10 26257 db-0.west.db.global."),
            ("east.db.prod", "A 10.96.0.1"),
            ("db-0.east.db.prod", "A 10.96.0.1"),
            (
                "_sql._tcp.east.db.prod",
                "SRV 0 10 26257 db-0.east.db.prod.global.",
            ),
            ("east.db", "A 10.96.0.1"),
        ],
    );
}

#[test]
fn gateway_rule_applies_within_the_step_that_answers() {
    let mut objects = objects("global-dns/failover", "auto:north:*");
    objects.push(gateway("prod", "db-0-east", false));
    check(&table(&objects), &[("db.prod", "A 10.96.0.2")]);
    objects.push(gateway("prod", "db-0-west", false));
    check(&table(&objects), &[("db.prod", "A 10.96.0.1, A 10.96.0.2")]);
}

#[test]
fn name_without_a_cluster_of_the_order_fails() {
    let table = table(&objects("global-dns/failover", "north"));
    check(
        &table,
        &[
            ("db.prod", "SERVFAIL"),
            ("_sql._tcp.db.prod", "SERVFAIL"),
            ("east.db.prod", "A 10.96.0.1"),
        ],
    );
}

#[test]
fn name_that_waits_for_clusters_fails_and_the_others_are_answered() {
    let table = table(&objects("global-dns/expected-clusters", "east+north"));
    check(
        &table,
        &[
            ("db.prod", "SERVFAIL"),
            ("db", "SERVFAIL"),
            ("_sql._tcp.db.prod", "SERVFAIL"),
            ("_sql._tcp.db", "SERVFAIL"),
            // The port may come with the cluster that is missing.
            ("_other._tcp.db.prod", "SERVFAIL"),
            ("_tcp.db.prod", "NODATA global."),
            ("prod", "NODATA global."),
            ("east.db.prod", "A 10.96.0.1"),
            ("db-0.west.db.prod", "A 10.96.0.2"),
            (
                "_sql._tcp.east.db.prod",
                "SRV 0 10 26257 db-0.east.db.prod.global.",
            ),
            ("west.db", "A 10.96.0.2"),
            ("north.db.prod", "NXDOMAIN global."),
        ],
    );
}

/// A resolver that minimizes names (RFC 9156), such as BIND with `qname-minimization strict`, asks for NS records at
/// `db.prod` before it asks for `east.db.prod`.
#[test]
fn name_that_waits_fails_only_for_types_of_services() {
    let table = table(&objects("global-dns/expected-clusters", "east+north"));
    let zones = zones(&["global"]);
    let (fails, nodata) = ("SERVFAIL", "NODATA global.");
    for (rtype, expected) in [
        (RecordType::A, fails),
        (RecordType::AAAA, fails),
        (RecordType::SRV, fails),
        (RecordType::ANY, fails),
        (RecordType::NS, nodata),
        (RecordType::SOA, nodata),
        (RecordType::DS, nodata),
        (RecordType::TXT, nodata),
        (RecordType(65), nodata), // HTTPS
    ] {
        for name in ["db.prod.global", "db.global", "_sql._tcp.db.prod.global"] {
            let answer = ask(&zones, &table, name, rtype);
            assert_eq!(answer, expected, "{name} {rtype}");
        }
    }
}

/// A database starts before the first cluster is linked. Its own headless Service tells what it waits for.
#[test]
fn short_name_of_a_headless_service_fails_before_the_first_mirror() {
    let own = |namespace, exported: &str| {
        let [mut service, _] = local(namespace, "db", &[]);
        if exported.is_empty() {
            service["spec"]["selector"] = json!({});
        }
        service["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!(exported);
        service["metadata"]["annotations"]["global-dns/expected-clusters"] = json!("east");
        service["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:01Z");
        service
    };
    check(
        &table(&[own("prod", "true")]),
        &[("db.prod", "SERVFAIL"), ("db", "SERVFAIL")],
    );
    // No namespace gets the short name of another one.
    check(
        &table(&[own("prod", "true"), own("shop", "true")]),
        &[("db.shop", "SERVFAIL"), ("db", "NXDOMAIN global.")],
    );
    // One that only has settings takes no name from another (rule M5).
    check(
        &table(&[own("prod", "true"), own("shop", "")]),
        &[("db.shop", "SERVFAIL"), ("db", "SERVFAIL")],
    );
    check(
        &table(&[own("prod", "true"), mirror("shop", "db", "east")]),
        &[("db.shop", "NXDOMAIN global."), ("db", "NXDOMAIN global.")],
    );
    check(
        &table(&[own("prod", ""), mirror("shop", "db", "east")]),
        &[("db.prod", "SERVFAIL"), ("db", "NXDOMAIN global.")],
    );
    check(&table(&[own("prod", "")]), &[("db", "SERVFAIL")]);
    check(
        &table(&[own("prod", ""), own("shop", "")]),
        &[("db", "NXDOMAIN global.")],
    );
}

/// The hash compares replicas. One that waits and one that answers differ.
#[test]
fn missing_cluster_changes_the_hash() {
    let [waits, answers] = ["east+north", "east"]
        .map(|clusters| table(&objects("global-dns/expected-clusters", clusters)).answers_hash());
    assert_ne!(waits, answers);
    // The owner of a short name that fails counts, too.
    let [with_one, with_two] = [&["prod"][..], &["prod", "shop"]].map(|namespaces| {
        let objects: Vec<Value> = namespaces
            .iter()
            .map(|namespace| {
                let [mut service, _] = local(namespace, "db", &[]);
                service["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!("true");
                if *namespace == "prod" {
                    service["metadata"]["annotations"]["global-dns/expected-clusters"] =
                        json!("east");
                    service["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:01Z");
                }
                service
            })
            .collect();
        let table = table(&objects);
        check(&table, &[("db.prod", "SERVFAIL")]);
        table.answers_hash()
    });
    assert_ne!(with_one, with_two);
}
