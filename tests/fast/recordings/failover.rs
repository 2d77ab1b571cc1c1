//! Replays recordings with failover orders that move by themselves, at the times of their events (rules K5a, K7).

use std::time::Duration;

use global_dns::model::{Kind, ServiceKey, ServiceSettings, Timestamp};
use global_dns::table::Rules;

use crate::recordings::replay::{Event, Recording, Replay, hub_rules};

/// Returns the rules of a server with an order for all services without pods.
fn with_order(order: &str) -> Rules {
    Rules {
        failover: Some(format!("auto:{order}").parse().unwrap()),
        ..hub_rules()
    }
}

/// Returns the rules of a server with an order for the headless service `nginx`.
fn with_order_of_nginx(order: &str) -> Rules {
    let nginx = ServiceKey {
        namespace: "default".parse().unwrap(),
        service: "nginx".parse().unwrap(),
    };
    let settings = ServiceSettings {
        failover: Some(Some(order.parse().unwrap())),
        ..ServiceSettings::default()
    };
    Rules {
        services: [(nginx, settings)].into(),
        ..hub_rules()
    }
}

/// Replays a recording. Returns the changes of steps.
fn failovers(number: &str, rules: Rules) -> Vec<String> {
    let mut replay = Replay::with_rules(number, rules);
    replay.finish();
    let now = replay.reader.load();
    let mut services = now.table.as_ref().unwrap().services();
    let has_order = services.any(|service| service.failover.is_some());
    assert!(has_order, "no service of {number} has an order");
    let changes = replay.failovers.iter();
    changes.map(|(_, change)| change.clone()).collect()
}

/// Returns the times at which a service changes its step, in milliseconds, with the changes.
fn changes<'r>(replay: &'r Replay, service: &str) -> Vec<(u64, &'r str)> {
    let changes = replay.failovers.iter();
    let own = changes.filter_map(|(time, change)| {
        let change = change.strip_prefix(service)?.strip_prefix(' ')?;
        Some((*time, change))
    });
    own.collect()
}

/// The slice of a mirror is gone for 2 ms before the kind of the mirror changes, and comes back 7 ms after it. A mirror also
/// exists up to 35 ms before its slice.
#[test]
fn gaps_between_events_cause_no_failover() {
    for (number, order) in [
        ("28", "north:east"),
        ("28", "north:*"),
        ("25", "east:west"),
        ("25", "east:*"),
    ] {
        let changes = failovers(number, with_order(order));
        assert_eq!(changes, [""; 0], "{number} {order}");
    }
    // Linkerd adds the mirror of `pay` in west, deletes it after 7 ms, and adds it again after 66 ms. No other step of `pay`
    // answers because of that. West is a newcomer: it takes over, once.
    for order in ["west:east", "west:*"] {
        let changes = failovers("25", with_order(order));
        let is_left = |change: &&String| change.contains(" west -> ");
        assert_eq!(changes.iter().find(is_left), None, "{changes:?}");
    }
}

/// The delays are what prevents it.
#[test]
fn without_delays_every_gap_is_a_failover() {
    let rules = Rules {
        failover_delay: Duration::ZERO,
        failback_delay: Duration::ZERO,
        ..with_order("north:east")
    };
    let (there, back) = ("pay north -> east", "pay east -> north");
    assert_eq!(failovers("28", rules), [there, back, there, back]);
}

/// Moves an event to another time, in milliseconds.
fn at(time: u64, event: &Event) -> Event {
    Event {
        time: Timestamp(time),
        ..event.clone()
    }
}

/// Returns the last event of a recording with a verb and the Service of this name, or a slice of it.
fn last_event(recording: &Recording, verb: &str, kind: Kind, service: &str) -> Event {
    let is_it = |event: &&Event| {
        let owner = event.service.clone();
        let owner = owner.unwrap_or_else(|| event.key.name.text().to_string());
        event.verb == verb && event.kind == kind && owner == service
    };
    recording.events.iter().rfind(is_it).unwrap().clone()
}

