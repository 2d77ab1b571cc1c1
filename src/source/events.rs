//! The last changes of answers, for `/api/v1/events`, and the services that changed, for open streams.
//!
//! The update loop records, and every HTTP client reads at its own pace. Readers have a position, not a queue, so the
//! update loop waits for none of them, and their number costs no memory. A reader that falls behind the ring learns that
//! it has missed events.
//!
//! Linkerd's mirror controller writes the slice of each endpoint behind a gateway by itself, some 7 ms after the last one
//! (recordings 05 and 26). So a gateway with 120 endpoints needs a second and 120 tables. Answers change at once, and open streams
//! learn at once which services changed. Only the event and the line of the log wait in a window, which merges changes of one
//! cluster, namespace and kind. A full ring forgets the oldest event of the namespace and kind that it has most of. So new endpoints do not
//! push out the failover before them, and no tenant those of another one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use tokio::sync::watch;

use super::flapping::Flapping;
use crate::clock::unix_milliseconds;
use crate::model::{ClusterName, Namespace, Problem, ServiceKey, Timestamp};
use crate::table::Published;
use crate::table::change::{Change, ChangeKind, MAX_KEYS};
use crate::table::store::ServiceKeys;

/// Maximum number of events in the ring. With some 300 octets each, they use less than a megabyte.
pub const MAX_EVENTS: usize = 1000;

/// Time without a further change of a cluster and kind after which those that wait are recorded.
const QUIET: Duration = Duration::from_millis(500);
/// Maximum time for which a change waits. Many thousands of endpoints have several events.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Maximum number of changed services that are known by name. A reader that missed more of them loads every service again.
const MAX_CHANGED: usize = 2000;

/// The number of bits for the number of an event within its process. At 100 events per second, 2³³ take two years.
const NUMBER_BITS: u32 = 33;

/// The number of bits that identify a process. Together with [`NUMBER_BITS`], an ID is less than 2⁵³.
const EPOCH_BITS: u32 = 20;

/// The last changes of answers. Clones share them.
#[derive(Clone, Debug)]
pub struct Events(Arc<SharedEvents>);

#[derive(Debug)]
struct SharedEvents {
    ring: Mutex<Ring>,
    latest: watch::Sender<Latest>,
    flapping: Mutex<Flapping>,
}

/// A change, with the time at which its table was published.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// Increases by one with each event of a process. The first part of the number differs between processes. It is
    /// less than 2⁵³, so that JavaScript represents it exactly.
    pub id: u64,
    /// The time in UTC, to the second (RFC 3339).
    pub time: String,
    /// The same time, exactly.
    #[serde(skip)]
    pub moment: Timestamp,
    /// The change.
    #[serde(flatten)]
    pub change: Change,
}

/// The state that readers wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latest {
    /// The ID of the last event. Before the first one, it has number 0.
    pub id: u64,
    /// The generation of the current table; 0 before the first one.
    pub generation: u64,
    /// The version of the current table.
    pub version: u64,
}

#[derive(Debug, Default)]
struct Ring {
    /// The last events. Their IDs increase.
    events: VecDeque<Arc<Event>>,
    /// The highest ID of an event that was forgotten, or the ID before the first event.
    forgotten: u64,
    /// The time since which all events are here.
    known_since: Timestamp,
    /// The services that changed, with the version of the table, the oldest first.
    changed: VecDeque<(u64, ServiceKey)>,
    /// The version since which `changed` has all of them.
    changed_since: u64,
    /// The number of changes of each kind since the start.
    totals: BTreeMap<ChangeKind, u64>,
}

/// A change with the time of its event.
pub(super) type TimedChange = (Timestamp, Change);

/// The changes that wait until no further one of their cluster and kind has followed for [`QUIET`], but not longer than
/// [`MAX_WAIT`].
#[derive(Debug, Default)]
pub(super) struct Window(BTreeMap<Group, Vec<WaitingChange>>);

/// Namespace and cluster of changes, which may be merged or undo each other. Changes of one tenant do not hide those of another. No tenant
/// changes Links: those of all namespaces are one.
type Group = (Option<Namespace>, Option<ClusterName>);

