use super::*;
use crate::model::Timestamp;
use crate::testing::service_keys;

fn change(number: usize) -> Change {
    Change::new(ChangeKind::Demo, format!("Scene {number}."))
}

fn joined(cluster: &str) -> Change {
    Change {
        cluster: Some(cluster.parse().unwrap()),
        ..Change::new(ChangeKind::ClusterJoined, format!("{cluster}."))
    }
}

fn texts(events: &[Arc<Event>]) -> Vec<String> {
    events
        .iter()
        .map(|event| event.change.text.to_string())
        .collect()
}

#[test]
fn ring_keeps_the_last_events() {
    let events = Events::default();
    let first = events.subscribe().borrow().id;
    assert_eq!(events.after(first, 10), Some(Vec::new()));
    for number in 0..MAX_EVENTS + 5 {
        events.record([change(number)]);
    }
    let all = events.all();
    assert_eq!(all.len(), MAX_EVENTS);
    assert_eq!(all[0].change.text, "Scene 5.");
    let last = events.subscribe().borrow().id;
    assert_eq!(last, first + MAX_EVENTS as u64 + 5);
    assert_eq!((all[0].id, all[MAX_EVENTS - 1].id), (first + 6, last));
    // The oldest ID that loses nothing, and its neighbors.
    assert_eq!(events.after(first + 5, 2), Some(all[..2].to_vec()));
    assert_eq!(events.after(first + 4, 2), None);
    assert_eq!(
        events.after(last - 1, 2),
        Some(all[MAX_EVENTS - 1..].to_vec())
    );
    assert_eq!(events.after(last, 2), Some(Vec::new()));
    assert_eq!(events.after(last + 1, 2), None);
}

#[test]
fn ids_differ_between_processes_and_are_exact_in_javascript() {
    let epochs: BTreeSet<u64> = (0..50)
        .map(|_| {
            let id = Events::default().subscribe().borrow().id;
            assert!(id + (1 << NUMBER_BITS) <= 1 << 53);
            assert_eq!(id % (1 << NUMBER_BITS), 0);
            id >> NUMBER_BITS
        })
        .collect();
    assert!(epochs.len() > 45, "{epochs:?}");
    assert!(!epochs.contains(&0));
    // An ID of another process is unknown, also if that process recorded more.
    let (one, other) = (Events::default(), Events::default());
    let id = other.subscribe().borrow().id;
    if one.subscribe().borrow().id != id {
        assert_eq!(one.after(id, 1), None);
    }
}

/// Ten thousand tables with one new endpoint each, as after a watch has caught up with another cluster.
#[test]
fn storm_of_changes_does_not_push_out_other_events() {
    let events = Events::default();
    let start = events.subscribe().borrow().id;
    events.record([joined("east")]);
    let added = |number| Change::new(ChangeKind::EndpointAdded, format!("Endpoint {number}."));
    for number in 0..10_000 {
        events.record([added(number)]);
        if number == 5000 {
            events.record([joined("west")]);
        }
    }
    let all = events.all();
    assert_eq!(all.len(), MAX_EVENTS);
    assert_eq!(texts(&all[..2]), ["east.", "west."]);
    assert_eq!(texts(&all[2..3]), ["Endpoint 9002."]);
    assert_eq!(texts(&all[MAX_EVENTS - 1..]), ["Endpoint 9999."]);
    assert!(all.is_sorted_by_key(|event| event.id));
    // A reader that has not seen all that was forgotten has missed events, although the ring has older ones.
    let first = all[2].id;
    assert_eq!(events.after(start + 1, 1), None);
    assert_eq!(events.after(first - 2, 1), None);
    assert_eq!(events.after(first - 1, 1), Some(all[2..3].to_vec()));
}

#[test]
fn readers_are_woken_once_for_a_table_and_for_events() {
    let events = Events::default();
    let mut latest = events.subscribe();
    assert!(!latest.has_changed().unwrap());
    let published = Published {
        generation: 3,
        ..Published::default()
    };
    events.note_table(&published, 1);
    assert_eq!(latest.borrow_and_update().generation, 3);
    events.note_table(&published, 1);
    assert!(!latest.has_changed().unwrap());
    events.record(Vec::new());
    assert!(!latest.has_changed().unwrap());
    events.record([change(1)]);
    assert_eq!(latest.borrow_and_update().id, events.all()[0].id);
}

/// A client that sees the server ready, or a new answer, asks for its events. It must not be told that there are none.
#[test]
fn table_and_its_events_become_visible_together() {
    let (events, publisher) = (Events::default(), crate::table::Publisher::default());
    let reader = publisher.reader();
    let built = || crate::table::Built {
        table: crate::table::Table::default(),
        is_changed: true,
        services: ServiceKeys::new(),
        timers: Vec::new(),
    };
    let is_hidden = || events.0.ring.is_locked();
    let check = |now: Arc<Published>, count: usize| {
        let latest = *events.subscribe().borrow();
        let all = events.all();
        assert_eq!(all.len(), count, "{:?}", texts(&all));
        assert_eq!(all.last().map(|event| event.id), Some(latest.id));
        assert_eq!(latest.generation, now.generation);
    };
    assert!(!is_hidden());
    let last = Published::default();
    let now = events.note_published(&last, vec![change(1)], &ServiceKeys::new(), || {
        let now = publisher.publish(built(), Timestamp(2));
        assert!(reader.load().table.is_some() && is_hidden());
        now
    });
    check(now, 1);
}

#[test]
fn changed_services_are_those_of_all_later_tables() {
    let mut changed = ChangedServices::default();
    assert_eq!(changed.after(0), Some(service_keys(&[])));
    for names in [&["a", "b"][..], &[], &["b", "c"]] {
        changed.add(Some(&service_keys(names)));
    }
    assert_eq!(changed.after(0), Some(service_keys(&["a", "b", "c"])));
    assert_eq!(changed.after(2), Some(service_keys(&["b", "c"])));
    assert_eq!(changed.after(3), Some(service_keys(&[])));
    // Of another process.
    assert_eq!(changed.after(4), None);
}

#[test]
fn reader_that_missed_too_many_changed_services_learns_none() {
    let mut changed = ChangedServices::default();
    changed.add(Some(&service_keys(&["a"])));
    changed.add(None);
    assert_eq!(changed.after(1), None);
    assert_eq!(changed.after(2), Some(service_keys(&[])));
    for number in 0..2 * MAX_CHANGED {
        changed.add(Some(&service_keys(&[&format!("s-{number}")])));
    }
    assert_eq!(changed.after(2), None);
    assert_eq!(changed.after(changed.last - 1).unwrap().len(), 1);
    let names: Vec<String> = (0..=MAX_CHANGED)
        .map(|number| format!("s-{number}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    changed.add(Some(&service_keys(&names)));
    assert_eq!((changed.after(changed.last - 1), changed.count), (None, 0));
    // Empty tables are not kept without a limit either.
    for _ in 0..2 * MAX_CHANGED {
        changed.add(Some(&service_keys(&[])));
    }
    assert!(changed.tables.len() <= MAX_CHANGED);
}
