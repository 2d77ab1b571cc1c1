//! Names that two namespaces can mean. That objects of one namespace change no answer of another is proved by the checks of the
//! fuzz targets.

use serde_json::{Value, json};

use super::{ask, check};
use crate::model::{Problem, ServiceKey, key};
use crate::table::Rules;
use crate::testing::{
    endpoint, exported, local, mirror, ordered, rules, service_mirror, table, table_by, zones,
};
use crate::zone::RecordType;

/// A service with the name of the namespace `prod`, in a cluster with the name of a service of `prod`. As a short name, the
/// target would be `east.db.prod.global`, which is a name of that service.
#[test]
fn srv_targets_never_have_addresses_of_another_service() {
    let namesake = [
        mirror("evil", "prod", "db"),
        endpoint("evil", "prod", "db", "east", &["10.66.6.6"]),
    ];
    let target = "SRV 0 10 26257 east.db.prod.evil.global.";
    check(
        &table(&[&cluster_of_db()[..], &namesake].concat()),
        &[
            ("_sql._tcp.prod.global SRV", target),
            ("_sql._tcp.prod.evil.global SRV", target),
            ("east.db.prod.evil.global A", "A 10.66.6.6"),
            ("east.db.prod.global A", "A 10.96.0.1"),
        ],
    );
}

// === Names that an object could hide ===

/// A cluster `east` of service `db` in namespace `prod`, with the short name `east.db.global`.
fn cluster_of_db() -> Vec<Value> {
    vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
    ]
}

/// Returns a Service of this cluster that is no member and has one annotation.
fn with_setting(namespace: &str, service: &str, annotation: &str, value: &str) -> Value {
    let mut service = exported(namespace, service, "10.96.9.9");
    service["metadata"]["labels"] = json!({});
    service["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:01Z");
    service["metadata"]["annotations"] = json!({annotation: value});
    service
}

/// A headless Service that only has settings owns its short name if nobody else has it (rule M5).
#[test]
fn settings_own_a_short_name_that_nobody_has() {
    let [mut own, _] = local("shop", "db", &[]);
    own["spec"]["selector"] = Value::Null;
    let mut objects = vec![service_mirror("shop", "db", "east", "10.96.7.1"), own];
    check(&table(&objects), &[("db.global A", "A 10.96.7.1")]);
    objects.extend(cluster_of_db());
    check(&table(&objects), &[("db.global A", "A 10.96.0.1")]);
}

#[test]
fn settings_and_skipped_objects_hide_no_names() {
    let east = ServiceKey {
        namespace: "db".parse().unwrap(),
        service: "east".parse().unwrap(),
    };
    let by_settings = Rules {
        services: [(east, ordered("west"))].into(),
        ..rules()
    };
    let setting = |key, value| vec![with_setting("db", "east", key, value)];
    let orphan = endpoint("db", "east", "west", "east-0", &["10.96.6.6"]);
    for (rules, objects) in [
        (rules(), setting(key::EXPECTED_CLUSTERS, "west")),
        (rules(), setting(key::EXPECTED_CLUSTERS, "west,")),
        (rules(), setting(key::FAILOVER, "west:*")),
        (by_settings, Vec::new()),
        // An endpoint mirror without its parent.
        (rules(), vec![orphan]),
    ] {
        let table = table_by(&rules, &[cluster_of_db(), objects].concat());
        let srv = "SRV 0 10 26257 db-0.east.db.global.";
        check(
            &table,
            &[
                ("east.db.global A", "A 10.96.0.1"),
                ("db-0.east.db.global A", "A 10.96.0.1"),
                ("_sql._tcp.east.db.global SRV", srv),
                ("_other._tcp.east.db.global SRV", "NXDOMAIN global."),
                ("_sql._tcp.db.global SRV", srv),
                ("db-9.east.db.global A", "NXDOMAIN global."),
            ],
        );
        assert!(table.problems().all(|one| one.name.is_none()));
    }
}

/// Nobody else has these names.
#[test]
fn closed_gate_without_any_member_fails_its_own_name_and_those_of_missing_clusters() {
    let gate =
        |namespace, service| with_setting(namespace, service, key::EXPECTED_CLUSTERS, "west");
    check(
        &table(&[gate("db", "east")]),
        &[
            ("east.db.global A", "SERVFAIL"),
            ("west.east.db.global A", "SERVFAIL"),
            ("north.east.db.global A", "NXDOMAIN global."),
            ("east.global A", "NXDOMAIN global."),
        ],
    );
    // A setting assigns the short name to the namespace of the annotation.
    let by_default = Rules {
        default_namespace: Some("shop".parse().unwrap()),
        ..rules()
    };
    let pinned = Rules {
        pinned_names: [("db".parse().unwrap(), "shop".parse().unwrap())].into(),
        ..rules()
    };
    let alone = [gate("shop", "db")];
    let both = [cluster_of_db(), alone.to_vec()].concat();
    for (rules, objects, answer) in [
        (&by_default, &alone[..], "SERVFAIL"),
        (&by_default, &both[..], "A 10.96.0.1"),
        (&pinned, &alone[..], "SERVFAIL"),
        // A pinned name has no fallback.
        (&pinned, &both[..], "SERVFAIL"),
    ] {
        check(&table_by(rules, objects), &[("db.global A", answer)]);
    }
}

#[test]
fn member_without_endpoints_keeps_its_names() {
    let [mut own, _] = local("db", "east", &[]);
    own["metadata"]["labels"] = json!({key::EXPORTED: "true"});
    for object in [mirror("db", "east", "west"), own] {
        let table = table(&[cluster_of_db(), vec![object]].concat());
        for name in ["east.db.global", "db-0.east.db.global"] {
            let answer = ask(&zones(&["global"]), &table, name, RecordType::A);
            assert_eq!(answer, "NXDOMAIN global.", "{name}");
        }
        let named = table.problems().filter(|one| one.name.is_some());
        let conflicts: Vec<_> = named.map(Problem::subject).collect();
        assert_eq!(conflicts, ["east.db"]);
    }
}

/// Linkerd makes them before or after their parent. That may be a thousand.
#[test]
fn endpoint_mirrors_without_their_parent_are_one_problem() {
    let hosts = ["db-0", "db-1", "db-2"];
    let hosts = hosts.map(|host| endpoint("prod", "db", "east", host, &["10.96.0.1"]));
    let table = table(&hosts);
    let problems: Vec<String> = table.problems().map(|one| one.to_string()).collect();
    let expected = "Object cannot be used: prod/db: no parent: headless mirror 'db-east' of prod/db in cluster 'east' is missing or \
                    unusable: Service/prod/db-0-east, Service/prod/db-1-east, Service/prod/db-2-east";
    assert_eq!(problems, [expected]);
}