/// Changes of one cluster, namespace and kind, merged.
#[derive(Debug)]
struct WaitingChange {
    /// When the first and the last of its changes came. The first is the time of its event.
    first: Timestamp,
    last: Timestamp,
    change: Change,
}

// === impl Events ===

impl Events {
    /// Returns all events in the ring, the newest last, and the time since which they are all.
    pub fn all(&self) -> (Vec<Arc<Event>>, Timestamp) {
        let ring = self.0.ring.lock();
        (ring.events.iter().cloned().collect(), ring.known_since)
    }

    /// Records changes with the times of their events.
    pub(crate) fn record(&self, changes: impl IntoIterator<Item = TimedChange>) {
        let mut ring = self.0.ring.lock();
        let mut id = self.latest().id;
        for (moment, change) in changes {
            id += 1;
            ring.push(id, moment, change);
        }
        let latest = &self.0.latest;
        latest.send_if_modified(|latest| mem::replace(&mut latest.id, id) != id);
    }

    /// Notes a table that was published, so that open streams look at it. `changed` are the services that differ. `None`: all.
    pub(crate) fn note_table(&self, now: &Published, changed: Option<&ServiceKeys>) {
        self.0.ring.lock().note_changed(now.version, changed);
        self.0.latest.send_if_modified(|latest| {
            let is_new = latest.version != now.version;
            (latest.generation, latest.version) = (now.generation, now.version);
            is_new
        });
    }

    /// Counts a change for the metrics, before it is merged with others.
    pub(super) fn count(&self, kind: ChangeKind) {
        *self.0.ring.lock().totals.entry(kind).or_default() += 1;
    }

    /// Returns the counts of the events of services.
    pub(super) fn flapping(&self) -> MutexGuard<'_, Flapping> {
        self.0.flapping.lock()
    }

    /// Returns the services that change too often, with the problem of each.
    pub fn flapping_services(&self) -> BTreeMap<ServiceKey, Problem> {
        self.flapping().services().clone()
    }

    /// Returns the number of changes of a kind since the start.
    pub fn total(&self, kind: ChangeKind) -> u64 {
        let ring = self.0.ring.lock();
        ring.totals.get(&kind).copied().unwrap_or_default()
    }

    /// Returns at most `max` events that follow an ID. Returns `None` if the ID is of another process, or if an event
    /// that follows it is no longer in the ring.
    pub fn after(&self, id: u64, max: usize) -> Option<Vec<Arc<Event>>> {
        let ring = self.0.ring.lock();
        if !(ring.forgotten..=self.latest().id).contains(&id) {
            return None;
        }
        let known = ring.events.partition_point(|event| event.id <= id);
        Some(ring.events.range(known..).take(max).cloned().collect())
    }

    /// Returns at most `max` events until a time that concern one of these services, the newest first. An event that names no
    /// service, or not all of them, concerns those that have its cluster.
    pub fn of_services(
        &self,
        services: &BTreeSet<ServiceKey>,
        clusters: &BTreeSet<ClusterName>,
        until: Option<Timestamp>,
        max: usize,
    ) -> Vec<Arc<Event>> {
        let is_past = |event: &Event| until.is_none_or(|until| event.moment <= until);
        let concerns = |change: &Change| {
            let names_all = !change.services.is_empty() && change.services.len() < MAX_KEYS;
            let cluster = change.cluster.as_ref();
            !services.is_disjoint(&change.services)
                || !names_all && cluster.is_some_and(|cluster| clusters.contains(cluster))
        };
        let ring = self.0.ring.lock();
        ring.events
            .iter()
            .rev()
            .filter(|event| concerns(&event.change) && is_past(event))
            .take(max)
            .cloned()
            .collect()
    }

    /// Returns the services that changed after a version of the table. `None`: too many changed, or all.
    pub fn changed_after(&self, version: u64) -> Option<ServiceKeys> {
        let ring = self.0.ring.lock();
        if !(ring.changed_since..=self.latest().version).contains(&version) {
            return None;
        }
        Some(
            ring.changed
                .iter()
                .filter(|(changed, _)| *changed > version)
                .map(|(_, key)| key.clone())
                .collect(),
        )
    }

    /// Returns the state that readers wait for, as it is now.
    pub fn latest(&self) -> Latest {
        *self.0.latest.borrow()
    }

    /// Returns a receiver of the ID of the last event and of the state of the table.
    pub fn subscribe(&self) -> watch::Receiver<Latest> {
        self.0.latest.subscribe()
    }
}

