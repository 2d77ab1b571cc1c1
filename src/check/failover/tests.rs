use serde_json::{Value, json};

use super::*;
use crate::check::Health;
use crate::check::objects::parse_links;
use crate::check::tests::{facts, findings, green, red, yellow};
use crate::testing::{
    endpoint, federated, flat_mirror, gateway, local, mirror, rules, table, table_by,
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
    if key == "global-dns/failover" {
        service["metadata"]["annotations"]["global-dns/failover-mode"] = json!("auto");
    }
    service["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:01Z");
    service
}

fn orders(objects: &[Value]) -> Vec<(Health, String)> {
    orders_of(table(objects), &[], &rules())
}

/// Returns the findings about failover orders.
fn orders_of(table: Table, links: &[Link], rules: &Rules) -> Vec<(Health, String)> {
    let mut facts = facts(&[]);
    facts.table = Ok(table);
    facts.rules = rules.clone();
    facts.objects.links = Ok(links.to_vec());
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

#[test]
fn unknown_cluster_is_yellow_unless_it_has_a_link() {
    let objects = objects("global-dns/failover", "east:mars");
    let sentence = "prod/db: east:mars names the unknown cluster 'mars'";
    assert_eq!(orders(&objects), yellow(sentence));
    let mut rules = rules();
    let link = json!({"spec": {"targetClusterName": "mars"}}).to_string();
    let links = parse_links([link]);
    assert_eq!(
        orders_of(table(&objects), &links, &rules)[0].0,
        Health::Green
    );
    // An excluded cluster never answers.
    rules.excluded_clusters.insert("mars".parse().unwrap());
    assert_eq!(orders_of(table(&objects), &links, &rules), yellow(sentence));
}

#[test]
fn order_that_names_this_cluster_twice_is_yellow() {
    let sentence = "prod/db: east:local:hub names this cluster twice, as 'local' and as 'hub'; the first counts";
    assert_eq!(
        orders(&objects("global-dns/failover", "east:local:hub")),
        yellow(sentence)
    );
}

#[test]
fn service_that_does_not_answer_from_its_first_step_is_yellow() {
    let mut objects = objects("global-dns/failover", "east:west");
    objects.push(gateway("prod", "db-0-east", false));
    assert_eq!(
        orders(&objects),
        yellow("Standby step of the failover order answers: prod/db: step 2 of east:west, west")
    );
}

#[test]
fn order_that_cannot_apply_is_reported() {
    let flat =
        |cluster: &str| flat_mirror("prod", "db", cluster, &format!("10.96.0.{}", cluster.len()));
    let order = own("global-dns/failover", "east:west");
    assert_eq!(
        orders(&[flat("east"), flat("west"), order.clone()]),
        yellow(
            "Later steps of the failover order are not reached: prod/db: east:west: step east is in a flat network, which is \
             alive while its mirror exists"
        )
    );
    let federation = federated("prod", "db", "10.96.0.9", "db@east,db@west");
    assert_eq!(
        orders(&[federation.clone(), order]),
        red(
            "Failover order does not apply: prod/db: east:west: the service has one address for all its clusters"
        )
    );
    // A default order is not meant for each service.
    let rules = Rules {
        failover: Some("local:*".parse().unwrap()),
        ..rules()
    };
    let found = orders_of(table_by(&rules, &[federation]), &[], &rules);
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

/// A person has to say who decides, above all for a database behind a cluster IP.
#[test]
fn order_without_a_mode_is_yellow() {
    let mut objects = objects("global-dns/failover", "east:west");
    let annotations = objects[0]["metadata"]["annotations"].as_object_mut();
    annotations.unwrap().remove("global-dns/failover-mode");
    let sentence =
        "Failover mode is inferred: prod/db: east:west: hold, because the service has pods";
    assert_eq!(orders(&objects), yellow(sentence));
    // With one step, there is nothing to decide.
    objects[0]["metadata"]["annotations"]["global-dns/failover"] = json!("east");
    assert_eq!(orders(&objects)[0].0, Health::Green);
}

#[test]
fn order_without_endpoints_is_red() {
    let sentence = "Failover step has no endpoint: prod/db: step 1 of local, local";
    assert_eq!(
        orders(&objects("global-dns/failover", "local")),
        red(sentence)
    );
}
