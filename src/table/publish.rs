//! Makes a table current, in one atomic swap: the only door to `arc-swap`.
//!
//! One control task holds the [`Publisher`]; every listener holds a [`Reader`]. A query loads the current [`Published`]
//! once and sees that whole table until it is answered.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use super::{Built, Table};

/// A table with the numbers that identify it.
#[derive(Debug, Default)]
pub struct Published {
    /// What is served; `None` before the first complete table.
    pub table: Option<Table>,
    /// Counts the tables that differ from the one before, from 1.
    pub generation: u64,
    /// SOA serial (RFC 1035 section 3.3.13): moves when the generation does.
    pub serial: u32,
    /// The table was saved by a process before (`--snapshot`), and nothing has confirmed it yet.
    pub is_stale: bool,
    /// The source has been silent for longer than `--max-stale`: nothing is answered from the table.
    pub is_expired: bool,
}

/// The writing end: one per process.
#[derive(Debug, Default)]
pub struct Publisher {
    current: Arc<ArcSwap<Published>>,
    /// Tables that were current, as long as a query may still look at them. Whoever lets go of a table last has to
    /// free what is in no other, and that is not to be a listener.
    retired: Mutex<Vec<Arc<Published>>>,
}

/// The reading end.
#[derive(Clone, Debug)]
pub struct Reader {
    current: Arc<ArcSwap<Published>>,
}

/// What is current. It keeps its table alive: not to be kept.
pub type Current = Guard<Arc<Published>>;

// === impl Publisher ===

impl Publisher {
    /// Returns a reading end.
    pub fn reader(&self) -> Reader {
        Reader {
            current: self.current.clone(),
        }
    }

    /// Makes a table current. Generation and serial move only if it differs from the one before; the serial is
    /// `max(last + 1, now)`, so that it survives a restart. `now` is in Unix seconds.
    pub fn publish(&self, built: Built, now: u32) -> Arc<Published> {
        self.swap(built, now, false)
    }

    /// The same with a table that was saved by a process before, and that nothing confirms yet.
    pub fn publish_stale(&self, built: Built, now: u32) -> Arc<Published> {
        self.swap(built, now, true)
    }

    fn swap(&self, built: Built, now: u32, is_stale: bool) -> Arc<Published> {
        let last = self.current.load_full();
        let moved = built.is_changed || last.table.is_none();
        let next = Arc::new(Published {
            table: Some(built.table),
            generation: last.generation + u64::from(moved),
            serial: if moved {
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

    /// Notes whether the table is too old to be answered from. It stays the same table.
    pub fn set_expired(&self, is_expired: bool) {
        let last = self.current.load_full();
        self.replace(Arc::new(Published {
            table: last.table.clone(),
            is_expired,
            ..*last
        }));
    }

    fn replace(&self, next: Arc<Published>) -> Arc<Published> {
        let last = self.current.swap(next.clone());
        self.retired.lock().push(last);
        self.free_retired();
        next
    }

    /// Frees the tables that nobody looks at any more; tells whether there are others.
    pub fn free_retired(&self) -> bool {
        let mut retired = self.retired.lock();
        retired.retain(|table| Arc::strong_count(table) > 1);
        !retired.is_empty()
    }
}

// === impl Reader ===

impl Reader {
    /// Returns what is current, for the queries that are answered now.
    pub fn load(&self) -> Current {
        self.current.load()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_looked_at_is_freed_by_the_publisher() {
        let publisher = Publisher::default();
        let reader = publisher.reader();
        publisher.publish(built(true), 1);
        let looked_at = reader.load();
        let weak = Arc::downgrade(&looked_at);
        publisher.publish(built(true), 2);
        drop(looked_at);
        assert!(weak.upgrade().is_some(), "freed by the reader");
        assert!(!publisher.free_retired());
        assert!(weak.upgrade().is_none(), "never freed");
    }

    fn built(is_changed: bool) -> Built {
        Built {
            table: Table::default(),
            is_changed,
        }
    }

    #[test]
    fn generation_and_serial_move_only_when_the_table_changes() {
        let publisher = Publisher::default();
        let reader = publisher.reader();
        assert!(reader.load().table.is_none());
        for (is_changed, now, generation, serial) in [
            (false, 1000, 1, 1000), // the first table is news, even an empty one
            (false, 2000, 1, 1000),
            (true, 2000, 2, 2000),
            (true, 2000, 3, 2001), // twice within a second
            (true, 1500, 4, 2002), // a clock that goes back
        ] {
            publisher.publish(built(is_changed), now);
            assert_eq!(
                (reader.load().generation, reader.load().serial),
                (generation, serial)
            );
        }
    }

    #[test]
    fn a_table_that_is_too_old_stays_the_same_table() {
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
        // Only who noticed that the source is silent can say that it is back.
        publisher.publish(built(true), 2000);
        assert!(reader.load().is_expired);
    }

    #[test]
    fn a_saved_table_is_stale_until_another_follows() {
        let publisher = Publisher::default();
        assert!(publisher.publish_stale(built(true), 1000).is_stale);
        assert!(!publisher.publish(built(false), 1000).is_stale);
        // Nobody looks at what was before.
        assert!(!publisher.free_retired());
        let looked_at = publisher.reader().current.load_full();
        publisher.publish(built(true), 1000);
        assert!(publisher.free_retired());
        drop(looked_at);
        assert!(!publisher.free_retired());
    }
}
