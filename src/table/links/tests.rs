use super::*;
use crate::model::Kind;
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
    fn poll(&mut self, second: u64, leases: &[(&str, &str)]) -> ClusterLink {
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

    fn state(&mut self, second: u64) -> ClusterLink {
        let list = LinkList::Listed { is_complete: true };
        let now = Timestamp::from_seconds(second);
        self.links
            .update(&mut self.store, Some(list), &self.rules, now);
        let clusters = &self.links.states.clusters;
        clusters[&"east".parse::<ClusterName>().unwrap()].clone()
    }
}

/// Returns the state of `east`, with the second since which it holds, and the detail of its problem, if it has one.
fn state_of(link: &ClusterLink) -> (LinkState, Option<(u32, &str)>) {
    let problem = link.problem.as_ref();
    let problem = problem.map(|one| (one.since.unwrap_or_default().seconds(), &*one.detail));
    (link.state, problem)
}

fn assert_linked(link: &ClusterLink) {
    assert_eq!(state_of(link), (LinkState::Linked, None));
}

fn read(leases: BTreeMap<ObjectKey, Lease>, refused: Option<&str>) -> LeasePoll {
    LeasePoll {
        leases: Some(leases),
        problem: refused.map(Line::from),
    }
}

fn assert_frozen_since(found: &ClusterLink, second: u32, link: &str, is_released: bool) {
    let lease = format!("Lease linkerd-multicluster/service-mirror-write-{link}");
    let released = if is_released {
        ", and its controller released it"
    } else {
        ""
    };
    let detail = format!("{lease} is not renewed{released}");
    assert_eq!(
        state_of(found),
        (LinkState::Frozen, Some((second, &*detail)))
    );
}

#[test]
fn lease_that_is_not_renewed_for_45_seconds_is_frozen() {
    let mut process = Process::new(&["east"]);
    assert_linked(&process.poll(0, &[("east", "a")]));
    assert_linked(&process.poll(10, &[("east", "b")]));
    assert_linked(&process.poll(54, &[("east", "b")]));
    assert_frozen_since(&process.poll(55, &[("east", "b")]), 10, "east", false);
    assert_frozen_since(&process.poll(99, &[("east", "b")]), 10, "east", false);
    assert_linked(&process.poll(100, &[("east", "c")]));
}

/// A controller that stops on purpose releases its Lease. The next one takes it within seconds, or never.
#[test]
fn released_lease_is_frozen_after_as_long() {
    let mut process = Process::new(&["east"]);
    process.poll(0, &[("east", "a")]);
    assert_linked(&process.poll(10, &[("east", "")]));
    assert_linked(&process.poll(40, &[("east", "")]));
    assert_frozen_since(&process.poll(45, &[("east", "")]), 0, "east", true);
    assert_linked(&process.poll(50, &[("east", "b")]));
}

/// While polls fail, nobody knows whether the Lease is renewed.
#[test]
fn failed_polls_freeze_nothing() {
    let mut process = Process::new(&["east"]);
    process.poll(0, &[("east", "a")]);
    assert_linked(&process.state(3600));
    assert_linked(&process.poll(3600, &[("east", "b")]));
    // It was the same at both polls.
    assert_frozen_since(&process.poll(7200, &[("east", "b")]), 3600, "east", false);
}

#[test]
fn link_without_a_lease_is_linked() {
    let mut process = Process::new(&["east"]);
    assert_linked(&process.state(0));
    assert_linked(&process.poll(10, &[]));
    assert_linked(&process.poll(600, &[("west", "a")]));
    assert_linked(&process.poll(610, &[("east", "a")]));
    let refused = read(BTreeMap::new(), Some("forbidden"));
    process
        .links
        .note_leases(refused, Timestamp::from_seconds(620));
    assert_linked(&process.state(620));
    assert_eq!(process.unknown(), "Leases cannot be read: forbidden");
    let problem = process.links.states.unknown.as_ref().unwrap();
    assert_eq!(problem.cause, None, "Links are listed");
}

#[test]
fn cluster_has_the_state_of_its_best_link() {
    let mut process = Process::new(&["east", "east-2"]);
    let leases = |one: &'static str, other: &'static str| [("east", one), ("east-2", other)];
    process.poll(0, &leases("a", "a"));
    process.poll(20, &leases("a", "b"));
    assert_linked(&process.poll(50, &leases("a", "b")));
    assert_frozen_since(&process.poll(70, &leases("a", "b")), 20, "east-2", false);
    assert_linked(&process.poll(80, &leases("b", "b")));
    assert_linked(&process.poll(200, &[("east", "b")]));
}

