//! Publishes a table in one atomic swap. No other module uses `arc-swap`.
//!
//! One control task has the [`Publisher`]. Every listener has a [`Reader`]. A query loads the current [`Published`]
//! once and uses that table until it is answered.

use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use super::Built;
use super::content::{Difference, Published};
use super::history::{History, Moment};
use crate::model::Timestamp;

/// Publishes tables. There is one for each process.
#[derive(Debug)]
pub struct Publisher {
    reader: Reader,
    /// Earlier tables that queries may still use. The publisher frees them, because dropping a table takes too long for
    /// a listener.
    retired: Mutex<Vec<Arc<Published>>>,
}

/// Reads the current table.
#[derive(Clone, Debug)]
pub struct Reader {
    current: Arc<ArcSwap<Published>>,
    /// The tables up to the current one.
    history: Arc<Mutex<History>>,
}

/// The current table. A guard keeps its table in memory, so it must be dropped after the query.
pub type Current = Guard<Arc<Published>>;

// === impl Publisher ===

impl Publisher {
    /// Creates the publisher of a process that starts at a time, with a history of an age.
    pub fn new(start: Timestamp, history: Duration) -> Self {
        let none = Arc::new(Published {
            since: Some(start),
            ..Published::default()
        });
        let reader = Reader {
            current: Arc::new(ArcSwap::new(none.clone())),
            history: Arc::new(Mutex::new(History::new(history, none, start))),
        };
        Self {
            reader,
            retired: Mutex::default(),
        }
    }

    /// Returns a reader.
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Publishes a table in one swap, if answers or problems differ from those of the current one; the first table always.
    /// Returns it. Generation and serial change with the answers. The new serial is `max(last + 1, wall)`, Unix seconds, so that it
    /// also increases across restarts. `now` is the time of the clock of the process.
    pub fn publish(&self, mut built: Built, now: Timestamp, wall: u32) -> Option<Arc<Published>> {
        let last = self.reader.current.load_full();
        let is_first = last.table.is_none();
        if is_first {
            built.difference = Difference::Answers;
        } else if built.difference == Difference::None {
            return None;
        }
        let has_other_answers = built.difference == Difference::Answers;
        let next = Arc::new(Published {
            table: Some(take(&mut built.table)),
            version: last.version + 1,
            generation: last.generation + u64::from(has_other_answers),
            serial: if has_other_answers {
                last.serial.saturating_add(1).max(wall)
            } else {
                last.serial
            },
            since: if is_first { Some(now) } else { last.since },
        });
        self.reader.current.store(next.clone());
        let mut history = self.reader.history.lock();
        let retired = history.push(next.clone(), &built, now);
        drop(history);
        drop(last);
        self.retired.lock().extend(retired);
        self.free_retired();
        Some(next)
    }

    /// Frees the earlier tables that no query uses. Returns whether queries still use others.
    pub fn free_retired(&self) -> bool {
        let mut retired = self.retired.lock();
        retired.retain(|table| Arc::strong_count(table) > 1);
        !retired.is_empty()
    }
}

impl Default for Publisher {
    /// Creates a publisher without a history.
    fn default() -> Self {
        Self::new(Timestamp::default(), Duration::ZERO)
    }
}

// === impl Reader ===

impl Reader {
    /// Returns the table that answered at a time. Returns `None` if the history begins later.
    pub fn at(&self, time: Timestamp) -> Option<Moment> {
        let past = self.history.lock().at(time)?;
        Some(past.moment()) // without the lock
    }

    /// Returns the table of a version, if it is the current one, that of an open list, or still in the history.
    pub fn of_version(&self, version: u64) -> Option<Arc<Published>> {
        let past = self.history.lock().of_version(version)?;
        Some(past.moment().published)
    }

    /// Keeps a table for the next pages of a list that begins in it, for 30 seconds after the last page. At most eight are kept.
    pub fn keep_for_list(&self, published: &Arc<Published>, now: Timestamp) {
        self.history.lock().keep_for_list(published.clone(), now);
    }

    /// Returns the number of octets of the versions of services that the history keeps.
    pub fn history_octets(&self) -> usize {
        self.history.lock().octets()
    }

    /// Returns the time at which the history begins.
    pub fn history_start(&self) -> Timestamp {
        self.history.lock().start()
    }

    /// Returns the current table, for one query or one batch of queries.
    pub fn load(&self) -> Current {
        self.current.load()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_in_use_is_freed_by_the_publisher() {
        let publisher = Publisher::default();
        let reader = publisher.reader();
        publisher.publish(built(true), at(1), 1);
        let in_use = reader.load();
        let weak = Arc::downgrade(&in_use);
        publisher.publish(built(true), at(2), 2);
        drop(in_use);
        assert!(weak.upgrade().is_some(), "the reader freed the table");
        assert!(!publisher.free_retired());
        assert!(
            weak.upgrade().is_none(),
            "the publisher did not free the table"
        );
    }

    #[test]
    fn table_of_an_open_list_is_freed_when_the_list_ends() {
        let publisher = Publisher::default();
        let reader = publisher.reader();
        publisher.publish(built(true), at(1), 1);
        let list = Arc::clone(&reader.load());
        reader.keep_for_list(&list, at(1));
        let weak = Arc::downgrade(&list);
        drop(list);
        publisher.publish(built(true), at(2), 2);
        // Nothing is to be freed until the list ends.
        assert!(!publisher.free_retired() && weak.upgrade().is_some());
        publisher.publish(built(true), at(40), 3);
        assert!(!publisher.free_retired() && weak.upgrade().is_none());
    }

    fn at(second: u64) -> Timestamp {
        Timestamp::from_seconds(second)
    }

    fn built(has_other_answers: bool) -> Built {
        Built {
            difference: if has_other_answers {
                Difference::Answers
            } else {
                Difference::State
            },
            ..Built::default()
        }
    }

    #[test]
    fn generation_and_serial_change_only_with_answers() {
        let publisher = Publisher::default();
        let reader = publisher.reader();
        assert!(reader.load().table.is_none());
        for (version, (has_other_answers, wall, generation, serial)) in (1..).zip([
            (false, 1000, 1, 1000), // the first table counts as a change, even if it is empty
            (false, 2000, 1, 1000), // another problem
            (true, 2000, 2, 2000),
            (true, 2000, 3, 2001), // two changes within one second
            (true, 1500, 4, 2002), // the clock goes back
        ]) {
            publisher.publish(built(has_other_answers), at(version), wall);
            let now = reader.load();
            assert_eq!(
                (now.version, now.generation, now.serial),
                (version, generation, serial)
            );
        }
    }

    #[test]
    fn table_that_does_not_differ_is_not_published() {
        let publisher = Publisher::default();
        let same = Built::default;
        let first = publisher.publish(same(), at(1), 1).unwrap();
        assert!(publisher.publish(same(), at(2), 2).is_none());
        assert!(Arc::ptr_eq(&first, &publisher.reader().load()));
    }

    /// The wall clock jumps by ten years, and back.
    #[test]
    fn clock_that_jumps_loses_no_history() {
        let publisher = Publisher::new(at(1), Duration::from_secs(3600));
        let years = 10 * 365 * 24 * 3600;
        for (second, wall) in [(10, 1000), (20, 1000 + years), (30, 1020)] {
            publisher.publish(built(true), at(second), wall);
        }
        let reader = publisher.reader();
        assert_eq!(reader.history_start(), at(1));
        for (second, generation) in [(5, 0), (15, 1), (25, 2), (35, 3)] {
            assert_eq!(
                reader.at(at(second)).unwrap().published.generation,
                generation
            );
        }
    }
}
