//! Aliases: one name for the members of several services. Their names are in the cases of `tests/fixtures/commands/aliases.txt`.

use super::*;
use crate::model::{ProblemKind, ServiceKey};
use crate::table::diff::diff;
use crate::table::{Aliases, Rules};
use crate::testing::{Server, federated, ordered, rules_with};

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

/// Each is the address of one cluster (rule K1), and only the step that answers has it (rule K5).
#[test]
fn step_of_federated_services_answers_alone() {
    let objects = [
        federated("a", "web", "10.96.0.1", "web@east"),
        federated("b", "web", "10.96.0.2", "web@west"),
    ];
    for (order, expected) in [("east:west", "A 10.96.0.1"), ("west:east", "A 10.96.0.2")] {
        let text = format!(
            "aliases: {{prod/web: [a/web, b/web]}}\nservices: {{prod/web: {{failover: '{order}'}}}}"
        );
        let table = table_by(&rules_with(&text), &objects);
        check(&table, &[("web.prod.global A", expected)]);
    }
}
