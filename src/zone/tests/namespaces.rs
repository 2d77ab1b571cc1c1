//! Isolation of namespaces: objects in one namespace never change the answers for canonical names of another namespace. Here is
//! one forgery for each field that is parsed; the checks of the fuzz targets have random ones. Short names change only with a
//! reported conflict.

mod forgeries;

use serde_json::{Value, json};

use super::{ask, check};
use crate::model::{Problem, ServiceKey, key};
use crate::table::{Rules, Service, Table};
use crate::testing::{
    endpoint, exported, gateway, local, mirror, ordered, published, rules, service_mirror, table,
    table_by, zone_file, zones,
};
use crate::zone::RecordType;

use forgeries::forgeries;

const VICTIM: &str = "prod";
const SERVICES: [&str; 5] = ["db", "cache", "down", "idle", "solo"];

/// Returns the services of the victim's namespace: one with all kinds of endpoints, one in one cluster, one with all
/// gateways down, one without endpoints, and one of this cluster only.
fn victim() -> Vec<Value> {
    let mut db = mirror(VICTIM, "db", "east");
    db["metadata"]["annotations"] = json!({key::TTL: "9", key::GATEWAY_DOWN: "last-resort"});
    let mut objects = vec![
        db,
        endpoint(VICTIM, "db", "east", "db-0", &["10.96.0.1", "2001:db8::1"]),
        endpoint(VICTIM, "db", "east", "db-1", &["10.96.0.2"]),
        gateway(VICTIM, "db-1-east", false),
        mirror(VICTIM, "db", "west"),
        endpoint(VICTIM, "db", "west", "db-0", &["10.96.0.3"]),
        gateway(VICTIM, "db-0-west", true),
        mirror(VICTIM, "cache", "east"),
        endpoint(VICTIM, "cache", "east", "cache-0", &["10.96.0.4"]),
        mirror(VICTIM, "down", "west"),
        endpoint(VICTIM, "down", "west", "down-0", &["10.96.0.5"]),
        gateway(VICTIM, "down-0-west", false),
        mirror(VICTIM, "idle", "east"),
    ];
    let pods = [("db-0", "192.0.2.1", true), ("db-1", "192.0.2.2", false)];
    objects.extend(local(VICTIM, "db", &pods));
    let [mut solo, slice] = local(VICTIM, "solo", &[("solo-0", "192.0.2.3", true)]);
    solo["metadata"]["labels"] = json!({key::EXPORTED: "true"});
    objects.extend([solo, slice]);
    objects
}

/// Returns the services of the victim, and the records of their canonical names. The zone file has what is answered.
fn of_victim(table: &Table) -> (Vec<Option<Service>>, Vec<String>) {
    let services = SERVICES.map(|name| table.service(VICTIM, name).cloned());
    let zones = zones(&["global"]);
    let zone = zones.iter().next().unwrap();
    let file = zone_file(&zones, zone, &published(table.clone()));
    let end = format!(".{VICTIM}.global.");
    let is_canonical = |line: &&str| {
        let owner = line
            .split('\t')
            .next()
            .and_then(|one| one.strip_suffix(&end));
        let service = owner.and_then(|owner| owner.rsplit('.').next());
        // `_sql._tcp.prod.global` is a short name.
        service.is_some_and(|service| !service.starts_with('_'))
    };
    let records = file.lines().filter(is_canonical).map(str::to_owned);
    (services.into(), records.collect())
}

/// Moves an object of the attacker to the namespace of the victim.
fn moved(mut object: Value) -> Value {
    let annotations = &mut object["metadata"]["annotations"];
    if let Some(fq_name) = annotations.get(key::REMOTE_FQ_NAME).and_then(Value::as_str) {
        let own = fq_name.replace(".evil.", &format!(".{VICTIM}."));
        annotations[key::REMOTE_FQ_NAME] = json!(own);
    }
    object["metadata"]["namespace"] = json!(VICTIM);
    object
}

#[test]
fn no_parsed_field_affects_another_namespace() {
    let before = of_victim(&table(&victim()));
    for (field, objects) in forgeries() {
        let after = table(&[victim(), objects.clone()].concat());
        assert_eq!(of_victim(&after), before, "{field}");
        // The same objects in the victim's namespace have an effect, so the assertion above can fail.
        let own = objects.into_iter().map(moved).collect();
        let own = table(&[victim(), own].concat());
        assert_ne!(of_victim(&own), before, "{field}");
    }
}

/// Returns a service with the name of the victim's namespace, in a cluster with the name of one of the victim's
/// services. Its short names are `db.prod.global` and names below it.
fn namesake(cluster: &str, host: &str) -> Vec<Value> {
    vec![
        mirror("evil", VICTIM, cluster),
        endpoint("evil", VICTIM, cluster, host, &["10.66.6.6"]),
    ]
}

#[test]
fn short_name_never_replaces_an_equal_canonical_name() {
    let before = of_victim(&table(&victim()));
    for (service, host) in [
        ("db", "north"),
        ("db", "east"),
        ("idle", "evil-0"),
        ("down", "west"),
        ("solo", "hub"),
    ] {
        let after = table(&[victim(), namesake(service, host)].concat());
        assert_eq!(of_victim(&after), before, "{service}, {host}");
        let subjects: Vec<String> = after
            .conflicts()
            .map(|one| one.subject().to_string())
            .collect();
        let hidden = format!("{service}.{VICTIM}");
        assert!(subjects.contains(&hidden), "{hidden}: {subjects:?}");
    }
}

/// As a short name, the target would be `east.db.prod.global`, a name of the victim.
#[test]
fn srv_targets_never_have_addresses_of_another_service() {
    let target = "SRV 0 10 26257 east.db.prod.evil.global.";
    check(
        &table(&[victim(), namesake("db", "east")].concat()),
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