/// Replays recording 25, and a minute later what Linkerd did in it to the mirror of `pay` in west: it deletes the mirror, and
/// adds it again after a pause. Returns the changes of steps of that part.
fn mirror_is_deleted_and_added_again(pause: u64) -> Vec<(u64, String)> {
    const DELETED_AT: u64 = 60_000;
    let mut recording = Recording::read("25");
    let deleted = last_event(&recording, "DELETED", Kind::Service, "pay-west");
    let added = last_event(&recording, "ADDED", Kind::Service, "pay-west");
    let slice = last_event(&recording, "ADDED", Kind::EndpointSlice, "pay-west");
    assert_eq!(
        [deleted.time.0, added.time.0, slice.time.0],
        [10_554, 10_620, 10_634]
    );
    let without_slice = Event {
        object: None,
        verb: "DELETED",
        ..slice.clone()
    };
    recording.events.extend([
        at(DELETED_AT, &deleted),
        at(DELETED_AT, &without_slice),
        at(DELETED_AT + pause, &added),
        at(DELETED_AT + pause + 14, &slice),
    ]);
    let mut replay = Replay::play(recording, with_order("west:*"));
    replay.finish();
    replay.end_delays(Timestamp(600_000));
    let changes = changes(&replay, "pay").into_iter();
    let later = changes.filter(|(time, _)| *time >= DELETED_AT);
    later
        .map(|(time, change)| (time - DELETED_AT, change.to_owned()))
        .collect()
}

#[test]
fn r25_mirror_that_is_deleted_and_added_again_answers_at_once() {
    let changes = |pause| mirror_is_deleted_and_added_again(pause);
    let there = (0, "west -> *".to_owned());
    let back = |time| (time, "* -> west".to_owned());
    // Its step still counts as alive, so that the mirror answers before its slice.
    assert_eq!(changes(66), [there.clone(), back(66)]);
    // A mirror that is gone for longer has to be alive for the failback delay.
    assert_eq!(changes(3_000), [there, back(33_014)]);
}

/// Replays recording 04, in which a pod of west restarts, with that pod alone in west and another duration of the restart.
fn only_pod_restarts(duration: u64, rules: Rules) -> Replay {
    let mut recording = Recording::read("04");
    let is_other_pod = |event: &Event| {
        let name = event.key.name.text();
        name.ends_with("-west") && name.starts_with("nginx-set-") && *name != *"nginx-set-1-west"
    };
    recording.start.retain(|event| !is_other_pod(event));
    let deleted = recording.events[0].time.0;
    let added = last_event(&recording, "ADDED", Kind::Service, "nginx-set-1-west").time;
    for event in recording
        .events
        .iter_mut()
        .filter(|event| event.time >= added)
    {
        event.time = Timestamp(event.time.0 - added.0 + deleted + duration);
    }
    Replay::play(recording, rules)
}

#[test]
fn r04_readiness_blip_of_the_only_pod_does_not_cost_the_failback_delay() {
    let rules = || with_order_of_nginx("auto:west:*");
    let changes = |duration| {
        let mut replay = only_pod_restarts(duration, rules());
        replay.finish();
        replay.end_delays(Timestamp(600_000));
        let changes = changes(&replay, "nginx").into_iter();
        let changes = changes.map(|(time, change)| (time - 1_564, change.to_owned()));
        changes.collect::<Vec<_>>()
    };
    let there = (0, "west -> *".to_owned());
    let back = |time| (time, "* -> west".to_owned());
    assert_eq!(changes(300), [there.clone(), back(300)]);
    assert_eq!(changes(3_000), [there, back(33_000)]);
}

/// An order is held (rule K5a): a person moves the clients.
#[test]
fn r04_restart_of_the_only_pod_moves_no_client_of_an_order_that_is_held() {
    let mut replay = only_pod_restarts(10_000, with_order_of_nginx("west:*"));
    let mut answers = vec![replay.ask("nginx.default.global. A")];
    while replay.step() {
        answers.push(replay.ask("nginx.default.global. A"));
    }
    answers.dedup();
    assert_eq!(answers, [["10.96.46.26"], ["SERVFAIL"], ["10.96.116.27"]]);
}
