//! Earlier tables. Tables are immutable and share what did not change, so keeping them costs what changed.
//!
//! The history is limited by age and by an estimate of the memory that only earlier tables need. The oldest tables go first. A
//! burst of changes keeps one table for each [`STEP`], and always the last one, which answered during the pause after it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::published::Published;
use super::service::Service;
use super::store::ServiceKeys;
use super::{Endpoint, Table};
use crate::model::{ServiceKey, Timestamp};

/// In a burst of changes, one table is kept for each of these.
const STEP: Duration = Duration::from_millis(100);

/// Estimated size of what each table has of its own, in octets: its lists of namespaces and short names, and this entry.
const TABLE_SIZE: usize = 4 * 1024;

/// Estimated size of what a changed service adds to its own size, in octets: the list of the services of its namespace, and its
/// key here.
const CHANGE_SIZE: usize = 1024;

/// The limits of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Maximum age of a table, counted from its end.
    pub age: Duration,
    /// Maximum estimated memory in octets.
    pub memory: usize,
}

/// The tables of a process, up to the current one.
#[derive(Debug)]
pub(super) struct History {
    limits: HistoryLimits,
    /// The tables, the oldest first. The last one is the current one.
    tables: VecDeque<PastTable>,
    /// The estimated memory of all tables, but for the current one.
    memory: usize,
}

/// A table, and the time for which it answered: until the next one.
#[derive(Debug)]
struct PastTable {
    start: Timestamp,
    published: Arc<Published>,
    /// The services that differ in the next table.
    changed: ServiceKeys,
    /// Estimated size of what only this table has, in octets.
    size: usize,
}

/// The history does not reach back to a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the history begins at {}", start.to_text())]
pub struct BeforeHistory {
    /// The time at which the history begins.
    pub start: Timestamp,
}

// === impl HistoryLimits ===

impl Default for HistoryLimits {
    fn default() -> Self {
        Self {
            age: Duration::from_secs(24 * 3600),
            memory: 32 << 20,
        }
    }
}

// === impl History ===

impl History {
    /// Creates a history that starts with a table.
    pub(super) fn new(limits: HistoryLimits, first: Arc<Published>, now: Timestamp) -> Self {
        let first = PastTable {
            start: now,
            published: first,
            changed: ServiceKeys::new(),
            size: 0,
        };
        Self {
            limits,
            tables: [first].into(),
            memory: 0,
        }
    }

    /// Adds the table that follows the last one, in which these services were built. Returns the tables that are not kept any
    /// more. The wall clock may go back; tables stay in their order.
    pub(super) fn push(
        &mut self,
        next: Arc<Published>,
        built: &ServiceKeys,
        now: Timestamp,
    ) -> Vec<Arc<Published>> {
        let mut gone = Vec::new();
        let start = self.tables.back().map_or(now, |last| last.start.max(now));
        if let Some(last) = self.tables.back_mut() {
            last.note_changed(built, &next, &mut self.memory);
        }
        self.tables.push_back(PastTable {
            start,
            published: next,
            changed: ServiceKeys::new(),
            size: 0,
        });
        gone.extend(self.thin());
        while self.tables.len() > 1 && self.is_over(start) {
            gone.extend(self.forget_oldest());
        }
        gone
    }

    /// Returns the table that answered at a time.
    pub(super) fn at(&self, time: Timestamp) -> Result<Arc<Published>, BeforeHistory> {
        let later = self.tables.partition_point(|table| table.start <= time);
        let table = later.checked_sub(1).map(|index| &self.tables[index]);
        let start = self.start();
        table
            .map(|table| table.published.clone())
            .ok_or(BeforeHistory { start })
    }

    /// Returns the time at which the history begins.
    pub(super) fn start(&self) -> Timestamp {
        self.tables
            .front()
            .map_or_else(Timestamp::default, |first| first.start)
    }

    /// Returns the estimated memory in octets.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Forgets the table before the last one, if both and the one before them began within one step. Returns it.
    fn thin(&mut self) -> Option<Arc<Published>> {
        let count = self.tables.len();
        let [before, middle, last] = [3, 2, 1].map(|back| count.checked_sub(back));
        let (before, middle, last) = (before?, middle?, last?);
        // The table before the first one answers nothing, but is the start of the history.
        if self.tables[last].start >= self.tables[before].start.after(STEP) {
            return None;
        }
        let removed = self.tables.remove(middle)?;
        self.memory -= removed.size;
        let next = self.tables[middle].published.clone();
        self.tables[before].note_changed(&removed.changed, &next, &mut self.memory);
        Some(removed.published)
    }

    /// Returns whether the oldest table must go: the next one began too long ago, or all together need too much memory.
    fn is_over(&self, now: Timestamp) -> bool {
        let end = self.tables.get(1).map(|next| next.start);
        let is_old = end.is_some_and(|end| end.after(self.limits.age) < now);
        is_old || self.memory > self.limits.memory
    }

    fn forget_oldest(&mut self) -> Option<Arc<Published>> {
        let oldest = self.tables.pop_front()?;
        self.memory -= oldest.size;
        Some(oldest.published)
    }
}

// === impl PastTable ===

impl PastTable {
    /// Notes the services that the next table has in another version, and the memory that the versions of this one need.
    fn note_changed(&mut self, built: &ServiceKeys, next: &Published, memory: &mut usize) {
        let find = |published: &Published, key: &ServiceKey| -> Option<*const Service> {
            let table = published.table.as_ref()?;
            let service = table.service(key.namespace.as_str(), key.service.as_str());
            service.map(std::ptr::from_ref)
        };
        let own = |key: &&ServiceKey| find(&self.published, key) != find(next, key);
        let changed = built.iter().filter(own).cloned().collect::<Vec<_>>();
        self.changed.extend(changed);
        let table = self.published.table.as_ref();
        let sizes = table.into_iter().flat_map(|table| {
            let size = |key: &ServiceKey| CHANGE_SIZE + size_of_service(table, key);
            self.changed.iter().map(size)
        });
        *memory -= self.size;
        self.size = TABLE_SIZE + sizes.sum::<usize>();
        *memory += self.size;
    }
}

/// Estimates the size of a service in octets. Its addresses and names are shared with its other versions.
fn size_of_service(table: &Table, key: &ServiceKey) -> usize {
    let service = table.service(key.namespace.as_str(), key.service.as_str());
    service.map_or(0, |service| {
        let endpoints = service.endpoints.len() + service.not_ready.len();
        let addresses = service.name_addresses.v4.len() * 4 + service.name_addresses.v6.len() * 16;
        size_of::<Service>() + endpoints * size_of::<Endpoint>() + addresses
    })
}

#[cfg(test)]
mod tests;
