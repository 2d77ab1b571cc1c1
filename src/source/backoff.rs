//! Pauses between attempts, and jitter of intervals.

use std::time::Duration;

/// The longest pause between attempts if the server answers with errors. An overloaded API server recovers if its
/// clients retry rarely.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// Pauses that grow from attempt to attempt.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    /// The factor between one pause and the next.
    growth: u32,
    next: Duration,
}

impl Backoff {
    /// Creates pauses that start at `first` and grow by the factor `growth`.
    pub(super) fn new(first: Duration, growth: u32) -> Self {
        Self {
            first,
            growth,
            next: first,
        }
    }

    /// Returns the next pause: at most `longest`, plus jitter of up to half, so that replicas do not act in step. The one after
    /// it is not longer than `longest` either, whatever its own limit is: an API server that was down may refuse a request
    /// while it starts, which must not delay its return for a minute.
    pub(super) fn next(&mut self, longest: Duration) -> Duration {
        let pause = self.next.min(longest);
        self.next = (pause * self.growth).min(longest);
        pause.mul_f64(1.0 + 0.5 * fastrand::f64())
    }

    /// Starts again at the first pause.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
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
    fn pauses_grow_to_five_minutes_and_are_never_shortened_by_jitter() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(5 * second, 3);
        for expected in [5, 15, 45, 135, 300, 300] {
            let pause = backoff.next(LONGEST_PAUSE);
            let expected = expected * second;
            assert!(
                (expected..=expected.mul_f64(1.5)).contains(&pause),
                "{pause:?}"
            );
        }
        backoff.reset();
        assert!(backoff.next(LONGEST_PAUSE) < 8 * second);
    }

    #[test]
    fn pause_after_another_limit_starts_there() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(5 * second, 3);
        for _ in 0..10 {
            assert!(backoff.next(10 * second) <= 15 * second);
        }
        assert!(backoff.next(LONGEST_PAUSE) <= 15 * second);
        assert!(backoff.next(LONGEST_PAUSE) >= 30 * second);
    }

    #[test]
    fn replicas_get_different_pauses() {
        let pauses: std::collections::BTreeSet<Duration> = (0..100)
            .map(|_| Backoff::new(LONGEST_PAUSE, 2).next(LONGEST_PAUSE))
            .collect();
        assert!(pauses.len() > 90, "{} of 100", pauses.len());
    }
}
