//! Aliases: one name for the members of several services.

use super::*;
use crate::model::{Problem, ProblemKind, ServiceKey};
use crate::table::diff::diff;
use crate::table::{Aliases, LocalMembers, Rules, ServiceKind};
use crate::testing::{Server, backends, gateway, ordered, service_mirror};

const ALL: &str = "A 10.96.0.1, A 10.96.0.2, A 10.96.0.3";

fn key(namespace: &str) -> ServiceKey {
    ServiceKey {
        namespace: namespace.parse().unwrap(),
        service: "db".parse().unwrap(),
    }
}

/// Returns rules with `db.prod` as alias of `db.db-east` and `db.db-west`.
fn aliased() -> Rules {
    let sources = vec![key("db-east"), key("db-west")];
    Rules {
        aliases: Aliases::new([(key("prod"), sources)].into()).unwrap(),
        has_mcs_zones: true,
        zone_clusters: ["east".parse().unwrap()].into(),
        ..rules()
    }
}

/// Returns a database with a namespace for each cluster.
fn database() -> Vec<Value> {
    vec![
        mirror("db-east", "db", "east"),
        endpoint("db-east", "db", "east", "db-0", &["10.96.0.1", "fd00::1"]),
        endpoint("db-east", "db", "east", "db-1", &["10.96.0.2"]),
        mirror("db-west", "db", "west"),
        endpoint("db-west", "db", "west", "db-0", &["10.96.0.3"]),
    ]
}

/// Returns the table of the database and further objects.
fn with(further: Vec<Value>) -> Table {
    table_by(&aliased(), &[database(), further].concat())
}

#[test]
fn alias_has_the_members_of_its_services_under_its_names() {
    check(
        &with(Vec::new()),
        &[
            ("db.prod.global A", ALL),
            ("db.prod.global AAAA", "AAAA fd00::1"),
            (
                "_sql._tcp.db.prod.global SRV",
                "SRV 0 10 26257 db-0.east.db.prod.global., SRV 0 10 26257 db-1.east.db.prod.global., \
                 SRV 0 10 26257 db-0.west.db.prod.global.",
            ),
            ("east.db.prod.global A", "A 10.96.0.1, A 10.96.0.2"),
            ("db-0.west.db.prod.global A", "A 10.96.0.3"),
            (
                "_sql._tcp.db-0.west.db.prod.global SRV",
                "SRV 0 10 26257 db-0.west.db.prod.global.",
            ),
            ("db-1.west.db.prod.global A", "NXDOMAIN global."),
            // The services keep their names, and theirs have nothing of the other one.
            ("db.db-west.global A", "A 10.96.0.3"),
            ("db-0.east.db.db-east.global A", "A 10.96.0.1"),
            ("db.prod.svc.set A", ALL),
            (
                "_sql._tcp.db.prod.svc.set SRV",
                "SRV 0 10 26257 db-0.east.db.prod.svc.set., SRV 0 10 26257 db-1.east.db.prod.svc.set., \
                 SRV 0 10 26257 db-0.west.db.prod.svc.set.",
            ),
            ("db-0.west.db.prod.svc.set A", "A 10.96.0.3"),
            // It owns the short name before its sources, whose namespaces have services of the same name.
            ("db.global A", ALL),
            (
                "_sql._tcp.west.db.global SRV",
                "SRV 0 10 26257 db-0.west.db.global.",
            ),
        ],
    );
    // Another tenant has a service of that name.
    let other = with(vec![mirror("shop", "db", "east")]);
    check(&other, &[("db.global A", "NXDOMAIN global.")]);
}

