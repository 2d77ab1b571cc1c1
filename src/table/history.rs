//! Earlier tables, as a queue of what each of them had and the next one has not.
//!
//! A table of the past is made when somebody asks for it: the current one, with the versions of services that were replaced since. So a
//! version costs its own octets, whatever else changed, and each namespace pays for its own. The history is limited by age and by
//! [`MAX_OCTETS`]. When these are full, the namespace with most of them loses its oldest versions: no tenant evicts those of others, also
//! not with ever new names, and nothing stays of a service that is gone from the history.
//!
//! A burst of changes keeps one table for each [`STEP`], and always the last one, which answered during the pause after it. A table in
//! which only services changed that change all the time replaces the last one, if that is of the same kind.
//!
//! Tables whose lists somebody reads page by page are kept for a while, too. Its times are those of the clock of the process, which the
//! wall clock does not affect.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::{replace, size_of, size_of_val};
use std::sync::Arc;
use std::time::Duration;

use super::Built;
use super::content::{Difference, Published, Table};
use super::service::Service;
use super::store::ServiceKeys;
use crate::model::{ClusterTerm, Few, Namespace, Problem, ServiceKey, Timestamp};

/// In a burst of changes, one table is kept for each of these.
const STEP: Duration = Duration::from_millis(100);

/// Maximum size of the kept versions in octets: a quarter of what a process needs besides its table and connections.
const MAX_OCTETS: usize = 16 << 20;

/// What a version needs besides its service: its place in the queue, and the nodes of the maps of short names and of other parts of the
/// table that lead to it.
const PLACE: usize = 600;

/// Maximum number of tables that are kept for the next pages of lists, and for how long.
const MAX_LISTS: usize = 8;
const LIST_TIME: Duration = Duration::from_secs(30);

/// The tables of a process, up to the current one.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Maximum age of a table, counted from its end.
    age: Duration,
    /// [`MAX_OCTETS`].
    max_octets: usize,
    /// The tables before the current one, the oldest first.
    steps: VecDeque<EarlierTable>,
    current: Arc<Published>,
    /// The time since which the current table answers.
    start: Timestamp,
    /// Whether the current table differs from the one before only in services that change all the time.
    is_busy: bool,
    /// The octets of the versions of each namespace that has some.
    octets: BTreeMap<Namespace, usize>,
    /// For each namespace that has lost versions, the time until which they are lost.
    lost: BTreeMap<Namespace, Timestamp>,
    /// The oldest first.
    lists: Vec<OpenList>,
}

/// An earlier table.
#[derive(Debug)]
struct EarlierTable {
    /// The time since which it answered: until the next one.
    start: Timestamp,
    /// The table without services.
    rest: Published,
    /// The versions of services that the next table does not have. `None`: the next one added the service.
    versions: Versions,
    is_busy: bool,
}

type Versions = BTreeMap<ServiceKey, Option<Arc<Service>>>;

/// A table whose list somebody reads page by page.
#[derive(Debug)]
struct OpenList {
    published: Arc<Published>,
    end: Timestamp,
    /// The octets of the versions that were replaced since it began.
    octets: usize,
}

/// A table, and the time since which it answered: until the next one.
#[derive(Debug)]
pub struct Moment {
    /// The time since which it answered.
    pub start: Timestamp,
    /// The table.
    pub published: Arc<Published>,
    /// The namespaces whose versions of that time are not kept. The table has later ones.
    pub incomplete: BTreeSet<Namespace>,
}

/// What a table of the past is made of.
#[derive(Debug)]
pub(super) struct Past {
    start: Timestamp,
    /// The current table.
    current: Arc<Published>,
    /// The table of that time without services. `None`: the current table.
    rest: Option<Published>,
    versions: Versions,
    incomplete: BTreeSet<Namespace>,
}

// === impl History ===

impl History {
    /// Creates a history that starts with a table.
    pub(super) fn new(age: Duration, first: Arc<Published>, now: Timestamp) -> Self {
        Self {
            age,
            max_octets: MAX_OCTETS,
            current: first,
            start: now,
            ..Self::default()
        }
    }

