use super::StepHealth::{Alive, Down, Empty};
use serde_json::{Value, json};

use super::*;
use crate::table::Table;
use crate::testing::{
    Server, backends, flat_mirror, import, import_slice, rules, service_mirror, table_by,
};

const DELAYS: Delays = Delays {
    failover: Duration::from_millis(2_000),
    failback: Duration::from_millis(30_000),
};

/// Returns an order. Its steps do not matter here.
fn order() -> FailoverOrder {
    "east:west:north".parse().unwrap()
}

/// The timers of a server that starts with this health.
fn started(health: &[StepHealth]) -> FailoverTimers {
    FailoverTimers::at_once(order(), health, Timestamp(0))
        .next(health, Timestamp(0), DELAYS)
        .0
}

/// Plays health values at times in milliseconds, and returns the step that answers after each. Delays that end between two
/// events are played, too.
fn play_from(mut timers: FailoverTimers, events: &[(u64, &[StepHealth])]) -> Vec<usize> {
    let mut answering = vec![timers.answering];
    let mut wake: Option<Timestamp> = None;
    for (time, health) in events {
        while let Some(end) = wake.filter(|end| end.0 < *time) {
            let last: Vec<StepHealth> = timers.steps.iter().map(|step| step.health).collect();
            (timers, wake) = timers.next(&last, end, DELAYS);
        }
        (timers, wake) = timers.next(health, Timestamp(*time), DELAYS);
        // Without another event, nothing changes at the same time.
        let again = timers.next(health, Timestamp(*time), DELAYS).0;
        assert_eq!(again, timers, "{time}: {health:?}");
        answering.push(timers.answering);
    }
    answering
}

fn play(start: &[StepHealth], events: &[(u64, &[StepHealth])]) -> Vec<usize> {
    play_from(started(start), events)
}

#[test]
fn first_step_that_is_alive_answers_at_the_start() {
    for (health, step) in [
        (&[Alive, Alive][..], 0),
        (&[Down, Alive], 1),
        (&[Empty, Alive], 1),
        (&[Down, Down], 0),
        (&[Empty, Down], 1),
        (&[Empty, Empty], 0),
    ] {
        assert_eq!(started(health).answering, step, "{health:?}");
    }
}

#[test]
fn step_is_left_after_the_failover_delay_and_preferred_after_the_failback_delay() {
    let (up, down) = (&[Alive, Alive][..], &[Down, Alive][..]);
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
}

/// An interruption that is shorter than the failover delay does not count, a longer one does.
#[test]
fn only_long_interruptions_begin_the_failback_delay_again() {
    let (up, down) = (&[Alive, Alive][..], &[Down, Alive][..]);
    let short = [
        (0, down),
        (2_000, down),
        (3_000, up),
        (20_000, down),
        (21_999, up),
        (32_999, up),
        (33_000, up),
    ];
    assert_eq!(play(up, &short), [0, 0, 1, 1, 1, 1, 1, 0]);
    let long = [
        (0, down),
        (2_000, down),
        (3_000, up),
        (20_000, down),
        (22_000, down),
        (23_000, up),
        (33_000, up),
        (52_999, up),
        (53_000, up),
    ];
    assert_eq!(play(up, &long), [0, 0, 1, 1, 1, 1, 1, 1, 1, 0]);
}

#[test]
fn step_without_endpoints_is_skipped_at_once_and_back_at_once() {
    assert_eq!(play(&[Alive, Alive], &[(1, &[Empty, Alive])]), [0, 1]);
    assert_eq!(play(&[Alive, Down], &[(1, &[Empty, Down])]), [0, 1]);
    assert_eq!(play(&[Alive, Empty], &[(1, &[Empty, Empty])]), [0, 0]);
    // Within the failover delay, it is back at once, also if its slice follows its mirror.
    let gap = [
        (1_000, &[Empty, Alive][..]),
        (1_070, &[Down, Alive]),
        (1_100, &[Alive, Alive]),
    ];
    assert_eq!(play(&[Alive, Alive], &gap), [0, 1, 1, 0]);
    // After it, it was left.
    let outage = [
        (1_000, &[Empty, Alive][..]),
        (3_000, &[Alive, Alive]),
        (32_999, &[Alive, Alive]),
        (33_000, &[Alive, Alive]),
    ];
    assert_eq!(play(&[Alive, Alive], &outage), [0, 1, 1, 1, 0]);
}

