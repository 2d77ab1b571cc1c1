//! Hosts that a headless mirror lists and whose endpoint mirrors are missing: Linkerd deletes and creates them again within
//! half a second, and an NXDOMAIN would be cached and believed.

use super::*;
use crate::table::Rules;
use crate::testing::{federated, listing, published};
use crate::zone::answer::answer_question;

/// Two hosts of east, of which one has an endpoint mirror, and one of west, which has none.
fn some() -> Vec<Value> {
    let of_east = [("db-0", "10.96.0.1"), ("db-1", "10.96.0.2")];
    vec![
        mirror("prod", "db", "east"),
        listing("prod", "db-east", &of_east),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        mirror("prod", "db", "west"),
        listing("prod", "db-west", &[("db-0", "10.96.1.1")]),
    ]
}

fn table_of(objects: &[Value]) -> Table {
    let rules = Rules {
        has_mcs_zones: true,
        zone_clusters: ["east".parse().unwrap()].into(),
        ..rules()
    };
    table_by(&rules, objects)
}

#[test]
fn name_fails_if_its_only_endpoints_are_hosts_without_an_endpoint_mirror() {
    check(
        &table_of(&some()),
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
            ("db.prod.one A", "A 10.96.0.1"),
            ("db-1.db.prod.one A", "SERVFAIL"),
            ("_tcp.db-1.db.prod.one A", "NODATA one."),
            ("db-2.db.prod.one A", "NXDOMAIN one."),
            // No records, but names below, whether they fail or not. A resolver that minimizes names asks for NS.
            ("west.db.prod.svc.set A", "NODATA set."),
            ("_tcp.west.db.prod.global A", "NODATA global."),
            ("west.db.prod.global NS", "NODATA global."),
        ],
    );
}

#[test]
fn names_above_fail_if_no_endpoint_is_left() {
    let objects = &some()[3..];
    check(
        &table_of(objects),
        &[
            ("db.prod.global A", "SERVFAIL"),
            ("_sql._tcp.db.prod.global SRV", "SERVFAIL"),
            ("_tcp.db.prod.global A", "NODATA global."),
            ("prod.global A", "NODATA global."),
            ("db.global A", "SERVFAIL"),
            ("db.prod.svc.set A", "SERVFAIL"),
            ("prod.svc.set A", "NODATA set."),
            ("prod.one A", "NXDOMAIN one."),
            ("east.db.prod.global A", "NXDOMAIN global."),
        ],
    );
    // Another kind answers the name of the service, and no other name.
    let federated = [federated("prod", "db", "10.96.9.9", "db@west")];
    check(
        &table_of(&[objects, &federated].concat()),
        &[
            ("db.prod.global A", "A 10.96.9.9"),
            ("west.db.prod.global A", "SERVFAIL"),
        ],
    );
}

#[test]
fn list_of_an_excluded_cluster_or_without_its_mirror_does_not_count() {
    let objects = &some()[3..];
    let rules = Rules {
        excluded_clusters: ["west".parse().unwrap()].into(),
        ..rules()
    };
    for table in [table_by(&rules, objects), table(&objects[1..])] {
        check(&table, &[("db.prod.global A", "NXDOMAIN global.")]);
    }
}

#[test]
fn reason_names_the_endpoint_mirror_and_the_hash_tells_it() {
    let objects = some();
    let now = published(table(&objects));
    for (name, mirror) in [
        ("db-1.east.db.prod.global", "db-1-east"),
        ("west.db.global", "db-0-west"),
    ] {
        let asked = Name::from_text(name).unwrap();
        let zones = zones(&["global"]);
        let failure = answer_question(&zones, &now, &asked, RecordType::A).failure();
        let expected = format!("endpoint mirror {mirror} is missing");
        assert_eq!(failure, Some(expected), "{name}");
    }
    let hash = |objects: &[Value]| table(objects).answers_hash();
    assert_ne!(hash(&objects), hash(&objects[..4]));
    assert_ne!(hash(&objects[3..]), 0);
    assert_eq!(hash(&objects[3..4]), 0);
}
