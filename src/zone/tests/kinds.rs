//! Names of services of every kind, and the choice between kinds (rules K1 to K4 and M1b).

use serde_json::Value;

use super::*;
use crate::model::{KubeObject, parse};
use crate::table::{LocalMembers, Rules};
use crate::testing::{
    backends, exported, federated, flat_mirror, gateway, kind_of, listing, local, service_mirror,
};

/// Returns the answers to names below `prod.global`, one for each `NAME TYPE`.
fn answers(table: &Table, questions: &[&str]) -> Vec<String> {
    let zones = zones(&["global"]);
    let answer = |question: &&str| {
        let (name, rtype) = question.split_once(' ').unwrap();
        let rtype = match rtype {
            "A" => RecordType::A,
            "SRV" => RecordType::SRV,
            other => panic!("{other}"),
        };
        ask(&zones, table, &format!("{name}.prod.global"), rtype)
    };
    questions.iter().map(answer).collect()
}

/// Returns a mirror through a gateway with its slice.
fn through_gateway(cluster: &str, ip: &str, ready: bool) -> [Value; 2] {
    let mirror = service_mirror("prod", "web", cluster, ip);
    [
        mirror,
        backends("prod", &format!("web-{cluster}"), true, ready),
    ]
}

fn conflicts_of(table: &Table) -> Vec<String> {
    let conflicts = table.conflicts();
    conflicts
        .map(|conflict| {
            format!(
                "{} {}: {}",
                conflict.kind.name(),
                conflict.subject(),
                conflict.detail
            )
        })
        .collect()
}

#[test]
fn mirrors_with_cluster_ips_are_united_by_cluster() {
    let mut objects = through_gateway("east", "10.96.0.1", true).to_vec();
    objects.push(flat_mirror("prod", "web", "west", "10.96.0.2"));
    objects.extend([
        exported("prod", "web", "10.96.0.3"),
        backends("prod", "web", false, true),
    ]);
    let table = table(&objects);
    let questions = [
        "web A",
        "east.web A",
        "hub.web A",
        "north.web A",
        "h.east.web A",
        "_http._tcp.web SRV",
        "_http._tcp.east.web SRV",
        "web SRV",
    ];
    assert_eq!(
        answers(&table, &questions),
        [
            "A 10.96.0.1, A 10.96.0.3, A 10.96.0.2",
            "A 10.96.0.1",
            "A 10.96.0.3",
            "NXDOMAIN global.",
            "NXDOMAIN global.",
            "SRV 0 10 80 east.web.prod.global., SRV 0 10 80 hub.web.prod.global., SRV 0 10 80 west.web.prod.global.",
            "SRV 0 10 80 east.web.prod.global.",
            "SRV 0 10 80 east.web.prod.global., SRV 0 10 80 hub.web.prod.global., SRV 0 10 80 west.web.prod.global.",
        ]
    );
    // Their liveness differs.
    assert_eq!(
        conflicts_of(&table),
        ["kind prod/web: a cluster IP in east, hub; a flat network in west"]
    );
}

