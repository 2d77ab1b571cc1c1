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
    let changes = world.apply(1_000, Watch::Services, &service, false);
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
    world.apply(1, Watch::Services, &service, true);
    assert_eq!(world.opened.len(), 1);
    world.apply(2, Watch::Services, &service, false);
    assert!(world.service().awaited().is_empty());
}

/// The Service of this cluster leaves one watch before it appears on another. Its annotations apply meanwhile.
#[test]
fn annotations_of_a_service_that_is_gone_apply_for_ten_seconds() {
    let setting = || {
        let mut service = order("east:west");
        service["metadata"]["annotations"]["global-dns/expected-clusters"] = json!("east+west");
        service
    };
    let default = Rules {
        failover: Some("local:*".parse().unwrap()),
        ..rules()
    };
    for rules in [rules(), default] {
        let mut world = World::new(rules);
        world.set(0, &with(headless(true, true), setting()));
        world.set(1_000, &with(headless(false, true), setting()));
        world.set(3_000, &with(headless(false, true), setting()));
        assert_eq!(world.answer(), ["west"]);
        // East recovers while the Service is unknown.
        assert!(world.set(4_000, &headless(true, true)).is_empty());
        assert_eq!(world.answer(), ["west"]);
        assert_eq!(world.wakes.get(&world.service().key), Some(&14_000));
        world.set(13_999, &headless(true, true));
        assert_eq!(world.answer(), ["west"]);
        assert!(
            world
                .set(13_999, &with(headless(true, true), setting()))
                .is_empty()
        );
        assert_eq!(world.answer(), ["west"], "east has to be alive for 30 s");
        // The Service is gone for good.
        world.set(20_000, &headless(true, true));
        world.set(30_000, &headless(true, true));
        assert_eq!(world.answer(), ["east", "west"]);
        world.set(40_000, &headless(true, true));
        assert_eq!(world.store.states().len(), 0);
    }
}

#[test]
fn annotations_of_a_service_that_is_gone_apply_to_mirrors_with_cluster_ips() {
    let cluster = |cluster: &str, ip: &str| {
        [
            service_mirror("prod", "db", cluster, ip),
            backends("prod", &format!("db-{cluster}"), true, true),
        ]
    };
    let mirrors = [cluster("east", "10.0.0.1"), cluster("west", "10.0.0.2")].concat();
    let mut world = World::new(rules());
    world.set(0, &with(mirrors.clone(), order("west:east")));
    world.set(1, &mirrors);
    assert_eq!(world.answer(), ["west"]);
    // A federated service has no order, but may wait for clusters.
    let setting = annotated("global-dns/expected-clusters", "east+west");
    let federated = federated("prod", "db", "10.96.0.9", "db@east");
    let mut world = World::new(rules());
    world.set(0, &[federated.clone(), setting]);
    world.set(1, &[federated]);
    assert_eq!(world.service().awaited().len(), 1);
}

/// Nothing of the service is left then.
#[test]
fn annotations_of_a_service_without_other_objects_end_with_it() {
    let mut world = World::new(rules());
    world.set(0, &[annotated("global-dns/expected-clusters", "east")]);
    assert_eq!(world.service().awaited().len(), 1);
    world.set(1, &[]);
    assert!(world.table.service("prod", "db").is_none());
}

/// Linkerd deletes mirrors and creates them again.
#[test]
fn step_outlasts_mirrors_that_are_gone_for_a_moment() {
    let mut world = World::new(Rules {
        service_failover: [(key(), "east:west".parse().unwrap())].into(),
        ..rules()
    });
    world.set(0, &headless(true, true));
    world.set(1_000, &headless(false, true));
    world.set(3_000, &headless(false, true));
    assert_eq!(world.answer(), ["west"]);
    world.set(4_000, &[]);
    world.set(4_070, &headless(true, true));
    assert_eq!(world.answer(), ["west"], "east has to be alive for 30 s");
}

