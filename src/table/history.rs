//! Earlier tables. Tables are immutable and share what did not change, so keeping them costs what changed.
//!
//! The history is limited by age and by an estimate of the memory that only earlier tables need. The oldest tables go first. A
//! burst of changes keeps one table for each [`STEP`], and always the last one, which answered during the pause after it.
//!
//! Each table has the services that the next one has in another version, and how bad its state was. So a [`Timeline`] reads
//! neither tables nor services.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::impact::Impact;
use super::published::Published;
use super::service::Service;
use super::store::ServiceKeys;
use crate::model::{ServiceKey, Timestamp};

/// In a burst of changes, one table is kept for each of these.
const STEP: Duration = Duration::from_millis(100);

/// Size of what each table has of its own, in octets: its head, and its entry here, which may be in a list that is half empty.
const TABLE_SIZE: usize = size_of::<Published>() + 2 * size_of::<PastTable>() + 256;

/// Size of the key of a changed service here, in octets: its part of a tree that is half empty.
const KEY_SIZE: usize = 4 * size_of::<ServiceKey>();

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
    /// The services that are not fine in the current table.
    trouble: Trouble,
}

/// Services that are not fine.
type Trouble = BTreeMap<ServiceKey, Impact>;

/// A table, and the time for which it answered: until the next one.
#[derive(Debug)]
struct PastTable {
    start: Timestamp,
    published: Arc<Published>,
    /// The services that differ in the next table.
    changed: ServiceKeys,
    /// Estimated size of what only this table has, in octets.
    size: usize,
    /// How bad the state of the worst service was for clients.
    level: Impact,
    /// The number of services that were not fine.
    troubled: usize,
}

/// A table of the past.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The time since which it answered.
    pub start: Timestamp,
    /// The table.
    pub published: Arc<Published>,
}

/// What happened in a part of the history.
#[derive(Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The time at which the history begins.
    pub start: Timestamp,
    /// The times at which a service changed, with the number of tables that changed it. Changes close to each other are one,
    /// at the time of the last of them.
    pub changes: Vec<(Timestamp, usize)>,
    /// The times at which services were not fine. Those close to each other are one.
    pub spells: Vec<Spell>,
}

/// A time in which services were not fine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spell {
    /// Its start.
    pub start: Timestamp,
    /// Its end. `None` if it goes on.
    pub end: Option<Timestamp>,
    /// How bad the state of the worst service was. Without a table, every name fails.
    pub level: Impact,
    /// The largest number of services that were not fine.
    pub services: usize,
}

