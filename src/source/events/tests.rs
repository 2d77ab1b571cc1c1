use super::*;
use crate::testing::{record_now, service_keys};

/// Records a change of a cluster and a service.
fn of(kind: ChangeKind, cluster: &str, service: &str) -> Change {
    Change {
        services: service_keys(&[service]),
        cluster: Some(cluster.parse().unwrap()),
        endpoints: vec!["db-0".into()],
        ..Change::new(kind, "")
    }
}

fn texts(events: &[Arc<Event>]) -> Vec<String> {
    let texts = events.iter().map(|event| event.change.text.to_string());
    texts.collect()
}

#[test]
fn ids_differ_between_processes_and_are_exact_in_javascript() {
    let epoch = |_| {
        let id = Events::default().latest().id;
        assert!(id + (1 << NUMBER_BITS) <= 1 << 53);
        assert_eq!(id % (1 << NUMBER_BITS), 0);
        id >> NUMBER_BITS
    };
    let epochs: BTreeSet<u64> = (0..50).map(epoch).collect();
    assert!(epochs.len() > 45 && !epochs.contains(&0), "{epochs:?}");
    // An ID of another process is unknown, also if that process recorded more.
    let (one, other) = (Events::default(), Events::default());
    let id = other.latest().id;
    if one.latest().id != id {
        assert_eq!(one.after(id, 1), None);
    }
}

/// Ten thousand events of one kind, as while a watch catches up with another cluster.
#[test]
fn storm_of_changes_does_not_push_out_other_events() {
    let events = Events::default();
    let start = events.latest().id;
    let record = |kind, text: String| record_now(&events, Change::new(kind, text));
    record(ChangeKind::Joined, "east.".to_owned());
    for number in 0..10_000 {
        record(ChangeKind::Grew, format!("Endpoint {number}."));
        if number == 5000 {
            record(ChangeKind::Joined, "west.".to_owned());
        }
    }
    let (all, _) = events.all();
    assert_eq!(all.len(), MAX_EVENTS);
    assert_eq!(texts(&all[..2]), ["east.", "west."]);
    assert_eq!(texts(&all[2..3]), ["Endpoint 9002."]);
    assert!(all.is_sorted_by_key(|event| event.id));
    // A reader that has not seen all that was forgotten has missed events, although the ring has older ones.
    let first = all[2].id;
    assert_eq!(events.after(start + 1, 1), None);
    assert_eq!(events.after(first - 2, 1), None);
    assert_eq!(events.after(first - 1, 1), Some(all[2..3].to_vec()));
}

/// Notes tables that changed these services, from version 1 on.
fn tables(changed: &[Option<&[&str]>]) -> Events {
    let events = Events::default();
    for (version, names) in (1..).zip(changed) {
        let keys = service_keys(names.unwrap_or_default());
        let now = Published {
            version,
            ..Published::default()
        };
        events.note_table(&now, names.map(|_| &keys));
    }
    events
}

#[test]
fn changed_services_are_those_of_all_later_tables() {
    let events = tables(&[Some(&["a", "b"]), Some(&[]), Some(&["b", "c"])]);
    let after = |version| events.changed_after(version);
    assert_eq!(after(0), Some(service_keys(&["a", "b", "c"])));
    assert_eq!(after(2), Some(service_keys(&["b", "c"])));
    assert_eq!(after(3), Some(service_keys(&[])));
    assert_eq!(after(4), None); // of another process
}

// === Window ===

/// Adds changes at these times, and returns all events with their times and the numbers of endpoints.
fn merged(changes: Vec<(u64, Change)>) -> Vec<(u64, ChangeKind, usize, String)> {
    let (mut window, mut recorded) = (Window::default(), Vec::new());
    for (time, change) in changes {
        let now = Timestamp(time);
        recorded.extend(window.take_due(now));
        recorded.extend(window.add(change, now));
    }
    recorded.extend(window.take_due(Timestamp(u64::MAX)));
    assert_eq!(window.next_due(), None);
    let shown = recorded.into_iter();
    shown
        .map(|(moment, one)| (moment.0, one.kind, one.count, one.text.to_string()))
        .collect()
}