/// Two services of an alias have a host of the same name in one cluster: the name of the host has both, which is an error.
#[test]
fn hosts_of_one_name_are_united_and_reported() {
    let table = with(vec![
        mirror("db-west", "db", "east"),
        endpoint("db-west", "db", "east", "db-0", &["10.96.0.4"]),
    ]);
    check(
        &table,
        &[
            ("db-0.east.db.prod.global A", "A 10.96.0.1, A 10.96.0.4"),
            (
                "_sql._tcp.db-0.east.db.prod.global SRV",
                "SRV 0 10 26257 db-0.east.db.prod.global.",
            ),
            ("db-0.east.db.db-west.global A", "A 10.96.0.4"),
        ],
    );
    let conflicts = table.conflicts();
    let conflicts = conflicts.filter(|one| one.kind == ProblemKind::Endpoint);
    let conflicts: Vec<String> = conflicts.map(|one| one.to_string()).collect();
    assert_eq!(
        conflicts,
        [
            "Endpoint has several sources: prod/db: 'db-0' of cluster 'east' has 2 entries, in Service/db-east/db-0-east, \
          Service/db-west/db-0-east; merged"
        ]
    );
}

/// The members of the name itself come first, and keep its names.
#[test]
fn own_members_belong_to_the_alias() {
    let table = with(vec![
        mirror("prod", "db", "north"),
        endpoint("prod", "db", "north", "db-0", &["10.96.0.9"]),
    ]);
    check(
        &table,
        &[
            (
                "_sql._tcp.north.db.prod.global SRV",
                "SRV 0 10 26257 db-0.north.db.prod.global.",
            ),
            (
                "db.prod.global A",
                "A 10.96.0.1, A 10.96.0.2, A 10.96.0.9, A 10.96.0.3",
            ),
        ],
    );
}

/// A zone of one cluster has them alone, also if a source has the same ones. That such a member goes is a change.
#[test]
fn zone_of_one_cluster_has_no_members_of_an_alias_but_its_own() {
    let own = endpoint("prod", "db", "east", "db-0", &["10.96.0.1", "fd00::1"]);
    let tables = [
        with(vec![mirror("prod", "db", "east"), own]),
        with(Vec::new()),
    ];
    let of_source = [
        ("db.db-east.one A", "A 10.96.0.1, A 10.96.0.2"),
        ("db-1.db.db-east.one A", "A 10.96.0.2"),
    ];
    for table in &tables {
        check(table, &of_source);
        check(table, &[("db-1.db.prod.one A", "NXDOMAIN one.")]);
    }
    let target = "SRV 0 10 26257 db-0.db.prod.one.";
    for (question, own, of_alias) in [
        ("db.prod.one A", "A 10.96.0.1", "NXDOMAIN one."),
        ("_sql._tcp.db.prod.one SRV", target, "NXDOMAIN one."),
        ("db-0.db.prod.one AAAA", "AAAA fd00::1", "NXDOMAIN one."),
        ("prod.one A", "NODATA one.", "NXDOMAIN one."),
    ] {
        check(&tables[0], &[(question, own)]);
        check(&tables[1], &[(question, of_alias)]);
    }
    let services = tables.each_ref().map(|table| table.find(&key("prod")));
    assert!(!diff(services[0], services[1]).is_empty());
    assert_ne!(tables[0].answers_hash(), tables[1].answers_hash());
}

/// A headless Service of this cluster joins because an alias names it, also under its own name.
#[test]
fn own_pods_join_because_of_the_alias() {
    let objects = local("db-west", "db", &[("db-0", "10.0.0.1", true)]);
    for (local_members, expected) in [
        (LocalMembers::Matching, "A 10.0.0.1"),
        (LocalMembers::Exported, "NXDOMAIN global."),
    ] {
        let rules = Rules {
            local_members,
            ..aliased()
        };
        let table = table_by(&rules, &objects);
        for namespace in ["prod", "db-west"] {
            let name = format!("hub.db.{namespace}.global A");
            check(&table, &[(&name, expected)]);
        }
        // No other cluster sees the member. That is a problem of its own service, which names the Service to export.
        let is_private = |one: &&Problem| one.kind == ProblemKind::NotExported;
        let services = table
            .problems()
            .filter(is_private)
            .map(|one| one.service.clone());
        let reported = local_members == LocalMembers::Matching;
        assert!(services.eq(reported.then(|| Some(key("db-west")))));
    }
}

