//! Names of services of every kind, and the choice between kinds (rules K1 to K4 and M1b).

use serde_json::Value;

use super::*;
use crate::table::Rules;
use crate::testing::{backends, federated, local, service_mirror};

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