    /// Adds the table that follows the last one, with what a build says of it. If they differ in no service, it replaces the last
    /// one. Returns the last table, which queries may still use, unless an open list keeps it.
    pub(super) fn push(
        &mut self,
        next: Arc<Published>,
        built: &Built,
        now: Timestamp,
    ) -> Option<Arc<Published>> {
        let last = replace(&mut self.current, next);
        if built.difference == Difference::Answers || !built.services.is_empty() {
            let step = EarlierTable {
                start: replace(&mut self.start, now),
                rest: last.without_services(),
                versions: versions(&last, &built.services),
                is_busy: replace(&mut self.is_busy, built.is_busy),
            };
            for (key, version) in &step.versions {
                let octets = octets_of(version.as_deref());
                *self.octets.entry(key.namespace.clone()).or_default() += octets;
                for list in &mut self.lists {
                    list.octets += octets;
                }
            }
            self.steps.push_back(step);
            self.thin();
        }
        self.forget(now);
        self.lists.retain(|list| list.end > now);
        let is_kept = |list: &OpenList| Arc::ptr_eq(&list.published, &last);
        (!self.lists.iter().any(is_kept)).then_some(last)
    }

    /// Returns the table that answered at a time. Returns `None` if the history begins later.
    pub(super) fn at(&self, time: Timestamp) -> Option<Past> {
        let mut later = self.steps.partition_point(|step| step.start <= time);
        later += usize::from(time >= self.start);
        Some(self.past(later.checked_sub(1)?))
    }

    /// Returns the table of a version, if it is still there.
    pub(super) fn of_version(&self, version: u64) -> Option<Past> {
        let whole = self
            .lists
            .iter()
            .map(|list| &list.published)
            .chain([&self.current])
            .find(|one| one.version == version);
        if let Some(published) = whole {
            return Some(Past {
                current: published.clone(),
                ..self.past(self.steps.len())
            });
        }
        let index = self
            .steps
            .iter()
            .rposition(|step| step.rest.version == version)?;
        Some(self.past(index)).filter(|past| past.incomplete.is_empty())
    }

    /// Returns the time at which the history begins.
    pub(super) fn start(&self) -> Timestamp {
        self.start_of(0)
    }

    /// Returns the number of octets of all versions that are kept.
    pub(super) fn octets(&self) -> usize {
        self.octets.values().sum()
    }

    /// Keeps a table for the next pages of a list.
    pub(super) fn keep_for_list(&mut self, published: Arc<Published>, now: Timestamp) {
        let end = now.after(LIST_TIME);
        let mut lists = self.lists.iter_mut();
        if let Some(list) = lists.find(|list| list.published.version == published.version) {
            list.end = end;
            return;
        }
        if self.lists.len() >= MAX_LISTS {
            self.lists.remove(0);
        }
        self.lists.push(OpenList {
            published,
            end,
            octets: 0,
        });
    }

    /// Returns what the table of a step is made of: the current one, and the oldest version of each service since then. The step after
    /// the last one is the current table.
    fn past(&self, index: usize) -> Past {
        let step = self.steps.get(index);
        let start = self.start_of(index);
        let mut versions = Versions::new();
        for (key, version) in self.steps.range(index..).flat_map(|step| &step.versions) {
            versions
                .entry(key.clone())
                .or_insert_with(|| version.clone());
        }
        let lost = self.lost.iter().filter(|(_, end)| start < **end);
        Past {
            start,
            current: self.current.clone(),
            rest: step.map(|step| step.rest.without_services()),
            versions,
            incomplete: lost.map(|(namespace, _)| namespace.clone()).collect(),
        }
    }

    /// Unites the table before the current one with the one before, if that one began less than a step before the current one, or if all
    /// three are busy. One that is not has changes of others, which must not wait for the end of the busy ones.
    fn thin(&mut self) {
        let Some(middle) = self.steps.pop_back() else {
            return;
        };
        // The table before the first one answers nothing, but is the start of the history.
        let is_short = |before: &EarlierTable| self.start < before.start.after(STEP);
        match self.steps.back_mut() {
            Some(before)
                if is_short(before) || before.is_busy && middle.is_busy && self.is_busy =>
            {
                for (key, version) in middle.versions {
                    match before.versions.entry(key) {
                        Entry::Vacant(place) => _ = place.insert(version),
                        Entry::Occupied(place) => {
                            uncount(&mut self.octets, place.key(), version.as_deref());
                        }
                    }
                }
            }
            _ => self.steps.push_back(middle),
        }
    }

    /// Forgets tables that are too old, and versions if all together have too many octets.
    fn forget(&mut self, now: Timestamp) {
        while let Some(oldest) = self.steps.front()
            && self.start_of(1).after(self.age) <= now
        {
            for (key, version) in &oldest.versions {
                uncount(&mut self.octets, key, version.as_deref());
            }
            self.steps.pop_front();
        }
        let start = self.start();
        self.lost.retain(|_, end| *end > start);
        while self.octets_of_lists() > self.max_octets / 4 {
            self.lists.remove(0);
        }
        let most = self.max_octets - self.octets_of_lists();
        while self.octets() > most {
            self.forget_oldest_of_most();
        }
    }

