use serde_json::{Value, json};

use super::*;
use crate::table::Rules;
use crate::testing::{
    endpoint, federated, flat_mirror, gateway, local, mirror, rules, table, table_by,
};

const SERVER: Context<'_> = Context {
    watched: &[],
    observer: Observer::Server,
};

/// Returns the Service of this cluster with an annotation.
fn own(key: &str, value: &str) -> Value {
    let [mut service, _] = local("prod", "db", &[]);
    service["metadata"]["annotations"][key] = json!(value);
    service["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:01Z");
    service
}

fn headless() -> Vec<Value> {
    ["east", "west"]
        .into_iter()
        .flat_map(|cluster| {
            let address = format!("10.96.0.{}", cluster.len());
            [
                mirror("prod", "db", cluster),
                endpoint("prod", "db", cluster, "db-0", &[&address]),
            ]
        })
        .collect()
}

fn notes_of(table: &crate::table::Table) -> Vec<String> {
    let note = order_note(table.service("prod", "db").unwrap(), &SERVER);
    note.into_iter().collect()
}

#[test]
fn order_is_explained_with_the_step_that_answers() {
    let mut objects = headless();
    objects.push(own("global-dns/failover", "auto:north:east:west"));
    objects.push(gateway("prod", "db-0-east", false));
    assert_eq!(
        notes_of(&table(&objects)),
        [
            "failover order auto:north:east:west (annotation global-dns/failover of the Service of this cluster): \
             answering step 3 of 3, west; north has had no endpoint since 1970-01-01T00:00:00Z; east has been down since \
             1970-01-01T00:00:00Z"
        ]
    );
    let offline = Context {
        observer: Observer::Command(None),
        ..SERVER
    };
    let table = table(&objects);
    let note = order_note(table.service("prod", "db").unwrap(), &offline).unwrap();
    assert!(note.ends_with("; a running server may still be in a delay of this order"));
}

/// An order of this service that does not apply is an error; one for all services is a note.
#[test]
fn order_that_does_not_apply_is_explained() {
    let federation = federated("prod", "db", "10.96.0.9", "db@east,db@west");
    let of_service = [federation.clone(), own("global-dns/failover", "east")];
    let problems = |table: &crate::table::Table| -> Vec<String> {
        table.problems().map(|one| one.to_string()).collect()
    };
    assert_eq!(notes_of(&table(&of_service)), [""; 0]);
    assert_eq!(
        problems(&table(&of_service)),
        [
            "Setting of a service has no effect: prod/db: east: the service has one address for all its clusters"
        ]
    );
    let rules = Rules {
        failover: Some("auto:east:west".parse().unwrap()),
        ..rules()
    };
    let of_all = table_by(&rules, &[federation]);
    assert_eq!(
        problems(&of_all),
        [
            "Setting is ignored: prod/db: failover.default: auto:east:west: the service has one address for all its clusters"
        ]
    );
    assert_eq!(notes_of(&of_all), [""; 0]);
    let flat = ["east", "west"]
        .map(|cluster| flat_mirror("prod", "db", cluster, &format!("10.96.0.{}", cluster.len())));
    assert_eq!(
        problems(&table_by(&rules, &flat)),
        [
            "Setting of a service has no effect: prod/db: auto:east:west: step east is in a flat network, which is \
          alive while its mirror exists"
        ]
    );
}

#[test]
fn missing_clusters_and_ignored_annotations_are_problems() {
    let mut objects = headless();
    objects[0]["metadata"]["annotations"]["global-dns/failover"] = json!("east");
    objects.push(own("global-dns/expected-clusters", "east+north+south"));
    let table = table(&objects);
    let problems: Vec<String> = table.problems().map(|one| one.to_string()).collect();
    assert_eq!(
        problems,
        [
            "Setting is ignored: Service/prod/db-east: global-dns/failover=east",
            "Name waits for expected clusters: prod/db: not answered; waits for north, south until 1970-01-01T01:00:01Z"
        ]
    );
}