impl Default for Events {
    fn default() -> Self {
        let epoch = fastrand::u64(1..1 << EPOCH_BITS);
        let last_id = epoch << NUMBER_BITS;
        let latest = Latest {
            id: last_id,
            ..Latest::default()
        };
        let ring = Ring {
            forgotten: last_id,
            known_since: Timestamp(unix_milliseconds()),
            ..Ring::default()
        };
        Self(Arc::new(SharedEvents {
            ring: Mutex::new(ring),
            latest: watch::Sender::new(latest),
            flapping: Mutex::default(),
        }))
    }
}

// === impl Ring ===

impl Ring {
    /// Adds an event. A full ring forgets the oldest one of the namespace and kind that it has most of.
    fn push(&mut self, id: u64, moment: Timestamp, change: Change) {
        self.events.push_back(Arc::new(Event {
            id,
            time: moment.to_text(),
            moment,
            change,
        }));
        if self.events.len() <= MAX_EVENTS {
            return;
        }
        let group = |event: &Event| (event.change.namespace().cloned(), event.change.kind);
        let mut counts: BTreeMap<(Option<Namespace>, ChangeKind), usize> = BTreeMap::new();
        for event in &self.events {
            *counts.entry(group(event)).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let most = most.map(|(most, _)| most);
        let oldest = self
            .events
            .iter()
            .position(|event| Some(group(event)) == most);
        if let Some(event) = oldest.and_then(|place| self.events.remove(place)) {
            self.forgotten = self.forgotten.max(event.id);
            self.known_since = self.known_since.max(Timestamp(event.moment.0 + 1));
        }
    }

    /// Notes the services that a version of the table changed. `None`: all.
    fn note_changed(&mut self, version: u64, keys: Option<&ServiceKeys>) {
        let Some(keys) = keys.filter(|keys| keys.len() <= MAX_CHANGED) else {
            self.changed.clear();
            self.changed_since = version;
            return;
        };
        self.changed
            .extend(keys.iter().map(|key| (version, key.clone())));
        while self.changed.len() > MAX_CHANGED {
            let oldest = self.changed.pop_front();
            self.changed_since = oldest.map_or(version, |(version, _)| version);
        }
    }
}

// === impl Window ===

impl Window {
    /// Adds a change at a time of the clock of the process. Returns what must be recorded before it, because it undoes that.
    pub(super) fn add(&mut self, change: Change, now: Timestamp) -> Vec<TimedChange> {
        let is_link = matches!(change.kind, ChangeKind::Linked | ChangeKind::Unlinked);
        let namespace = change.namespace().cloned().filter(|_| !is_link);
        let waiting = self
            .0
            .entry((namespace, change.cluster.clone()))
            .or_default();
        let undone = waiting
            .extract_if(.., |one| one.change.is_undone_by(&change))
            .map(|one| (one.first, one.change))
            .collect();
        match waiting.iter_mut().find(|one| one.change.is_like(&change)) {
            Some(one) => {
                one.last = now;
                one.change.merge(&change);
            }
            None => waiting.push(WaitingChange {
                first: now,
                last: now,
                change,
            }),
        }
        undone
    }

    /// Returns the changes that have waited long enough, the oldest first.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<TimedChange> {
        let mut due = Vec::new();
        self.0.retain(|_, waiting| {
            let over = waiting.extract_if(.., |one| one.due() <= now);
            due.extend(over.map(|one| (one.first, one.change)));
            !waiting.is_empty()
        });
        due.sort_by_key(|(first, _)| *first);
        due
    }

    /// Returns when the next change has waited long enough.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.0.values().flatten().map(WaitingChange::due).min()
    }
}

impl WaitingChange {
    fn due(&self) -> Timestamp {
        self.last.after(QUIET).min(self.first.after(MAX_WAIT))
    }
}

#[cfg(test)]
mod tests;