#[test]
fn earlier_step_that_recovers_answers_at_once_if_what_answers_is_not_alive() {
    let events = [
        (0, &[Down, Alive][..]),
        (2_000, &[Down, Alive]),
        (5_000, &[Alive, Alive]),
        (6_000, &[Alive, Down]),
    ];
    assert_eq!(play(&[Alive, Alive], &events), [0, 0, 1, 1, 0]);
}

#[test]
fn first_step_with_endpoints_answers_if_no_step_is_alive() {
    let all_down = &[Down, Down, Down][..];
    let second = &[Down, Alive, Down][..];
    // So replicas with different pasts agree after the failover delay.
    let events = [
        (0, all_down),
        (1_999, all_down),
        (2_000, all_down),
        (99_000, all_down),
    ];
    assert_eq!(play(second, &events), [1, 1, 1, 0, 0]);
    assert_eq!(play(all_down, &[(99_000, all_down)]), [0, 0]);
    assert_eq!(
        play(second, &[(0, all_down), (9_000, &[Down, Down, Alive])]),
        [1, 1, 2]
    );
    assert_eq!(
        play(second, &[(0, all_down), (9_000, &[Alive, Down, Down])]),
        [1, 1, 0]
    );
}

/// The objects of a new service arrive one after the other, and a mirror before its slice.
#[test]
fn first_step_of_a_new_service_may_arrive_last() {
    let new = || FailoverTimers::of_new_service(order(), Timestamp(0));
    let late = [
        (0, &[Empty, Alive][..]),
        (50, &[Down, Alive]),
        (80, &[Alive, Alive]),
    ];
    assert_eq!(play_from(new(), &late), [0, 1, 1, 0]);
    let interrupted_down = [(0, &[Down, Alive][..]), (30, &[Alive, Alive])];
    assert_eq!(play_from(new(), &interrupted_down), [0; 3]);
    let stays_down = [(0, &[Down, Alive][..]), (2_000, &[Down, Alive])];
    assert_eq!(play_from(new(), &stays_down), [0, 0, 1]);
}

/// A mirror may exist for some milliseconds before its slice, also after a long time without endpoints.
#[test]
fn time_without_endpoints_does_not_count_as_time_down() {
    let empty = &[Empty, Empty, Empty][..];
    let events = [
        (30_000, &[Empty, Empty, Down][..]),
        (30_700, &[Down, Empty, Down]),
        (31_999, &[Down, Empty, Down]),
        (32_000, &[Down, Empty, Down]),
    ];
    assert_eq!(play(empty, &events), [0, 2, 2, 2, 0]);
    let arriving = [
        (30_000, &[Down, Empty, Empty][..]),
        (30_020, &[Down, Alive, Empty]),
        (30_035, &[Alive, Alive, Empty]),
    ];
    assert_eq!(play(empty, &arriving), [0; 4]);
}

#[test]
fn time_of_the_next_change_is_the_end_of_a_delay() {
    let next = |timers: &FailoverTimers, health: &[StepHealth], now: u64| {
        let (timers, wake) = timers.next(health, Timestamp(now), DELAYS);
        (timers, wake.map(|wake| wake.0))
    };
    let timers = started(&[Alive, Alive]);
    let (timers, wake) = next(&timers, &[Down, Alive], 1_000);
    assert_eq!(wake, Some(3_000));
    let (timers, wake) = next(&timers, &[Down, Alive], 3_000);
    assert_eq!((timers.answering, wake), (1, None));
    let (timers, wake) = next(&timers, &[Alive, Alive], 5_000);
    assert_eq!(wake, Some(35_000));
    // The end of an interruption that counts.
    let (interrupted, wake) = next(&timers, &[Down, Alive], 6_000);
    assert_eq!(wake, Some(8_000));
    assert_eq!(next(&interrupted, &[Down, Alive], 8_000).1, None);
    let (timers, wake) = next(&timers, &[Alive, Alive], 35_000);
    assert_eq!((timers.answering, wake), (0, None));
}

