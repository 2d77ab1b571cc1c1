//! Names of zones with the grammar `mcs` (rule K9).

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde_json::Value;

use super::*;
use crate::table::Rules;
use crate::testing::{backends, exported, federated, local, service_mirror};
use crate::zone::print::names_of_service;

fn rules_with_mcs() -> Rules {
    Rules {
        has_mcs_zones: true,
        ..rules()
    }
}

/// Asserts the answers of `objects`. `global` and `set` stand for the two zones.
fn assert_answers(objects: &[Value], expected: &[(&str, &str)]) {
    let table = table_by(&rules_with_mcs(), objects);
    let zones = zones(&["global", "set=mcs"]);
    for (question, expected) in expected {
        let (name, rtype) = question.split_once(' ').unwrap();
        let rtype = match rtype {
            "A" => RecordType::A,
            "AAAA" => RecordType::AAAA,
            "SRV" => RecordType::SRV,
            "TXT" => RecordType::TXT,
            other => panic!("{other}"),
        };
        assert_eq!(ask(&zones, &table, name, rtype), *expected, "{question}");
    }
}

/// Returns a mirror with a cluster IP, with these ports, and its slice.
fn mirror_with(cluster: &str, ip: &str, is_ready: bool, ports: &Value) -> Vec<Value> {
    let mut mirror = service_mirror("prod", "web", cluster, ip);
    mirror["spec"]["ports"] = ports.clone();
    let slice = backends("prod", &format!("web-{cluster}"), true, is_ready);
    vec![mirror, slice]
}

/// Returns the answer section and the additional section of SRV records.
fn srv_records(objects: &[Value], name: &str, turn: Option<u32>) -> Vec<String> {
    let table = table_by(&rules_with_mcs(), objects);
    let zones = zones(&["set=mcs"]);
    let name = Name::from_text(name).unwrap();
    let answer = answer(read(&zones, &table, &name), RecordType::SRV);
    let context = AnswerContext {
        turn,
        ..AnswerContext::new(&name, 7)
    };
    let records = answer.records(context);
    let text = |record: &Record<'_>| format!("{} {}", record.owner, record.data);
    records
        .iter()
        .map(|record| text(record).replace('\t', " "))
        .collect()
}

#[test]
fn pods_have_the_names_of_the_api() {
    let mut objects = vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.4", "2001:db8::4"]),
    ];
    objects.extend(local("prod", "db", &[("db-0", "10.0.0.4", true)]));
    assert_answers(
        &objects,
        &[
            ("db.prod.svc.set A", "A 10.96.0.4, A 10.0.0.4"),
            ("db-0.east.db.prod.svc.set AAAA", "AAAA 2001:db8::4"),
            ("db-0.hub.db.prod.svc.set A", "A 10.0.0.4"),
            // A name without records, because hosts are below it.
            ("east.db.prod.svc.set A", "NODATA set."),
            ("west.db.prod.svc.set A", "NXDOMAIN set."),
            ("db-1.east.db.prod.svc.set A", "NXDOMAIN set."),
            ("prod.svc.set A", "NODATA set."),
            ("svc.set A", "NODATA set."),
            ("test.svc.set A", "NXDOMAIN set."),
            // Neither the names of this server nor short names.
            ("db.prod.set A", "NXDOMAIN set."),
            ("db.svc.set A", "NXDOMAIN set."),
            ("dns-version.set TXT", "TXT \"1.0.0\""),
        ],
    );
    let [mut own, slice] = local("prod", "db", &[("db-0", "10.0.0.4", true)]);
    own["metadata"]["labels"] = json!({"mirror.linkerd.io/exported": "true"});
    assert_answers(
        &[own, slice],
        &[
            (
                "db.prod.svc.set SRV",
                "SRV 0 10 26257 db-0.hub.db.prod.svc.set.",
            ),
            (
                "_sql._tcp.db.prod.svc.set SRV",
                "SRV 0 10 26257 db-0.hub.db.prod.svc.set.",
            ),
        ],
    );
}

#[test]
fn cluster_ips_share_the_name_of_the_service() {
    let objects = [
        service_mirror("prod", "web", "east", "10.96.0.1"),
        backends("prod", "web-east", true, true),
        exported("prod", "web", "10.96.0.2"),
        backends("prod", "web", false, true),
        federated("prod", "api", "10.96.0.9", "api@east"),
    ];
    assert_answers(
        &objects,
        &[
            ("web.prod.svc.set A", "A 10.96.0.1, A 10.96.0.2"),
            ("web.prod.svc.set SRV", "SRV 0 10 80 web.prod.svc.set."),
            ("east.web.prod.svc.set A", "NXDOMAIN set."),
            ("api.prod.svc.set A", "A 10.96.0.9"),
            ("api.prod.svc.set SRV", "SRV 0 10 80 api.prod.svc.set."),
        ],
    );
}

