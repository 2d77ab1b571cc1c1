//! Aliases: one name for the members of several services.

use super::*;
use crate::model::ProblemKind;
use crate::table::{Aliases, LocalMembers, Rules, ServiceKind};
use crate::testing::{Server, backends, gateway, ordered, service_mirror};

/// Returns rules with `db.prod` as alias of `db.db-east` and `db.db-west`.
fn aliased() -> Rules {
    let key = |namespace: &str| crate::model::ServiceKey {
        namespace: namespace.parse().unwrap(),
        service: "db".parse().unwrap(),
    };
    let sources = vec![key("db-east"), key("db-west")];
    Rules {
        aliases: Aliases::new([(key("prod"), sources)].into()).unwrap(),
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

fn check(table: &Table, cases: &[(&str, RecordType, &str)]) {
    let zones = zones(&["global", "set=mcs"]);
    for (name, rtype, expected) in cases {
        assert_eq!(
            ask(&zones, table, name, *rtype),
            *expected,
            "{name} {rtype}"
        );
    }
}

#[test]
fn alias_has_the_members_of_its_services_under_its_names() {
    let rules = Rules {
        has_mcs_zones: true,
        ..aliased()
    };
    let table = table_by(&rules, &database());
    let (a, srv) = (RecordType::A, RecordType::SRV);
    check(
        &table,
        &[
            ("db.prod.global", a, "A 10.96.0.1, A 10.96.0.2, A 10.96.0.3"),
            ("db.prod.global", RecordType::AAAA, "AAAA fd00::1"),
            (
                "_sql._tcp.db.prod.global",
                srv,
                "SRV 0 10 26257 db-0.east.db.prod.global., SRV 0 10 26257 db-1.east.db.prod.global., \
                 SRV 0 10 26257 db-0.west.db.prod.global.",
            ),
            ("east.db.prod.global", a, "A 10.96.0.1, A 10.96.0.2"),
            ("db-0.west.db.prod.global", a, "A 10.96.0.3"),
            (
                "_sql._tcp.db-0.west.db.prod.global",
                srv,
                "SRV 0 10 26257 db-0.west.db.prod.global.",
            ),
            ("db-1.west.db.prod.global", a, "NXDOMAIN global."),
            // The services keep their names, and theirs have nothing of the other one.
            ("db.db-west.global", a, "A 10.96.0.3"),
            ("db-0.east.db.db-east.global", a, "A 10.96.0.1"),
            (
                "db.prod.svc.set",
                a,
                "A 10.96.0.1, A 10.96.0.2, A 10.96.0.3",
            ),
            (
                "_sql._tcp.db.prod.svc.set",
                srv,
                "SRV 0 10 26257 db-0.east.db.prod.svc.set., SRV 0 10 26257 db-1.east.db.prod.svc.set., \
                 SRV 0 10 26257 db-0.west.db.prod.svc.set.",
            ),
            ("db-0.west.db.prod.svc.set", a, "A 10.96.0.3"),
        ],
    );
}

/// Each SRV target of an alias resolves, and the addresses that come with it are those of the target.
#[test]
fn targets_resolve_to_the_addresses_that_come_with_them() {
    let table = table_by(&aliased(), &database());
    let zones = zones(&["global"]);
    let name = Name::from_text("_sql._tcp.db.prod.global").unwrap();
    let answer = answer(read(&zones, &table, &name), RecordType::SRV);
    let records = answer.records(AnswerContext::new(&name, 7)).into_iter();
    let additional: Vec<String> = records
        .filter(|record| record.section != Section::Answer)
        .map(|record| {
            let owner = record.owner.to_string();
            let answered = ask(&zones, &table, &owner, record.data.rtype());
            assert_eq!(answered, record.data.to_string().replace('\t', " "));
            format!("{owner} {}", record.data.rtype())
        })
        .collect();
    assert_eq!(
        additional,
        [
            "db-0.east.db.prod.global. A",
            "db-0.east.db.prod.global. AAAA",
            "db-1.east.db.prod.global. A",
            "db-0.west.db.prod.global. A",
        ]
    );
}

/// Two services of an alias have a host of the same name in one cluster: the name of the host has both, which is an error.
#[test]
fn hosts_of_one_name_are_united_and_reported() {
    let mut objects = database();
    objects.extend([
        mirror("db-west", "db", "east"),
        endpoint("db-west", "db", "east", "db-0", &["10.96.0.4"]),
    ]);
    let table = table_by(&aliased(), &objects);
    check(
        &table,
        &[
            (
                "db-0.east.db.prod.global",
                RecordType::A,
                "A 10.96.0.1, A 10.96.0.4",
            ),
            (
                "_sql._tcp.db-0.east.db.prod.global",
                RecordType::SRV,
                "SRV 0 10 26257 db-0.east.db.prod.global.",
            ),
            ("db-0.east.db.db-west.global", RecordType::A, "A 10.96.0.4"),
        ],
    );
    let conflicts: Vec<String> = table
        .conflicts()
        .filter(|one| one.kind == ProblemKind::Endpoint)
        .map(|one| one.to_string())
        .collect();
    assert_eq!(
        conflicts,
        [
            "Endpoint has several sources: prod/db: 'db-0' of cluster 'east' comes from Service/db-east/db-0-east and \
          Service/db-west/db-0-east; merged"
        ]
    );
}

/// The members of the name itself come first, and keep its names.
#[test]
fn own_members_belong_to_the_alias() {
    let mut objects = database();
    objects.extend([
        mirror("prod", "db", "north"),
        endpoint("prod", "db", "north", "db-0", &["10.96.0.9"]),
    ]);
    check(
        &table_by(&aliased(), &objects),
        &[
            (
                "_sql._tcp.north.db.prod.global",
                RecordType::SRV,
                "SRV 0 10 26257 db-0.north.db.prod.global.",
            ),
            (
                "db.prod.global",
                RecordType::A,
                "A 10.96.0.1, A 10.96.0.2, A 10.96.0.9, A 10.96.0.3",
            ),
        ],
    );
}

/// A headless Service of this cluster joins because an alias names it, also under its own name.
#[test]
fn own_pods_join_because_of_the_alias() {
    let mut objects = database();
    objects.truncate(3);
    objects.extend(local("db-west", "db", &[("db-0", "10.0.0.1", true)]));
    let table = table_by(&aliased(), &objects);
    check(
        &table,
        &[
            ("hub.db.prod.global", RecordType::A, "A 10.0.0.1"),
            ("hub.db.db-west.global", RecordType::A, "A 10.0.0.1"),
        ],
    );
    let exported = Rules {
        local_members: LocalMembers::Exported,
        ..aliased()
    };
    let table = table_by(&exported, &objects);
    check(
        &table,
        &[("hub.db.prod.global", RecordType::A, "NXDOMAIN global.")],
    );
}

/// The settings of the alias count, those of its services do not: each of them may belong to another tenant.
#[test]
fn settings_of_the_alias_count_alone() {
    let with = |namespace: &str, order: &str| {
        let mut objects = database();
        objects.push(json!({
            "metadata": {"namespace": namespace, "name": "db", "annotations": {
                "global-dns/failover": order,
                "global-dns/gateway-down": "include",
            }},
            "spec": {"clusterIP": "10.96.9.9", "clusterIPs": ["10.96.9.9"], "ports": []},
        }));
        table_by(&aliased(), &objects)
    };
    let all = "A 10.96.0.1, A 10.96.0.2, A 10.96.0.3";
    check(
        &with("db-east", "north"),
        &[("db.prod.global", RecordType::A, all)],
    );
    check(
        &with("prod", "west:east"),
        &[
            ("db.prod.global", RecordType::A, "A 10.96.0.3"),
            (
                "db.db-east.global",
                RecordType::A,
                "A 10.96.0.1, A 10.96.0.2",
            ),
        ],
    );
}

/// The order for all services is not for an alias of services with pods, also if the alias has no Service of its own.
#[test]
fn services_with_pods_make_an_alias_with_pods() {
    let mut rules = aliased();
    rules.failover = Some("west:east".parse().unwrap());
    let all = "A 10.96.0.1, A 10.96.0.2, A 10.96.0.3";
    let table = table_by(&rules, &database());
    // The order for all services would split it.
    check(&table, &[("db.prod.global", RecordType::A, all)]);
    let of_alias = (
        table.service("prod", "db").unwrap().key.clone(),
        ordered("west:east"),
    );
    rules.services = [of_alias].into();
    let mut objects = database();
    objects.push(gateway("db-west", "db-0-west", false));
    let table = table_by(&rules, &objects);
    check(&table, &[("db.prod.global", RecordType::A, "A 10.96.0.3")]);
}

/// Rule M4 acts once, on all members.
#[test]
fn gateways_that_are_down_are_omitted_once() {
    let mut objects = database();
    objects.push(gateway("db-west", "db-0-west", false));
    let table = table_by(&aliased(), &objects);
    check(
        &table,
        &[
            ("db.prod.global", RecordType::A, "A 10.96.0.1, A 10.96.0.2"),
            ("db.db-west.global", RecordType::A, "A 10.96.0.3"),
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
            (
                "east.db.prod.global",
                RecordType::A,
                "A 10.96.1.1, A 10.96.1.2",
            ),
            (
                "_http._tcp.db.prod.global",
                RecordType::SRV,
                "SRV 0 10 80 east.db.prod.global.",
            ),
        ],
    );
    assert_eq!(
        table.service("prod", "db").unwrap().kind,
        ServiceKind::Gateway
    );
}

/// The name exists before the first cluster is linked, and says what it lacks.
#[test]
fn services_that_are_not_known_are_a_problem() {
    let objects = &database()[..3];
    let table = table_by(&aliased(), objects);
    let problems: Vec<String> = table
        .problems()
        .filter(|problem| problem.kind == ProblemKind::UnknownAlias)
        .map(|problem| problem.to_string())
        .collect();
    assert_eq!(
        problems,
        ["Alias names an unknown service: prod/db: db-west/db"]
    );
    // Nothing of it exists: the name is not hidden from others.
    check(
        &table_by(&aliased(), &[]),
        &[("db.prod.global", RecordType::A, "NXDOMAIN global.")],
    );
}

/// A change of a service changes its aliases at once, in the same table.
#[test]
fn change_of_a_service_changes_its_aliases() {
    let mut server = Server::new(aliased());
    let mut objects = database();
    server.see(1, &objects[..3]);
    let a = RecordType::A;
    check(
        &server.table,
        &[("db.prod.global", a, "A 10.96.0.1, A 10.96.0.2")],
    );
    server.see(2, &objects);
    let all = "A 10.96.0.1, A 10.96.0.2, A 10.96.0.3";
    check(&server.table, &[("db.prod.global", a, all)]);
    objects.drain(..3);
    server.see(3, &objects);
    check(&server.table, &[("db.prod.global", a, "A 10.96.0.3")]);
    server.see(4, &[]);
    check(&server.table, &[("db.prod.global", a, "NXDOMAIN global.")]);
}

/// An alias owns the short name before its sources, whose namespaces have services of the same name.
#[test]
fn alias_owns_the_short_name_before_its_sources() {
    let table = table_by(&aliased(), &database());
    check(
        &table,
        &[
            (
                "db.global",
                RecordType::A,
                "A 10.96.0.1, A 10.96.0.2, A 10.96.0.3",
            ),
            (
                "_sql._tcp.west.db.global",
                RecordType::SRV,
                "SRV 0 10 26257 db-0.west.db.global.",
            ),
        ],
    );
    // Another tenant has a service of that name.
    let other = [&database()[..], &[mirror("shop", "db", "east")]].concat();
    check(
        &table_by(&aliased(), &other),
        &[("db.global", RecordType::A, "NXDOMAIN global.")],
    );
}
