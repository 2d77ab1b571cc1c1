//! Names of services of the Multi-Cluster Services API (kind `import`, rules K1 and K9).

use std::ops::ControlFlow;

use serde_json::Value;

use super::*;
use crate::table::Rules;
use crate::testing::{
    backends, exported, federated, import, import_slice, local, service_mirror, submariner_slice,
};
use crate::zone::print::owner_names;

fn rules_with_cluster_sets() -> Rules {
    Rules {
        has_cluster_sets: true,
        ..rules()
    }
}

/// Asserts the answers of `objects`. `global` and `set` stand for the two zones.
fn assert_answers(objects: &[Value], expected: &[(&str, &str)]) {
    let table = table_by(&rules_with_cluster_sets(), objects);
    let zones = zones(&["global", "set=mcs"]);
    for (question, expected) in expected {
        let (name, rtype) = question.split_once(' ').unwrap();
        let rtype = match rtype {
            "A" => RecordType::A,
            "AAAA" => RecordType::AAAA,
            "SRV" => RecordType::SRV,
            "TXT" => RecordType::TXT,
            "SOA" => RecordType::SOA,
            other => panic!("{other}"),
        };
        assert_eq!(ask(&zones, &table, name, rtype), *expected, "{question}");
    }
}

fn headless() -> Vec<Value> {
    let mut v6 = import_slice("prod", "db", "east", &[("db-0", "2001:db8::1")]);
    v6["metadata"]["name"] = json!("derived-db-east-v6");
    v6["addressType"] = json!("IPv6");
    vec![
        import("prod", "db", "Headless", &[]),
        import_slice(
            "prod",
            "db",
            "east",
            &[("db-0", "10.1.0.1"), ("", "10.1.0.2")],
        ),
        v6,
        import_slice("prod", "db", "west", &[("db-0", "10.2.0.1")]),
    ]
}

#[test]
fn headless_import_has_an_endpoint_for_each_entry_of_its_slices() {
    let srv = |zone: &str| {
        let target = |host: &str| format!("SRV 0 10 26257 {host}.db.prod.{zone}.");
        let hosts = ["10-1-0-2.east", "db-0.east", "db-0.west"];
        hosts.map(target).join(", ")
    };
    assert_answers(
        &headless(),
        &[
            ("db.prod.global A", "A 10.1.0.2, A 10.1.0.1, A 10.2.0.1"),
            ("db.prod.global AAAA", "AAAA 2001:db8::1"),
            ("db.prod.global SRV", &srv("global")),
            ("east.db.prod.global A", "A 10.1.0.2, A 10.1.0.1"),
            ("db-0.west.db.prod.global A", "A 10.2.0.1"),
            // Only headless mirrors and members of this cluster make short names.
            ("db.global A", "NXDOMAIN global."),
            ("db.prod.svc.set A", "A 10.1.0.2, A 10.1.0.1, A 10.2.0.1"),
            ("db.prod.svc.set SRV", &srv("svc.set")),
            ("_sql._tcp.db.prod.svc.set SRV", &srv("svc.set")),
            ("_sql._tcp.db.prod.svc.set A", "NODATA set."),
            ("_tcp.db.prod.svc.set SRV", "NODATA set."),
            ("_dns._udp.db.prod.svc.set SRV", "NXDOMAIN set."),
            ("_sql._tcp.prod.svc.set SRV", "NXDOMAIN set."),
            ("_sql._tcp.svc.set SRV", "NXDOMAIN set."),
            ("db-0.west.db.prod.svc.set A", "A 10.2.0.1"),
            ("db-0.east.db.prod.svc.set AAAA", "AAAA 2001:db8::1"),
            (
                "db-0.west.db.prod.svc.set SRV",
                "SRV 0 10 26257 db-0.west.db.prod.svc.set.",
            ),
            ("_sql._tcp.db-0.west.db.prod.svc.set SRV", "NXDOMAIN set."),
            ("west.db.prod.svc.set A", "NODATA set."),
            ("_sql._tcp.west.db.prod.svc.set SRV", "NXDOMAIN set."),
            ("north.db.prod.svc.set A", "NXDOMAIN set."),
            ("db-9.west.db.prod.svc.set A", "NXDOMAIN set."),
            ("prod.svc.set A", "NODATA set."),
            ("test.svc.set A", "NXDOMAIN set."),
            ("svc.set A", "NODATA set."),
            ("db.prod.set A", "NXDOMAIN set."),
            ("prod.set A", "NXDOMAIN set."),
            ("db.set A", "NXDOMAIN set."),
            ("dns-version.set TXT", "TXT \"1.0.0\""),
            ("dns-version.global TXT", "TXT \"1.1.0\""),
            ("ns.dns.set A", "A 192.0.2.53"),
            ("dns.set A", "NODATA set."),
        ],
    );
}

