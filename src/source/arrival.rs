//! The times from a change in Kubernetes until answers have it.

use std::time::Duration;

use tokio::time::Instant;

use crate::histogram::Histogram;
use crate::model::{KubeObject, Timestamp, key};

/// Upper bounds of the buckets of [`UpdateTimes::update`], in microseconds.
pub(crate) const UPDATE_BUCKETS: [u64; 13] = [
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    5_000_000,
];

/// Upper bounds of the buckets of [`UpdateTimes::programming`], in microseconds: 1 ms to 524 s, as in CoreDNS.
pub(crate) const PROGRAMMING_BUCKETS: [u64; 20] = {
    let mut bounds = [1_000; 20];
    let mut index = 1;
    while index < bounds.len() {
        bounds[index] = 2 * bounds[index - 1];
        index += 1;
    }
    bounds
};

/// A change with an older annotation has another cause than the one of that time. A tenant may write any time.
const MAX_TRIGGER_AGE: Duration = Duration::from_secs(3600);

/// When a change arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    received: Instant,
    /// The time of the change that led to it, by the clock of the control plane.
    triggered: Option<Timestamp>,
}

/// The times until changes were published. Lists do not count.
#[derive(Debug, Default)]
pub(crate) struct UpdateTimes {
    /// From the arrival of an event of a watch.
    pub(crate) update: Histogram<{ UPDATE_BUCKETS.len() }>,
    /// From the change of a Service or pod of this cluster (`coredns_kubernetes_dns_programming_duration_seconds`).
    pub(crate) programming: Histogram<{ PROGRAMMING_BUCKETS.len() }>,
}

// === impl Arrival ===

impl Arrival {
    /// Returns the arrival of a change at this moment.
    pub(super) fn now() -> Self {
        Self {
            received: Instant::now(),
            triggered: None,
        }
    }

    /// Adds the time in the annotation of a slice. Only slices of Services of this cluster count, because the clocks of other
    /// clusters may differ.
    pub(super) fn of_object(self, object: &KubeObject<'_>) -> Self {
        let is_own = object.label(key::MANAGED_BY) == Some(key::controller::KUBERNETES);
        let trigger = object.annotation(key::TRIGGER_TIME).filter(|_| is_own);
        Self {
            triggered: trigger.and_then(Timestamp::from_text),
            ..self
        }
    }
}

// === impl UpdateTimes ===

impl UpdateTimes {
    /// Counts the times of changes that are published now.
    pub(super) fn note_published(&self, arrivals: &[Arrival], now: Timestamp) {
        for arrival in arrivals {
            let took = arrival.received.elapsed();
            self.update.add(&UPDATE_BUCKETS, took, 1);
            // The clock of the control plane may be ahead.
            let since = arrival.triggered.map(|then| now.0.saturating_sub(then.0));
            let took = since.map(Duration::from_millis);
            if let Some(took) = took.filter(|took| *took <= MAX_TRIGGER_AGE) {
                self.programming.add(&PROGRAMMING_BUCKETS, took, 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use serde_json::json;

    use super::*;

    /// Returns the number of counted times in milliseconds, and their sum.
    fn programming(times: &UpdateTimes) -> (u64, u64) {
        let buckets = 0..=PROGRAMMING_BUCKETS.len();
        let count = buckets.map(|index| times.programming.bucket(index).load(Relaxed));
        let sum = times.programming.nanoseconds().load(Relaxed) / 1_000_000;
        (count.sum(), sum)
    }

    #[test]
    fn only_slices_of_services_of_this_cluster_have_a_time_that_triggered_them() {
        let triggered = |manager, text: &str| {
            let slice = json!({"metadata": {
                "name": "db-1",
                "labels": {key::MANAGED_BY: manager},
                "annotations": {key::TRIGGER_TIME: text},
            }});
            let json = slice.to_string();
            let arrival = Arrival::now().of_object(&KubeObject::read(&json));
            arrival.triggered.map(|time| time.0)
        };
        let time = "2026-11-24T06:30:00.25Z";
        let expected = Some(1_795_501_800_250);
        let mirroring = "endpointslicemirroring-controller.k8s.io";
        for (manager, text, expected) in [
            (key::controller::KUBERNETES, time, expected),
            (mirroring, time, None),
            (key::controller::KUBERNETES, "yesterday", None),
        ] {
            assert_eq!(triggered(manager, text), expected, "{manager} {text}");
        }
    }

    #[test]
    fn clock_that_is_ahead_counts_as_zero_and_an_old_trigger_not_at_all() {
        let times = UpdateTimes::default();
        let now = Timestamp::from_seconds(100_000);
        let arrival = |triggered| Arrival {
            triggered,
            ..Arrival::now()
        };
        let hour = MAX_TRIGGER_AGE;
        for (triggered, expected) in [
            (None, (0, 0)),
            (Some(now.before(Duration::from_millis(7))), (1, 7)),
            (Some(now.after(hour)), (2, 7)),
            (Some(now.before(hour)), (3, 3_600_007)),
            (Some(Timestamp(0)), (3, 3_600_007)),
        ] {
            times.note_published(&[arrival(triggered)], now);
            assert_eq!(programming(&times), expected, "{triggered:?}");
        }
        let updates = 0..=UPDATE_BUCKETS.len();
        let updates = updates.map(|index| times.update.bucket(index).load(Relaxed));
        assert_eq!(updates.sum::<u64>(), 5);
    }
}
