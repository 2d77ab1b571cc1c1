//! Pauses between attempts, and jitter of intervals.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause after failed requests, whatever failed: the return of an API server must be noticed soon. It is a third
/// of what client-go waits on average (30 to 60 s), because a replica has one turn to list for all its watches.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Pauses that double from attempt to attempt.
#[derive(Debug)]
pub(super) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Backoff {
    /// Returns the next pause. Jitter of up to half adds to it, so that replicas do not act in step, but not beyond the longest one.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (2 * pause).min(LONGEST_PAUSE);
        pause
            .mul_f64(1.0 + 0.5 * fastrand::f64())
            .min(LONGEST_PAUSE)
    }

    /// Starts again at the first pause.
    pub(super) fn reset(&mut self) {
        self.0 = FIRST;
    }
}

/// Adds jitter of up to a fifth in either direction, so that replicas do not act in step.
pub(super) fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.8 + 0.4 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_from_one_second_to_fifteen_with_jitter() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::default();
        for (least, most) in [(1, 2), (2, 3), (4, 6), (8, 12), (15, 15), (15, 15)] {
            let pause = backoff.next();
            assert!(
                (least * second..=most * second).contains(&pause),
                "{pause:?}"
            );
        }
        backoff.reset();
        let pauses = (0..100).map(|_| {
            backoff.reset();
            backoff.next()
        });
        let pauses: std::collections::BTreeSet<Duration> = pauses.collect();
        assert!(pauses.len() > 90, "{} of 100", pauses.len());
    }
}
