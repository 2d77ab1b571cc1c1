//! Documents that servers rarely send. `tests/fast/integration/fleet.rs` plants faults of each kind.

use serde_json::{Value, json};

use super::*;
use crate::check::NotChecked;
use crate::check::finding::Health;
use crate::check::objects::Gateway;
use crate::model::ProblemKind;

/// Returns a service with a host in each of these clusters.
fn service(clusters: &[&str]) -> Value {
    let endpoints = clusters.iter().map(|cluster| {
        json!({
            "namespace": "prod", "service": "db", "cluster": cluster, "hostname": "db-0", "kind": "headless",
            "addresses": ["192.0.2.1"], "ports": [], "state": "alive", "returned": true, "object": "",
        })
    });
    json!({
        "namespace": "prod", "service": "db", "kind": "headless", "ttl": 5, "owns_short_name": true,
        "endpoints": endpoints.collect::<Vec<_>>(),
    })
}

/// Returns a cluster that is linked to all others, with one replica.
fn member(name: &str, service: Value) -> Member {
    let links = ["hub", "east", "west"]
        .into_iter()
        .filter(|other| *other != name);
    let mut clusters = vec![json!({"name": name, "isOwn": true})];
    clusters.extend(links.map(|other| json!({"name": other, "isOwn": false, "link": "linked"})));
    let status: ReplicaStatus = serde_json::from_value(json!({
        "schemaVersion": 2, "version": "0.1.0", "cluster": name, "replica": "dns-0", "zones": ["global."],
        "state": "ready", "tableHash": 1, "clusters": clusters, "unknown": true,
    }))
    .unwrap();
    let problems = json!([{"kind": "a-new-kind", "level": "error"}]);
    let table = json!({
        "schemaVersion": 2, "generation": 1, "serial": 1, "zones": ["global."], "services": [service],
        "skipped": [{"reason": "a-new-kind"}], "conflicts": [], "problems": problems,
    });
    Member {
        context: name.to_owned(),
        facts: Ok(MemberFacts {
            status: status.clone(),
            table: serde_json::from_value(table).unwrap(),
            replicas: vec![ReplicaFacts {
                name: "dns-0".to_owned(),
                id: Some(format!("uid of {name}")),
                status: Ok(status),
                clock_ahead: Some(0),
            }],
            gateways: Ok(None),
        }),
    }
}

fn healthy() -> [Member; 3] {
    let all = ["hub", "east", "west"];
    all.map(|name| member(name, service(&all)))
}

/// Returns the sentences that are not green.
fn differences(members: &[Member]) -> Vec<String> {
    let findings = compare(members)
        .diagnosis
        .0
        .into_iter()
        .filter(|one| one.health != Health::Green);
    findings
        .map(|one| one.sentence.as_str().to_owned())
        .collect()
}

fn facts(member: &mut Member) -> &mut MemberFacts {
    member.facts.as_mut().unwrap()
}

#[test]
fn clusters_that_agree_have_no_difference() {
    assert_eq!(differences(&healthy()), [""; 0]);
}

#[test]
fn kinds_of_problems_of_a_later_version_are_ignored() {
    let [hub, ..] = &mut healthy();
    assert!(facts(hub).table.problems.0.is_empty());
}

#[test]
fn clusters_are_compared_without_one_that_cannot_be_read() {
    let mut members = healthy();
    members[1].facts = Err(NotChecked::new("no\nresponse", "wait"));
    assert_eq!(
        differences(&members),
        ["east cannot be read: no\\nresponse"]
    );
}

#[test]
fn contexts_of_one_cluster_are_recognized_by_the_pod() {
    let members = healthy();
    let again = Member {
        context: "again".to_owned(),
        ..members[0].clone()
    };
    let members = [members.to_vec(), vec![again]].concat();
    assert_eq!(
        differences(&members),
        ["hub and again are the same cluster"]
    );
}

#[test]
fn clusters_with_one_name_are_a_difference() {
    let mut members = healthy()[..2].to_vec();
    let facts = facts(&mut members[1]);
    facts.status.cluster = "hub".to_owned();
    facts.status.clusters.clear();
    facts.table.services.clear();
    let differences = differences(&members);
    assert!(
        differences.contains(&"hub and east both call themselves 'hub'".to_owned()),
        "{differences:?}"
    );
}

