use std::collections::BTreeMap;

use super::StepHealth::{Alive, Dead, Empty};
use super::*;

const DELAYS: Delays = Delays {
    failover: Duration::from_millis(2_000),
    failback: Duration::from_millis(30_000),
};

/// Returns an order. Its steps do not matter here.
fn order() -> FailoverOrder {
    "east:west:north".parse().unwrap()
}

/// Plays health values at times in milliseconds, and returns the step that answers after each.
fn play(start: &[StepHealth], events: &[(u64, &[StepHealth])]) -> Vec<usize> {
    let mut state = FailoverState::new(order(), start, Timestamp(0));
    let mut answering = vec![state.answering];
    for (time, health) in events {
        state = state.next(&order(), health, Timestamp(*time), DELAYS).0;
        answering.push(state.answering);
    }
    answering
}

#[test]
fn first_step_that_is_alive_answers_at_the_start() {
    for (health, step) in [
        (&[Alive, Alive][..], 0),
        (&[Dead, Alive], 1),
        (&[Empty, Alive], 1),
        (&[Dead, Dead], 0),
        (&[Empty, Dead], 1),
        (&[Empty, Empty], 0),
    ] {
        let state = FailoverState::new(order(), health, Timestamp(7));
        assert_eq!(state.answering, step, "{health:?}");
    }
}

#[test]
fn step_is_left_after_the_failover_delay_and_preferred_after_the_failback_delay() {
    let (up, down) = (&[Alive, Alive][..], &[Dead, Alive][..]);
    let events = [
        (1_000, down),
        (2_999, down),
        (3_000, down),
        (10_000, up),
        (39_999, up),
        (40_000, up),
    ];
    assert_eq!(play(up, &events), [0, 0, 0, 1, 1, 1, 0]);
    // A short outage changes nothing.
    assert_eq!(play(up, &[(1_000, down), (2_500, up), (9_000, up)]), [0; 4]);
    // If an earlier step dies before the end of its delay, the delay begins again.
    let events = [
        (0, down),
        (2_000, down),
        (3_000, up),
        (20_000, down),
        (21_000, up),
        (40_000, up),
        (51_000, up),
    ];
    assert_eq!(play(up, &events), [0, 0, 1, 1, 1, 1, 1, 0]);
}

#[test]
fn step_without_endpoints_is_left_at_once() {
    assert_eq!(play(&[Alive, Alive], &[(1, &[Empty, Alive])]), [0, 1]);
    assert_eq!(play(&[Alive, Dead], &[(1, &[Empty, Dead])]), [0, 1]);
    assert_eq!(play(&[Alive, Empty], &[(1, &[Empty, Empty])]), [0, 0]);
}

#[test]
fn last_step_keeps_answering_if_no_step_is_alive() {
    let dead = &[Dead, Dead, Dead][..];
    let second = &[Dead, Alive, Dead][..];
    assert_eq!(
        play(second, &[(0, dead), (9_000, dead), (99_000, dead)]),
        [1; 4]
    );
    // The first step that recovers answers, although another one answered last.
    assert_eq!(
        play(second, &[(0, dead), (9_000, &[Dead, Dead, Alive])]),
        [1, 1, 2]
    );
    assert_eq!(
        play(second, &[(0, dead), (9_000, &[Alive, Dead, Dead])]),
        [1, 1, 0]
    );
}

#[test]
fn changed_order_takes_effect_at_once() {
    let state = FailoverState::new(order(), &[Dead, Alive], Timestamp(0));
    assert_eq!(state.answering, 1);
    let other = "west:east".parse().unwrap();
    let (next, _) = state.next(&other, &[Alive, Alive], Timestamp(1), DELAYS);
    assert_eq!((next.answering, next.order), (0, other));
}

#[test]
fn time_of_the_next_change_is_the_end_of_a_delay() {
    let next = |state: &FailoverState, health: &[StepHealth], now: u64| {
        let (state, wake) = state.next(&order(), health, Timestamp(now), DELAYS);
        (state, wake.map(|wake| wake.0))
    };
    let state = FailoverState::new(order(), &[Alive, Alive], Timestamp(0));
    let (state, wake) = next(&state, &[Dead, Alive], 1_000);
    assert_eq!(wake, Some(3_000));
    let (state, wake) = next(&state, &[Dead, Alive], 3_000);
    assert_eq!((state.answering, wake), (1, None));
    let (state, wake) = next(&state, &[Alive, Alive], 5_000);
    assert_eq!(wake, Some(35_000));
    let (state, wake) = next(&state, &[Alive, Alive], 35_000);
    assert_eq!((state.answering, wake), (0, None));
    // If no step is alive, waiting changes nothing.
    assert_eq!(next(&state, &[Dead, Dead], 36_000).1, None);
}

