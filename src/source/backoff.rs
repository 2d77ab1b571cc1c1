//! Pauses between attempts, and intervals that replicas do not share.

use std::time::Duration;

/// The longest pause between attempts at a server that answers and refuses: an overloaded API server recovers if its
/// clients come back seldom.
pub(super) const LONGEST: Duration = Duration::from_secs(5 * 60);

/// Pauses that grow from attempt to attempt.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    /// Each pause is the one before, times this.
    growth: u32,
    next: Duration,
}

impl Backoff {
    /// Makes pauses that start at `first`.
    pub(super) fn new(first: Duration, growth: u32) -> Self {
        Self {
            first,
            growth,
            next: first,
        }
    }

    /// Returns the next pause: at most `longest`, and up to a half more, so that replicas do not act in step.
    pub(super) fn next(&mut self, longest: Duration) -> Duration {
        let pause = self.next.min(longest);
        self.next = (pause * self.growth).min(LONGEST);
        pause.mul_f64(1.0 + 0.5 * fastrand::f64())
    }

    /// Starts again at the first pause.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Spreads an interval by a fifth either way, so that replicas do not act in step.
pub(super) fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.8 + 0.4 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_minutes_and_are_never_shorter_than_they_say() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(5 * second, 3);
        for expected in [5, 15, 45, 135, 300, 300] {
            let pause = backoff.next(LONGEST);
            let expected = expected * second;
            assert!(
                (expected..=expected.mul_f64(1.5)).contains(&pause),
                "{pause:?}"
            );
        }
        backoff.reset();
        assert!(backoff.next(LONGEST) < 8 * second);
    }

    #[test]
    fn a_pause_that_was_cut_short_is_what_the_next_one_grows_from() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(5 * second, 3);
        for _ in 0..10 {
            assert!(backoff.next(10 * second) <= 15 * second);
        }
        assert!(backoff.next(LONGEST) <= 45 * second);
    }

    #[test]
    fn pauses_of_replicas_differ() {
        let pauses: std::collections::BTreeSet<Duration> = (0..100)
            .map(|_| Backoff::new(LONGEST, 2).next(LONGEST))
            .collect();
        assert!(pauses.len() > 90, "{} of 100", pauses.len());
    }
}
