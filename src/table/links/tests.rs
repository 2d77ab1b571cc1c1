use super::*;
use crate::testing::{endpoint, link, mirror, rules, store};

/// A process that polls Leases, and sees Links and mirrors.
struct Process {
    links: Links,
    store: Store,
    rules: Rules,
}

impl Process {
    fn new(links: &[&str]) -> Self {
        let mut objects: Vec<_> = links.iter().map(|name| link(name, "east")).collect();
        objects.push(mirror("prod", "db", "east"));
        objects.push(endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]));
        Self {
            links: Links::default(),
            store: store(&objects),
            rules: rules(),
        }
    }

    /// Polls Leases: for each Link the time of its renewal; empty: it is released.
    fn poll(&mut self, second: u64, leases: &[(&str, &str)]) -> LinkState {
        let lease = |(name, renewal): &(&str, &str)| {
            let lease = Lease {
                is_held: !renewal.is_empty(),
                renewal: (*renewal).to_owned(),
            };
            (ObjectKey::new("linkerd-multicluster", name), lease)
        };
        let poll = read(leases.iter().map(lease).collect(), None);
        self.links
            .note_leases(poll, Timestamp::from_seconds(second));
        self.state(second)
    }

    /// Returns why states are unknown.
    fn unknown(&self) -> &str {
        self.links.states.unknown.as_ref().unwrap().detail.as_str()
    }

    fn state(&mut self, second: u64) -> LinkState {
        let list = LinkList::Listed { is_complete: true };
        let now = Timestamp::from_seconds(second);
        self.links.update(&self.store, list, &self.rules, now);
        let clusters = &self.links.states.clusters;
        clusters[&"east".parse::<ClusterName>().unwrap()]
            .state
            .clone()
    }
}

fn read(leases: BTreeMap<ObjectKey, Lease>, refused: Option<&str>) -> LeasePoll {
    LeasePoll {
        leases: Some(leases),
        problem: refused.map(Line::from),
    }
}

fn frozen_since(second: u64, link: &str, is_released: bool) -> LinkState {
    let lease = format!("Lease linkerd-multicluster/service-mirror-write-{link}");
    let released = if is_released {
        ", and its controller released it"
    } else {
        ""
    };
    LinkState::Frozen {
        since: Timestamp::from_seconds(second),
        detail: format!("{lease} is not renewed{released}").into(),
    }
}

#[test]
fn lease_that_is_not_renewed_for_45_seconds_is_frozen() {
    let mut process = Process::new(&["east"]);
    assert_eq!(process.poll(0, &[("east", "a")]), LinkState::Linked);
    assert_eq!(process.poll(10, &[("east", "b")]), LinkState::Linked);
    assert_eq!(process.poll(54, &[("east", "b")]), LinkState::Linked);
    assert_eq!(
        process.poll(55, &[("east", "b")]),
        frozen_since(10, "east", false)
    );
    assert_eq!(
        process.poll(99, &[("east", "b")]),
        frozen_since(10, "east", false)
    );
    assert_eq!(process.poll(100, &[("east", "c")]), LinkState::Linked);
}

/// A controller that stops on purpose releases its Lease. The next one takes it within seconds, or never.
#[test]
fn released_lease_is_frozen_after_as_long() {
    let mut process = Process::new(&["east"]);
    process.poll(0, &[("east", "a")]);
    assert_eq!(process.poll(10, &[("east", "")]), LinkState::Linked);
    assert_eq!(process.poll(40, &[("east", "")]), LinkState::Linked);
    assert_eq!(
        process.poll(45, &[("east", "")]),
        frozen_since(0, "east", true)
    );
    assert_eq!(process.poll(50, &[("east", "b")]), LinkState::Linked);
}

/// While polls fail, nobody knows whether the Lease is renewed.
#[test]
fn failed_polls_freeze_nothing() {
    let mut process = Process::new(&["east"]);
    process.poll(0, &[("east", "a")]);
    assert_eq!(process.state(3600), LinkState::Linked);
    assert_eq!(process.poll(3600, &[("east", "b")]), LinkState::Linked);
    // It was the same at both polls.
    assert_eq!(
        process.poll(7200, &[("east", "b")]),
        frozen_since(3600, "east", false)
    );
}

#[test]
fn link_without_a_lease_is_linked() {
    let mut process = Process::new(&["east"]);
    assert_eq!(process.state(0), LinkState::Linked);
    assert_eq!(process.poll(10, &[]), LinkState::Linked);
    assert_eq!(process.poll(600, &[("west", "a")]), LinkState::Linked);
    assert_eq!(process.poll(610, &[("east", "a")]), LinkState::Linked);
    let refused = read(BTreeMap::new(), Some("forbidden"));
    process
        .links
        .note_leases(refused, Timestamp::from_seconds(620));
    assert_eq!(process.state(620), LinkState::Linked);
    assert_eq!(process.unknown(), "Leases cannot be read: forbidden");
}