/// The settings of the alias count, those of its services do not: each of them may belong to another tenant.
#[test]
fn settings_of_the_alias_count_alone() {
    let with_order = |namespace: &str, order: &str| {
        let [mut own, _] = local(namespace, "db", &[]);
        own["spec"]["selector"] = json!({});
        own["metadata"]["annotations"] =
            json!({"global-dns/failover": order, "global-dns/gateway-down": "include"});
        with(vec![own])
    };
    check(
        &with_order("db-east", "north"),
        &[("db.prod.global A", ALL)],
    );
    check(
        &with_order("prod", "west:east"),
        &[
            ("db.prod.global A", "A 10.96.0.3"),
            ("db.db-east.global A", "A 10.96.0.1, A 10.96.0.2"),
        ],
    );
}

/// The order for all services is not for an alias of services with pods, also if the alias has no Service of its own.
#[test]
fn services_with_pods_make_an_alias_with_pods() {
    let mut rules = aliased();
    rules.failover = Some("west:east".parse().unwrap());
    // The order for all services would split it.
    check(&table_by(&rules, &database()), &[("db.prod.global A", ALL)]);
    rules.services = [(key("prod"), ordered("west:east"))].into();
    check(
        &table_by(&rules, &database()),
        &[("db.prod.global A", "A 10.96.0.3")],
    );
}

/// Rule M4 acts once, on all members.
#[test]
fn gateways_that_are_down_are_omitted_once() {
    check(
        &with(vec![gateway("db-west", "db-0-west", false)]),
        &[
            ("db.prod.global A", "A 10.96.0.1, A 10.96.0.2"),
            ("db.db-west.global A", "A 10.96.0.3"),
        ],
    );
}

/// Cluster IPs of one cluster are united.
#[test]
fn cluster_ips_are_members_too() {
    let objects = [
        service_mirror("db-east", "db", "east", "10.96.1.1"),
        backends("db-east", "db-east", true, true),
        service_mirror("db-west", "db", "east", "10.96.1.2"),
        backends("db-west", "db-east", true, true),
    ];
    let table = table_by(&aliased(), &objects);
    check(
        &table,
        &[
            ("east.db.prod.global A", "A 10.96.1.1, A 10.96.1.2"),
            (
                "_http._tcp.db.prod.global SRV",
                "SRV 0 10 80 east.db.prod.global.",
            ),
        ],
    );
    let kind = table.service("prod", "db").unwrap().kind;
    assert_eq!(kind, ServiceKind::Gateway);
}

/// The name exists before the first cluster is linked, and says what it lacks. A change of a service changes its aliases at once,
/// in the same table.
#[test]
fn change_of_a_service_changes_its_aliases() {
    let mut server = Server::new(aliased());
    let objects = database();
    for (second, seen, expected, unknown) in [
        (1, &objects[..3], "A 10.96.0.1, A 10.96.0.2", "db-west/db"),
        (2, &objects, ALL, ""),
        (3, &objects[3..], "A 10.96.0.3", "db-east/db"),
        // Nothing of it exists: the name is not hidden from others.
        (4, &[], "NXDOMAIN global.", "db-east/db, db-west/db"),
    ] {
        server.see(second, seen);
        check(&server.table, &[("db.prod.global A", expected)]);
        let problems = server.table.problems();
        let problems = problems.filter(|one| one.kind == ProblemKind::UnknownAlias);
        let details: Vec<&str> = problems.map(|one| &*one.detail).collect();
        assert_eq!(details.join(" "), unknown, "{second}");
    }
}

/// The parent of an endpoint mirror is of its own service (rule M2), also if an alias has both.
#[test]
fn endpoint_mirror_of_another_source_in_the_namespace_is_skipped() {
    let source = |name: &str| format!("prod/{name}").parse().unwrap();
    let alias = [(source("all"), vec![source("db"), source("web")])].into();
    let rules = Rules {
        aliases: Aliases::new(alias).unwrap(),
        ..rules()
    };
    let mut stray = endpoint("prod", "web", "east", "web-0", &["10.96.0.9"]);
    let labels = &mut stray["metadata"]["labels"];
    labels["mirror.linkerd.io/headless-mirror-svc-name"] = json!("db-east");
    let objects = [
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        stray,
    ];
    let table = table_by(&rules, &objects);
    for name in ["db", "all"] {
        check(&table, &[(&format!("{name}.prod.global A"), "A 10.96.0.1")]);
    }
}
