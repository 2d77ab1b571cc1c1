//! Pauses between tries, and intervals that replicas do not share.

use std::time::Duration;

/// The first pause after a failure, and the longest; each is twice the one before. Short enough that an API server that
/// is back is noticed within seconds, long enough not to be in its way.
pub(super) const PAUSES: (Duration, Duration) =
    (Duration::from_millis(200), Duration::from_secs(5));

/// Pauses that grow while nothing succeeds.
pub(super) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(PAUSES.0)
    }
}

impl Backoff {
    /// Returns the next pause.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(PAUSES.1);
        jittered(pause)
    }
}

/// Spreads an interval by a fifth either way, so that replicas do not act in step.
pub(super) fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.8 + 0.4 * fastrand::f64())
}
