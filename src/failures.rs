//! Failures that are counted until the process ends.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use tokio::time::Instant;

/// The number of failures of one kind, and the time of the first. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Failures(Arc<FailureCount>);

#[derive(Debug, Default)]
struct FailureCount {
    count: AtomicU64,
    /// The time of the first failure, which later changes of the wall clock do not affect.
    first: OnceLock<Instant>,
}

// === impl Failures ===

impl Failures {
    /// Counts a failure.
    pub(crate) fn note(&self) {
        // Before the count, so that a reader of the count finds the time.
        self.0.first.get_or_init(Instant::now);
        self.0.count.fetch_add(1, Relaxed);
    }

    /// Returns the number of failures.
    pub fn count(&self) -> u64 {
        self.0.count.load(Relaxed)
    }

    /// Returns the time of the first failure, if there was one.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.0.first.get().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_that_of_the_first_failure() {
        let failures = Failures::default();
        assert_eq!((failures.count(), failures.first()), (0, None));
        failures.note();
        let first = failures.first();
        assert!(first.is_some());
        std::thread::sleep(std::time::Duration::from_millis(2));
        failures.clone().note();
        assert_eq!((failures.count(), failures.first()), (2, first));
    }
}
