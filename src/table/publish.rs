//! Publishes a table in one atomic swap. No other module uses `arc-swap`.
//!
//! One control task has the [`Publisher`]. Every listener has a [`Reader`]. A query loads the current [`Published`]
//! once and uses that table until it is answered.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use super::{Built, Table};
use crate::model::{Problem, ProblemKind, Timestamp};

/// A table with the numbers that identify it.
#[derive(Debug, Default)]
pub struct Published {
    /// The table. `None` before the first complete table.
    pub table: Option<Table>,
    /// Number of published tables that differ from the previous one, starting at 1.
    pub generation: u64,
    /// SOA serial (RFC 1035 section 3.3.13). It changes with the generation.
    pub serial: u32,
    /// Whether the table comes from a snapshot of an earlier process (`--snapshot`) and is not confirmed yet.
    pub is_stale: bool,
    /// Whether the source has not been heard from for longer than `--max-stale`. An expired table is not used for
    /// answers.
    pub is_expired: bool,
    /// The time since which there is no table, or it is expired, stale or ready: the first of these that holds.
    pub since: Option<Timestamp>,
    /// The time since which the table comes from a snapshot, if it does.
    pub stale_since: Option<Timestamp>,
}

/// Returns the problem of an expired table. `age` is the time since its source was heard from, if it is known.
pub fn expired_problem(age: Option<Duration>) -> Problem {
    let age = age.map(|age| format!("; its age is {} s", age.as_secs()));
    let detail = format!("answering SERVFAIL{}", age.unwrap_or_default());
    Problem::new(ProblemKind::TableExpired, detail)
}

/// Returns the problem of a table from a snapshot.
pub fn stale_problem(age: Option<Duration>) -> Problem {
    let age = age.map(|age| format!("its age is {} s", age.as_secs()));
    Problem::new(ProblemKind::TableStale, age.unwrap_or_default())
}

/// Publishes tables. There is one for each process.
#[derive(Debug, Default)]
pub struct Publisher {
    current: Arc<ArcSwap<Published>>,
    /// Earlier tables that queries may still use. The publisher frees them, because dropping a table takes too long for
    /// a listener.
    retired: Mutex<Vec<Arc<Published>>>,
}

/// Reads the current table.
#[derive(Clone, Debug)]
pub struct Reader {
    current: Arc<ArcSwap<Published>>,
}

/// The current table. A guard keeps its table in memory, so it must be dropped after the query.
pub type Current = Guard<Arc<Published>>;

// === impl Published ===

impl Published {
    /// Returns the problems of the table as a whole. `age` is the time since its source was heard from, if it is known.
    pub fn problems(&self, age: Option<Duration>) -> impl Iterator<Item = Problem> {
        let none = || Problem::new(ProblemKind::NoTable, "answering SERVFAIL");
        let none = self.table.is_none().then(|| none().holds_since(self.since));
        let expired = || expired_problem(age).holds_since(self.since);
        let expired = self.is_expired.then(expired);
        let stale = || stale_problem(age).holds_since(self.stale_since);
        let stale = self.is_stale.then(stale);
        [none, expired, stale].into_iter().flatten()
    }

    /// Sets the times of its states. They go on if `last` had these states.
    fn with_times(self, last: &Self, now: Timestamp) -> Self {
        let state = |one: &Self| match (&one.table, one.is_expired) {
            (None, _) => [true, false, false],
            (Some(_), true) => [false, true, false],
            (Some(_), false) => [false, false, one.is_stale],
        };
        let is_same = state(&self) == state(last);
        let stale_since = last.stale_since.unwrap_or(now);
        Self {
            since: if is_same { last.since } else { Some(now) },
            stale_since: self.is_stale.then_some(stale_since),
            ..self
        }
    }
}

// === impl Publisher ===

impl Publisher {
    /// Creates the publisher of a process that starts at a time.
    pub fn new(start: Timestamp) -> Self {
        let none = Published {
            since: Some(start),
            ..Published::default()
        };
        Self {
            current: Arc::new(ArcSwap::from_pointee(none)),
            ..Self::default()
        }
    }

    /// Returns a reader.
    pub fn reader(&self) -> Reader {
        Reader {
            current: self.current.clone(),
        }
    }

    /// Publishes a table. Generation and serial change only if the table differs from the previous one. The new serial
    /// is `max(last + 1, now)`, so that it also increases across restarts.
    pub fn publish(&self, built: Built, now: Timestamp) -> Arc<Published> {
        self.swap(built, now, false)
    }

    /// Publishes a table from a snapshot, which is not confirmed yet.
    pub fn publish_stale(&self, built: Built, now: Timestamp) -> Arc<Published> {
        self.swap(built, now, true)
    }

    fn swap(&self, built: Built, now: Timestamp, is_stale: bool) -> Arc<Published> {
        let last = self.current.load_full();
        let is_changed = built.is_changed || last.table.is_none();
        let next = Published {
            table: Some(built.table),
            generation: last.generation + u64::from(is_changed),
            serial: if is_changed {
                last.serial.saturating_add(1).max(now.seconds())
            } else {
                last.serial
            },
            is_stale,
            is_expired: last.is_expired,
            ..Published::default()
        };
        let next = Arc::new(next.with_times(&last, now));
        drop(last);
        self.replace(next)
    }

