use serde_json::{Value, json};

use super::*;
use crate::check::finding::text;
use crate::check::told::ServerTable;

/// An endpoint of `prod/db` in a table.
fn endpoint(cluster: &str, host: &str, is_own: bool) -> Value {
    let kind = if is_own { "local" } else { "headless" };
    json!({
        "namespace": "prod", "service": "db", "cluster": cluster, "hostname": host, "kind": kind, "state": "alive",
        "returned": true, "ports": [{"name": "sql", "protocol": "TCP", "port": 26257}], "object": "x",
    })
}

fn replica(cluster: &str, id: &str) -> Replica {
    let others = ["hub", "east"].into_iter().filter(|one| *one != cluster);
    let links: Vec<Value> = others
        .clone()
        .map(|name| json!({"name": name, "isOwn": false, "link": "linked"}))
        .collect();
    let mut endpoints = vec![endpoint(cluster, "db-0", true)];
    endpoints.extend(others.map(|other| endpoint(other, "db-0", false)));
    let status = json!({
        "version": "0.1.0", "cluster": cluster, "replica": id, "zones": ["global."], "state": "ready", "tableHash": 1,
        "clusters": links,
    });
    Replica {
        name: id.to_owned(),
        status: Ok(status),
        table: Some(ServerTable {
            services: vec![
                json!({"namespace": "prod", "service": "db", "ttl": 5, "endpoints": 2, "ownsShortName": true}),
            ],
            endpoints,
            problems: Vec::new(),
        }),
    }
}

/// Two clusters that agree, after a change.
fn fleet(change: impl FnOnce(&mut [Member; 2])) -> Document {
    let member = |name: &str| Member {
        context: name.to_owned(),
        replicas: Ok(vec![replica(name, &format!("dns-{name}"))]),
    };
    let mut members = ["hub", "east"].map(member);
    change(&mut members);
    compare(&members)
}

fn table(member: &mut Member) -> &mut ServerTable {
    member.replicas.as_mut().unwrap()[0].table.as_mut().unwrap()
}

/// Returns the failing findings as `name: sentence`.
fn failing(document: Document) -> Vec<String> {
    let items = document.objects();
    let failing = items.iter().filter(|one| one["state"] == "failing");
    failing
        .map(|one| format!("{}: {}", text(one, "name"), text(one, "sentence")))
        .collect()
}

#[test]
fn clusters_that_agree_have_no_finding() {
    let document = fleet(|_| {});
    assert_eq!(document.exit, 0);
    let items = document.objects();
    let states: Vec<&str> = items
        .iter()
        .map(|one| text(one, "state"))
        .filter(|one| *one != "ready")
        .collect();
    assert!(
        states.iter().all(|state| ["ok", ""].contains(state)),
        "{states:?}"
    );
}

#[test]
fn each_difference_is_one_line_with_its_cause() {
    type Change = fn(&mut [Member; 2]);
    let cases: [(&str, Change, &str); 9] = [
        (
            "a Service is not exported",
            |fleet| {
                table(&mut fleet[0]).endpoints.pop();
                table(&mut fleet[1]).problems.push(json!({
                    "kind": "not-exported", "level": "warning", "service": "prod/db", "sentence": "Member is not exported",
                }));
            },
            "not-exported: prod/db: hosts of east: none in hub; db-0 in east: Member is not exported",
        ),
        (
            "nobody mirrors what is exported",
            |fleet| {
                table(&mut fleet[0]).endpoints.pop();
            },
            "fleet-services: prod/db: hosts of east: none in hub; db-0 in east: no other cluster mirrors it",
        ),
        (
            "many hosts are missing",
            |fleet| {
                let hosts = (1..7).map(|host| endpoint("east", &format!("db-{host}"), true));
                table(&mut fleet[1]).endpoints.extend(hosts);
            },
            "fleet-services: prod/db: hosts of east (and 1 more): none in hub; db-1, db-2, db-3, db-4, db-5 in east: not \
             mirrored there",
        ),
        (
            "a mirror has another port number",
            |fleet| {
                let mut third = replica("north", "dns-north");
                let other = endpoint("east", "db-0", false);
                third.table.as_mut().unwrap().endpoints.push(other);
                table(&mut fleet[0]).endpoints[1]["ports"][0]["port"] = json!(1);
                let member = fleet[0].replicas.as_mut().unwrap();
                let status = member[0].status.clone();
                let mut second = replica("hub", "dns-other");
                second.status = status;
                member.push(second);
            },
            "fleet-services: prod/db: port numbers of east: sql:1 in hub (dns-hub); sql:26257 in hub (dns-other)",
        ),
        (
            "a pod is not ready at home, and others answer it",
            |fleet| table(&mut fleet[1]).endpoints[0]["state"] = json!("not-ready"),
            "pod-not-ready: prod/db: hosts of east: db-0 in hub; db-0 (not ready) in east: Pods are not ready",
        ),
        (
            "a gateway is down for one cluster",
            |fleet| {
                let table = table(&mut fleet[0]);
                table.endpoints[1]["state"] = json!("down");
                table.problems.push(json!({
                    "kind": "gateway-down", "level": "warning", "service": "prod/db", "cluster": "east",
                    "sentence": "Gateway is down", "subject": "prod/db", "detail": "1 of 1",
                }));
            },
            "gateway-down: prod/db: hosts of east: db-0 in east; db-0 (down) in hub: Gateway is down",
        ),
        (
            "gateway-down is set in one cluster",
            |fleet| table(&mut fleet[0]).services[0]["gatewayDown"] = json!("include"),
            "fleet-settings: prod/db: gateway-down: none in east; include in hub",
        ),
        (
            "a server is named twice",
            |fleet| fleet[1].replicas = Ok(vec![replica("hub", "dns-hub")]),
            "fleet-clusters: hub and east are the same cluster",
        ),
        (
            "a direction is missing",
            |fleet| {
                let replica = &mut fleet[0].replicas.as_mut().unwrap()[0];
                replica.status.as_mut().unwrap()["clusters"] = json!([]);
                replica.table.as_mut().unwrap().endpoints.pop();
            },
            "fleet-links: prod/db: hub has of east: neither a Link nor a mirror",
        ),
    ];
    for (what, change, expected) in cases {
        let document = fleet(change);
        assert_eq!(document.exit, 1, "{what}");
        assert_eq!(failing(document), [expected], "{what}");
    }
}