    /// Forgets the oldest versions of the namespace with most octets. Its services then have the next version.
    fn forget_oldest_of_most(&mut self) {
        let most = self.octets.iter().max_by_key(|(_, octets)| **octets);
        let Some(namespace) = most.map(|(namespace, _)| namespace.clone()) else {
            return;
        };
        let has_some =
            |step: &EarlierTable| step.versions.keys().any(|key| key.namespace == namespace);
        let Some(index) = self.steps.iter().position(has_some) else {
            self.octets.remove(&namespace);
            return;
        };
        self.lost
            .insert(namespace.clone(), self.start_of(index + 1));
        let step = &mut self.steps[index];
        let is_of_it = |key: &ServiceKey, _: &mut Option<Arc<Service>>| key.namespace == namespace;
        for (key, version) in step.versions.extract_if(.., is_of_it) {
            uncount(&mut self.octets, &key, version.as_deref());
        }
        // Without others, the next table is the same.
        if step.versions.is_empty() {
            let start = step.start;
            self.steps.remove(index);
            match self.steps.get_mut(index) {
                Some(next) => next.start = start,
                None => self.start = start,
            }
        }
    }

    /// Returns the start of a step, or of the current table.
    fn start_of(&self, step: usize) -> Timestamp {
        self.steps.get(step).map_or(self.start, |step| step.start)
    }

    /// Returns the octets of the versions that open lists keep.
    fn octets_of_lists(&self) -> usize {
        self.lists.iter().map(|list| list.octets).sum()
    }
}

/// Subtracts a version that is not kept any more.
fn uncount(octets: &mut BTreeMap<Namespace, usize>, key: &ServiceKey, version: Option<&Service>) {
    if let Some(kept) = octets.get_mut(&key.namespace) {
        *kept = kept.saturating_sub(octets_of(version));
        if *kept == 0 {
            octets.remove(&key.namespace);
        }
    }
}

/// The size of a cluster of an order or a gate with its text, in octets. The longest text is a label.
const TERM: usize = size_of::<ClusterTerm>() + 64;

/// Returns the size of a version in octets, without names and ports, which services share.
fn octets_of(version: Option<&Service>) -> usize {
    let Some(service) = version else {
        return PLACE;
    };
    let mut octets = PLACE + size_of::<Service>() + service.names.octets();
    for endpoint in service.endpoints.iter().chain(&service.not_ready) {
        octets += size_of_val(endpoint);
        octets += allocated(&endpoint.addresses) + allocated(&endpoint.objects);
    }
    for problem in &service.problems {
        octets += size_of::<Problem>() + problem.detail.len();
        octets += problem.remedy.as_ref().map_or(0, |remedy| remedy.len());
        octets += size_of_val(&*problem.objects);
    }
    if service.alone.is_some() {
        octets += octets_of(service.alone.as_deref());
    }
    if let Some(failover) = &service.failover {
        octets += size_of_val(&**failover) + size_of_val(&*failover.steps);
        octets += TERM * failover.order.terms().count();
    }
    if let Some(gate) = &service.gate {
        octets += size_of_val(&**gate);
        octets += TERM * (gate.expected.count() + gate.missing.len());
    }
    octets += size_of_val(&*service.mirrors) + size_of_val(&*service.federated);
    octets += size_of_val(&*service.missing) + size_of_val(&*service.hosts);
    octets + size_of_val(&*service.zone_clusters)
}

/// Returns the octets of a list that has an allocation.
fn allocated<T>(list: &Few<T>) -> usize {
    match list {
        Few::One(_) => 0,
        Few::Others(entries) => size_of_val(&**entries),
    }
}

/// Returns the versions of some services in a table. Before the first table, there is none.
fn versions(published: &Published, keys: &ServiceKeys) -> Versions {
    let Some(table) = &published.table else {
        return Versions::new();
    };
    keys.iter()
        .map(|key| (key.clone(), table.shared(key).cloned()))
        .collect()
}

// === impl Past ===

impl Past {
    /// Makes the table.
    pub(super) fn moment(self) -> Moment {
        let published = match (self.rest, &self.current.table) {
            (Some(mut past), Some(current)) => {
                if let Some(rest) = &mut past.table {
                    *rest = Table::of_past(current, rest, self.versions);
                }
                Arc::new(past)
            }
            _ => self.current,
        };
        Moment {
            start: self.start,
            published,
            incomplete: self.incomplete,
        }
    }
}

#[cfg(test)]
mod tests;
