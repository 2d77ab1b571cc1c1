//! Answers that know whether somebody still maintains the mirrors (rules L2, L3, L5).

use super::world::World;
use super::*;
use crate::model::{ClusterName, ProblemKind};
use crate::table::Rules;
use crate::testing::{backends, exported, federated, link, local, service_mirror};

const MINUTE: u64 = 60_000;

/// Returns a headless mirror of `prod/db` with one pod.
fn headless(cluster: &str, address: &str) -> Vec<Value> {
    vec![
        mirror("prod", "db", cluster),
        endpoint("prod", "db", cluster, "db-0", &[address]),
    ]
}

/// Returns the mirrors of `prod/db` in two clusters, with their Links.
fn east_and_west() -> Vec<Value> {
    let links = vec![link("east", "east"), link("west", "west")];
    [
        headless("east", "10.96.0.1"),
        headless("west", "10.96.0.2"),
        links,
    ]
    .concat()
}

/// Deletes a Link.
fn unlink(name: &str) -> impl Fn(&mut Vec<Value>) {
    move |objects: &mut Vec<Value>| {
        objects.retain(|object| {
            let is_link = !object["spec"]["targetClusterName"].is_null();
            !is_link || object["metadata"]["name"] != name
        });
    }
}

fn state(world: &World, cluster: &str) -> &'static str {
    let clusters = &world.table.links().clusters;
    clusters[&cluster.parse::<ClusterName>().unwrap()]
        .state
        .name()
}

#[test]
fn unlinked_cluster_leaves_the_name_after_five_minutes_and_returns_with_its_link() {
    let mut world = World::with_links(&rules(), east_and_west());
    let both = "A 10.96.0.1, A 10.96.0.2";
    assert_eq!(world.a("db.prod"), both);
    assert_eq!(state(&world, "east"), "linked");
    world.change(MINUTE, unlink("east"));
    assert_eq!(state(&world, "east"), "missing");
    assert!(world.has_problem(ProblemKind::Unlinked));
    world.wait_until(6 * MINUTE - 1);
    assert_eq!(world.a("db.prod"), both);
    world.wait_until(6 * MINUTE);
    assert_eq!(state(&world, "east"), "unlinked");
    assert_eq!(world.a("db.prod"), "A 10.96.0.2");
    // Names of the cluster and of its endpoints still resolve.
    assert_eq!(world.a("east.db.prod"), "A 10.96.0.1");
    assert_eq!(world.a("db-0.east.db.prod"), "A 10.96.0.1");
    world.change(60 * MINUTE, |objects| objects.push(link("east", "east")));
    assert_eq!(world.a("db.prod"), both);
    assert!(!world.has_problem(ProblemKind::Unlinked));
}

/// GitOps may delete and create all Links.
#[test]
fn link_that_returns_within_five_minutes_changes_nothing() {
    let mut world = World::with_links(&rules(), east_and_west());
    let both = world.a("db.prod");
    for start in [10 * MINUTE, 15 * MINUTE, 20 * MINUTE] {
        world.change(start, unlink("east"));
        world.wait_until(start + 5 * MINUTE - 1);
        assert_eq!(world.a("db.prod"), both, "{start}");
        world.change(start + 5 * MINUTE - 1, |objects| {
            objects.push(link("east", "east"))
        });
    }
    world.wait_until(60 * MINUTE);
    assert_eq!(world.a("db.prod"), both);
    // A server that starts without one of the Links does not wait for it.
    world.change(60 * MINUTE, unlink("west"));
    let restarted = World::with_links(&rules(), world.objects.clone());
    assert_eq!(restarted.a("db.prod"), "A 10.96.0.1");
}

/// A wrong `links.namespaces` must not take every cluster out of every name.
#[test]
fn without_any_link_and_lease_the_state_is_unknown() {
    let mirrors = [headless("east", "10.96.0.1"), headless("west", "10.96.0.2")].concat();
    let mut world = World::with_links(&rules(), mirrors);
    world.wait_until(60 * MINUTE);
    assert_eq!(world.a("db.prod"), "A 10.96.0.1, A 10.96.0.2");
    assert_eq!(state(&world, "east"), "unknown");
    assert!(world.has_problem(ProblemKind::LinksUnknown));
    assert!(!world.has_problem(ProblemKind::Unlinked));
}