/// The status only explains why there are no slices.
#[test]
fn slices_are_read_although_the_status_denies_them() {
    let mut objects = headless();
    objects[0]["status"]["endpointSliceObjects"] = json!("Absent");
    assert_answers(
        &objects,
        &[
            ("db.prod.global A", "A 10.1.0.2, A 10.1.0.1, A 10.2.0.1"),
            ("db-0.west.db.prod.svc.set A", "A 10.2.0.1"),
        ],
    );
    assert_eq!(
        table_by(&rules_with_cluster_sets(), &objects)
            .skipped()
            .count(),
        0
    );
}

#[test]
fn names_of_a_cluster_set_are_listed() {
    let table = table_by(&rules_with_cluster_sets(), &headless());
    let zones = zones(&["set=mcs"]);
    let names = owner_names(zones.iter().next().unwrap(), &table);
    let expected = [
        "10-1-0-2.east.db.prod.svc.set.",
        "_sql._tcp.db.prod.svc.set.",
        "db-0.east.db.prod.svc.set.",
        "db-0.west.db.prod.svc.set.",
        "db.prod.svc.set.",
    ];
    assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
}

/// The clusters of Submariner share one target. It has one SRV record for each port, and one set of addresses.
#[test]
fn addresses_of_a_shared_target_are_added_with_its_first_record() {
    let slice = |cluster, ip, ports| {
        let mut slice = submariner_slice("prod", "web", cluster, ip, true);
        slice["ports"] = ports;
        slice
    };
    let objects = [
        import("prod", "web", "ClusterSetIP", &[]),
        slice("central", "10.96.0.1", json!([])),
        slice(
            "east",
            "10.96.1.1",
            json!([{"name": "http", "port": 8080}, {"name": "metrics", "port": 80}]),
        ),
        slice("west", "10.96.2.1", json!([{"name": "http", "port": 80}])),
    ];
    let table = table_by(&rules_with_cluster_sets(), &objects);
    let zones = zones(&["set=mcs"]);
    let rows = |name: &str| {
        let name = Name::from_text(name).unwrap();
        let Reading::View(_, view) = read(&zones, &table, &name) else {
            panic!("{name:?}")
        };
        let mut rows = Vec::new();
        let _ = view.visit_rows(RecordType::SRV, &mut |row| {
            if let RowData::Srv(port) = row.data {
                rows.push((port, row.is_first));
            }
            ControlFlow::Continue(())
        });
        rows
    };
    assert_eq!(rows("web.prod.svc.set"), [(80, true), (8080, false)]);
    assert_eq!(
        rows("_http._tcp.web.prod.svc.set"),
        [(8080, true), (80, false)]
    );
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
    let (clusters, ports) = (usize::from(CLUSTERS), usize::from(PORTS));
    let (own, one) = ("web.prod.svc.set", "_p7._tcp.web.prod.svc.set");
    let same = table_with(&rules_with_cluster_sets(), 0);
    assert_eq!(counts(&same, own), (ports, ports));
    assert_eq!(counts(&same, one), (1, ports));
    let different = table_with(&rules_with_cluster_sets(), PORTS);
    let all = clusters * ports;
    assert_eq!(counts(&different, own), (all, all));
    assert_eq!(counts(&different, one), (clusters, all));
    // Without a zone of the API, nothing is kept.
    let kept = |table: &Table| table.service("prod", "web").unwrap().shared_ports.len();
    assert_eq!(kept(&table_with(&rules(), 0)), 0);
}

