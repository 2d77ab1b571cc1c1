//! The clock of the delays of a table.

use tokio::time::Instant;

use crate::clock::unix_milliseconds;
use crate::model::Timestamp;

/// The smallest difference between both clocks that counts as a jump of the wall clock, in milliseconds.
const MIN_JUMP: u64 = 1000;

/// A clock that starts with the wall clock, and that later changes of the wall clock do not affect.
#[derive(Clone, Copy, Debug)]
pub struct SteadyClock {
    /// The time at which it started.
    pub(super) start: Timestamp,
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

    /// Returns the time.
    pub(crate) fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    /// Returns the time of an instant.
    pub(crate) fn at(&self, instant: Instant) -> Timestamp {
        self.start
            .after(instant.saturating_duration_since(self.instant))
    }

    /// Returns the wall time of a time of this clock, to print it.
    pub(crate) fn wall(&self, time: Timestamp) -> Timestamp {
        shift(time, self.now(), Timestamp(unix_milliseconds()))
    }

    /// Returns the time of this clock at a wall time, for which somebody asks.
    pub(crate) fn of_wall(&self, time: Timestamp) -> Timestamp {
        shift(time, Timestamp(unix_milliseconds()), self.now())
    }
}

/// Returns the time of another clock. A wall clock that is corrected a little differs by less than [`MIN_JUMP`], which is ignored.
fn shift(time: Timestamp, own: Timestamp, other: Timestamp) -> Timestamp {
    match other.0.checked_signed_diff(own.0) {
        Some(ahead) if ahead.unsigned_abs() >= MIN_JUMP => {
            Timestamp(time.0.saturating_add_signed(ahead))
        }
        Some(_) | None => time,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SteadyClock {
        /// Starts a clock with the time of a wall clock that is wrong.
        pub(crate) fn started_at(start: Timestamp) -> Self {
            Self {
                start,
                instant: Instant::now(),
            }
        }
    }

    #[test]
    fn wall_clock_that_jumps_shifts_the_times_that_are_printed_and_asked_for() {
        let shifted =
            |own: u64, other: u64| shift(Timestamp(900_000), Timestamp(own), Timestamp(other)).0;
        assert_eq!(shifted(1_000_000, 1_000_999), 900_000);
        assert_eq!(shifted(1_000_000, 400_000), 300_000);
        let years = 10 * 365 * 24 * 3600 * 1000;
        assert_eq!(shifted(1_000_000, 1_000_000 + years), 900_000 + years);
    }
}