/// Every sequence of health values of three steps keeps the promises, whatever the time between its events.
#[test]
fn every_sequence_keeps_the_promises() {
    const HEALTH: [StepHealth; 3] = [Alive, Down, Empty];
    const PAUSES: [u64; 3] = [300, 2_000, 30_000];
    let vectors: Vec<[StepHealth; 3]> = (0..27)
        .map(|code| [HEALTH[code % 3], HEALTH[code / 3 % 3], HEALTH[code / 9]])
        .collect();
    let mut sequences = 0_u32;
    let mut check = |last: &FailoverTimers, now: u64, health: &[StepHealth; 3]| {
        sequences += 1;
        let (next, wake) = last.next(health, Timestamp(now), DELAYS);
        let (again, _) = next.next(health, Timestamp(now), DELAYS);
        assert_eq!(again, next, "{last:?} {health:?}");
        assert!(wake.is_none_or(|wake| wake.0 > now), "{last:?} {health:?}");
        let answering = next.answering;
        let first_alive = health.iter().position(|one| *one == Alive);
        match health[answering] {
            // A later step answers only while an earlier one is on its way back.
            Alive => {
                let earlier = next.steps[..answering].iter();
                let mut alive = earlier.filter(|step| step.health == Alive);
                assert!(alive.all(|step| step.standing != Standing::Preferred));
            }
            // For a delay, while it is the last one that was alive.
            Down if first_alive.is_some() => {
                assert_eq!(answering, last.answering);
                assert!(now < next.steps[answering].down_since.0 + 2_000);
                assert!(first_alive > Some(answering));
            }
            Down => {
                let first = health.iter().position(|one| *one != Empty);
                let is_waiting = now < next.steps[answering].down_since.0 + 2_000;
                assert!(
                    first == Some(answering) || is_waiting,
                    "{last:?} {health:?}"
                );
            }
            Empty => assert!(health.iter().all(|one| *one == Empty)),
        }
        next
    };
    let starts: Vec<FailoverTimers> = vectors.iter().map(|health| started(health)).collect();
    let mut layer: Vec<(u64, FailoverTimers)> = starts.into_iter().map(|one| (0, one)).collect();
    for depth in 0..2 {
        let mut next = Vec::new();
        for (now, timers) in &layer {
            for health in &vectors {
                for pause in PAUSES {
                    next.push((now + pause, check(timers, now + pause, health)));
                }
            }
        }
        // Timers that are alike lead to the same futures.
        next.sort_by_key(|(now, timers)| timers.shifted(*now));
        next.dedup_by_key(|(now, timers)| timers.shifted(*now));
        layer = next;
        assert!(!layer.is_empty(), "{depth}");
    }
    assert!(sequences > 50_000, "{sequences}");
}

impl FailoverTimers {
    /// Returns a text that is the same for timers with the same times relative to `now`. Times that have passed by all delays
    /// are alike.
    fn shifted(&self, now: u64) -> String {
        let ago = |time: Timestamp| (now - time.0).min(DELAYS.failback.as_millis() as u64);
        let step = |step: &StepTimer| match step.standing {
            Standing::Preferred => {
                let times = (ago(step.since), ago(step.down_since));
                format!("{:?} {times:?}", step.health)
            }
            Standing::Skipped(since) => {
                format!(
                    "{:?} {} skipped {}",
                    step.health,
                    ago(step.since),
                    ago(since)
                )
            }
            Standing::Left(since) => {
                format!(
                    "{:?} {} left {:?}",
                    step.health,
                    ago(step.since),
                    since.map(ago)
                )
            }
        };
        let steps: Vec<String> = self.steps.iter().map(step).collect();
        format!("{} {}", self.answering, steps.join(", "))
    }
}

/// Returns the failover of a service whose first step answers.
fn failover(mode: FailoverMode, flat: Option<usize>) -> Failover {
    let step = Step {
        health: Alive,
        since: None,
    };
    Failover {
        order: order(),
        origin: OrderOrigin::Annotation,
        mode,
        is_mode_inferred: false,
        answering: 0,
        steps: [step; 3].into(),
        flat,
    }
}