#[test]
fn names_of_the_api_are_listed() {
    let mut objects = vec![service_mirror("prod", "web", "east", "10.96.0.1")];
    objects.extend(local("prod", "db", &[("db-0", "10.0.0.4", true)]));
    objects[1]["metadata"]["labels"] = json!({"mirror.linkerd.io/exported": "true"});
    let table = table_by(&rules_with_mcs(), &objects);
    let zones = zones(&["set=mcs"]);
    let zone = zones.iter().next().unwrap();
    let names = |service| names_of_service(zone, &table, service);
    let names: BTreeSet<String> = table.services().flat_map(names).collect();
    let expected = [
        "_http._tcp.web.prod.svc.set.",
        "_sql._tcp.db.prod.svc.set.",
        "db-0.hub.db.prod.svc.set.",
        "db.prod.svc.set.",
        "web.prod.svc.set.",
    ];
    assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
}

/// It has one SRV record for each port, and one set of addresses, which is complete: it belongs to the name of the service.
#[test]
fn shared_target_has_all_its_addresses_once() {
    let http = json!([{"name": "http", "port": 80}]);
    let both = json!([{"name": "http", "port": 8080}, {"name": "metrics", "port": 80}]);
    let objects = [
        mirror_with("central", "10.96.0.1", true, &json!([])),
        mirror_with("east", "10.96.1.1", true, &both),
        mirror_with("west", "10.96.2.1", true, &http),
    ]
    .concat();
    let addresses = ["10.96.0.1", "10.96.1.1", "10.96.2.1"];
    let addresses = addresses.map(|ip| format!("web.prod.svc.set. A {ip}"));
    for (name, ports) in [
        ("web.prod.svc.set", &[80, 8080][..]),
        ("_http._tcp.web.prod.svc.set", &[80, 8080]),
        ("_metrics._tcp.web.prod.svc.set", &[80]),
    ] {
        for turn in [None, Some(0), Some(1), Some(2)] {
            let mut records = srv_records(&objects, name, turn);
            let additional = records.split_off(ports.len());
            records.sort();
            let srv = |port| format!("{name}. SRV 0 10 {port} web.prod.svc.set.");
            assert_eq!(records, ports.iter().map(srv).collect::<Vec<_>>());
            assert_eq!(additional, addresses, "{name} {turn:?}");
        }
    }
}

/// A query must not compare the ports of each cluster with those of all others: a tenant can have many of both.
#[test]
fn shared_rows_are_computed_when_the_service_is_built() {
    const CLUSTERS: u8 = 200;
    const PORTS: u16 = 100;
    // `step` is the difference between the port numbers of two clusters.
    let table_with = |rules: &Rules, step: u16| {
        let mirror = |cluster: u8| {
            let (name, ip) = (format!("c{cluster}"), format!("10.96.0.{cluster}"));
            let first = 1000 + step * u16::from(cluster);
            let port = |n: u16| json!({"name": format!("p{n}"), "port": first + n});
            let mut mirror = service_mirror("prod", "web", &name, &ip);
            mirror["spec"]["ports"] = (0..PORTS).map(port).collect();
            mirror
        };
        table_by(rules, &(0..CLUSTERS).map(mirror).collect::<Vec<_>>())
    };
    // Returns the number of rows, and the number of ports that are walked to find them.
    let counts = |table: &Table, name: &str| {
        let zones = zones(&["set=mcs"]);
        let name = Name::from_text(name).unwrap();
        let Reading::View(_, view) = read(&zones, table, &name) else {
            panic!("{name}")
        };
        let mut rows = 0;
        let _ = view.visit_rows(RecordType::SRV, &mut |_| {
            rows += 1;
            ControlFlow::Continue(())
        });
        (rows, view.candidates().count())
    };
    let ports = usize::from(PORTS);
    let (own, one) = ("web.prod.svc.set", "_p7._tcp.web.prod.svc.set");
    let same = table_with(&rules_with_mcs(), 0);
    assert_eq!(counts(&same, own), (ports, ports));
    assert_eq!(counts(&same, one), (1, ports));
    let different = table_with(&rules_with_mcs(), PORTS);
    // A service has at most 128 ports: those of the first cluster, and some of the second one.
    assert_eq!(counts(&different, own), (128, 128));
    assert_eq!(counts(&different, one), (2, 128));
    // Without a zone of the API, nothing is kept.
    let kept = |table: &Table| table.service("prod", "web").unwrap().shared_ports.len();
    assert_eq!(kept(&table_with(&rules(), 0)), 0);
}

/// A port is attributed to an endpoint that is alive, so that the omission of the others loses none.
#[test]
fn shared_port_of_a_cluster_that_is_down_is_omitted_unless_another_has_it() {
    let (http, both) = (
        json!([{"name": "http", "port": 80}]),
        json!([{"name": "http", "port": 80}, {"name": "old", "port": 81}, {"name": "web", "port": 80}]),
    );
    let target = "SRV 0 10 80 web.prod.svc.set.";
    let old = "SRV 0 10 81 web.prod.svc.set.";
    let east = mirror_with("east", "10.96.1.1", false, &both);
    let west = mirror_with("west", "10.96.2.1", true, &http);
    assert_answers(
        &[&east[..], &west].concat(),
        &[
            ("web.prod.svc.set SRV", target),
            ("_http._tcp.web.prod.svc.set SRV", target),
            // Rule M4, for each name: only the cluster that is down has the port.
            ("_old._tcp.web.prod.svc.set SRV", old),
            ("_web._tcp.web.prod.svc.set SRV", target),
        ],
    );
    assert_answers(
        &east,
        &[("web.prod.svc.set SRV", &format!("{target}, {old}"))],
    );
}
