//! Answers that know whether a Link still names a cluster (rules K1, L2, L3). Models and recordings prove the rest.

use super::*;
use crate::model::{ClusterName, GatewayDown, ProblemKind, Timestamp};
use crate::table::diff::diff_links;
use crate::table::links::LinkList;
use crate::table::{Rules, Timers, build};
use crate::testing::{backends, federated, link, listing, service_mirror, store};

const MINUTE: u64 = 60_000;

/// A server that reads Links, and whose objects change while the time passes.
struct World {
    rules: Rules,
    objects: Vec<Value>,
    table: Table,
    timers: Timers,
}

impl World {
    fn start(rules: &Rules, objects: Vec<Value>) -> Self {
        let mut world = Self {
            rules: rules.clone(),
            objects,
            table: Table::default(),
            timers: Timers::default(),
        };
        world.build(0);
        world
    }

    fn build(&mut self, now: u64) {
        self.timers.now = Timestamp(now);
        let mut store = store(&self.objects);
        let list = LinkList::Listed { is_complete: true };
        let links = &mut self.timers.links;
        links.update(&mut store, Some(list), &self.rules, Timestamp(now));
        let services = store.services();
        let built = build(&self.table, &store, &services, &self.rules, &self.timers);
        self.timers.apply(built.timers);
        self.table = built.table;
    }

    /// Lets the time pass, with all delays that end.
    fn wait_until(&mut self, now: u64) {
        while let Some(wake) = self.timers.next_wake().filter(|wake| wake.0 <= now) {
            self.build(wake.0);
        }
        self.build(now);
    }

    /// Deletes a Link, a minute later.
    fn unlink(&mut self, name: &str) {
        let now = self.timers.now.0 + MINUTE;
        self.wait_until(now);
        self.objects.retain(|object| {
            let is_link = !object["spec"]["targetClusterName"].is_null();
            !is_link || object["metadata"]["name"] != name
        });
        self.build(now);
    }

    fn check(&self, name: &str, expected: &str) {
        check(&self.table, &[(&format!("{name}.global A"), expected)]);
    }

    fn state(&self, cluster: &str) -> &'static str {
        let clusters = &self.table.links.clusters;
        let cluster: ClusterName = cluster.parse().unwrap();
        <&str>::from(&clusters[&cluster].state)
    }

    fn has_problem(&self, kind: ProblemKind) -> bool {
        self.table.problems().any(|problem| problem.kind == kind)
    }
}

/// Returns rules by which `east` and `west` are Links of one cluster, `eu`.
fn united() -> Rules {
    let alias = |link: &str| (link.parse().unwrap(), "eu".parse().unwrap());
    Rules {
        cluster_aliases: [alias("east"), alias("west")].into(),
        ..rules()
    }
}

/// Returns the mirrors of `prod/db` in two clusters, with their Links.
fn east_and_west() -> Vec<Value> {
    vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        mirror("prod", "db", "west"),
        endpoint("prod", "db", "west", "db-0", &["10.96.0.2"]),
        link("east", "east"),
        link("west", "west"),
    ]
}

#[test]
fn unlinked_cluster_leaves_the_name_after_five_minutes_and_returns_with_its_link() {
    let mut world = World::start(&rules(), east_and_west());
    let both = "A 10.96.0.1, A 10.96.0.2";
    world.check("db.prod", both);
    assert_eq!(world.state("east"), "linked");
    world.unlink("east");
    assert_eq!(world.state("east"), "missing");
    assert!(world.has_problem(ProblemKind::Unlinked));
    world.wait_until(6 * MINUTE - 1);
    world.check("db.prod", both);
    world.wait_until(6 * MINUTE);
    assert_eq!(world.state("east"), "unlinked");
    world.check("db.prod", "A 10.96.0.2");
    // Names of the cluster and of its endpoints still resolve.
    world.check("east.db.prod", "A 10.96.0.1");
    world.check("db-0.east.db.prod", "A 10.96.0.1");
    world.objects.push(link("east", "east"));
    world.wait_until(60 * MINUTE);
    world.check("db.prod", both);
    assert!(!world.has_problem(ProblemKind::Unlinked));
}