/// How much the history keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySize {
    /// The number of earlier tables.
    pub tables: usize,
    /// The estimated memory that only they need, in octets.
    pub memory: usize,
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
        let trouble = Trouble::new();
        Self {
            limits,
            tables: [PastTable::new(now, first, &trouble)].into(),
            memory: 0,
            trouble,
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
            update_trouble(&mut self.trouble, &next, &last.changed);
        }
        self.tables
            .push_back(PastTable::new(start, next, &self.trouble));
        gone.extend(self.thin());
        while self.tables.len() > 1 && self.is_over(start) {
            gone.extend(self.forget_oldest());
        }
        gone
    }

    /// Returns the table that answered at a time.
    pub(super) fn at(&self, time: Timestamp) -> Result<Moment, BeforeHistory> {
        let later = self.tables.partition_point(|table| table.start <= time);
        let table = later.checked_sub(1).map(|index| &self.tables[index]);
        let start = self.start();
        table.map(PastTable::moment).ok_or(BeforeHistory { start })
    }

    /// Returns what happened to a service, and when services were not fine, since a time. What is as close as `step` is one.
    pub(super) fn timeline(
        &self,
        service: Option<&ServiceKey>,
        from: Timestamp,
        step: Duration,
    ) -> Timeline {
        let step = u64::try_from(step.as_millis()).map_or(u64::MAX, |step| step.max(1));
        let is_close = |one: Timestamp, other: Timestamp| one.0 / step == other.0 / step;
        let mut timeline = Timeline {
            start: self.start(),
            changes: Vec::new(),
            spells: Vec::<Spell>::new(),
        };
        let later = self.tables.partition_point(|table| table.start <= from);
        let first = later.saturating_sub(1);
        for (index, table) in self.tables.iter().enumerate().skip(first) {
            let before = index.checked_sub(1).map(|before| &self.tables[before]);
            let is_changed = before.is_some_and(|before| before.changes(table, service));
            if is_changed && table.start >= from {
                match timeline.changes.last_mut() {
                    Some((time, count)) if is_close(*time, table.start) => {
                        (*time, *count) = (table.start, *count + 1);
                    }
                    _ => timeline.changes.push((table.start, 1)),
                }
            }
            if table.level == Impact::Fine {
                continue;
            }
            let next = self.tables.get(index + 1);
            let spell = Spell {
                start: table.start.max(from),
                end: next.map(|next| next.start.max(from)),
                level: table.level,
                services: table.troubled,
            };
            match timeline.spells.last_mut() {
                Some(last) if last.goes_on_with(&spell, is_close) => last.extend(&spell),
                _ => timeline.spells.push(spell),
            }
        }
        timeline
    }

    /// Returns the time at which the history begins.
    pub(super) fn start(&self) -> Timestamp {
        self.tables
            .front()
            .map_or_else(Timestamp::default, |first| first.start)
    }

    /// Returns how much it keeps. The current table is not an earlier one.
    pub(super) fn size(&self) -> HistorySize {
        HistorySize {
            tables: self.tables.len() - 1,
            memory: self.memory,
        }
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
    fn new(start: Timestamp, published: Arc<Published>, trouble: &Trouble) -> Self {
        Self {
            start,
            changed: ServiceKeys::new(),
            size: 0,
            level: worst_of(trouble, &published),
            troubled: trouble.len(),
            published,
        }
    }

    fn moment(&self) -> Moment {
        Moment {
            start: self.start,
            published: self.published.clone(),
        }
    }

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
        let tables = self.published.table.as_ref().zip(next.table.as_ref());
        let unshared = tables.map_or(0, |(own, next)| own.unshared(next, &self.changed));
        *memory -= self.size;
        self.size = TABLE_SIZE + self.changed.len() * KEY_SIZE + unshared;
        *memory += self.size;
    }

    /// Returns whether the next table changes the answers of a service.
    fn changes(&self, next: &Self, service: Option<&ServiceKey>) -> bool {
        let is_silent = |one: &Self| one.published.table.is_none();
        is_silent(self) != is_silent(next) || service.is_some_and(|key| self.changed.contains(key))
    }
}

/// Notes the services that are not fine in the next table, in which these services differ from the last one.
fn update_trouble(trouble: &mut Trouble, next: &Published, changed: &ServiceKeys) {
    let Some(table) = &next.table else {
        return;
    };
    for key in changed {
        let service = table.service(key.namespace.as_str(), key.service.as_str());
        match service.map_or(Impact::Fine, Service::impact) {
            Impact::Fine => _ = trouble.remove(key),
            impact => _ = trouble.insert(key.clone(), impact),
        }
    }
}

/// Returns how bad the state of the worst service is for clients.
fn worst_of(trouble: &Trouble, now: &Published) -> Impact {
    if now.table.is_none() {
        return Impact::Failing;
    }
    trouble.values().max().copied().unwrap_or_default()
}

// === impl Spell ===

impl Spell {
    /// Returns whether a later time is a part of it.
    fn goes_on_with(&self, next: &Self, is_close: impl Fn(Timestamp, Timestamp) -> bool) -> bool {
        let is_close_to_end = self.end.is_some_and(|end| is_close(end, next.start));
        is_close(self.start, next.start) || is_close_to_end && self.level == next.level
    }

    fn extend(&mut self, next: &Self) {
        self.end = next.end;
        self.level = self.level.max(next.level);
        self.services = self.services.max(next.services);
    }
}

#[cfg(test)]
mod tests;
