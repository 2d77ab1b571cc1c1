//! Earlier tables. Tables are immutable and share what did not change, so keeping them costs what changed.
//!
//! The history is limited by age and by the endpoints of the versions of services that only earlier tables have. The oldest tables
//! go first. A burst of changes keeps one table for each [`STEP`], and always the last one, which answered during the pause after
//! it. Versions of a service that flaps, or beyond [`MAX_VERSIONS`] an hour, are kept [`BUSY_STEP`] apart, so that no tenant evicts
//! the others.
//!
//! Its times are those of the clock of the process, which the wall clock does not affect.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::content::Published;
use super::service::Service;
use super::store::ServiceKeys;
use crate::model::{ServiceKey, Timestamp};

/// In a burst of changes, one table is kept for each of these.
const STEP: Duration = Duration::from_millis(100);

/// Maximum number of versions of a service in an hour.
const MAX_VERSIONS: usize = 100;
const HOUR: Duration = Duration::from_secs(3600);

/// The pause between two tables that differ in services with more versions only.
const BUSY_STEP: Duration = Duration::from_secs(3600 / MAX_VERSIONS as u64);

/// Maximum number of endpoints in versions of services that only earlier tables have. With some 300 octets each, they use
/// about 6 MB.
const MAX_CHANGED: usize = 20_000;

/// What a table needs besides the versions of its services, in endpoints: its head, and for each changed service the nodes of the
/// maps that lead to it, some 1 KB with 10,000 services.
const HEAD: usize = 8;
const NODES: usize = 4;

/// The tables of a process, up to the current one.
#[derive(Debug)]
pub(super) struct History {
    /// Maximum age of a table, counted from its end.
    age: Duration,
    /// The tables, the oldest first. The last one is the current one.
    tables: VecDeque<Moment>,
    /// The number of versions of each service since the start of the hour.
    versions: BTreeMap<ServiceKey, usize>,
    hour: Timestamp,
    /// The services that change too often, whatever their number of versions.
    pub(super) flapping: BTreeSet<ServiceKey>,
}

/// A table, and the time since which it answered: until the next one.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The time since which it answered.
    pub start: Timestamp,
    /// The table.
    pub published: Arc<Published>,
    /// What the next table does not share with it, in endpoints.
    changed: usize,
    /// Whether it differs from the one before only in services that flap or have too many versions.
    is_busy: bool,
}

// === impl History ===

impl History {
    /// Creates a history that starts with a table.
    pub(super) fn new(age: Duration, first: Arc<Published>, now: Timestamp) -> Self {
        Self {
            age,
            tables: [Moment::new(now, first, false)].into(),
            versions: BTreeMap::new(),
            hour: now,
            flapping: BTreeSet::new(),
        }
    }

    /// Adds the table that follows the last one and differs in these services. If they differ in problems alone, it replaces the last
    /// one. Returns the tables that are not kept any more.
    pub(super) fn push(
        &mut self,
        next: Arc<Published>,
        keys: &ServiceKeys,
        now: Timestamp,
    ) -> Vec<Arc<Published>> {
        let is_first = self.tables.iter().all(|one| one.published.table.is_none());
        let is_busy = !is_first && self.count_versions(keys, now);
        if let Some(last) = self.tables.back_mut() {
            let is_same = |key: &ServiceKey| {
                let [old, new] = [&last.published, &next].map(|one| one.table.as_ref()?.find(key));
                old.zip(new)
                    .is_some_and(|(old, new)| old.differs_in_problems_alone(new))
            };
            if last.published.generation == next.generation && keys.iter().all(is_same) {
                return vec![std::mem::replace(&mut last.published, next)];
            }
            last.changed = unshared(last, keys);
        }
        self.tables.push_back(Moment::new(now, next, is_busy));
        let mut gone = Vec::from_iter(self.thin());
        while self.tables.len() > 1 && self.is_over(now) {
            gone.extend(self.tables.pop_front().map(|oldest| oldest.published));
        }
        gone
    }

    /// Returns the table that answered at a time. Returns `None` if the history begins later.
    pub(super) fn at(&self, time: Timestamp) -> Option<Moment> {
        let later = self.tables.partition_point(|table| table.start <= time);
        Some(self.tables[later.checked_sub(1)?].clone())
    }

    /// Returns the table of a version, if it is still there.
    pub(super) fn of_version(&self, version: u64) -> Option<Arc<Published>> {
        let tables = self.tables.iter().map(|table| &table.published);
        tables.rev().find(|one| one.version == version).cloned()
    }

    /// Returns the time at which the history begins.
    pub(super) fn start(&self) -> Timestamp {
        let first = self.tables.front();
        first.map(|first| first.start).unwrap_or_default()
    }

    /// Counts a version of each of these services. Returns whether all of them have too many in this hour.
    fn count_versions(&mut self, keys: &ServiceKeys, now: Timestamp) -> bool {
        if now >= self.hour.after(HOUR) {
            self.versions.clear();
            self.hour = now;
        }
        let mut is_busy = !keys.is_empty();
        for key in keys {
            let count = self.versions.entry(key.clone()).or_default();
            *count += 1;
            is_busy &= *count > MAX_VERSIONS || self.flapping.contains(key);
        }
        is_busy
    }

    /// Forgets the table before the last one, if the one before it began less than a step before the last one. Returns it.
    fn thin(&mut self) -> Option<Arc<Published>> {
        // The table before the first one answers nothing, but is the start of the history.
        let [.., before, middle, last] = self.tables.make_contiguous() else {
            return None;
        };
        let step = if middle.is_busy { BUSY_STEP } else { STEP };
        if last.start >= before.start.after(step) {
            return None;
        }
        before.changed = if middle.is_busy {
            // Tables that differ in the same services keep one version of each.
            before.changed.max(middle.changed)
        } else {
            before.changed + middle.changed
        };
        let removed = self.tables.remove(self.tables.len() - 2)?;
        Some(removed.published)
    }

    /// Returns whether the oldest table must go: the next one began too long ago, or all together have too many endpoints.
    fn is_over(&self, now: Timestamp) -> bool {
        let end = self.tables.get(1).map(|next| next.start);
        let is_old = end.is_some_and(|end| end.after(self.age) <= now);
        is_old || self.changed() > MAX_CHANGED
    }

    /// Returns what each table does not share with the next one, in endpoints.
    fn changed(&self) -> usize {
        self.tables.iter().map(|table| table.changed).sum()
    }
}

/// Returns what a table that differs in these services does not share with that of a moment, in endpoints.
fn unshared(moment: &Moment, keys: &ServiceKeys) -> usize {
    let Some(table) = &moment.published.table else {
        return 0;
    };
    let services = keys.iter().filter_map(|key| table.find(key));
    let endpoints = |one: &Service| one.endpoints.len() + one.not_ready.len() + NODES;
    HEAD + services.map(endpoints).sum::<usize>()
}

// === impl Moment ===

impl Moment {
    fn new(start: Timestamp, published: Arc<Published>, is_busy: bool) -> Self {
        Self {
            start,
            published,
            changed: 0,
            is_busy,
        }
    }
}

#[cfg(test)]
mod tests;
