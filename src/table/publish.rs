//! Publishes a table in one atomic swap. No other module uses `arc-swap`.
//!
//! One control task has the [`Publisher`]. Every listener has a [`Reader`]. A query loads the current [`Published`]
//! once and uses that table until it is answered.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use super::{Built, Table};
use crate::model::{Problem, ProblemKind};

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
        let none = self.table.is_none().then(none);
        let expired = self.is_expired.then(|| expired_problem(age));
        let stale = self.is_stale.then(|| stale_problem(age));
        [none, expired, stale].into_iter().flatten()
    }
}

// === impl Publisher ===

impl Publisher {
    /// Returns a reader.
    pub fn reader(&self) -> Reader {
        Reader {
            current: self.current.clone(),
        }
    }

    /// Publishes a table. Generation and serial change only if the table differs from the previous one. The new serial
    /// is `max(last + 1, now)`, so that it also increases across restarts. `now` is in Unix seconds.
    pub fn publish(&self, built: Built, now: u32) -> Arc<Published> {
        self.swap(built, now, false)
    }

    /// Publishes a table from a snapshot, which is not confirmed yet.
    pub fn publish_stale(&self, built: Built, now: u32) -> Arc<Published> {
        self.swap(built, now, true)
    }

    fn swap(&self, built: Built, now: u32, is_stale: bool) -> Arc<Published> {
        let last = self.current.load_full();
        let is_changed = built.is_changed || last.table.is_none();
        let next = Arc::new(Published {
            table: Some(built.table),
            generation: last.generation + u64::from(is_changed),
            serial: if is_changed {
                last.serial.saturating_add(1).max(now)
            } else {
                last.serial
            },
            is_stale,
            is_expired: last.is_expired,
        });
        drop(last);
        self.replace(next)
    }

    /// Sets whether the current table is expired.
    pub fn set_expired(&self, is_expired: bool) -> Arc<Published> {
        let last = self.current.load_full();
        self.replace(Arc::new(Published {
            table: last.table.clone(),
            is_expired,
            ..*last
        }))
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
        publisher.publish(built(true), 1);
        let in_use = reader.load();
        let weak = Arc::downgrade(&in_use);
        publisher.publish(built(true), 2);
        drop(in_use);
        assert!(weak.upgrade().is_some(), "the reader freed the table");
        assert!(!publisher.free_retired());
        assert!(
            weak.upgrade().is_none(),
            "the publisher did not free the table"
        );
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
            publisher.publish(built(is_changed), now);
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
        publisher.publish(built(true), 1000);
        for is_expired in [true, false, true] {
            publisher.set_expired(is_expired);
            let now = reader.load();
            assert_eq!(now.is_expired, is_expired);
            assert!(now.table.is_some());
            assert_eq!((now.generation, now.serial), (1, 1000));
        }
        // A new table does not reset the expiry. Only `set_expired` does.
        publisher.publish(built(true), 2000);
        assert!(reader.load().is_expired);
    }

    #[test]
    fn snapshot_is_stale_until_the_next_table() {
        let publisher = Publisher::default();
        assert!(publisher.publish_stale(built(true), 1000).is_stale);
        assert!(!publisher.publish(built(false), 1000).is_stale);
        // No query uses the earlier tables.
        assert!(!publisher.free_retired());
        let in_use = publisher.reader().current.load_full();
        publisher.publish(built(true), 1000);
        assert!(publisher.free_retired());
        drop(in_use);
        assert!(!publisher.free_retired());
    }
}
