//! Failures that are counted until the process ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock::unix_milliseconds;
use crate::model::{Problem, ProblemKind, Timestamp};

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

    /// Returns the problem that there were failures since the start of the process, if there were any.
    pub(crate) fn problem(&self, kind: ProblemKind) -> Option<Problem> {
        let (count, first) = (self.count(), Timestamp(self.0.first.load(Relaxed)));
        (count > 0).then(|| Problem::new(kind, format!("{count} so far")).holds_since(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_that_of_the_first_failure() {
        let failures = Failures::default();
        let problem = || failures.problem(ProblemKind::LogLinesLost);
        assert_eq!(problem(), None);
        failures.note();
        let first = problem().and_then(|one| one.since());
        std::thread::sleep(std::time::Duration::from_millis(2));
        failures.clone().note();
        let later = problem().unwrap();
        assert_eq!((&*later.detail, later.since()), ("2 so far", first));
    }
}