#[test]
fn gateway_that_goes_down_is_one_event() {
    use ChangeKind::Down;
    let mut changes: Vec<_> = (0..120)
        .map(|number| (number * 7, of(Down, "east", &format!("db{}", number / 3))))
        .collect();
    changes.push((900, of(Down, "west", "db0")));
    let text = |text: &str| text.to_owned();
    assert_eq!(
        merged(changes),
        [
            (
                0,
                Down,
                120,
                text("Cluster east is down for 40 services, 120 endpoints.")
            ),
            (900, Down, 1, String::new()),
        ]
    );
}

#[test]
fn names_that_fail_together_are_one_trouble() {
    let change = |service: &str, reason: Option<&str>| Change {
        services: service_keys(&[service]),
        after: reason.map(Into::into),
        ..Change::new(ChangeKind::Failing, "")
    };
    let events = merged(vec![
        (0, change("db", Some("no endpoint"))),
        (1, change("web", Some("no endpoint"))),
        (2, change("api", None)),
        (3, change("kv", Some("waits for west"))),
    ]);
    let texts: Vec<_> = events.iter().map(|one| one.3.as_str()).collect();
    assert_eq!(
        texts,
        ["The name of 3 services fails: for several reasons.", "",]
    );
}

/// 150 services of another namespace change in the same way, again and again.
#[test]
fn change_of_a_namespace_is_not_merged_with_those_of_another() {
    let of_other = |number: u64| {
        let mut change = of(ChangeKind::Address, "east", &format!("db{}", number % 150));
        let key = change.services.pop_first().unwrap();
        change.services.insert(ServiceKey {
            namespace: "other".parse().unwrap(),
            ..key
        });
        change
    };
    let mut changes: Vec<_> = (0..1000).map(|number| (number, of_other(number))).collect();
    changes.push((1000, of(ChangeKind::Address, "east", "zz")));
    let events = merged(changes);
    let counts: Vec<_> = events.iter().map(|one| one.2).collect();
    assert_eq!(counts, [1000, 1]);
    // Nor pushed out of the ring.
    let events = Events::default();
    record_now(&events, of(ChangeKind::Address, "east", "zz"));
    (0..2000).for_each(|number| record_now(&events, of_other(number)));
    let (all, _) = events.all();
    assert_eq!(all[0].change.services, service_keys(&["zz"]));
}

#[test]
fn endless_changes_are_told_after_the_longest_wait() {
    let up = |number: u64| (number * 10, of(ChangeKind::Up, "east", "db"));
    let events = merged((0..1000).map(up).collect());
    let counts: Vec<_> = events.iter().map(|one| (one.0, one.2)).collect();
    assert_eq!(counts, [(0, 300), (3000, 300), (6000, 300), (9000, 100)]);
}

#[test]
fn changes_that_undo_each_other_are_told_in_their_order() {
    use ChangeKind::{Down, Up};
    let one = |time, kind, service| (time, of(kind, "east", service));
    let events = merged(vec![
        one(0, Down, "db"),
        one(1, Up, "db"),
        one(2, Down, "web"),
        one(3, Down, "db"),
    ]);
    let kinds: Vec<_> = events.iter().map(|one| (one.0, one.1, one.2)).collect();
    assert_eq!(kinds, [(0, Down, 1), (1, Up, 1), (2, Down, 2)]);
}

#[test]
fn change_names_a_hundred_services_and_counts_the_others() {
    let mut first = of(ChangeKind::Down, "east", "db");
    for number in 0..1000 {
        first.merge(&of(ChangeKind::Down, "east", &format!("db{number}")));
    }
    assert_eq!((first.services.len(), first.count), (MAX_KEYS, 1001));
}