#[test]
fn replicas_that_answer_differently_are_observers() {
    let document = fleet(|fleet| {
        let mut other = replica("east", "dns-other");
        other.status.as_mut().unwrap()["tableHash"] = json!(2);
        other.table.as_mut().unwrap().endpoints[1]["state"] = json!("down");
        fleet[1].replicas.as_mut().unwrap().push(other);
    });
    let section = document
        .sections
        .iter()
        .find(|one| one.title == "differences")
        .unwrap();
    assert_eq!(
        section.rows[0].cells,
        ["prod/db", "hub", "db-0", "db-0", "db-0 (down)"]
    );
    let expected = [
        "fleet-servers: east: replicas answer differently: dns-east / dns-other",
        "gateway-down: prod/db: hosts of hub: db-0 in hub and east (dns-east); db-0 (down) in east (dns-other): Gateway is down",
    ];
    assert_eq!(failing(document), expected);
}

#[test]
fn unknown_kinds_states_and_fields_end_nothing() {
    let document = fleet(|fleet| {
        let table = table(&mut fleet[0]);
        table
            .problems
            .push(json!({"kind": "tea-cold", "level": "tragedy", "service": "prod/db"}));
        table.problems.push(json!({}));
        table
            .services
            .push(json!({"namespace": "prod", "service": "new"}));
        for endpoint in &mut table.endpoints {
            endpoint["state"] = json!("lukewarm");
            endpoint["why"] = json!(1);
        }
    });
    assert_eq!(failing(document), [""; 0]);
}

#[test]
fn order_with_local_is_equal_to_one_with_the_name_of_the_cluster() {
    let order = |order: &str| json!({"order": order, "step": 1, "steps": [{"clusters": "hub"}]});
    let of_orders = |hub: &'static str, east: &'static str| {
        fleet(move |fleet| {
            table(&mut fleet[0]).services[0]["failover"] = order(hub);
            table(&mut fleet[1]).services[0]["failover"] = order(east);
        })
    };
    assert_eq!(of_orders("local:east", "hub:local").exit, 0);
    let expected = "fleet-settings: prod/db: failover order: hub:east in hub; hub:east:* in east";
    assert_eq!(failing(of_orders("hub:east", "hub:local:*")), [expected]);
}

#[test]
fn cluster_with_another_name_is_recognized_by_its_hosts() {
    let document = fleet(|fleet| {
        let replica = &mut fleet[0].replicas.as_mut().unwrap()[0];
        let status = replica.status.as_mut().unwrap();
        status["clusters"] = json!([{"name": "eest", "isOwn": false, "link": "linked"}]);
        replica.table.as_mut().unwrap().endpoints[1]["cluster"] = json!("eest");
    });
    let expected = "fleet-names: east calls itself 'east', and is 'eest' in hub";
    assert_eq!(failing(document), [expected]);
}

/// The cluster of a member has the Service itself, and no address of all clusters.
#[test]
fn federated_address_is_no_way_to_a_cluster_without_a_link() {
    let document = fleet(|fleet| {
        let of = [("", "federated", false), ("east", "local", true)];
        for (member, (cluster, kind, is_own)) in fleet.iter_mut().zip(of) {
            let mut one = endpoint(cluster, "", is_own);
            (one["service"], one["kind"]) = (json!("web"), json!(kind));
            table(member).endpoints.push(one);
            let service = json!({"namespace": "prod", "service": "web", "ttl": 5, "endpoints": 1});
            table(member).services.push(service);
        }
    });
    let failing = failing(document);
    assert!(
        failing.iter().all(|one| !one.contains("neither a Link")),
        "{failing:?}"
    );
}
