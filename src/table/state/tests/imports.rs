//! Failover orders of services of the Multi-Cluster Services API (rules K5 and K7).

use super::*;
use crate::model::ClusterName;
use crate::table::Profile;
use crate::testing::{backends, import, import_slice, submariner_slice};

fn world() -> World {
    World::new(Rules {
        has_cluster_sets: true,
        ..rules()
    })
}

/// Returns a headless import. A cluster that is not ready has a slice without a ready endpoint.
fn headless_import(east: bool, west: bool) -> Vec<Value> {
    let slice = |cluster: &str, ip: &str, ready: bool| {
        let mut slice = import_slice("prod", "db", cluster, &[("db-0", ip)]);
        slice["endpoints"][0]["conditions"]["ready"] = json!(ready);
        slice
    };
    vec![
        import("prod", "db", "Headless", &[]),
        slice("east", "10.1.0.1", east),
        slice("west", "10.2.0.1", west),
    ]
}

/// Returns an import of Submariner, with the cluster IP of each cluster.
fn submariner(east: bool, west: bool) -> Vec<Value> {
    vec![
        import("prod", "db", "ClusterSetIP", &[]),
        submariner_slice("prod", "db", "east", "10.96.1.1", east),
        submariner_slice("prod", "db", "west", "10.96.2.1", west),
    ]
}

/// Returns the clusters that the name of the service returns in zones with a profile.
fn answer_in(world: &World, profile: Profile) -> Vec<&str> {
    let [name, namespace] = world.service().key.labels();
    World::answer_of(world.table.of(profile).service(namespace, name).unwrap())
}

#[test]
fn annotations_of_a_service_that_is_gone_apply_to_imports() {
    let mut world = world();
    world.set(0, &with(headless_import(true, true), order("east:west")));
    world.set(1, &headless_import(true, true));
    assert_eq!(answer_in(&world, Profile::Global), ["east"]);
}

/// It would split a database.
#[test]
fn default_order_does_not_apply_to_headless_imports() {
    let default = Some("east:west".parse().unwrap());
    let mut world = world();
    world.rules.failover = default;
    world.set(0, &headless_import(true, true));
    assert_eq!(answer_in(&world, Profile::Global), ["east", "west"]);
    assert_eq!(answer_in(&world, Profile::ClusterSet), ["east", "west"]);
    world.set(1, &submariner(true, true));
    assert_eq!(answer_in(&world, Profile::Global), ["east"]);
}

#[test]
fn order_applies_to_headless_imports_and_to_cluster_ips_of_submariner() {
    // The endpoint of a headless import that is not ready does not exist, and a step without endpoints is left at once.
    // A cluster IP exists: it is left after the delay.
    let cases = [
        (headless_import as fn(bool, bool) -> Vec<Value>, 1_000),
        (submariner, 3_000),
    ];
    for (objects, left_at) in cases {
        let mut world = world();
        let objects = |east, west| with(objects(east, west), order("east:west"));
        world.set(0, &objects(true, true));
        assert_eq!(answer_in(&world, Profile::Global), ["east"]);
        assert_eq!(answer_in(&world, Profile::ClusterSet), ["east"]);
        world.set(1_000, &objects(false, true));
        if left_at > 1_000 {
            assert_eq!(answer_in(&world, Profile::Global), ["east"]);
            assert_eq!(answer_in(&world, Profile::ClusterSet), ["east"]);
        }
        world.set(left_at, &objects(false, true));
        assert_eq!(answer_in(&world, Profile::Global), ["west"]);
        assert_eq!(answer_in(&world, Profile::ClusterSet), ["west"]);
        // The way back takes the longer delay.
        world.set(40_000, &objects(true, true));
        assert_eq!(answer_in(&world, Profile::Global), ["west"]);
        world.set(70_000, &objects(true, true));
        assert_eq!(answer_in(&world, Profile::Global), ["east"]);
        assert_eq!(answer_in(&world, Profile::ClusterSet), ["east"]);
    }
}

#[test]
fn order_does_not_apply_to_an_import_with_one_address() {
    let mut world = world();
    let objects = [
        import("prod", "db", "ClusterSetIP", &["10.96.7.1"]),
        order("east"),
    ];
    world.set(0, &objects);
    assert_eq!(world.service().failover, None);
    let unused = world.service().unused_order.as_deref().unwrap();
    assert_eq!(unused.0.to_string(), "east");
    assert!(world.service().endpoints[0].is_selected);
    // The clusters behind the address, from the status of the ServiceImport.
    let clusters = world.service().federated.iter();
    let clusters: Vec<&str> = clusters.map(ClusterName::as_str).collect();
    assert_eq!(clusters, ["east", "west"]);
}

#[test]
fn each_profile_has_its_own_state() {
    // In zones of the API, the import answers; in others, the mirrors. Only the mirror of east loses its endpoint.
    let mirrors = |east: bool| {
        vec![
            service_mirror("prod", "db", "east", "10.96.0.1"),
            backends("prod", "db-east", true, east),
            service_mirror("prod", "db", "west", "10.96.0.2"),
            backends("prod", "db-west", true, true),
        ]
    };
    let objects = |east| {
        let imports = headless_import(true, true);
        with([imports, mirrors(east)].concat(), order("east:west"))
    };
    let mut world = world();
    world.set(0, &objects(true));
    world.set(1_000, &objects(false));
    let changes = world.set(3_000, &objects(false));
    assert_eq!(changes, ["east -> west Dead"]);
    assert_eq!(answer_in(&world, Profile::Global), ["west"]);
    assert_eq!(answer_in(&world, Profile::ClusterSet), ["east"]);
}