/// A port is attributed to an endpoint that is alive, so that the omission of the others loses none.
#[test]
fn shared_port_of_a_cluster_that_is_down_is_omitted_unless_another_has_it() {
    let slice = |cluster, ip, ready, ports| {
        let mut slice = submariner_slice("prod", "web", cluster, ip, ready);
        slice["ports"] = ports;
        slice
    };
    let (http, both) = (
        json!([{"name": "http", "port": 80}]),
        json!([{"name": "http", "port": 80}, {"name": "old", "port": 81}, {"name": "web", "port": 80}]),
    );
    let target = "SRV 0 10 80 web.prod.svc.set.";
    let old = "SRV 0 10 81 web.prod.svc.set.";
    let mut objects = vec![
        import("prod", "web", "ClusterSetIP", &[]),
        slice("east", "10.96.1.1", false, both),
        slice("west", "10.96.2.1", true, http),
    ];
    assert_answers(
        &objects,
        &[
            ("web.prod.svc.set SRV", target),
            ("_http._tcp.web.prod.svc.set SRV", target),
            // Rule M4, for each name: only the cluster that is down has the port.
            ("_old._tcp.web.prod.svc.set SRV", old),
            ("_web._tcp.web.prod.svc.set SRV", target),
        ],
    );
    objects.pop();
    assert_answers(
        &objects,
        &[("web.prod.svc.set SRV", &format!("{target}, {old}"))],
    );
}

#[test]
fn import_with_a_cluster_set_ip_has_one_address_and_no_name_below() {
    let objects = [import(
        "prod",
        "web",
        "ClusterSetIP",
        &["10.96.7.1", "2001:db8::7"],
    )];
    assert_answers(
        &objects,
        &[
            ("web.prod.global A", "A 10.96.7.1"),
            ("web.prod.global AAAA", "AAAA 2001:db8::7"),
            ("web.prod.global SRV", "SRV 0 10 80 web.prod.global."),
            ("east.web.prod.global A", "NXDOMAIN global."),
            ("web.prod.svc.set A", "A 10.96.7.1"),
            ("web.prod.svc.set SRV", "SRV 0 10 80 web.prod.svc.set."),
            (
                "_http._tcp.web.prod.svc.set SRV",
                "SRV 0 10 80 web.prod.svc.set.",
            ),
            ("east.web.prod.svc.set A", "NXDOMAIN set."),
        ],
    );
    let table = table_by(&rules_with_cluster_sets(), &objects);
    let endpoint = &table.service("prod", "web").unwrap().endpoints[0];
    let object = table
        .service("prod", "web")
        .unwrap()
        .object_refs(endpoint)
        .next();
    assert_eq!(object.unwrap().to_string(), "ServiceImport/prod/web");
}

/// Each cluster is answered by its best candidate (rule K1), and an import is the last one.
#[test]
fn address_of_an_import_is_omitted_if_all_its_clusters_have_mirrors() {
    let through_gateway = |cluster: &str, ip: &str| {
        let slice = backends("prod", &format!("web-{cluster}"), true, true);
        [service_mirror("prod", "web", cluster, ip), slice]
    };
    let mut objects = vec![import("prod", "web", "ClusterSetIP", &["10.96.0.9"])];
    objects.extend(through_gateway("east", "10.96.0.1"));
    let mut answers = Vec::new();
    for west in [None, Some(through_gateway("west", "10.96.0.2"))] {
        objects.extend(west.into_iter().flatten());
        let zones = zones(&["global"]);
        let name = "web.prod.global";
        answers.push(ask(&zones, &table(&objects), name, RecordType::A));
    }
    assert_eq!(
        answers,
        ["A 10.96.0.9, A 10.96.0.1", "A 10.96.0.1, A 10.96.0.2"]
    );
}