#[test]
fn if_every_cluster_is_unlinked_all_are_answered() {
    let mut world = World::with_links(&rules(), east_and_west());
    world.change(MINUTE, unlink("east"));
    // Another Link is left, so that the state of the clusters is known.
    world.change(MINUTE, |objects| objects.push(link("north", "north")));
    world.change(MINUTE, unlink("west"));
    world.wait_until(60 * MINUTE);
    assert_eq!(state(&world, "west"), "unlinked");
    assert_eq!(world.a("db.prod"), "A 10.96.0.1, A 10.96.0.2");
}

#[test]
fn order_that_begins_with_auto_moves_on_and_others_do_not() {
    for (order, expected) in [
        ("auto:east:west", "A 10.96.0.2"),
        ("east:west", "A 10.96.0.1"),
    ] {
        let [mut own, _] = local("prod", "db", &[]);
        own["metadata"]["annotations"]["global-dns/failover"] = json!(order);
        let mut world = World::with_links(&rules(), [east_and_west(), vec![own]].concat());
        assert_eq!(world.a("db.prod"), "A 10.96.0.1");
        world.change(MINUTE, unlink("east"));
        world.wait_until(60 * MINUTE);
        assert_eq!(world.a("db.prod"), expected, "{order}");
    }
}

/// Only clusters of Linkerd's mirrors have Links.
#[test]
fn own_pods_have_no_link() {
    let [own, slice] = local("prod", "db", &[("db-0", "10.0.0.1", true)]);
    let objects = [
        vec![
            own,
            slice,
            exported("prod", "api", "10.96.7.7"),
            link("north", "north"),
        ],
        vec![backends("prod", "api", false, true)],
        headless("west", "10.96.0.2"),
    ];
    let mut world = World::with_links(&rules(), objects.concat());
    world.wait_until(60 * MINUTE);
    let clusters: Vec<_> = world.table.links().clusters.keys().collect();
    assert_eq!(clusters, [&"west".parse().unwrap()]);
    assert_eq!(world.a("db.prod"), "A 10.0.0.1");
    assert_eq!(world.a("api.prod"), "A 10.96.7.7");
}

#[test]
fn federated_address_is_down_if_all_its_clusters_are_unlinked() {
    let objects = vec![
        federated("prod", "web", "10.96.1.1", "web@east,web@west"),
        service_mirror("prod", "web", "north", "10.96.1.2"),
        backends("prod", "web-north", true, true),
        link("east", "east"),
        link("west", "west"),
        link("north", "north"),
    ];
    let mut world = World::with_links(&rules(), objects);
    let both = "A 10.96.1.1, A 10.96.1.2";
    assert_eq!(world.a("web.prod"), both);
    world.change(MINUTE, unlink("east"));
    world.wait_until(60 * MINUTE);
    assert_eq!(world.a("web.prod"), both);
    world.change(60 * MINUTE, unlink("west"));
    world.wait_until(120 * MINUTE);
    assert_eq!(world.a("web.prod"), "A 10.96.1.2");
}

/// The state follows the name in the Link, and is shown with the name after aliases.
#[test]
fn alias_does_not_change_the_state_of_a_link() {
    let mut rules = rules();
    let alias = ("east".parse().unwrap(), "eu".parse().unwrap());
    rules.cluster_aliases = [alias].into();
    let mut world = World::with_links(&rules, east_and_west());
    world.change(MINUTE, unlink("east"));
    world.wait_until(60 * MINUTE);
    assert_eq!(world.a("db.prod"), "A 10.96.0.2");
    assert_eq!(world.a("eu.db.prod"), "A 10.96.0.1");
    let mut problems = world.table.problems();
    let problem = problems
        .find(|one| one.kind == ProblemKind::Unlinked)
        .unwrap();
    assert_eq!(problem.cluster, Some("eu".parse().unwrap()));
}

/// A tenant may create Links in his own namespace.
#[test]
fn name_of_a_cluster_that_is_not_a_label_is_skipped() {
    let mut objects = east_and_west();
    objects.push(link("odd", "Not A Label"));
    let world = World::with_links(&rules(), objects);
    let skipped: Vec<String> = world.table.skipped().map(ToString::to_string).collect();
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert!(
        skipped[0].contains("Link/linkerd-multicluster/odd"),
        "{skipped:?}"
    );
}

