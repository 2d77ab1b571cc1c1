//! Any interleaving of events results in the same table if each watch keeps the order of each object.
//!
//! The histories contain relists and objects that move between watches. Two connections deliver such a move in either
//! order: a deletion in one watch, an addition in the other.

use std::collections::BTreeMap;

use global_dns::model::{Kind, ObjectKey, Problem};
use global_dns::table::store::ServiceKeys;
use global_dns::table::{Rules, Service, Store, Table, Timers, build};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use crate::fuzz::checks::tables::services_of;
use crate::recordings::replay::{Event, Recording, hub_rules, listed, reduced};

/// A message on the connection of one watch.
#[derive(Clone, Debug)]
enum Delivery {
    Apply(ObjectKey, Value),
    Delete(ObjectKey),
    /// A complete list of the objects at that time.
    Relist(BTreeMap<(Kind, ObjectKey), Value>),
}

/// Splits a history into the deliveries of each watch.
fn connections(history: &[Event], relists: &[usize]) -> BTreeMap<Kind, Vec<Delivery>> {
    let mut objects: BTreeMap<(Kind, ObjectKey), Value> = BTreeMap::new();
    let mut connections: BTreeMap<Kind, Vec<Delivery>> = BTreeMap::new();
    for (index, event) in history.iter().enumerate() {
        let (name, key) = ((event.kind, event.key.clone()), event.key.clone());
        let delivery = match &event.object {
            Some(object) => Delivery::Apply(key, object.clone()),
            None => Delivery::Delete(key),
        };
        connections.entry(event.kind).or_default().push(delivery);
        match &event.object {
            Some(object) => objects.insert(name, object.clone()),
            None => objects.remove(&name),
        };
        if relists.contains(&index) {
            let kind = Kind::ALL[index % Kind::ALL.len()];
            let deliveries = connections.entry(kind).or_default();
            deliveries.push(Delivery::Relist(objects.clone()));
        }
    }
    connections
}

/// Applies the deliveries in an order that `choose` determines. Builds the table after most deliveries.
fn run(
    connections: BTreeMap<Kind, Vec<Delivery>>,
    mut choose: impl FnMut(usize) -> usize,
    rules: &Rules,
) -> (Table, Store) {
    let mut store = Store::default();
    let mut table = Table::default();
    // No service has a failover order or expected clusters, so that the table does not depend on the time.
    let timers = Timers::default();
    let mut queues: Vec<(Kind, std::vec::IntoIter<Delivery>)> = connections
        .into_iter()
        .map(|(kind, deliveries)| (kind, deliveries.into_iter()))
        .collect();
    let mut dirty = ServiceKeys::new();
    while !queues.is_empty() {
        let chosen = choose(queues.len());
        let (kind, queue) = &mut queues[chosen];
        match queue.next() {
            None => {
                queues.remove(chosen);
                continue;
            }
            Some(Delivery::Apply(key, object)) => {
                dirty.extend(store.apply(*kind, key, reduced(*kind, &object)));
            }
            Some(Delivery::Delete(key)) => dirty.extend(store.apply(*kind, key, None)),
            Some(Delivery::Relist(objects)) => {
                dirty.extend(store.reset(*kind, None, listed(&objects, *kind)));
            }
        }
        // Several deliveries can share a build.
        if choose(3) != 0 {
            table = build(&table, &store, &std::mem::take(&mut dirty), rules, &timers).table;
        }
    }
    (build(&table, &store, &dirty, rules, &timers).table, store)
}

/// Adds disturbances to a recording: objects lose their labels and regain them, change their identity, or are deleted
/// and created again.
fn with_disturbances(recording: &Recording, disturbances: &[(usize, u8)]) -> Vec<Event> {
    let mut history: Vec<Event> = recording
        .start
        .iter()
        .chain(&recording.events)
        .cloned()
        .collect();
    for (at, disturbance) in disturbances {
        let at = at % history.len();
        let event = history[at].clone();
        let Some(object) = event.object.clone() else {
            continue;
        };
        let mut other = object.clone();
        let labels = &mut other["metadata"]["labels"];
        match disturbance % 6 {
            0 => *labels = json!({}),
            1 => labels["mirror.linkerd.io/cluster-name"] = json!("elsewhere"),
            2 => labels["service.kubernetes.io/headless"] = json!(""),
            3 => {
                let name = "mirror.linkerd.io/remote-svc-fq-name";
                other["metadata"]["annotations"][name] = json!("a.b.default.svc.cluster.local");
            }
            4 => other["spec"] = json!("invalid"),
            _ => {
                history.insert(
                    at + 1,
                    Event {
                        object: None,
                        ..event.clone()
                    },
                );
                history.insert(at + 2, event);
                continue;
            }
        }
        history.insert(
            at + 1,
            Event {
                object: Some(other),
                ..event.clone()
            },
        );
        // Restores the real state, so that later events of the recording still match.
        if disturbance % 2 == 0 {
            history.insert(at + 2, event);
        }
    }
    history
}

/// Returns the services and the problems of a table. What explains a problem depends on which of them was seen first.
fn state(table: &Table) -> (Vec<Service>, Vec<Problem>) {
    let mut services: Vec<Service> = table.sorted_services().into_iter().cloned().collect();
    let mut problems: Vec<Problem> = table.problems().cloned().collect();
    let of_services = services.iter_mut().flat_map(|one| &mut one.problems);
    for problem in of_services.chain(&mut problems) {
        problem.cause = None;
    }
    problems.sort();
    (services, problems)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 160,
        rng_seed: RngSeed::Fixed(20_261_120),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_interleaving_of_watches_results_in_the_same_table(
        recording in prop::sample::select(Recording::numbers()),
        disturbances in prop::collection::vec((any::<usize>(), any::<u8>()), 0..12),
        relists in prop::collection::vec(0..200_usize, 0..6),
        choices in prop::collection::vec(any::<usize>(), 1..400),
    ) {
        let rules = hub_rules();
        let history = with_disturbances(&Recording::read(&recording), &disturbances);
        let mut turn = 0;
        let shuffled = |n: usize| {
            turn += 1;
            choices[turn % choices.len()].wrapping_add(turn / choices.len()) % n
        };
        let (table, store) = run(connections(&history, &relists), shuffled, &rules);
        let (in_order, _) = run(connections(&history, &[]), |_| 0, &rules);
        prop_assert_eq!(state(&table), state(&in_order));
        prop_assert_eq!(table.answers_hash(), in_order.answers_hash());

        // A new server that lists the final state must have the same table.
        let mut last: BTreeMap<(Kind, ObjectKey), Value> = BTreeMap::new();
        for event in &history {
            match &event.object {
                Some(object) => last.insert((event.kind, event.key.clone()), object.clone()),
                None => last.remove(&(event.kind, event.key.clone())),
            };
        }
        let mut new = Store::default();
        for kind in Kind::ALL {
            new.reset(kind, None, listed(&last, kind));
        }
        let full = build(&Table::default(), &new, &services_of(&new), &rules, &Timers::default()).table;
        prop_assert_eq!(state(&table), state(&full));
        prop_assert_eq!(table.answers_hash(), full.answers_hash());
        prop_assert_eq!(store, new);
    }
}
