//! The clock of the delays of a table.

use tokio::time::Instant;

use crate::clock::unix_milliseconds;
use crate::model::Timestamp;

/// A clock that starts with the wall clock, and that later changes of the wall clock do not affect.
#[derive(Clone, Copy, Debug)]
pub(super) struct SteadyClock {
    start: Timestamp,
    instant: Instant,
}

impl SteadyClock {
    /// Starts the clock.
    pub(super) fn start() -> Self {
        Self {
            start: Timestamp(unix_milliseconds()),
            instant: Instant::now(),
        }
    }

    /// Returns the time at which it started.
    pub(super) fn started(&self) -> Timestamp {
        self.start
    }

    /// Returns the time.
    pub(super) fn now(&self) -> Timestamp {
        self.start.after(self.instant.elapsed())
    }
}
