//! Questions and targets by the objects of a source.

use super::*;
use crate::testing::{endpoint, gateway, mirror, service_mirror, table, zones};

#[test]
fn first_services_with_addresses_are_compared() {
    let mut objects = Vec::new();
    for (service, address) in [
        ("a", "10.96.1.1"),
        ("b", "2001:db8::1"),
        ("d", "10.96.1.2"),
        ("e", "10.96.1.3"),
    ] {
        objects.push(mirror("prod", service, "east"));
        let host = format!("{service}-0");
        objects.push(endpoint("prod", service, "east", &host, &[address]));
    }
    objects.push(mirror("prod", "c", "east")); // has no endpoint
    let table = table(&objects);
    let zones = zones(&["global", "set=mcs"]);
    let questions = |grammar| {
        let zone = zones.iter().find(|zone| zone.grammar == grammar).unwrap();
        let questions = samples(zone, &table).into_iter();
        questions.map(|one| one.to_string()).collect::<Vec<_>>()
    };
    let expected = [
        "a.prod.global. A",
        "b.prod.global. AAAA",
        "d.prod.global. A",
    ];
    assert_eq!(questions(Grammar::Global), expected);
    assert_eq!(questions(Grammar::Mcs), [""; 0]);
}

#[test]
fn service_with_the_fewest_endpoints_is_chosen_if_one_is_alive() {
    let mut objects = vec![mirror("prod", "db", "east")];
    for host in ["db-0", "db-1"] {
        objects.push(endpoint(
            "prod",
            "db",
            "east",
            host,
            &["10.96.1.1", "10.96.1.2"],
        ));
    }
    objects.push(mirror("prod", "idle", "east"));
    let choose = |objects: &[serde_json::Value]| {
        let question = smallest(&zones(&["global"]), &table(objects));
        question.map(|question| question.to_string())
    };
    assert_eq!(choose(&objects).as_deref(), Some("db.prod.global. A"));
    // Nothing is ready there.
    objects.push(service_mirror("prod", "web", "east", "10.96.2.1"));
    assert_eq!(choose(&objects).as_deref(), Some("db.prod.global. A"));
    objects.push(mirror("shop", "cache", "east"));
    objects.push(endpoint("shop", "cache", "east", "c-0", &["2001:db8::1"]));
    assert_eq!(choose(&objects).as_deref(), Some("cache.shop.global. AAAA"));
    objects.push(gateway("shop", "c-0-east", false));
    assert_eq!(choose(&objects).as_deref(), Some("db.prod.global. A"));
    assert_eq!(choose(&[]), None);
}

#[test]
fn targets_are_answered_addresses_with_the_tcp_ports_of_the_name() {
    let objects = [
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.1.1"]),
        endpoint("prod", "db", "east", "db-1", &["10.96.1.2"]),
    ];
    let targets_of = |name: &str| -> Vec<String> {
        let answered = BTreeSet::from(["10.96.1.1".parse().unwrap()]);
        let name = Name::from_text(name).unwrap();
        let targets = targets(&name, &answered, &zones(&["global"]), &table(&objects));
        let text = |target: Target| format!("{} {}", target.address, target.endpoint);
        targets.into_iter().map(text).collect()
    };
    let at = |port: u16| format!("10.96.1.1:{port} db-0 of cluster east");
    assert_eq!(targets_of("_sql._tcp.db.prod.global"), [at(26257)]);
    // Port 53 is a port of UDP and of TCP.
    assert_eq!(targets_of("db.prod.global"), [at(53), at(7000), at(26257)]);
    assert_eq!(targets_of("nope.prod.global"), [""; 0]);
}
