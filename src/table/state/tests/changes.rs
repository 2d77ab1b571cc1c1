//! Changes of single objects, and settings that disappear.

use super::*;
use crate::testing::{backends, listing};

/// Returns `db` of east with an endpoint mirror, and `db` of west with a pod that has an exported Service of its own
/// (rule M1b), which the cases change.
fn with_adopted_host() -> World {
    let mut objects = vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.0.0.1"]),
        gateway("prod", "db-0-east", true),
        mirror("prod", "db", "west"),
        listing("prod", "db-west", &[("db-0", "10.0.0.2")]),
        order("west:east"),
    ];
    objects.extend(own_service(true));
    let mut world = World::new(rules());
    world.set(0, &objects);
    assert_eq!(world.answer(), ["west"]);
    world
}

/// Returns the mirror of the pod's own Service, with its slice.
fn own_service(ready: bool) -> [Value; 2] {
    [
        service_mirror("prod", "db-0", "west", "10.0.0.2"),
        backends("prod", "db-0-west", true, ready),
    ]
}

#[test]
fn step_follows_the_gateway_of_a_host_with_a_service_of_its_own() {
    let mut world = with_adopted_host();
    let [_, down] = own_service(false);
    assert!(
        world
            .apply(1_000, Watch::MirrorSlices, &down, true)
            .is_empty()
    );
    let key = world.service().key.clone();
    assert_eq!(world.wakes.get(&key), Some(&3_000));
    let changes = world.publish(3_000, &ServiceKeys::from([key]));
    assert_eq!(changes, ["west -> east Dead"]);
    assert_eq!(world.answer(), ["east"]);
}

#[test]
fn step_is_left_at_once_when_the_service_of_its_host_is_gone() {
    let mut world = with_adopted_host();
    let [service, _] = own_service(true);
    let changes = world.apply(1_000, Watch::MirrorServices, &service, false);
    assert_eq!(changes, ["west -> east Empty"]);
    assert_eq!(world.answer(), ["east"]);
}

#[test]
fn gate_stays_open_that_the_service_of_a_host_has_opened() {
    let mut world = World::new(rules());
    let objects = [
        mirror("prod", "db", "west"),
        listing("prod", "db-west", &[("db-0", "10.0.0.2")]),
        annotated("global-dns/expected-clusters", "west"),
    ];
    world.set(0, &objects);
    assert_eq!(world.service().awaited().len(), 1);
    let [service, _] = own_service(true);
    world.apply(1, Watch::MirrorServices, &service, true);
    assert_eq!(world.opened.len(), 1);
    world.apply(2, Watch::MirrorServices, &service, false);
    assert!(world.service().awaited().is_empty());
}

/// The Service of this cluster leaves one watch before it appears on another.
#[test]
fn state_survives_a_setting_that_is_gone_for_a_moment() {
    let setting = || {
        let mut service = order("east:west");
        service["metadata"]["annotations"]["global-dns/expected-clusters"] = json!("east+west");
        service
    };
    let mut world = World::new(rules());
    world.set(0, &with(headless(true, true), setting()));
    world.set(1_000, &with(headless(false, true), setting()));
    world.set(3_000, &with(headless(false, true), setting()));
    assert_eq!(world.answer(), ["west"]);
    // East recovers, and west disappears, while the Service is unknown.
    let west_only = || headless(true, true)[3..].to_vec();
    world.set(4_000, &headless(true, true));
    assert_eq!(world.answer(), ["east", "west"]);
    let key = world.service().key.clone();
    assert_eq!(world.wakes.get(&key), Some(&14_000));
    assert!(world.set(13_999, &with(west_only(), setting())).is_empty());
    assert!(
        world.service().awaited().is_empty(),
        "the gate closed again"
    );
    assert!(
        world
            .set(14_000, &with(headless(true, true), setting()))
            .is_empty()
    );
    assert_eq!(world.answer(), ["west"], "east has to be alive for 30 s");
    // Ten seconds later it is a new state.
    world.set(20_000, &west_only());
    world.set(30_000, &west_only());
    assert_eq!(world.inputs.states().len(), 0);
    world.set(30_001, &with(headless(true, true), setting()));
    assert_eq!(world.answer(), ["east"]);
}

/// With `exclude`, the name would be empty until the delay ends.
#[test]
fn dead_step_is_left_at_once_if_its_addresses_are_excluded() {
    let setting = || {
        let mut service = order("east:west");
        service["metadata"]["annotations"]["global-dns/gateway-down"] = json!("exclude");
        service
    };
    let mut world = World::new(Rules {
        gateway_down: GatewayDown::Exclude,
        ..rules()
    });
    world.set(0, &with(headless(true, true), setting()));
    let changes = world.set(1_000, &with(headless(false, true), setting()));
    assert_eq!(changes, ["east -> west Dead"]);
    assert_eq!(world.answer(), ["west"]);
    assert!(
        world
            .set(2_000, &with(headless(true, true), setting()))
            .is_empty()
    );
    assert_eq!(
        world.set(32_000, &with(headless(true, true), setting())),
        ["west -> east Recovered"]
    );
}

/// Headless mirroring is off in this cluster, so that the mirrors of a headless service have cluster IPs.
#[test]
fn default_order_does_not_apply_to_pods() {
    let rules = Rules {
        failover: Some("local:*".parse().unwrap()),
        ..rules()
    };
    let pods = |pods| {
        let [mut service, slice] = local("prod", "db", pods);
        service["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!("true");
        [service, slice]
    };
    let mirror = service_mirror("prod", "db", "east", "10.0.0.1");
    let slice = backends("prod", "db-east", true, true);
    let mut world = World::new(rules);
    let objects = |own: [Value; 2]| [&[mirror.clone(), slice.clone()][..], &own].concat();
    world.set(0, &objects(pods(&[("db-0", "10.1.0.1", true)])));
    assert_eq!(world.answer(), ["east", "hub"]);
    // No pod is ready: the service is still headless.
    world.set(1, &objects(pods(&[("db-0", "10.1.0.1", false)])));
    assert_eq!(world.service().failover, None);
    assert_eq!(world.answer(), ["east"]);
    // No other cluster is linked.
    world.set(2, &pods(&[("db-0", "10.1.0.1", true)]));
    assert_eq!(world.service().failover, None);
    assert_eq!(world.answer(), ["hub"]);
}
