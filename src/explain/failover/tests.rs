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
    failover_notes(table.service("prod", "db").unwrap(), &SERVER)
}

#[test]
fn order_is_explained_with_the_step_that_answers() {
    let mut objects = headless();
    objects.push(own("global-dns/failover", "north:east:west"));
    objects.push(gateway("prod", "db-0-east", false));
    assert_eq!(
        notes_of(&table(&objects)),
        [
            "failover order north:east:west (annotation global-dns/failover of the Service of this cluster): answering step 3 of \
             3, west; north has had no endpoint; east has been down"
        ]
    );
    let offline = Context {
        observer: Observer::Command(None),
        ..SERVER
    };
    let table = table(&objects);
    let notes = failover_notes(table.service("prod", "db").unwrap(), &offline);
    assert!(notes[0].ends_with("; only a running server knows which step answered before"));
}

#[test]
fn order_that_does_not_apply_is_explained() {
    let federation = [
        federated("prod", "db", "10.96.0.9", "db@east,db@west"),
        own("global-dns/failover", "east"),
    ];
    assert_eq!(
        notes_of(&table(&federation)),
        [
            "the failover order east (annotation global-dns/failover of the Service of this cluster) does not apply: the \
             service has one address for all its clusters"
        ]
    );
    let rules = Rules {
        failover: Some("east:west".parse().unwrap()),
        ..rules()
    };
    let flat = ["east", "west"]
        .map(|cluster| flat_mirror("prod", "db", cluster, &format!("10.96.0.{}", cluster.len())));
    let notes = notes_of(&table_by(&rules, &flat));
    assert!(
        notes[0].contains("(--failover for all services that are not headless)"),
        "{notes:?}"
    );
    assert_eq!(
        notes[1],
        "step 1 of the failover order (east) is in a flat network, where the mesh finds the pods: it is always alive while its \
         mirror exists, so later steps are not reached"
    );
}

#[test]
fn awaited_clusters_and_ignored_annotations_are_explained() {
    let mut objects = headless();
    objects[0]["metadata"]["annotations"]["global-dns/failover"] = json!("east");
    objects.push(own("global-dns/expected-clusters", "east+north+south"));
    assert_eq!(
        notes_of(&table(&objects)),
        [
            "its name fails until every expected cluster has had an endpoint here; awaited: north, south (annotation \
             global-dns/expected-clusters or --expected-clusters)",
            "Annotation of a mirror is ignored: Service/prod/db-east: global-dns/failover=east"
        ]
    );
}