#[test]
fn cluster_has_the_state_of_its_best_link() {
    let mut process = Process::new(&["east", "east-2"]);
    let leases = |one: &'static str, other: &'static str| [("east", one), ("east-2", other)];
    process.poll(0, &leases("a", "a"));
    process.poll(20, &leases("a", "b"));
    assert_eq!(process.poll(50, &leases("a", "b")), LinkState::Linked);
    assert_eq!(
        process.poll(70, &leases("a", "b")),
        frozen_since(20, "east-2", false)
    );
    assert_eq!(process.poll(80, &leases("b", "b")), LinkState::Linked);
    assert_eq!(process.poll(200, &[("east", "b")]), LinkState::Linked);
}

/// A deleted Link leaves its Lease, which the controller renews (recording 37). The first list may lack it already.
#[test]
fn cluster_is_unlinked_at_once_or_after_the_delay_if_its_link_was_seen() {
    let at = Timestamp::from_seconds;
    let poll =
        |process: &mut Process, second: u64| process.poll(second, &[("east", &second.to_string())]);
    let unlinked = |since| LinkState::Unlinked { since: at(since) };
    let missing = |since, end| LinkState::Missing {
        since: at(since),
        end: at(end),
    };
    assert_eq!(poll(&mut Process::new(&[]), 7), unlinked(7));
    let mut process = Process::new(&["east"]);
    assert_eq!(poll(&mut process, 0), LinkState::Linked);
    let linked = std::mem::replace(&mut process.store, Process::new(&[]).store);
    assert_eq!(poll(&mut process, 10), missing(10, 310));
    assert_eq!(process.links.wake, Some(at(310)));
    assert_eq!(poll(&mut process, 309), missing(10, 310));
    assert_eq!(poll(&mut process, 310), unlinked(10));
    assert_eq!(process.links.wake, None);
    // It returns, and goes again.
    process.store = linked;
    assert_eq!(poll(&mut process, 400), LinkState::Linked);
    process.store = Process::new(&[]).store;
    assert_eq!(poll(&mut process, 500), missing(500, 800));
}

/// `links.namespaces` probably names the wrong ones.
#[test]
fn without_a_link_and_a_lease_the_state_is_unknown() {
    let mut process = Process::new(&[]);
    assert_eq!(
        <&str>::from(&process.poll(0, &[("north", "a")])),
        "unlinked"
    );
    let nothing = LinkState::Unknown(UnknownReason::Nothing);
    assert_eq!(process.poll(10, &[]), nothing);
}

/// A Link may be in the namespace that cannot be read. Clusters that a readable Link names are linked as ever.
#[test]
fn no_cluster_becomes_unlinked_while_a_namespace_cannot_be_read() {
    let state = |process: &mut Process, second, is_complete| {
        let link = ObjectKey::new("linkerd-multicluster", "east");
        let lease = Lease {
            is_held: true,
            renewal: "a".to_owned(),
        };
        let poll = read([(link, lease)].into(), None);
        process.links.note_leases(poll, Timestamp(0));
        let list = LinkList::Listed { is_complete };
        let now = Timestamp::from_seconds(second);
        process
            .links
            .update(&process.store, list, &process.rules, now);
        let mut clusters = process.links.states.clusters.values();
        clusters.next().unwrap().state.clone()
    };
    assert_eq!(
        state(&mut Process::new(&["east"]), 0, false),
        LinkState::Linked
    );
    let mut process = Process::new(&["east"]);
    assert_eq!(state(&mut process, 0, true), LinkState::Linked);
    process.store = Process::new(&[]).store;
    assert_eq!(<&str>::from(&state(&mut process, 999, false)), "missing");
    assert_eq!(<&str>::from(&state(&mut process, 9999, false)), "missing");
    assert_eq!(<&str>::from(&state(&mut process, 9999, true)), "unlinked");
    // What is known stays.
    assert_eq!(
        <&str>::from(&state(&mut process, 10_000, false)),
        "unlinked"
    );
    // The first list is not complete.
    let mut process = Process::new(&[]);
    let unreadable = LinkState::Unknown(UnknownReason::Unreadable);
    assert_eq!(state(&mut process, 0, false), unreadable);
    let reason = "Links of a namespace in links.namespaces cannot be read";
    assert_eq!(process.unknown(), reason);
    assert_eq!(<&str>::from(&state(&mut process, 1, true)), "unlinked");
}