#[test]
fn submariner_has_the_cluster_ip_of_each_cluster() {
    let objects = [
        import("prod", "web", "ClusterSetIP", &[]),
        submariner_slice("prod", "web", "east", "10.96.1.1", true),
        submariner_slice("prod", "web", "west", "10.96.2.1", true),
        submariner_slice("prod", "web", "north", "10.96.3.1", false),
    ];
    assert_answers(
        &objects,
        &[
            ("web.prod.global A", "A 10.96.1.1, A 10.96.2.1"),
            ("north.web.prod.global A", "A 10.96.3.1"),
            (
                "web.prod.global SRV",
                "SRV 0 10 26257 east.web.prod.global., SRV 0 10 26257 west.web.prod.global.",
            ),
            // The specification has no name for one cluster. Equal records occur once.
            ("web.prod.svc.set A", "A 10.96.1.1, A 10.96.2.1"),
            ("web.prod.svc.set SRV", "SRV 0 10 26257 web.prod.svc.set."),
            (
                "_sql._tcp.web.prod.svc.set SRV",
                "SRV 0 10 26257 web.prod.svc.set.",
            ),
            ("east.web.prod.svc.set A", "NXDOMAIN set."),
        ],
    );
}

#[test]
fn shared_srv_target_has_all_its_addresses_in_the_additional_section() {
    let objects = [
        import("prod", "web", "ClusterSetIP", &[]),
        submariner_slice("prod", "web", "east", "10.96.1.1", true),
        submariner_slice("prod", "web", "west", "10.96.2.1", true),
    ];
    let table = table_by(&rules_with_cluster_sets(), &objects);
    let zones = zones(&["set=mcs"]);
    let name = Name::from_text("web.prod.svc.set").unwrap();
    for turn in 0..3 {
        let answer = answer(read(&zones, &table, &name), RecordType::SRV);
        let context = AnswerContext {
            order: AnswerOrder::Rotate,
            turn: Some(turn),
            ..AnswerContext::new(&name, 7)
        };
        let records = answer.records(context).into_iter();
        let additional =
            records.filter(|record| matches!(record.section, Section::Additional { .. }));
        let texts: Vec<String> = additional
            .map(|record| format!("{} {}", record.owner, record.data).replace('\t', " "))
            .collect();
        assert_eq!(
            texts,
            [
                "web.prod.svc.set. A 10.96.1.1",
                "web.prod.svc.set. A 10.96.2.1"
            ]
        );
    }
}

#[test]
fn import_comes_last_among_the_kinds_and_first_in_a_zone_of_the_api() {
    let imports = [
        import("prod", "web", "Headless", &[]),
        import_slice("prod", "web", "east", &[("web-0", "10.1.0.1")]),
        import_slice("prod", "web", "north", &[("web-0", "10.3.0.1")]),
    ];
    let mut objects = imports.to_vec();
    objects.extend([
        service_mirror("prod", "web", "east", "10.96.0.1"),
        backends("prod", "web-east", true, true),
    ]);
    assert_answers(
        &objects,
        &[
            // The mirror stands for its cluster, and the import for the other one.
            ("web.prod.global A", "A 10.96.0.1, A 10.3.0.1"),
            ("east.web.prod.global A", "A 10.96.0.1"),
            ("web-0.east.web.prod.global A", "NXDOMAIN global."),
            ("web-0.north.web.prod.global A", "A 10.3.0.1"),
            ("web.prod.svc.set A", "A 10.1.0.1, A 10.3.0.1"),
            ("web-0.east.web.prod.svc.set A", "A 10.1.0.1"),
        ],
    );
    let table = table_by(&rules_with_cluster_sets(), &objects);
    let conflicts: Vec<&str> = table.conflicts().map(|one| &*one.detail).collect();
    assert_eq!(
        conflicts,
        ["a ServiceImport in north; a cluster IP in east"]
    );

    // A kind without endpoints takes no part.
    let idle = [import("prod", "web", "Headless", &[])];
    let mirror = [
        service_mirror("prod", "web", "east", "10.96.0.1"),
        backends("prod", "web-east", true, true),
    ];
    assert_answers(
        &[&idle[..], &mirror].concat(),
        &[
            ("web.prod.global A", "A 10.96.0.1"),
            ("web.prod.svc.set A", "A 10.96.0.1"),
        ],
    );
}