/// A better candidate takes no name of a cluster away (rule K1).
#[test]
fn names_of_an_unlinked_cluster_stay_beside_another_candidate() {
    let objects = vec![
        federated("prod", "web", "10.96.1.9", "web@east,web@west"),
        service_mirror("prod", "web", "east", "10.96.1.1"),
        backends("prod", "web-east", true, true),
        link("east", "east"),
        link("west", "west"),
    ];
    let mut world = World::with_links(&rules(), objects);
    world.change(MINUTE, unlink("east"));
    world.wait_until(60 * MINUTE);
    assert_eq!(world.a("web.prod"), "A 10.96.1.9");
    assert_eq!(world.a("east.web.prod"), "A 10.96.1.1");
}

/// A linked host replaces the one of the same name (rule L3).
#[test]
fn hosts_of_an_unlinked_cluster_stay_beside_those_of_another_link_with_its_name() {
    let alias = |link: &str| (link.parse().unwrap(), "eu".parse().unwrap());
    let rules = Rules {
        cluster_aliases: [alias("east"), alias("west")].into(),
        ..rules()
    };
    let mut objects = east_and_west();
    objects.push(endpoint("prod", "db", "east", "db-1", &["10.96.0.3"]));
    let mut world = World::with_links(&rules, objects);
    world.change(MINUTE, unlink("east"));
    world.wait_until(60 * MINUTE);
    assert_eq!(world.a("db.prod"), "A 10.96.0.2");
    assert_eq!(world.a("eu.db.prod"), "A 10.96.0.2");
    assert_eq!(world.a("db-0.eu.db.prod"), "A 10.96.0.2");
    assert_eq!(world.a("db-1.eu.db.prod"), "A 10.96.0.3");
}

/// Its members in this cluster need no Link.
#[test]
fn federated_address_with_members_of_this_cluster_is_never_down() {
    let mut federation = federated("prod", "web", "10.96.1.1", "web@east");
    federation["metadata"]["annotations"]["multicluster.linkerd.io/local-discovery"] = json!("web");
    let objects = vec![
        federation,
        service_mirror("prod", "web", "north", "10.96.1.2"),
        backends("prod", "web-north", true, true),
        link("east", "east"),
        link("north", "north"),
    ];
    let mut world = World::with_links(&rules(), objects);
    let both = "A 10.96.1.1, A 10.96.1.2";
    assert_eq!(world.a("web.prod"), both);
    world.change(MINUTE, unlink("east"));
    world.wait_until(60 * MINUTE);
    assert_eq!(state(&world, "east"), "unlinked");
    assert_eq!(world.a("web.prod"), both);
}

/// A service that is gone is remembered for the clusters that left it. Its delays are those of a new service.
#[test]
fn service_that_returns_within_an_hour_waits_for_the_slices_of_its_first_step() {
    let rules = Rules {
        failover: Some("east:west".parse().unwrap()),
        ..rules()
    };
    let east = service_mirror("prod", "web", "east", "10.96.1.1");
    let west = [
        service_mirror("prod", "web", "west", "10.96.1.2"),
        backends("prod", "web-west", true, true),
    ];
    let slice = backends("prod", "web-east", true, true);
    let all = [vec![east.clone(), slice.clone()], west.to_vec()].concat();
    let mut world = World::start(&rules, all.clone());
    assert_eq!(world.a("web.prod"), "A 10.96.1.1");
    world.change(MINUTE, Vec::clear);
    // Linkerd creates a mirror some milliseconds before its slice.
    world.change(2 * MINUTE, |objects| {
        *objects = [vec![east], west.to_vec()].concat()
    });
    world.change(2 * MINUTE + 20, |objects| objects.push(slice));
    assert_eq!(world.a("web.prod"), "A 10.96.1.1");
}

/// Everybody who can create a Service can name clusters.
#[test]
fn federation_of_thousands_of_clusters_is_bounded() {
    let members: Vec<String> = (0..5000).map(|number| format!("web@c{number}")).collect();
    let objects = vec![
        federated("prod", "web", "10.96.1.1", &members.join(",")),
        link("north", "north"),
    ];
    let world = World::with_links(&rules(), objects);
    assert_eq!(world.table.links().clusters.len(), 256);
}