#[test]
fn replicas_that_answer_differently_are_named() {
    let mut members = healthy();
    let replicas = &mut facts(&mut members[2]).replicas;
    let mut other = replicas[0].clone();
    other.name = "dns-1".to_owned();
    other.status.as_mut().unwrap().table_hash = Some(2);
    replicas.push(other);
    assert_eq!(
        differences(&members),
        ["west: replicas answer differently: dns-0 / dns-1"]
    );
}

#[test]
fn cluster_whose_table_is_not_confirmed_is_not_compared_further() {
    let mut members = healthy();
    let facts = facts(&mut members[2]);
    facts.status.state = "loading".to_owned();
    facts.replicas[0].status = Ok(facts.status.clone());
    facts.table.services.clear();
    let sentence = ProblemKind::NoTable.row().sentence;
    assert_eq!(differences(&members), [format!("west: dns-0: {sentence}")]);
}

#[test]
fn port_that_no_other_cluster_reaches_is_a_difference() {
    let mut members = healthy();
    let problem = json!({
        "kind": "dead-port", "level": "error", "subject": "prod/db", "service": "prod/db", "cluster": "east",
        "detail": "cluster 'east': port 80 is 8080 in its pods",
    });
    let problem = serde_json::from_value(problem).unwrap();
    facts(&mut members[1]).table.problems.0.push(problem);
    let sentence = ProblemKind::DeadPort.row().sentence;
    let difference =
        format!("east: {sentence}: prod/db: cluster 'east': port 80 is 8080 in its pods");
    assert_eq!(differences(&members), [difference]);
}

#[test]
fn gateway_that_keeps_addresses_is_a_finding_of_its_cluster() {
    let mut members = healthy();
    let reason = "no API server is given";
    facts(&mut members[1]).gateways = Err(NotChecked::new(reason, "ask"));
    let not_checked = format!("east: Gateway address cache: not checked, {reason}");
    assert_eq!(differences(&members), [not_checked]);
    let mut gateway = Gateway {
        name: "linkerd-multicluster/linkerd-gateway".to_owned(),
        cache_timeout: None,
    };
    facts(&mut members[1]).gateways = Ok(Some(vec![Ok(gateway.clone())]));
    let sentence = "east: gateways that keep the address of a pod that is gone: \
                    Deployment/linkerd-multicluster/linkerd-gateway (not set)";
    assert_eq!(differences(&members), [sentence]);
    assert!(compare(&members).diagnosis.is_success());
    gateway.cache_timeout = Some("0s".to_owned());
    facts(&mut members[1]).gateways = Ok(Some(vec![Ok(gateway)]));
    assert_eq!(differences(&members), [""; 0]);
}

#[test]
fn clock_is_compared_with_those_of_most() {
    let mut members = healthy();
    for (member, ahead) in members.iter_mut().zip([60, 61, 9]) {
        facts(member).replicas[0].clock_ahead = Some(ahead);
    }
    // This machine agrees with west.
    assert_eq!(
        differences(&members),
        [
            "hub: the clock of dns-0 is 51 s ahead",
            "east: the clock of dns-0 is 52 s ahead"
        ]
    );
}

#[test]
fn local_in_an_order_is_the_own_cluster_or_equal_to_local() {
    let order =
        |order: &str| json!({"order": order, "origin": "annotation", "step": 1, "steps": []});
    for (orders, differs) in [
        (["local:*", "local:*", "local:*"], false),
        (["local:west", "hub:west", "hub:west"], false),
        (["local:west", "local:west", "hub:west"], true),
    ] {
        let mut members = healthy();
        for (member, text) in members.iter_mut().zip(orders) {
            let services = &mut facts(member).table.services;
            services[0].failover = Some(serde_json::from_value(order(text)).unwrap());
        }
        assert_eq!(!differences(&members).is_empty(), differs, "{orders:?}");
    }
}

#[test]
fn fifty_clusters_are_compared() {
    let names: Vec<String> = (0..50).map(|number| format!("c{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut members: Vec<Member> = names
        .iter()
        .map(|name| member(name, service(&names)))
        .collect();
    for member in &mut members {
        // All others are known by their endpoints.
        facts(member).status.clusters.clear();
    }
    assert_eq!(differences(&members), [""; 0]);
    let fleet = compare(&members);
    let text = fleet.to_text(crate::report::Style::default());
    assert!(!text.contains("FROM / TO"), "{text}");
}