#[test]
fn services_of_linkerd_have_the_names_of_the_api() {
    let mut objects = vec![
        service_mirror("prod", "web", "east", "10.96.0.1"),
        backends("prod", "web-east", true, true),
        exported("prod", "web", "10.96.0.2"),
        backends("prod", "web", false, true),
    ];
    // Members that are not exported do not join in a zone of the API.
    objects.extend([
        federated("prod", "api", "10.96.0.9", "api@east"),
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.4"]),
    ]);
    objects.extend(local("prod", "db", &[("db-0", "10.0.0.4", true)]));
    assert_answers(
        &objects,
        &[
            ("web.prod.svc.set A", "A 10.96.0.1, A 10.96.0.2"),
            ("web.prod.svc.set SRV", "SRV 0 10 80 web.prod.svc.set."),
            ("api.prod.svc.set A", "A 10.96.0.9"),
            ("db.prod.global A", "A 10.96.0.4, A 10.0.0.4"),
            ("db.prod.svc.set A", "A 10.96.0.4"),
            ("db-0.east.db.prod.svc.set A", "A 10.96.0.4"),
            ("db-0.hub.db.prod.svc.set A", "NXDOMAIN set."),
        ],
    );
}

#[test]
fn pods_that_are_not_exported_have_no_name_of_the_api() {
    let mut local = local("prod", "db", &[("db-0", "10.0.0.4", true)]);
    let mirror = mirror("prod", "db", "east");
    assert_answers(
        &[&local[..], std::slice::from_ref(&mirror)].concat(),
        &[
            ("db.prod.global A", "A 10.0.0.4"),
            ("db.prod.svc.set A", "NXDOMAIN set."),
            ("prod.svc.set A", "NXDOMAIN set."),
            ("svc.set A", "NXDOMAIN set."),
        ],
    );
    // They open a name that waits for this cluster in both zones.
    local[0]["metadata"]["annotations"] = json!({"global-dns/expected-clusters": "hub+east"});
    let remote = [
        mirror,
        endpoint("prod", "db", "east", "db-0", &["10.96.0.4"]),
    ];
    assert_answers(
        &[&local[..], &remote].concat(),
        &[
            ("db.prod.global A", "A 10.96.0.4, A 10.0.0.4"),
            ("db.prod.svc.set A", "A 10.96.0.4"),
        ],
    );
}

#[test]
fn endpoint_that_is_not_ready_is_no_endpoint() {
    let mut objects = headless();
    objects[1]["endpoints"][0]["conditions"]["ready"] = json!(false);
    objects[3]["endpoints"][0]["conditions"]["ready"] = json!(false);
    let mut published = objects.clone();
    for slice in &mut published {
        slice["metadata"]["annotations"] =
            json!({"lighthouse.submariner.io/publish-not-ready-addresses": "true"});
    }
    assert_answers(
        &objects,
        &[
            ("db.prod.svc.set A", "A 10.1.0.2"),
            ("db-0.west.db.prod.svc.set A", "NXDOMAIN set."),
        ],
    );
    let all = "A 10.1.0.2, A 10.1.0.1, A 10.2.0.1";
    assert_answers(&published, &[("db.prod.svc.set A", all)]);
}