#[test]
fn cluster_ip_without_ready_backend_is_omitted_if_another_has_one() {
    let answer =
        |objects: Vec<Value>| answers(&table(&objects), &["web A", "east.web A"]).join("; ");
    let [east, up] = through_gateway("east", "10.96.0.1", true);
    let [_, down] = through_gateway("east", "10.96.0.1", false);
    let west = through_gateway("west", "10.96.0.2", true).to_vec();
    let with = |objects: &[&Value]| {
        let objects = objects.iter().map(|object| (*object).clone());
        objects.chain(west.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        answer(with(&[&east, &up])),
        "A 10.96.0.1, A 10.96.0.2; A 10.96.0.1"
    );
    assert_eq!(answer(with(&[&east, &down])), "A 10.96.0.2; A 10.96.0.1");
    // No slice: the exported Service has no ready endpoint. For an endpoint mirror, it means that the gateway is up.
    assert_eq!(answer(with(&[&east])), "A 10.96.0.2; A 10.96.0.1");
    // The last resort.
    assert_eq!(answer(vec![east]), "A 10.96.0.1; A 10.96.0.1");
    // A flat mirror has no slice.
    let flat = vec![flat_mirror("prod", "web", "east", "10.96.0.1")];
    assert_eq!(
        answer([flat, west].concat()),
        "A 10.96.0.1, A 10.96.0.2; A 10.96.0.1"
    );
}

#[test]
fn federated_service_has_one_name_and_no_cluster() {
    let mut objects = vec![federated("prod", "web", "10.96.0.9", "web@east,web@west")];
    let questions = ["web A", "east.web A", "_http._tcp.web SRV"];
    let target = "SRV 0 10 80 web.prod.global.";
    assert_eq!(
        answers(&table(&objects), &questions),
        ["A 10.96.0.9", "NXDOMAIN global.", target]
    );
    // The mirror of a member keeps the name of its cluster. The federation includes the cluster, so nothing is omitted.
    objects.extend(through_gateway("east", "10.96.0.1", true));
    let both = table(&objects);
    assert_eq!(
        answers(&both, &questions),
        ["A 10.96.0.9", "A 10.96.0.1", target]
    );
    assert_eq!(conflicts_of(&both), Vec::<String>::new());
    // `north` is not a member.
    objects.extend(through_gateway("north", "10.96.0.2", true));
    let third = table(&objects);
    assert_eq!(
        answers(&third, &["web A", "north.web A"]),
        ["A 10.96.0.9, A 10.96.0.2", "A 10.96.0.2"]
    );
    assert_eq!(
        conflicts_of(&third),
        ["kind prod/web: a cluster IP in north; a federated service in east, west"]
    );
}

#[test]
fn each_cluster_answers_with_its_best_kind() {
    let headless = [
        mirror("prod", "web", "east"),
        endpoint("prod", "web", "east", "web-0", &["10.96.1.1"]),
    ];
    let mut objects = headless.to_vec();
    objects.extend(through_gateway("west", "10.96.0.2", true));
    objects.push(federated("prod", "web", "10.96.0.9", "web@north"));
    let table_of = |objects: &[Value]| table(objects);
    let questions = [
        "web A",
        "east.web A",
        "west.web A",
        "web-0.east.web A",
        "_http._tcp.web SRV",
    ];
    assert_eq!(
        answers(&table_of(&objects), &questions),
        [
            "A 10.96.0.9, A 10.96.1.1, A 10.96.0.2",
            "A 10.96.1.1",
            "A 10.96.0.2",
            "A 10.96.1.1",
            "SRV 0 10 80 web.prod.global., SRV 0 10 80 west.web.prod.global."
        ]
    );
    assert_eq!(
        conflicts_of(&table_of(&objects)),
        ["kind prod/web: a cluster IP in west; a federated service in north; pods in east"]
    );
    // Without its endpoint, the headless mirror is no candidate.
    objects.remove(1);
    assert_eq!(
        answers(&table_of(&objects), &["web A"]),
        ["A 10.96.0.9, A 10.96.0.2"]
    );
}

/// Headless mirroring is off by default. The mirrors of an exported headless Service then have cluster IPs.
#[test]
fn headless_service_of_this_cluster_joins_mirrors_with_cluster_ips() {
    let [mut service, slice] = local(
        "prod",
        "web",
        &[("web-0", "10.0.0.1", true), ("web-1", "10.0.0.2", false)],
    );
    let mirrors = through_gateway("east", "10.96.0.1", true);
    let answer = |service: &Value| {
        let objects = [vec![service.clone(), slice.clone()], mirrors.to_vec()].concat();
        answers(&table(&objects), &["web A", "hub.web A", "web-0.hub.web A"]).join("; ")
    };
    let joined = "A 10.96.0.1, A 10.0.0.1; A 10.0.0.1; A 10.0.0.1";
    assert_eq!(answer(&service), joined);
    service["metadata"]["labels"]["mirror.linkerd.io/exported"] = serde_json::json!("true");
    assert_eq!(answer(&service), joined);
}

/// A cluster that is excluded is never in a name.
#[test]
fn excluded_cluster_of_a_federated_service_is_no_conflict() {
    let objects = [
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.0.0.1"]),
        federated("prod", "db", "10.96.0.9", "db@east,db@north"),
    ];
    let conflicts = |excluded: &[&str]| {
        let excluded = excluded.iter().map(|name| name.parse().unwrap());
        let rules = Rules {
            excluded_clusters: excluded.collect(),
            ..rules()
        };
        conflicts_of(&table_by(&rules, &objects))
    };
    assert_eq!(
        conflicts(&[]),
        ["kind prod/db: a federated service in east, north; pods in east"]
    );
    assert_eq!(conflicts(&["north"]), [""; 0]);
}

/// Only a ready pod is in the name.
#[test]
fn pod_of_another_kind_is_noted_only_if_it_is_ready() {
    let conflicts = |ready: bool| {
        let mut objects = local("prod", "web", &[("web-0", "10.0.0.1", ready)]).to_vec();
        objects[0]["metadata"]["labels"]["mirror.linkerd.io/exported"] = "true".into();
        objects.push(federated("prod", "web", "10.96.0.9", "web.shop@east"));
        let mut conflicts = conflicts_of(&table(&objects));
        conflicts.retain(|conflict| conflict.starts_with("kind "));
        conflicts
    };
    assert_eq!(conflicts(false), [""; 0]);
    assert_eq!(
        conflicts(true),
        ["kind prod/web: a federated service; pods in hub"]
    );
}

#[test]
fn service_of_this_cluster_with_a_cluster_ip_joins_if_it_is_exported() {
    let objects = [
        exported("prod", "web", "10.96.0.3"),
        backends("prod", "web", false, true),
    ];
    assert_eq!(
        answers(&table(&objects), &["web A", "hub.web A"]),
        ["A 10.96.0.3", "A 10.96.0.3"]
    );
    let off = Rules {
        local_members: LocalMembers::None,
        ..rules()
    };
    assert_eq!(
        answers(&table_by(&off, &objects), &["web A"]),
        ["NXDOMAIN global."]
    );
}

/// Rule M1b: a pod with an exported Service of its own. `db-0-west` is the mirror of that Service.
#[test]
fn listed_host_with_a_service_of_its_own_is_an_endpoint() {
    let host = service_mirror("prod", "db-0", "west", "10.96.2.1");
    let slice = backends("prod", "db-0-west", true, true);
    let listed = [
        mirror("prod", "db", "west"),
        listing(
            "prod",
            "db-west",
            &[("db-0", "10.96.2.1"), ("db-1", "10.96.2.2")],
        ),
        endpoint("prod", "db", "west", "db-1", &["10.96.2.2"]),
    ];
    let answer = |objects: &[Value]| {
        answers(&table(objects), &["db A", "db-0.west.db A", "db-0 A"]).join("; ")
    };
    let all = [&listed[..], &[host.clone(), slice]].concat();
    assert_eq!(
        answer(&all),
        "A 10.96.2.1, A 10.96.2.2; A 10.96.2.1; A 10.96.2.1"
    );
    // Its own slices decide about its liveness.
    let down = backends("prod", "db-0-west", true, false);
    let all = [
        &listed[..],
        &[host.clone(), down, gateway("prod", "db-1-west", true)],
    ]
    .concat();
    assert_eq!(answer(&all), "A 10.96.2.2; A 10.96.2.1; A 10.96.2.1");
    // The list has another address, so the Service is another one.
    let other = service_mirror("prod", "db-0", "west", "10.96.2.9");
    let all = [&listed[..], &[other]].concat();
    assert_eq!(answer(&all), "A 10.96.2.2; SERVFAIL; A 10.96.2.9");
}

/// Rule M1c: two pods of one Service with a port each. Linkerd gives the mirrors of both all ports of the Service.
#[test]
fn host_has_the_ports_that_the_slices_list_for_it() {
    let list = include_str!("../../../tests/fixtures/ports-of-some-pods.json");
    let list: Value = serde_json::from_str(list).unwrap();
    let mut objects = list["items"].as_array().unwrap().clone();
    let zones = zones(&["global"]);
    let srv = |objects: &[Value], name: &str| {
        let name = format!("{name}.brokers.kafka.global");
        ask(&zones, &table(objects), &name, RecordType::SRV)
    };
    let both = "SRV 0 10 9092 brk-0.east.brokers.kafka.global., SRV 0 10 9092 ctl-0.east.brokers.kafka.global.";
    let one = "SRV 0 10 9092 brk-0.east.brokers.kafka.global.";
    assert_eq!(srv(&objects, "_clients._tcp"), one);
    assert_eq!(
        srv(&objects, "_ctrl._tcp"),
        "SRV 0 10 9090 ctl-0.east.brokers.kafka.global."
    );
    assert_eq!(
        srv(&objects, "_clients._tcp.ctl-0.east"),
        "NXDOMAIN global."
    );
    // A renamed port has no name in common with the mirror, which keeps the old names.
    let slices = objects.len() - 2;
    for slice in &mut objects[slices..] {
        slice["ports"][0]["name"] = "renamed".into();
    }
    assert_eq!(srv(&objects, "_clients._tcp"), both);
    // Without slices, a host has all ports.
    objects.truncate(slices);
    assert_eq!(srv(&objects, "_clients._tcp"), both);
}

#[test]
fn service_that_is_not_headless_has_a_short_name_only_by_a_flag() {
    let objects = through_gateway("east", "10.96.0.1", true);
    let zones = zones(&["global"]);
    let short = |rules: &Rules| {
        ask(
            &zones,
            &table_by(rules, &objects),
            "web.global",
            RecordType::A,
        )
    };
    assert_eq!(short(&rules()), "NXDOMAIN global.");
    let pinned = Rules {
        pinned_names: [("web".parse().unwrap(), "prod".parse().unwrap())].into(),
        ..rules()
    };
    assert_eq!(short(&pinned), "A 10.96.0.1");
    let default = Rules {
        default_namespace: Some("prod".parse().unwrap()),
        ..rules()
    };
    assert_eq!(short(&default), "A 10.96.0.1");
    // It cannot take the short name of a headless service away.
    let headless = [
        mirror("shop", "web", "east"),
        endpoint("shop", "web", "east", "web-0", &["10.96.1.1"]),
    ];
    let both = table(&[&objects[..], &headless].concat());
    assert_eq!(
        ask(&zones, &both, "web.global", RecordType::A),
        "A 10.96.1.1"
    );
}

#[test]
fn exported_service_without_a_ready_endpoint_is_dead() {
    let mut objects = through_gateway("east", "10.96.0.1", true).to_vec();
    objects.extend([
        exported("prod", "web", "10.96.0.3"),
        backends("prod", "web", false, false),
    ]);
    assert_eq!(
        answers(&table(&objects), &["web A", "hub.web A"]),
        ["A 10.96.0.1", "A 10.96.0.3"]
    );
}

/// RFC 2181 section 9: no part of an RRset is returned without TC. The name of a cluster with pods and a cluster IP has the
/// addresses of all of them.
#[test]
fn additional_section_has_all_addresses_of_a_target() {
    let mut objects = through_gateway("east", "10.96.0.1", true).to_vec();
    let [mut service, slice] = local(
        "prod",
        "web",
        &[("web-0", "10.0.0.1", true), ("web-1", "10.0.0.2", true)],
    );
    service["metadata"]["labels"]["mirror.linkerd.io/exported"] = serde_json::json!("true");
    objects.extend([service, slice]);
    // This cluster has the name of the link: two sources of one name are united (rule M6).
    let rules = Rules {
        cluster_name: "east".parse().unwrap(),
        ..rules()
    };
    let table = table_by(&rules, &objects);
    let zones = zones(&["global"]);
    let lines = |records: Vec<Record<'_>>, is_wanted: fn(&Record<'_>) -> bool| {
        let wanted = records.into_iter().filter(is_wanted);
        let texts = wanted.map(|one| format!("{} {}", one.owner, one.data).replace('\t', " "));
        texts.collect::<Vec<String>>()
    };
    let name = Name::from_text("_http._tcp.east.web.prod.global").unwrap();
    let srv = answer(read(&zones, &table, &name), RecordType::SRV);
    let additional = lines(srv.records(AnswerContext::new(&name, 7)), |record| {
        matches!(record.section, Section::Additional { .. })
    });
    let target = Name::from_text("east.web.prod.global").unwrap();
    let a = answer(read(&zones, &table, &target), RecordType::A);
    let own = lines(a.records(AnswerContext::new(&target, 7)), |_| true);
    assert_eq!(additional, own);
    let ips = ["10.96.0.1", "10.0.0.1", "10.0.0.2"];
    assert_eq!(own, ips.map(|ip| format!("east.web.prod.global. A {ip}")));
}

