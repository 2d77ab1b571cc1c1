use serde_json::{Value, json};

use super::*;
use crate::check::finding::Health;
use crate::check::tests::{facts, findings, green, red, yellow};
use crate::table::{Rules, Table};
use crate::testing::{
    backends, endpoint, federated, flat_mirror, link, local, mirror, rules, service_mirror, table,
    table_by,
};

/// Returns `prod/db` in east and west, and the Service of this cluster with an annotation.
fn objects(key: &str, value: &str) -> Vec<Value> {
    let mut objects = vec![own(key, value)];
    for cluster in ["east", "west"] {
        let address = format!("10.96.0.{}", objects.len());
        objects.push(mirror("prod", "db", cluster));
        objects.push(endpoint("prod", "db", cluster, "db-0", &[&address]));
    }
    objects
}

fn own(key: &str, value: &str) -> Value {
    let [mut service, _] = local("prod", "db", &[]);
    service["metadata"]["annotations"][key] = json!(value);
    service["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:01Z");
    service
}

fn orders(objects: &[Value]) -> Vec<(Health, String)> {
    orders_of(table(objects))
}

/// Returns the findings about failover orders.
fn orders_of(table: Table) -> Vec<(Health, String)> {
    let mut facts = facts(&[]);
    facts.table = Ok(table);
    findings(&facts, Check::FailoverOrders)
}

#[test]
fn order_that_works_is_green() {
    let sentence = "1 service answers from the first step of the failover order";
    assert_eq!(
        orders(&objects("global-dns/failover", "east:local:*")),
        green(sentence)
    );
    assert_eq!(
        orders(&objects("x", "y")),
        green("no service has a failover order")
    );
}

/// The problems are red, with the nearest name.
#[test]
fn unknown_cluster_is_red_unless_it_has_a_link() {
    let of_table = |objects: &[Value], rules: &Rules| {
        let mut facts = facts(&[]);
        facts.table = Ok(table_by(rules, objects));
        findings(&facts, Check::Conflicts)
    };
    let ordered = objects("global-dns/failover", "east:wset");
    let sentence = "Setting of a service has no effect: prod/db: east:wset: cluster 'wset' has no mirror and no Link; the nearest \
                    name is 'west'";
    assert_eq!(of_table(&ordered, &rules()), red(sentence));
    let mut rules = rules();
    let linked = [&ordered[..], &[link("wset", "wset")]].concat();
    assert_eq!(of_table(&linked, &rules)[0].0, Health::Green);
    // An excluded cluster never answers.
    rules.excluded_clusters.insert("wset".parse().unwrap());
    assert_eq!(of_table(&linked, &rules), red(sentence));
}

#[test]
fn service_that_does_not_answer_from_its_first_step_is_yellow() {
    let ordered = own("global-dns/failover", "auto:east:west");
    let of = |cluster, alive| {
        let mirror = service_mirror("prod", "db", cluster, "10.96.0.1");
        [
            mirror,
            backends("prod", &format!("db-{cluster}"), true, alive),
        ]
    };
    let objects = [&of("east", false)[..], &of("west", true), &[ordered]].concat();
    assert_eq!(
        orders(&objects),
        yellow(
            "Standby step of the failover order answers: prod/db: step 2 of auto:east:west, west"
        )
    );
}

#[test]
fn order_that_cannot_apply_is_a_setting_without_effect() {
    let problems = |objects: &[Value]| {
        let mut facts = facts(&[]);
        facts.table = Ok(table(objects));
        findings(&facts, Check::Conflicts)
    };
    let flat =
        |cluster: &str| flat_mirror("prod", "db", cluster, &format!("10.96.0.{}", cluster.len()));
    let order = own("global-dns/failover", "auto:east:west");
    assert_eq!(
        problems(&[flat("east"), flat("west"), order.clone()]),
        red(
            "Setting of a service has no effect: prod/db: auto:east:west: step east is in a flat network, which is \
             alive while its mirror exists"
        )
    );
    let federation = federated("prod", "db", "10.96.0.9", "db@east,db@west");
    assert_eq!(
        problems(&[federation.clone(), order]),
        red(
            "Setting of a service has no effect: prod/db: auto:east:west: the service has one address for all its clusters"
        )
    );
    // A default order is not meant for each service.
    let rules = Rules {
        failover: Some("local:*".parse().unwrap()),
        ..rules()
    };
    let found = orders_of(table_by(&rules, &[federation]));
    assert_eq!(found[0].0, Health::Green);
}

#[test]
fn missing_clusters_are_red() {
    let check = |clusters: &str| {
        let mut facts = facts(&[]);
        facts.table = Ok(table(&objects("global-dns/expected-clusters", clusters)));
        findings(&facts, Check::ExpectedClusters)
    };
    assert_eq!(
        check("east+west"),
        green("no service waits for expected clusters")
    );
    assert_eq!(
        check("east+north+south"),
        red(
            "Name waits for expected clusters: prod/db: not answered; waits for north, south until 1970-01-01T01:00:01Z"
        )
    );
}

/// The clients of a database would move to a standby that nobody has promoted.
#[test]
fn order_that_moves_a_service_with_pods_by_itself_is_yellow() {
    let sentence = "Failover order moves a service with pods by itself: prod/db: auto:east:west";
    assert_eq!(
        orders(&objects("global-dns/failover", "auto:east:west")),
        yellow(sentence)
    );
    for order in ["auto:east", "east:west"] {
        let found = orders(&objects("global-dns/failover", order));
        assert_eq!(found[0].0, Health::Green, "{order}");
    }
}

#[test]
fn order_without_endpoints_is_red() {
    let sentence = "Failover step has no endpoint: prod/db: step 1 of local, local";
    assert_eq!(
        orders(&objects("global-dns/failover", "local")),
        red(sentence)
    );
}