#[test]
fn unusable_imports_and_slices_are_skipped_with_a_sentence() {
    let mut bad_cluster = import_slice("prod", "db", "east", &[("db-0", "10.1.0.1")]);
    let label = "multicluster.kubernetes.io/source-cluster";
    bad_cluster["metadata"]["labels"][label] = json!("East_1");
    let mut foreign = import("evil", "db", "ClusterSetIP", &["10.6.6.6"]);
    foreign["metadata"]["labels"] = json!({"lighthouse.submariner.io/sourceNamespace": "prod"});
    let mut copy = submariner_slice("broker", "db", "east", "10.6.6.7", true);
    copy["metadata"]["labels"]["lighthouse.submariner.io/sourceNamespace"] = json!("prod");
    let mut broker = import("broker", "db-prod", "ClusterSetIP", &["10.6.6.8"]);
    broker["metadata"]["annotations"] = json!({"multicluster.kubernetes.io/service-name": "db"});
    let mut kind = import("prod", "new", "Anycast", &[]);
    kind["metadata"]["name"] = json!("new");
    let mut without_slices = import("prod", "plain", "Headless", &[]);
    without_slices["status"]["endpointSliceObjects"] = json!("Absent");
    let objects = [
        import("prod", "db", "Headless", &[]),
        bad_cluster,
        import_slice("prod", "lost", "east", &[("lost-0", "10.1.0.9")]),
        import("prod", "idle", "Headless", &[]),
        without_slices,
        import("prod", "api", "ClusterSetIP", &[]),
        import("prod", "web", "ClusterSetIP", &["127.0.0.1"]),
        foreign,
        copy,
        broker,
        kind,
    ];
    let table = table_by(&rules_with_cluster_sets(), &objects);
    let mut skipped: Vec<String> = table
        .skipped()
        .map(|one| format!("{} {}: {}", one.subject(), one.kind, one.detail))
        .collect();
    skipped.sort();
    assert_eq!(
        skipped,
        [
            "EndpointSlice/broker/derived-db-east-7xk2p internal: label lighthouse.submariner.io/sourceNamespace names \
             namespace 'prod', but the object is in 'broker'",
            "EndpointSlice/prod/derived-db-east-7xk2p bad-name: label multicluster.kubernetes.io/source-cluster is \
             'East_1', which is not a DNS label",
            "EndpointSlice/prod/derived-lost-east-7xk2p no-parent: ServiceImport prod/lost does not exist or is skipped",
            "ServiceImport/broker/db-prod internal: multicluster.kubernetes.io/service-name marks an object that \
             Submariner keeps for its own use",
            "ServiceImport/evil/db internal: lighthouse.submariner.io/sourceNamespace marks an object that Submariner \
             keeps for its own use",
            "ServiceImport/prod/api no-slice: type ClusterSetIP, but ips is empty and no EndpointSlice of Submariner \
             exists",
            "ServiceImport/prod/idle no-slice: type Headless, but no EndpointSlice of it exists",
            "ServiceImport/prod/new undecodable: type is 'Anycast', neither ClusterSetIP nor Headless",
            "ServiceImport/prod/plain no-slice: type Headless, but its implementation writes no EndpointSlices here: \
             status.endpointSliceObjects is Absent",
            "ServiceImport/prod/web bad-address: '127.0.0.1' is a loopback address",
        ]
    );
    let zones = zones(&["global", "set=mcs"]);
    for service in [
        "db.prod",
        "lost.prod",
        "idle.prod",
        "plain.prod",
        "api.prod",
        "web.prod",
        "db.evil",
        "db.broker",
    ] {
        for zone in ["global", "svc.set"] {
            let answer = ask(&zones, &table, &format!("{service}.{zone}"), RecordType::A);
            assert!(answer.starts_with("NXDOMAIN"), "{service}.{zone}: {answer}");
        }
    }
}

#[test]
fn additional_section_has_all_addresses_of_a_target_that_one_cluster_has_the_port_of() {
    let mut west = submariner_slice("prod", "web", "west", "10.96.2.1", true);
    west["ports"] = json!([{"name": "metrics", "port": 9090}]);
    let objects = [
        import("prod", "web", "ClusterSetIP", &[]),
        submariner_slice("prod", "web", "east", "10.96.1.1", true),
        west,
    ];
    let table = table_by(&rules_with_cluster_sets(), &objects);
    let zones = zones(&["set=mcs"]);
    let name = Name::from_text("_metrics._tcp.web.prod.svc.set").unwrap();
    let answer = answer(read(&zones, &table, &name), RecordType::SRV);
    let records = answer.records(AnswerContext::new(&name, 7));
    let texts: Vec<String> = records
        .iter()
        .map(|record| record.data.to_string().replace('\t', " "))
        .collect();
    assert_eq!(
        texts,
        [
            "SRV 0 10 9090 web.prod.svc.set.",
            "A 10.96.1.1",
            "A 10.96.2.1"
        ]
    );
}
