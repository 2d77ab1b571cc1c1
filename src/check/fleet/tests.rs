use serde_json::{Value, json};

use super::*;
use crate::check::finding::text;

/// An endpoint of `prod/db` in a table.
fn endpoint(cluster: &str, host: &str, is_own: bool) -> Value {
    let kind = if is_own { "local" } else { "headless" };
    json!({
        "namespace": "prod", "service": "db", "cluster": cluster, "hostname": host, "kind": kind, "state": "alive",
        "returned": true, "ports": [{"name": "sql", "protocol": "TCP", "port": 26257}], "object": "x",
    })
}

fn replica(cluster: &str, id: &str) -> ReplicaFacts {
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
    ReplicaFacts {
        name: id.to_owned(),
        status: Ok(status),
        clock_offset: 0,
        table: Some(ServerTable {
            services: vec![
                json!({"namespace": "prod", "service": "db", "ttl": 5, "endpoints": 2, "ownsShortName": true}),
            ],
            endpoints,
            ..ServerTable::default()
        }),
    }
}

/// Two clusters that agree, after a change.
fn fleet(change: impl FnOnce(&mut [Member; 2])) -> Document {
    let member = |name: &str| Member {
        context: name.to_owned(),
        replicas: Ok(vec![replica(name, &format!("dns-{name}"))]),
        links: Vec::new(),
    };
    let mut members = ["hub", "east"].map(member);
    change(&mut members);
    compare(&members)
}

