//! Failures that are counted until the process ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock::unix_milliseconds;

/// The number of failures of one kind, and the time of the first. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Failures(Arc<FailureCount>);

#[derive(Debug, Default)]
struct FailureCount {
    count: AtomicU64,
    /// The time of the first failure, in milliseconds since the Unix epoch.
    first: AtomicU64,
}

// === impl Failures ===

impl Failures {
    /// Counts a failure.
    pub(crate) fn note(&self) {
        // Before the count, so that a reader of the count finds the time.
        let _ = self
            .0
            .first
            .compare_exchange(0, unix_milliseconds(), Relaxed, Relaxed);
        self.0.count.fetch_add(1, Relaxed);
    }

    /// Returns the number of failures.
    pub fn count(&self) -> u64 {
        self.0.count.load(Relaxed)
    }

    /// Returns the time of the first failure, in milliseconds since the Unix epoch. Returns zero if there is none.
    pub(crate) fn first(&self) -> u64 {
        self.0.first.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_that_of_the_first_failure() {
        let failures = Failures::default();
        assert_eq!((failures.count(), failures.first()), (0, 0));
        failures.note();
        let first = failures.first();
        assert!(first > 0);
        std::thread::sleep(std::time::Duration::from_millis(2));
        failures.clone().note();
        assert_eq!((failures.count(), failures.first()), (2, first));
    }
}
