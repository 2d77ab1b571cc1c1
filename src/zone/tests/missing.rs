//! Hosts that a headless mirror lists and whose endpoint mirrors are missing: Linkerd deletes and creates them again within
//! half a second, and an NXDOMAIN would be cached and believed.

use super::*;
use crate::table::Rules;
use crate::testing::{federated, listing, published};
use crate::zone::answer::answer_question;

fn assert_answers(objects: &[Value], expected: &[(&str, &str)]) {
    let rules = Rules {
        has_mcs_zones: true,
        ..rules()
    };
    let (zones, table) = (zones(&["global", "set=mcs"]), table_by(&rules, objects));
    for (question, expected) in expected {
        let (name, rtype) = question.split_once(' ').unwrap();
        let rtype = match rtype {
            "A" => RecordType::A,
            "SRV" => RecordType::SRV,
            _ => RecordType::NS,
        };
        assert_eq!(ask(&zones, &table, name, rtype), *expected, "{question}");
    }
}

/// Two hosts of east, of which one has an endpoint mirror, and one of west, which has none.
fn some() -> Vec<Value> {
    vec![
        mirror("prod", "db", "east"),
        listing(
            "prod",
            "db-east",
            &[("db-0", "10.96.0.1"), ("db-1", "10.96.0.2")],
        ),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        mirror("prod", "db", "west"),
        listing("prod", "db-west", &[("db-0", "10.96.1.1")]),
    ]
}

#[test]
fn name_fails_if_its_only_endpoints_are_hosts_without_an_endpoint_mirror() {
    assert_answers(
        &some(),
        &[
            ("db.prod.global A", "A 10.96.0.1"),
            ("east.db.prod.global A", "A 10.96.0.1"),
            ("db-1.east.db.prod.global A", "SERVFAIL"),
            ("db-1.east.db.prod.global SRV", "SERVFAIL"),
            ("_sql._tcp.db-1.east.db.prod.global SRV", "SERVFAIL"),
            ("db-2.east.db.prod.global A", "NXDOMAIN global."),
            ("west.db.prod.global A", "SERVFAIL"),
            ("_sql._tcp.west.db.prod.global SRV", "SERVFAIL"),
            ("db-0.west.db.prod.global A", "SERVFAIL"),
            ("db-1.west.db.prod.global A", "NXDOMAIN global."),
            ("north.db.prod.global A", "NXDOMAIN global."),
            ("db-1.east.db.global A", "SERVFAIL"),
            ("west.db.global A", "SERVFAIL"),
            ("db-0.west.db.prod.svc.set A", "SERVFAIL"),
            ("db-1.west.db.prod.svc.set A", "NXDOMAIN set."),
            // No records, but names below, whether they fail or not. A resolver that minimizes names asks for NS.
            ("west.db.prod.svc.set A", "NODATA set."),
            ("_tcp.west.db.prod.global A", "NODATA global."),
            ("west.db.prod.global NS", "NODATA global."),
        ],
    );
}

#[test]
fn names_above_fail_if_no_endpoint_is_left() {
    let objects = [mirror("prod", "db", "west"), some().pop().unwrap()];
    let all = [
        ("db.prod.global A", "SERVFAIL"),
        ("_sql._tcp.db.prod.global SRV", "SERVFAIL"),
        ("_tcp.db.prod.global A", "NODATA global."),
        ("prod.global A", "NODATA global."),
        ("db.global A", "SERVFAIL"),
        ("db.prod.svc.set A", "SERVFAIL"),
        ("prod.svc.set A", "NODATA set."),
        ("east.db.prod.global A", "NXDOMAIN global."),
    ];
    assert_answers(&objects, &all);
    // Another kind answers the name of the service, and no other name.
    let federated = federated("prod", "db", "10.96.9.9", "db@west");
    assert_answers(
        &[&objects[..], &[federated]].concat(),
        &[
            ("db.prod.global A", "A 10.96.9.9"),
            ("west.db.prod.global A", "SERVFAIL"),
        ],
    );
}

#[test]
fn list_of_an_excluded_cluster_or_without_its_mirror_does_not_count() {
    let objects = [mirror("prod", "db", "west"), some().pop().unwrap()];
    let rules = Rules {
        excluded_clusters: ["west".parse().unwrap()].into(),
        ..rules()
    };
    let zones = zones(&["global"]);
    let a = |table: &Table| ask(&zones, table, "db.prod.global", RecordType::A);
    assert_eq!(a(&table_by(&rules, &objects)), "NXDOMAIN global.");
    assert_eq!(a(&table(&objects[1..])), "NXDOMAIN global.");
}

#[test]
fn reason_names_the_endpoint_mirror_and_the_hash_tells_it() {
    let objects = some();
    let now = published(table(&objects));
    let reason = |name: &str| {
        let name = Name::from_text(name).unwrap();
        answer_question(&zones(&["global"]), &now, &name, RecordType::A).failure()
    };
    for (name, mirror) in [
        ("db-1.east.db.prod.global", "db-1-east"),
        ("west.db.global", "db-0-west"),
    ] {
        let expected = format!("endpoint mirror {mirror} is missing");
        assert_eq!(reason(name), Some(expected), "{name}");
    }
    let hash = |objects: &[Value]| table(objects).answers_hash();
    assert_ne!(hash(&objects), hash(&objects[..4]));
    assert_ne!(hash(&objects[3..]), 0);
    assert_eq!(hash(&objects[3..4]), 0);
}