/// Its gate must not open, nor close again.
#[test]
fn gate_outlasts_a_service_that_is_gone_for_a_moment() {
    let setting = || annotated("global-dns/expected-clusters", "east+west");
    let both_by_flag = || Rules {
        service_failover: [(key(), "east:west".parse().unwrap())].into(),
        ..rules()
    };
    let (east, west) = (
        headless(true, true)[..3].to_vec(),
        headless(true, true)[3..].to_vec(),
    );
    for rules in [rules(), both_by_flag()] {
        let mut closed = World::new(rules);
        closed.set(0, &with(east.clone(), setting()));
        assert_eq!(closed.service().awaited().len(), 1);
        closed.set(1_000, &east);
        assert_eq!(closed.service().awaited().len(), 1);
        closed.set(11_000, &east);
        assert!(closed.service().awaited().is_empty());
    }
    for rules in [rules(), both_by_flag()] {
        let mut open = World::new(rules);
        open.set(0, &with(headless(true, true), setting()));
        open.set(1_000, &headless(true, true));
        open.set(2_000, &west);
        open.set(3_000, &with(west.clone(), setting()));
        assert!(open.service().awaited().is_empty());
    }
}

fn key() -> ServiceKey {
    store(&headless(true, true)).services().pop_first().unwrap()
}

/// Two mirrors without a slice appear one after the other. The first one of the order has not been dead for long.
#[test]
fn time_without_endpoints_does_not_count_as_time_dead() {
    let own = || {
        let mut service = order("east:west");
        service["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!("true");
        service
    };
    let down = |cluster: &str, ready| {
        [
            service_mirror("prod", "db", cluster, "10.0.0.1"),
            backends("prod", &format!("db-{cluster}"), true, ready),
        ]
    };
    let mut world = World::new(rules());
    let [east, west] = [down("east", false), down("west", false)];
    let [_, ready] = down("west", true);
    world.set(0, &with(headless(true, true), own()));
    world.set(1_000, &[own()]);
    world.set(60_000, &[east.to_vec(), vec![own()]].concat());
    world.set(
        60_001,
        &[east.to_vec(), west.to_vec(), vec![own()]].concat(),
    );
    world.apply(60_002, Watch::MirrorSlices, &ready, true);
    assert_eq!(world.answer(), ["east"]);
    let key = key();
    assert_eq!(world.wakes.get(&key), Some(&62_000));
    world.publish(62_000, &ServiceKeys::from([key]));
    assert_eq!(world.answer(), ["west"]);
}

/// Two links have one name. The endpoint mirror of one of them and the Service of its own of the other are one endpoint.
#[test]
fn merged_host_follows_its_service() {
    let west = || "west".parse().unwrap();
    let mut world = World::new(Rules {
        cluster_aliases: ["a", "b"]
            .map(|link| (link.parse().unwrap(), west()))
            .into(),
        ..rules()
    });
    let own = service_mirror("prod", "db-0", "b", "10.0.0.2");
    world.set(
        0,
        &[
            mirror("prod", "db", "a"),
            endpoint("prod", "db", "a", "db-0", &["10.0.0.1"]),
            mirror("prod", "db", "b"),
            listing("prod", "db-b", &[("db-0", "10.0.0.2")]),
            own.clone(),
            backends("prod", "db-0-b", true, true),
        ],
    );
    let addresses = |world: &World| -> Vec<String> {
        let endpoints = world.service().endpoints.iter();
        let addresses = endpoints.flat_map(|endpoint| &endpoint.addresses);
        addresses.map(|address| address.ip.to_string()).collect()
    };
    assert_eq!(addresses(&world), ["10.0.0.1", "10.0.0.2"]);
    world.apply(1, Watch::Services, &own, false);
    assert_eq!(addresses(&world), ["10.0.0.1"]);
}

/// An excluded cluster can never be seen.
#[test]
fn excluded_cluster_is_not_expected() {
    let mut world = World::new(Rules {
        excluded_clusters: ["west".parse().unwrap()].into(),
        ..rules()
    });
    let setting = annotated("global-dns/expected-clusters", "east+west");
    world.set(0, &with(headless(true, true), setting));
    assert!(world.service().awaited().is_empty());
    assert_eq!(world.answer(), ["east"]);
}

/// Nobody notices the mistake later, when the first mirror already answers.
#[test]
fn invalid_annotation_is_reported_before_the_first_mirror() {
    let mut world = World::new(rules());
    world.set(0, &[annotated("global-dns/expected-clusters", "east,west")]);
    let [conflict] = &world.service().problems[..] else {
        panic!("{:?}", world.service().problems);
    };
    assert!(conflict.detail.contains("'east,west'"), "{conflict:?}");
    assert!(!world.service().is_known);
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
    // There is no pod.
    world.set(1, &objects(pods(&[])));
    assert_eq!(world.service().failover, None);
    // No other cluster is linked.
    world.set(2, &pods(&[("db-0", "10.1.0.1", true)]));
    assert_eq!(world.service().failover, None);
    assert_eq!(world.answer(), ["hub"]);
}