/// Its members in this cluster need no Link.
#[test]
fn federated_address_is_down_if_all_its_clusters_are_unlinked() {
    let both = "A 10.96.1.1, A 10.96.1.2";
    for (has_own_member, expected) in [(false, "A 10.96.1.2"), (true, both)] {
        let mut federation = federated("prod", "web", "10.96.1.1", "web@east,web@west");
        if has_own_member {
            let annotations = &mut federation["metadata"]["annotations"];
            annotations["multicluster.linkerd.io/local-discovery"] = json!("web");
        }
        let objects = vec![
            federation,
            service_mirror("prod", "web", "north", "10.96.1.2"),
            backends("prod", "web-north", true, true),
            link("east", "east"),
            link("west", "west"),
            link("north", "north"),
        ];
        let mut world = World::start(&rules(), objects);
        world.check("web.prod", both);
        world.unlink("east");
        world.wait_until(60 * MINUTE);
        world.check("web.prod", both);
        world.unlink("west");
        world.wait_until(120 * MINUTE);
        world.check("web.prod", expected);
        // The Service here leaves the federation.
        let annotations = &mut world.objects[0]["metadata"]["annotations"];
        let annotations = annotations.as_object_mut().unwrap();
        annotations.remove("multicluster.linkerd.io/local-discovery");
        world.wait_until(121 * MINUTE);
        world.check("web.prod", "A 10.96.1.2");
    }
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
    let mut world = World::start(&rules(), objects);
    world.unlink("east");
    world.wait_until(60 * MINUTE);
    world.check("web.prod", "A 10.96.1.9");
    world.check("east.web.prod", "A 10.96.1.1");
}

/// A linked host replaces the one of the same name (rule L3). The state follows the name in the Link, and is shown with the name
/// after aliases.
#[test]
fn hosts_of_an_unlinked_cluster_stay_beside_those_of_another_link_with_its_name() {
    let mut objects = east_and_west();
    objects.push(endpoint("prod", "db", "east", "db-1", &["10.96.0.3"]));
    let mut world = World::start(&united(), objects);
    world.unlink("east");
    world.wait_until(60 * MINUTE);
    for name in ["db.prod", "eu.db.prod", "db-0.eu.db.prod"] {
        world.check(name, "A 10.96.0.2");
    }
    world.check("db-1.eu.db.prod", "A 10.96.0.3");
    let mut problems = world.table.problems();
    let problem = problems.find(|one| one.kind == ProblemKind::Unlinked);
    assert_eq!(problem.unwrap().cluster, Some("eu".parse().unwrap()));
}

/// If nothing is alive, all are answered (rules L3, M4), also if the unlinked one comes first. Beside one that is included, it is not.
#[test]
fn unlinked_mirror_takes_its_cluster_not_away_from_the_name_while_all_are_down() {
    let objects = vec![
        service_mirror("prod", "web", "east", "10.96.1.1"),
        backends("prod", "web-east", true, true),
        service_mirror("prod", "web", "west", "10.96.1.2"),
        backends("prod", "web-west", true, false),
        link("east", "east"),
        link("west", "west"),
    ];
    for (gateway_down, expected) in [
        (GatewayDown::LastResort, "A 10.96.1.1, A 10.96.1.2"),
        (GatewayDown::Include, "A 10.96.1.2"),
    ] {
        let rules = Rules {
            gateway_down,
            ..united()
        };
        let mut world = World::start(&rules, objects.clone());
        world.unlink("east");
        world.wait_until(60 * MINUTE);
        for name in ["web.prod", "eu.web.prod"] {
            world.check(name, expected);
        }
    }
}