    /// Sets whether the current table is expired.
    pub fn set_expired(&self, is_expired: bool, now: Timestamp) -> Arc<Published> {
        let last = self.current.load_full();
        let next = Published {
            table: last.table.clone(),
            is_expired,
            ..*last
        };
        self.replace(Arc::new(next.with_times(&last, now)))
    }

    fn replace(&self, next: Arc<Published>) -> Arc<Published> {
        let last = self.current.swap(next.clone());
        self.retired.lock().push(last);
        self.free_retired();
        next
    }

    /// Frees the earlier tables that no query uses. Returns whether queries still use others.
    pub fn free_retired(&self) -> bool {
        let mut retired = self.retired.lock();
        retired.retain(|table| Arc::strong_count(table) > 1);
        !retired.is_empty()
    }
}

// === impl Reader ===

impl Reader {
    /// Returns the current table, for one query or one batch of queries.
    pub fn load(&self) -> Current {
        self.current.load()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::store::ServiceKeys;

    #[test]
    fn table_in_use_is_freed_by_the_publisher() {
        let publisher = Publisher::default();
        let reader = publisher.reader();
        publisher.publish(built(true), at(1));
        let in_use = reader.load();
        let weak = Arc::downgrade(&in_use);
        publisher.publish(built(true), at(2));
        drop(in_use);
        assert!(weak.upgrade().is_some(), "the reader freed the table");
        assert!(!publisher.free_retired());
        assert!(
            weak.upgrade().is_none(),
            "the publisher did not free the table"
        );
    }

    fn at(second: u64) -> Timestamp {
        Timestamp::from_seconds(second)
    }

    fn built(is_changed: bool) -> Built {
        Built {
            table: Table::default(),
            is_changed,
            services: ServiceKeys::new(),
            timers: Vec::new(),
        }
    }

    #[test]
    fn generation_and_serial_change_only_with_the_table() {
        let publisher = Publisher::default();
        let reader = publisher.reader();
        assert!(reader.load().table.is_none());
        for (is_changed, now, generation, serial) in [
            (false, 1000, 1, 1000), // the first table counts as a change, even if it is empty
            (false, 2000, 1, 1000),
            (true, 2000, 2, 2000),
            (true, 2000, 3, 2001), // two changes within one second
            (true, 1500, 4, 2002), // the clock goes back
        ] {
            publisher.publish(built(is_changed), at(now));
            assert_eq!(
                (reader.load().generation, reader.load().serial),
                (generation, serial)
            );
        }
    }

    #[test]
    fn expiry_keeps_generation_and_serial() {
        let publisher = Publisher::default();
        let reader = publisher.reader();
        publisher.publish(built(true), at(1000));
        for is_expired in [true, false, true] {
            publisher.set_expired(is_expired, at(2000));
            let now = reader.load();
            assert_eq!(now.is_expired, is_expired);
            assert!(now.table.is_some());
            assert_eq!((now.generation, now.serial), (1, 1000));
        }
        // A new table does not reset the expiry. Only `set_expired` does.
        publisher.publish(built(true), at(2000));
        assert!(reader.load().is_expired);
    }

    #[test]
    fn times_of_states_last_as_long_as_the_states() {
        let publisher = Publisher::new(at(1));
        let times = |now: &Published| {
            let second = |time: Timestamp| time.seconds();
            let problems = now.problems(None);
            let problems: Vec<_> = problems
                .map(|one| (one.kind, one.since().map(second)))
                .collect();
            (now.since.map(second), problems)
        };
        let none = publisher.reader().current.load_full();
        let problems = vec![(ProblemKind::NoTable, Some(1))];
        assert_eq!(times(&none), (Some(1), problems));
        let stale = (ProblemKind::TableStale, Some(2));
        let expired = (ProblemKind::TableExpired, Some(3));
        let now = publisher.publish_stale(built(true), at(2));
        assert_eq!(times(&now), (Some(2), vec![stale]));
        let now = publisher.set_expired(true, at(3));
        assert_eq!(times(&now), (Some(3), vec![expired, stale]));
        // A table of the source is expired until the source is active.
        let now = publisher.publish(built(true), at(4));
        assert_eq!(times(&now), (Some(3), vec![expired]));
        let now = publisher.set_expired(false, at(5));
        assert_eq!(times(&now), (Some(5), Vec::new()));
        let now = publisher.publish(built(true), at(6));
        assert_eq!(times(&now), (Some(5), Vec::new()));
    }

    #[test]
    fn snapshot_is_stale_until_the_next_table() {
        let publisher = Publisher::default();
        assert!(publisher.publish_stale(built(true), at(1000)).is_stale);
        assert!(!publisher.publish(built(false), at(1000)).is_stale);
        // No query uses the earlier tables.
        assert!(!publisher.free_retired());
        let in_use = publisher.reader().current.load_full();
        publisher.publish(built(true), at(1000));
        assert!(publisher.free_retired());
        drop(in_use);
        assert!(!publisher.free_retired());
    }
}
