//! Replays recordings of mirror controllers that stop, and of a Link that is deleted, with a poll of the Leases every ten
//! seconds (rules L1 to L4).

use std::collections::BTreeMap;

use global_dns::model::{KubeObject, Lease, ObjectKey, Timestamp};
use global_dns::table::links::{LeasePoll, LinkList};
use global_dns::table::{Store, Table, Timers, build};
use support::recordings::{self, Action};

use crate::fuzz::checks::tables::services_of;
use crate::recordings::replay::{self, Event, hub_rules, zones};

/// Interval of the polls, in milliseconds.
const POLL: u64 = 10_000;

/// A server that replays a recording.
struct LinkReplay {
    store: Store,
    timers: Timers,
    table: Table,
    leases: BTreeMap<ObjectKey, Lease>,
    /// Each change of the state of a cluster: the time in seconds, the cluster, and the new state.
    changes: Vec<String>,
}

impl LinkReplay {
    /// Replays a recording of the folder `links`, and then lets the time pass. After the recording, every Lease is renewed.
    fn of(name: &str, until: u64) -> Self {
        let recording = recordings::Recording::read(&format!("links/{name}")).unwrap();
        let mut replay = Self {
            store: Store::default(),
            timers: Timers::default(),
            table: Table::default(),
            leases: BTreeMap::new(),
            changes: Vec::new(),
        };
        recording.state.iter().for_each(|event| replay.apply(event));
        let mut events = recording.events.iter().peekable();
        for now in (0..=until).step_by(100) {
            while let Some(event) = events.next_if(|event| event.time <= now) {
                replay.apply(event);
            }
            if events.peek().is_none() {
                for lease in replay.leases.values_mut() {
                    lease.renewal = now.to_string();
                }
            }
            replay.pass(Timestamp(now));
        }
        replay
    }

    fn apply(&mut self, event: &recordings::Event) {
        if event.kind() == "Lease" {
            let json = event.object.to_string();
            let (link, lease) = Lease::read(&KubeObject::read(&json)).unwrap();
            assert_ne!(event.action, Action::Deleted);
            self.leases.insert(link, lease);
        } else if let Some(event) = Event::read(event) {
            replay::apply(&mut self.store, &event);
        }
    }

    fn pass(&mut self, now: Timestamp) {
        let rules = hub_rules();
        self.timers.now = now;
        if now.0.is_multiple_of(POLL) {
            let poll = LeasePoll {
                leases: Some(self.leases.clone()),
                problem: None,
            };
            self.timers.links.note_leases(poll, now);
        }
        let links = &mut self.timers.links;
        let before = links.states.clone();
        let list = LinkList::Listed { is_complete: true };
        links.update(&mut self.store, Some(list), &rules, now);
        let services = services_of(&self.store);
        let built = build(&self.table, &self.store, &services, &rules, &self.timers);
        self.timers.apply(built.timers);
        self.table = built.table;
        for (cluster, link) in &self.table.links.clusters {
            let name = |link: &global_dns::table::links::ClusterLink| <&str>::from(&link.state);
            let old = before.clusters.get(cluster).map(name);
            if old.is_some_and(|old| old != name(link)) {
                let (second, state) = (now.0 / 1000, name(link));
                self.changes.push(format!("{second} s: {cluster} {state}"));
            }
        }
    }

    /// Returns the number of addresses of a name.
    fn count(&self, name: &str) -> usize {
        replay::ask(&zones(), &self.table, &format!("{name}. A")).len()
    }
}

#[test]
fn r35_killed_controller_is_frozen_until_the_next_one_takes_its_lease() {
    let replay = LinkReplay::of("35-controller-killed-and-back-west", 120_000);
    // It was killed after 0.8 s, and a poll saw its last renewal after 10 s.
    assert_eq!(replay.changes, ["60 s: west frozen", "80 s: west linked"]);
    // Frozen changes no answer. The fourth pod is seen when the controller is back.
    let early = LinkReplay::of("35-controller-killed-and-back-west", 70_000);
    assert_eq!(early.changes, ["60 s: west frozen"]);
    assert_eq!(early.count("west.nginx.default.global"), 3);
    assert_eq!(
        early.count("nginx.default.global") + 1,
        replay.count("nginx.default.global")
    );
}

#[test]
fn r36_controller_that_stops_for_25_seconds_is_not_frozen() {
    let replay = LinkReplay::of("36-controller-stopped-and-back-north", 120_000);
    assert_eq!(replay.changes, [""; 0]);
}

#[test]
fn r37_deleted_link_is_unlinked_although_its_lease_is_renewed() {
    let name = "37-link-deleted-controller-runs-on-north";
    let before = LinkReplay::of(name, 300_000);
    assert_eq!(before.changes, ["2 s: north missing"]);
    let replay = LinkReplay::of(name, 400_000);
    assert_eq!(
        replay.changes,
        ["2 s: north missing", "302 s: north unlinked"]
    );
    let all = before.count("nginx.default.global");
    let north = replay.count("north.nginx.default.global");
    assert!(north > 0);
    assert_eq!(replay.count("nginx.default.global"), all - north);
}

/// Nothing in this cluster shows that the other API server is silent.
#[test]
fn r39_silent_cluster_looks_linked() {
    let replay = LinkReplay::of(
        "39-controller-lives-but-its-cluster-is-silent-east",
        120_000,
    );
    assert_eq!(replay.changes, [""; 0]);
}