/// Everybody who can create a Service can name clusters.
#[test]
fn federation_of_thousands_of_clusters_is_bounded() {
    let members: Vec<String> = (0..5000).map(|number| format!("web@c{number}")).collect();
    let objects = vec![
        federated("prod", "web", "10.96.1.1", &members.join(",")),
        link("north", "north"),
    ];
    let world = World::start(&rules(), objects);
    // Besides the one of the Link.
    assert_eq!(world.table.links.clusters.size(), 256 + 1);
}

/// Clusters that only mirrors name are counted in the first table. Later, only the changes of their services name them.
#[test]
fn invented_clusters_fill_no_log() {
    let mirror = |cluster: &str| service_mirror("prod", "web", cluster, "10.96.1.1");
    let invented = (0..30).map(|number| mirror(&format!("c{number}")));
    let linked = [
        mirror("north"),
        link("north", "north"),
        link("south", "south"),
    ];
    let mut world = World::start(&rules(), invented.chain(linked).collect());
    let told = |last: Option<&Table>, world: &World| {
        let changes = diff_links(last, &world.table, &world.timers.links.changed);
        let last = changes.last().map(|one| one.text.to_string());
        (changes.len(), last.unwrap_or_default())
    };
    let rest = "10 more clusters have no Link: mirrors alone name them.";
    assert_eq!(told(None, &world), (21, rest.to_owned()));
    world.timers.links.changed.clear();
    let last = world.table.clone();
    world.objects.push(mirror("late"));
    world.build(MINUTE);
    assert_eq!(told(Some(&last), &world).0, 0);
    // One that had a Link is a change, also if Links could not be read when it went.
    world.timers.links.changed.clear();
    let last = world.table.clone();
    let list = LinkList::Listed { is_complete: false };
    world
        .objects
        .retain(|one| one["spec"]["targetClusterName"] != "north");
    let links = &mut world.timers.links;
    links.update(
        &mut store(&world.objects),
        Some(list),
        &world.rules,
        Timestamp(2 * MINUTE),
    );
    world.build(3 * MINUTE);
    assert_eq!(told(Some(&last), &world).0, 1);
}

/// A Service that appears later can stand for a host of an unlinked cluster (rule M1b), as it does after a restart.
#[test]
fn service_for_a_host_of_an_unlinked_cluster_is_found_when_it_appears() {
    let listed = [
        link("east", "east"),
        mirror("prod", "db", "west"),
        listing("prod", "db-west", &[("db-0", "10.96.0.7")]),
    ];
    let own = [
        service_mirror("prod", "db-0", "west", "10.96.0.7"),
        backends("prod", "db-0-west", true, true),
    ];
    let all = [&listed[..], &own].concat();
    let mut world = World::start(&rules(), listed.to_vec());
    let last = store(&listed);
    let mut dirty = store(&all).services();
    dirty.retain(|key| !last.services().contains(key));
    let timers = &world.timers;
    let built = build(&world.table, &store(&all), &dirty, &world.rules, timers);
    world.objects = all;
    world.build(0);
    let answers = |table: &Table| {
        let names = ["west.db.prod.global", "db-0.west.db.prod.global"];
        names.map(|name| ask(&zones(&["global"]), table, name, RecordType::A))
    };
    assert_eq!(answers(&built.table), ["A 10.96.0.7"; 2]);
    assert_eq!(answers(&world.table), ["A 10.96.0.7"; 2]);
}

/// An excluded cluster has no Link that counts: it keeps nothing alive.
#[test]
fn excluded_member_does_not_keep_a_federated_address_linked() {
    let rules = Rules {
        excluded_clusters: ["east".parse().unwrap()].into(),
        ..rules()
    };
    let objects = |members: &str| {
        vec![
            federated("prod", "web", "10.96.1.1", members),
            service_mirror("prod", "web", "north", "10.96.1.2"),
            backends("prod", "web-north", true, true),
            link("north", "north"),
        ]
    };
    for members in ["web@west", "web@east,web@west"] {
        let world = World::start(&rules, objects(members));
        world.check("web.prod", "A 10.96.1.2");
    }
}