/// A deleted Link leaves its Lease, which the controller renews (recording 37). The first list may lack it already.
#[test]
fn cluster_is_unlinked_at_once_or_after_the_delay_if_its_link_was_seen() {
    let at = Timestamp::from_seconds;
    let poll =
        |process: &mut Process, second: u64| process.poll(second, &[("east", &second.to_string())]);
    let assert_unlinked = |found: &ClusterLink, since| {
        let problem = (since, "its endpoints are down");
        assert_eq!(state_of(found), (LinkState::Unlinked, Some(problem)));
    };
    let assert_missing = |found: &ClusterLink, since: u64, end: u64| {
        let detail = format!("its endpoints count for {} s", end - since);
        let problem = (since as u32, &*detail);
        assert_eq!(state_of(found), (LinkState::Missing, Some(problem)));
    };
    assert_unlinked(&poll(&mut Process::new(&[]), 7), 7);
    let mut process = Process::new(&["east"]);
    assert_linked(&poll(&mut process, 0));
    let linked = std::mem::replace(&mut process.store, Process::new(&[]).store);
    assert_missing(&poll(&mut process, 10), 10, 310);
    assert_eq!(process.links.wake(), Some(at(310)));
    assert_missing(&poll(&mut process, 309), 10, 310);
    assert_unlinked(&poll(&mut process, 310), 10);
    assert_eq!(process.links.wake(), None);
    // It returns, and goes again.
    process.store = linked;
    assert_linked(&poll(&mut process, 400));
    process.store = Process::new(&[]).store;
    assert_missing(&poll(&mut process, 500), 500, 800);
}

/// `links.namespaces` probably names the wrong ones.
#[test]
fn without_a_link_and_a_lease_the_state_is_unknown() {
    let mut process = Process::new(&[]);
    let state = process.poll(0, &[("north", "a")]).state;
    assert_eq!(state, LinkState::Unlinked);
    assert_eq!(process.poll(10, &[]).state, LinkState::Unknown);
    assert_eq!(
        process.unknown(),
        "the namespaces of links.namespaces have neither a Link nor a Lease of a mirror controller"
    );
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
            .update(&mut process.store, Some(list), &process.rules, now);
        let mut clusters = process.links.states.clusters.values();
        clusters.next().unwrap().state
    };
    assert_eq!(
        state(&mut Process::new(&["east"]), 0, false),
        LinkState::Linked
    );
    let mut process = Process::new(&["east"]);
    assert_eq!(state(&mut process, 0, true), LinkState::Linked);
    process.store = Process::new(&[]).store;
    assert_eq!(state(&mut process, 999, false), LinkState::Unknown);
    assert_eq!(state(&mut process, 1000, true), LinkState::Missing);
    assert_eq!(state(&mut process, 9999, false), LinkState::Missing);
    assert_eq!(state(&mut process, 9999, true), LinkState::Unlinked);
    // What is known stays.
    assert_eq!(state(&mut process, 10_000, false), LinkState::Unlinked);
    // The first list is not complete.
    let mut process = Process::new(&[]);
    assert_eq!(state(&mut process, 0, false), LinkState::Unknown);
    assert_eq!(
        process.unknown(),
        "Links of a namespace in links.namespaces cannot be read"
    );
    let cause = process.links.states.unknown.as_ref().unwrap().cause;
    assert_eq!(cause, Some(ProblemKind::SourceUnavailable));
    assert_eq!(state(&mut process, 1, true), LinkState::Unlinked);
}
/// Its mirrors can arrive before its Link: both have watches of their own.
#[test]
fn cluster_that_appears_later_without_a_link_has_the_delay() {
    let at = Timestamp::from_seconds;
    let mut process = Process::new(&["east"]);
    let state = |process: &mut Process, cluster: &str, second, is_complete| {
        let list = LinkList::Listed { is_complete };
        process
            .links
            .update(&mut process.store, Some(list), &process.rules, at(second));
        let cluster: ClusterName = cluster.parse().unwrap();
        process.links.states.clusters[&cluster].state
    };
    assert_eq!(state(&mut process, "east", 0, true), LinkState::Linked);
    process.store = store(&[link("east", "east"), mirror("prod", "db", "west")]);
    assert_eq!(state(&mut process, "west", 10, true), LinkState::Missing);
    assert_eq!(process.links.wake(), Some(at(310)));
    assert_eq!(state(&mut process, "west", 309, true), LinkState::Missing);
    assert_eq!(state(&mut process, "west", 310, true), LinkState::Unlinked);
    // The Link may be one that cannot be read.
    process.store = store(&[link("east", "east"), mirror("prod", "db", "north")]);
    assert_eq!(state(&mut process, "north", 400, false), LinkState::Unknown);
    assert_eq!(state(&mut process, "north", 500, true), LinkState::Missing);
    assert_eq!(state(&mut process, "north", 800, true), LinkState::Unlinked);
}

