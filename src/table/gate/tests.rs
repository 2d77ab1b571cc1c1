use super::*;
use crate::model::expected_clusters;

const HOUR: u64 = 3_600_000;

fn names(text: &str) -> Box<[ClusterName]> {
    match text {
        "" => Box::default(),
        text => expected_clusters(text).unwrap(),
    }
}

/// Returns a gate that expects `east+west`, with the clusters that have endpoints, and those with mirrors and their times.
fn gate(present: &str, mirrored: &[(&str, u64)]) -> Gate {
    let mirrored = mirrored.iter();
    Gate {
        awaited: names("east+west"),
        expected: names("east+west"),
        present: names(present).into_iter().collect(),
        mirrored: mirrored
            .map(|(cluster, time)| (cluster.parse().unwrap(), Timestamp(*time)))
            .collect(),
    }
}

#[test]
fn gate_opens_when_each_cluster_has_been_seen_and_stays_open() {
    let state = GateState::default();
    let (state, wake) = state.next(&gate("", &[]), Timestamp(0));
    assert_eq!((state.is_open(), wake), (false, None));
    // Clusters need not be present at the same time, and others do not count.
    let (state, _) = state.next(&gate("east+north", &[]), Timestamp(1));
    assert!(!state.is_open());
    let (state, _) = state.next(&gate("west", &[]), Timestamp(2));
    assert!(state.is_open());
    let (state, _) = state.next(&gate("", &[]), Timestamp(3));
    assert!(state.is_open() && !state.changes(&gate_without_awaited()));
}

fn gate_without_awaited() -> Gate {
    Gate {
        awaited: Box::default(),
        ..gate("", &[])
    }
}

#[test]
fn mirror_counts_after_an_hour() {
    let gate = gate("east", &[("west", 1_000), ("north", 0)]);
    let (state, wake) = GateState::default().next(&gate, Timestamp(2_000));
    assert_eq!(
        (state.is_open(), wake),
        (false, Some(Timestamp(HOUR + 1_000)))
    );
    let (state, _) = state.next(&gate, Timestamp(HOUR + 999));
    assert!(!state.is_open());
    let (state, wake) = state.next(&gate, Timestamp(HOUR + 1_000));
    assert_eq!((state.is_open(), wake), (true, None));
    assert!(state.changes(&gate));
}

#[test]
fn state_of_a_published_gate_is_the_one_that_led_to_it() {
    let mut gate = gate("east", &[]);
    gate.awaited = names("west");
    let state = gate.state();
    assert!(!state.is_open());
    assert_eq!(state.seen, names("east").into_iter().collect());
    gate.awaited = Box::default();
    assert!(gate.state().is_open());
}