#[test]
fn flat_step_hides_the_steps_after_it_in_mode_auto() {
    let (auto, hold) = (FailoverMode::Auto, FailoverMode::Hold);
    for (mode, flat, expected) in [
        (auto, Some(0), Some(0)),
        (auto, Some(1), Some(1)),
        // No step is after the last one.
        (auto, Some(2), None),
        (auto, None, None),
        (hold, Some(0), None),
    ] {
        assert_eq!(
            failover(mode, flat).flat_step(),
            expected,
            "{mode:?} {flat:?}"
        );
    }
}

#[test]
fn only_an_endpoint_in_a_flat_network_makes_a_step_flat() {
    let flat = flat_mirror("prod", "web", "east", "10.96.0.1");
    let gateways = gateways(true, true);
    for (objects, expected) in [
        ([&[flat][..], &gateways[2..]].concat(), Some(0)),
        (gateways, None),
    ] {
        let table = table_by(&ordered("east:west"), &objects);
        assert_eq!(failover_of(&table).flat_step(), expected, "{objects:?}");
    }
}

#[test]
fn transition_has_the_cause_for_which_another_step_answers() {
    let last = failover(FailoverMode::Auto, None);
    let cause_of = |change: &dyn Fn(&mut Failover, &mut Failover)| {
        let (mut last, mut next) = (last.clone(), last.clone());
        next.answering = 1;
        change(&mut last, &mut next);
        Failover::transition(&last, &next).map(|one| (one.from, one.to, one.cause))
    };
    let because = |cause| Some(("east".to_owned(), "west".to_owned(), cause));
    assert_eq!(cause_of(&|_, _| ()), because(ChangeCause::StepAlive));
    assert_eq!(
        cause_of(&|_, next| next.steps[0].health = Down),
        because(ChangeCause::StepDown)
    );
    assert_eq!(
        cause_of(&|_, next| next.steps[0].health = Empty),
        because(ChangeCause::StepEmpty)
    );
    assert_eq!(
        cause_of(&|last, _| last.mode = FailoverMode::Hold),
        because(ChangeCause::ModeChanged)
    );
    assert_eq!(
        cause_of(&|last, _| last.order = "east:north:west".parse().unwrap()),
        because(ChangeCause::OrderChanged)
    );
    assert_eq!(cause_of(&|_, next| next.answering = 0), None);
}

#[test]
fn states_of_steps_and_origins_of_orders_have_their_public_names() {
    assert_eq!(
        [Alive, Down, Empty].map(StepHealth::name),
        ["alive", "down", "empty"]
    );
    let origins = [
        OrderOrigin::Annotation,
        OrderOrigin::ServiceFlag,
        OrderOrigin::DefaultFlag,
    ];
    assert_eq!(
        origins.map(OrderOrigin::name),
        ["annotation", "service-flag", "default-flag"]
    );
}

/// Returns rules with an order for `prod/web`.
fn ordered(order: &str) -> Rules {
    Rules {
        service_failover: [(web(), order.parse().unwrap())].into(),
        ..rules()
    }
}

fn web() -> ServiceKey {
    ServiceKey {
        namespace: "prod".parse().unwrap(),
        service: "web".parse().unwrap(),
    }
}

/// Returns mirrors of `prod/web` in clusters `east` and `west`, with gateways that are up or down.
fn gateways(east: bool, west: bool) -> Vec<Value> {
    let of = |cluster: &str, is_up| {
        let slice = backends("prod", &format!("web-{cluster}"), true, is_up);
        [service_mirror("prod", "web", cluster, "10.96.0.1"), slice]
    };
    [of("east", east), of("west", west)].concat()
}

fn failover_of(table: &Table) -> &Failover {
    let service = table.service("prod", "web").unwrap();
    service.failover.as_ref().unwrap()
}