/// Plays every sequence of events over three steps. An event sets the health of one step, or of none, after a pause that
/// is shorter than both delays or as long as both. Returns the number of sequences. Sequences with the same state are
/// played together.
fn enumerate(depth: usize, values: &[StepHealth]) -> usize {
    let start = FailoverState::new(order(), &[Alive, Alive, Alive], Timestamp(NOW));
    let mut open = vec![(start, [NOW; 3], 1)];
    for _ in 0..depth {
        let mut next = BTreeMap::new();
        for (state, changed, count) in open {
            for (health, now) in events(&state, values) {
                let (after, wake) = state.next(&order(), &health, Timestamp(now), DELAYS);
                let changed = [0, 1, 2].map(|step| {
                    if state.steps[step].health == health[step] {
                        changed[step]
                    } else {
                        now
                    }
                });
                check(&state, &after, health, wake, now);
                check_delay(&state, &after, health, changed, now);
                let (after, changed) = (at_now(after, now), changed.map(|at| shifted(at, now)));
                let same = next.entry(format!("{after:?} {changed:?}"));
                same.or_insert((after, changed, 0)).2 += count;
            }
        }
        open = next.into_values().collect();
    }
    open.iter().map(|(_, _, count)| count).sum()
}

/// Checks that a dead step is left only after it has been dead for the delay. `changed`: the last change of each step.
fn check_delay(
    last: &FailoverState,
    next: &FailoverState,
    health: [StepHealth; 3],
    changed: [u64; 3],
    now: u64,
) {
    let left = last.answering;
    if next.answering > left && health[left] == Dead {
        assert!(
            now - changed[left] >= 2_000,
            "{last:?} -> {next:?} at {now}"
        );
    }
}

/// The time of a state before an event. Steps change at most a minute before it.
const NOW: u64 = 60_000;

/// Moves the times of a state from `now` to [`NOW`]. Times before the longest delay have the same effect.
fn at_now(mut state: FailoverState, now: u64) -> FailoverState {
    for step in &mut state.steps {
        step.since = Timestamp(shifted(step.since.0, now));
    }
    state
}

fn shifted(at: u64, now: u64) -> u64 {
    (at + NOW).saturating_sub(now)
}

/// Returns every event after a state: the health of the steps, and the time.
fn events(
    state: &FailoverState,
    values: &[StepHealth],
) -> impl Iterator<Item = ([StepHealth; 3], u64)> {
    let last = [0, 1, 2].map(|step| state.steps[step].health);
    let changes = (0..3).flat_map(|step| values.iter().map(move |new| (step, *new)));
    let changes = changes.filter(move |(step, new)| last[*step] != *new);
    let healths = changes.chain([(0, last[0])]).map(move |(step, new)| {
        let mut health = last;
        health[step] = new;
        health
    });
    healths.flat_map(|health| [500, 30_000].map(|pause| (health, NOW + pause)))
}

#[test]
fn every_sequence_of_six_events_keeps_the_promises() {
    assert_eq!(enumerate(6, &[Alive, Dead]), 8_usize.pow(6));
    assert_eq!(enumerate(6, &[Alive, Dead, Empty]), 14_usize.pow(6));
}

/// Checks one transition.
fn check(
    last: &FailoverState,
    next: &FailoverState,
    health: [StepHealth; 3],
    wake: Option<Timestamp>,
    now: u64,
) {
    let answering = next.answering;
    let context = || format!("{last:?} -> {next:?} with {health:?} at {now}");
    // The answer is never empty while a step has endpoints.
    if health.iter().any(|health| *health != Empty) {
        assert_ne!(health[answering], Empty, "{}", context());
    }
    if answering != last.answering {
        let is_alive = health[answering] == Alive;
        assert!(is_alive || !health.contains(&Alive), "{}", context());
    }
    // A later step answers only if no earlier one is alive.
    if answering > last.answering {
        assert!(!health[..answering].contains(&Alive), "{}", context());
    }
    // The same arguments give the same state, and without new events nothing changes before the announced time.
    let until = wake.map_or(now + 1_000_000, |wake| wake.0 - 1);
    let (later, _) = next.next(&order(), &health, Timestamp(until), DELAYS);
    assert_eq!(&later, next, "{}", context());
    if let Some(wake) = wake {
        let (changed, _) = next.next(&order(), &health, wake, DELAYS);
        assert_ne!(changed.answering, next.answering, "{}", context());
    }
}

#[test]
fn values_have_the_names_in_reports() {
    let health = [Alive, Dead, Empty].map(StepHealth::name);
    assert_eq!(health, ["alive", "dead", "empty"]);
    let origins = [
        OrderOrigin::Annotation,
        OrderOrigin::ServiceFlag,
        OrderOrigin::DefaultFlag,
    ];
    assert_eq!(
        origins.map(OrderOrigin::name),
        ["annotation", "service-flag", "default-flag"]
    );
    let time = Timestamp(1_767_225_601_999);
    assert_eq!(time.to_text(), "2026-01-01T00:00:01Z");
}