/// Cilium copies labels of an exported Service to the objects that it derives from a ServiceImport.
#[test]
fn labels_of_linkerd_on_objects_of_the_mcs_api_change_no_answer() {
    let real = [
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        // `db-1` has no mirror yet.
        listing("prod", "db-east", &[("db-1", "10.66.6.3")]),
    ];
    let forged = [
        mirror("prod", "db", "west"),
        endpoint("prod", "db", "west", "db-0", &["10.66.6.1"]),
        endpoint("prod", "db", "east", "db-9", &["10.66.6.2"]),
        // The Service of its own of `db-1` (rule M1b).
        service_mirror("prod", "db-1", "east", "10.66.6.3"),
        backends("prod", "db-1-east", true, true),
        flat_mirror("prod", "web", "east", "10.66.6.4"),
        federated("prod", "all", "10.66.6.5", "all@east"),
        // The gateway of a real mirror (rule M3).
        gateway("prod", "db-0-east", false),
    ];
    let derived = |mut object: Value| {
        object["metadata"]["labels"]["multicluster.kubernetes.io/service-name"] = json!("derived");
        object
    };
    let questions = [
        "db A",
        "west.db A",
        "db-9.east.db A",
        "db-1.east.db A",
        "db-1 A",
        "web A",
        "all A",
    ];
    let before = answers(&table(&real), &questions);
    assert_eq!(before[0], "A 10.96.0.1");
    assert_eq!(before[3], "SERVFAIL");
    let mut others = [&before[1..3], &before[4..]].concat().into_iter();
    assert!(others.all(|one| one == "NXDOMAIN global."), "{before:?}");
    let gateways_are_down = |table: &Table| {
        let endpoints = &table.service("prod", "db").unwrap().endpoints;
        endpoints.iter().any(|endpoint| !endpoint.is_alive())
    };
    let with = |forged: Vec<Value>| table(&[real.to_vec(), forged].concat());
    // Slices with that label do not matter.
    let is_selected = |object: &Value| {
        let json = object.to_string();
        parse::read(kind_of(object), &KubeObject::read(&json)).is_some()
    };
    let selected = forged.clone().map(derived).into_iter().filter(is_selected);
    let after = with(selected.collect());
    assert_eq!(answers(&after, &questions), before);
    assert!(!gateways_are_down(&after));
    // Without that label, each of them would count.
    let mirrored = with(forged.into());
    let counted = answers(&mirrored, &questions);
    assert!(
        counted.iter().zip(&before).all(|(one, other)| one != other),
        "{counted:?}"
    );
    assert!(gateways_are_down(&mirrored));
}