/// Every cluster that a Link or a Lease names has a state (rule L2b). Nothing is wrong with one that has no mirrors and no Link.
#[test]
fn cluster_without_mirrors_has_a_state() {
    let mut process = Process::new(&["east"]);
    process.store = store(&[link("west", "eu-west"), mirror("prod", "db", "east")]);
    let of_zones = ["east", "eu-west", "north", "west"];
    process.rules.zone_clusters = of_zones.map(|name| name.parse().unwrap()).into();
    process.poll(0, &[("north", "a"), ("west", "a")]);
    let states = |process: &Process| -> Vec<String> {
        let clusters = process.links.states.clusters.iter();
        let text = |(link, one): (&ClusterName, &ClusterLink)| {
            let problem = one.problem.as_ref().map_or("", |one| one.kind.name());
            format!("{link} {:?} {} {problem}", one.state, one.is_mirrored)
        };
        clusters.map(text).collect()
    };
    // Those of zones that nothing names, each with the second since when.
    let unknown = |process: &Process| -> Vec<String> {
        let problems = process.links.states.unknown_of_zones.iter();
        let since = |one: &Problem| one.since.unwrap_or_default().seconds();
        problems
            .map(|one| format!("{} {}", one.subject(), since(one)))
            .collect()
    };
    let (east, linked) = ("east Unlinked true unlinked", "eu-west Linked false ");
    assert_eq!(states(&process), [east, linked, "north Unlinked false "]);
    assert_eq!(unknown(&process), ["west 0"]);
    process.poll(10, &[("west", "b")]);
    assert_eq!(states(&process), [east, linked]);
    assert_eq!(unknown(&process), ["north 10", "west 0"]);
    process.poll(60, &[("west", "b")]);
    assert_eq!(states(&process), [east, "eu-west Frozen false frozen"]);
}

/// Returns the states without what the process remembers.
fn visible(process: &Process) -> LinkStates {
    let mut states = LinkStates::clone(&process.links.states);
    for (link, one) in &process.links.states.clusters {
        let one = ClusterLink {
            had_link: false,
            absence: None,
            ..one.clone()
        };
        states.clusters.insert_mut(link.clone(), one);
    }
    states
}

/// Only what changed is determined again: the states are those of a process that sees everything at once.
#[test]
fn states_after_each_change_are_those_of_all_objects() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut process = Process::new(&["east"]);
    let names = ["east", "west", "north", "a", "b", "c"];
    let list = Some(LinkList::Listed { is_complete: true });
    let update = |process: &mut Process| {
        process
            .links
            .update(&mut process.store, list, &process.rules, Timestamp(1))
    };
    process.links.was_complete = true;
    process.rules.cluster_aliases = [("b".parse().unwrap(), "c".parse().unwrap())].into();
    process.rules.excluded_clusters = ["a".parse().unwrap()].into();
    process.rules.zone_clusters = names.map(|name| name.parse().unwrap()).into();
    for _ in 0..2000 {
        let name = names[random.usize(..names.len())];
        let object = match random.bool() {
            true => link(name, names[random.usize(..names.len())]),
            false => mirror("prod", names[random.usize(..3)], name),
        };
        let kind = crate::testing::kind_of(&object);
        let (key, parsed) = crate::testing::parsed(kind, &object);
        process
            .store
            .apply(kind, key, random.bool().then_some(parsed));
        update(&mut process);
        let mut all = Process::new(&[]);
        all.rules = process.rules.clone();
        all.links.was_complete = true;
        for kind in Kind::ALL {
            all.store
                .reset(kind, None, process.store.objects(kind).clone());
        }
        update(&mut all);
        assert_eq!(visible(&process), visible(&all));
    }
}