fn status(member: &mut Member) -> &mut Value {
    member.replicas.as_mut().unwrap()[0]
        .status
        .as_mut()
        .unwrap()
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
fn zones_of_one_cluster_are_no_difference() {
    let of_one_cluster = fleet(|[hub, _]| {
        status(hub)["zones"] = json!(["global.", "svc.east.example."]);
        status(hub)["settings"] =
            json!({"zones": ["global", {"name": "svc.east.example", "cluster": "east"}]});
    });
    assert_eq!(failing(of_one_cluster), [""; 0]);
}

#[test]
fn each_difference_is_one_line_with_its_cause() {
    type Change = fn(&mut [Member; 2]);
    let cases: [(&str, Change, &str); 6] = [
        (
            "one zone has another grammar",
            |fleet| status(&mut fleet[0])["nameSuffixes"] = json!(["svc.global."]),
            "fleet-servers: zones: global. in east; svc.global. in hub",
        ),
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
            "many hosts are missing",
            |fleet| {
                let hosts = (1..7).map(|host| endpoint("east", &format!("db-{host}"), true));
                table(&mut fleet[1]).endpoints.extend(hosts);
            },
            "fleet-services: prod/db: hosts of east: none in hub; db-1, db-2, db-3, db-4, db-5 and 1 more in east: its \
             mirror controller lost it",
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
            "gateway-down is set in one cluster",
            |fleet| table(&mut fleet[0]).services[0]["gatewayDown"] = json!("include"),
            "fleet-settings: prod/db: gateway-down: none in east; include in hub",
        ),
        (
            "a server is named twice",
            |fleet| fleet[1].replicas = Ok(vec![replica("hub", "dns-hub")]),
            "fleet-clusters: hub and east are the same cluster",
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
    assert_eq!(of_orders("auto:local:*", "auto:local:*").exit, 0);
    let expected = "fleet-settings: prod/db: failover order: hub:east in hub; hub:east:* in east";
    assert_eq!(failing(of_orders("hub:east", "hub:local:*")), [expected]);
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

/// Returns all findings but what was compared, as `state name: sentence → hint`.
fn lines(change: impl FnOnce(&mut [Member; 2])) -> Vec<String> {
    let items = fleet(change).objects();
    let findings = items.iter().filter(|one| one["sentence"].is_string());
    let lines = findings.skip(1).map(|one| {
        let [state, name, sentence, hint] =
            ["state", "name", "sentence", "hint"].map(|field| text(one, field));
        format!("{state} {name}: {sentence} → {hint}")
    });
    lines.collect()
}

/// Returns the findings if the first cluster has a setting, and another table because of it.
fn with(name: &str, value: Value, change: impl FnOnce(&mut ServerTable)) -> Vec<String> {
    lines(|fleet| {
        status(&mut fleet[0])["settings"][name] = value;
        change(table(&mut fleet[0]));
    })
}

/// A setting of one cluster is the cause of every service that differs because of it.
#[test]
fn setting_of_one_cluster_is_one_line() {
    let keep = |table: &mut ServerTable, cluster: &str| {
        table
            .endpoints
            .retain(|one| text(one, "cluster") == cluster);
    };
    let line = |seen: &str| {
        let name = seen.split(':').next().unwrap_or_default();
        format!(
            "failing fleet-settings: prod/db: {seen} → set the same {name} in every cluster, if that is not intended"
        )
    };
    let watched = with("namespaces", json!(["shop"]), |table| {
        (table.services, table.endpoints) = (Vec::new(), Vec::new());
    });
    assert_eq!(
        watched,
        [line("namespaces: [shop] in hub; default in east")]
    );
    let local = with("localMembers", json!("none"), move |table| {
        keep(table, "east")
    });
    assert_eq!(local, [line("localMembers: default in east; none in hub")]);
    let excluded = with("excludeClusters", json!(["east"]), move |table| {
        keep(table, "hub")
    });
    assert_eq!(
        excluded,
        [line("excludeClusters: [east] in hub; default in east")]
    );
    let aliases = with("aliases", json!({"prod/all": ["prod/db"]}), |table| {
        let of_alias = table.endpoints.clone().into_iter().map(|mut one| {
            one["service"] = json!("all");
            one
        });
        let of_alias: Vec<Value> = of_alias.collect();
        table.endpoints.extend(of_alias);
    });
    let expected = line("aliases: default in east; {prod/all:[prod/db]} in hub");
    assert_eq!(aliases, [expected.replace("prod/db: a", "prod/all: a")]);
}

#[test]
fn clock_that_is_wrong_is_named() {
    for (offset, seen) in [
        (12, "12 s ahead of"),
        (300, "300 s ahead of"),
        (-3600, "3600 s behind"),
    ] {
        let lines = lines(|fleet| fleet[1].replicas.as_mut().unwrap()[0].clock_offset = offset);
        let expected =
            format!("failing fleet-servers: east: dns-east: its clock is {seen} the others → ");
        assert!(
            lines[0].starts_with(&expected) && lines.len() == 1,
            "{lines:?}"
        );
    }
    // The clock of this machine is wrong.
    let own = lines(|fleet| {
        fleet
            .iter_mut()
            .for_each(|one| one.replicas.as_mut().unwrap()[0].clock_offset = 300);
    });
    assert_eq!(own, [""; 0]);
}

#[test]
fn federated_addresses_have_the_same_clusters() {
    let lines = lines(|fleet| {
        for (member, members) in fleet.iter_mut().zip(["east, hub", "hub"]) {
            let mut one = endpoint("", "", false);
            (one["service"], one["kind"]) = (json!("web"), json!("federated"));
            let clusters = json!([{"cluster": "", "members": members}]);
            let service = json!({"namespace": "prod", "service": "web", "clusters": clusters});
            table(member).endpoints.push(one);
            table(member).services.push(service);
        }
    });
    let expected = "failing fleet-services: prod/web: clusters of the federated address: east, hub in hub; hub in east → ";
    assert!(
        lines[0].starts_with(expected) && lines.len() == 1,
        "{lines:?}"
    );
    assert!(
        lines[0].contains("kubectl label service web -n prod mirror.linkerd.io/federated=member")
    );
}

#[test]
fn selector_of_a_link_is_no_failure() {
    let lines = lines(|fleet| {
        let selector = json!({"matchLabels": {"expose-to": "hub"}});
        fleet[0].links = vec![json!({"spec": {"targetClusterName": "east", "selector": selector}})];
        table(&mut fleet[1]).endpoints.remove(0);
    });
    let expected = "ok fleet-services: prod/db: hosts of east: none in east; db-0 in hub: by the selector of the Link → ";
    assert_eq!(lines, [expected]);
}

/// The cluster is linked in its other name, too, or it is not compared at all.
#[test]
fn second_link_to_a_cluster_is_one_note() {
    let lines = lines(|fleet| {
        let second = json!({"name": "east2", "isOwn": false, "link": "linked"});
        status(&mut fleet[0])["clusters"]
            .as_array_mut()
            .unwrap()
            .push(second);
        table(&mut fleet[0])
            .endpoints
            .push(endpoint("east2", "db-0", false));
    });
    let expected = "ok fleet-links: east2 is no cluster of this fleet, and linked: in hub: it is not compared; if it is a second Link \
                    to one of these clusters, its hosts are the same pods through two gateways → ";
    assert_eq!(lines, [expected]);
}

#[test]
fn hint_has_the_name_of_the_cluster() {
    for (link, hint) in [
        (
            "frozen",
            "check the Deployment of the mirror controller of cluster east",
        ),
        ("unlinked", "-l mirror.linkerd.io/cluster-name=east"),
        (
            "linked",
            "check that namespace prod exists there, and the selector of the Link",
        ),
    ] {
        let lines = lines(|fleet| {
            status(&mut fleet[0])["clusters"][0]["link"] = json!(link);
            table(&mut fleet[0]).endpoints.pop();
        });
        assert!(lines.len() == 1 && lines[0].contains(hint), "{lines:?}");
        assert!(!lines[0].contains("CLUSTER"), "{lines:?}");
        let is_linked = lines[0].contains(": linked, nothing mirrored → ");
        assert_eq!(is_linked, link == "linked", "{lines:?}");
    }
}