#[test]
fn mode_for_all_services_is_that_of_each_order_without_a_mode() {
    let all = Rules {
        failover: Some("east:west".parse().unwrap()),
        failover_mode: Some(FailoverMode::Hold),
        ..rules()
    };
    let one = |mode| Rules {
        failover_mode: Some(mode),
        ..ordered("east:west")
    };
    let mode = |rules: &Rules| {
        let table = table_by(rules, &gateways(true, true));
        let failover = failover_of(&table);
        (failover.mode, failover.is_mode_inferred)
    };
    assert_eq!(mode(&all), (FailoverMode::Hold, false));
    assert_eq!(mode(&one(FailoverMode::Hold)), (FailoverMode::Hold, false));
    assert_eq!(mode(&one(FailoverMode::Auto)), (FailoverMode::Auto, false));
    let own = Rules {
        service_failover_mode: [(web(), FailoverMode::Auto)].into(),
        ..one(FailoverMode::Hold)
    };
    assert_eq!(mode(&own), (FailoverMode::Auto, false));
}

/// Either names a cluster of a headless ServiceImport. The mode `auto` of all services is not for them.
#[test]
fn service_has_pods_if_the_status_or_a_slice_of_its_import_names_a_step() {
    let mut import = import("prod", "web", "Headless", &[]);
    let status = std::mem::take(&mut import["status"]);
    let listed = |status: &Value| {
        let mut import = import.clone();
        import["status"] = status.clone();
        import
    };
    let slice = import_slice("prod", "web", "east", &[("h-0", "10.1.0.1")]);
    for (objects, expected) in [
        (vec![listed(&status)], FailoverMode::Hold),
        (vec![listed(&json!({})), slice], FailoverMode::Hold),
        (vec![listed(&json!({}))], FailoverMode::Auto),
    ] {
        for failover_mode in [None, Some(FailoverMode::Auto)] {
            let rules = Rules {
                failover_mode,
                ..ordered("east:hub")
            };
            let table = table_by(&rules, &objects);
            assert_eq!(failover_of(&table).mode, expected, "{objects:?}");
        }
    }
}

#[test]
fn first_table_of_a_process_leaves_a_step_that_is_down_at_once() {
    let mut server = Server::new(ordered("east:west"));
    server.see(1, &gateways(false, true));
    assert_eq!(failover_of(&server.table).answering, 1);
}

#[test]
fn order_of_a_known_service_leaves_a_step_that_is_down_at_once() {
    let mut rules = ordered("east:west");
    let order = std::mem::take(&mut rules.service_failover);
    let mut server = Server::new(rules.clone());
    server.see(1, &gateways(false, true));
    server.timers.note_started();
    let mut ordered = Server::new(Rules {
        service_failover: order,
        ..rules
    });
    (ordered.table, ordered.timers) = (server.table, server.timers);
    ordered.see(2, &gateways(false, true));
    assert_eq!(failover_of(&ordered.table).answering, 1);
}

/// The mirrors of a new service may exist before their slices.
#[test]
fn first_step_of_a_service_that_is_new_to_a_process_has_the_failover_delay() {
    let mut server = Server::new(ordered("east:west"));
    server.timers.note_started();
    server.see(1, &gateways(false, true));
    assert_eq!(failover_of(&server.table).answering, 0);
    server.see(3, &gateways(false, true));
    assert_eq!(failover_of(&server.table).answering, 1);
}

/// The service is built again at the end of its delay, although no object changes.
#[test]
fn step_that_dies_answers_until_the_service_is_due() {
    let mut server = Server::new(ordered("east:west"));
    server.see(1, &gateways(true, true));
    assert_eq!(server.timers.next_wake(), None);
    server.see(5, &gateways(false, true));
    assert_eq!(failover_of(&server.table).answering, 0);
    let end = Timestamp::from_seconds(7);
    assert_eq!(server.timers.next_wake(), Some(end));
    server.timers.now = Timestamp(end.0 - 1);
    assert_eq!(server.timers.due(), [].into());
    server.timers.now = end;
    assert_eq!(server.timers.due(), [web()].into());
    server.see(7, &gateways(false, true));
    assert_eq!(failover_of(&server.table).answering, 1);
    assert_eq!(server.timers.next_wake(), None);
}
