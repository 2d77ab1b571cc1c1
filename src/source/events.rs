//! The last changes of answers, for `/api/v1/events`.
//!
//! The update loop records, and every HTTP client reads at its own pace. Readers have a position, not a queue, so the
//! update loop waits for none of them, and their number costs no memory. A reader that falls behind the ring learns that
//! it has missed events.
//!
//! Linking a cluster causes thousands of watch events. Each table has few changes
//! ([`Difference`](crate::table::difference::Difference)), and a full ring forgets the oldest event of the kind that it has
//! most of. So new endpoints do not push out the failover before them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::clock::{unix_milliseconds, unix_seconds};
use crate::model::{ClusterName, ServiceKey, Timestamp};
use crate::random;
use crate::report::events::Event;
use crate::table::Published;
use crate::table::change::{Change, ChangeKind};
use crate::table::store::ServiceKeys;

/// Maximum number of events in the ring. With some 300 octets each, they use less than a megabyte.
pub const MAX_EVENTS: usize = 1000;

/// Maximum number of changed services that are known by name. A reader that missed more of them loads every service again.
const MAX_CHANGED: usize = 2000;

/// The number of bits for the number of an event within its process. At 100 events per second, 2³³ take two years.
const NUMBER_BITS: u32 = 33;

/// The number of bits that identify a process. Together with [`NUMBER_BITS`], an ID is less than 2⁵³.
const EPOCH_BITS: u32 = 20;

/// The last changes of answers. Clones share them.
#[derive(Clone)]
pub struct Events(Arc<Shared>);

struct Shared {
    ring: Mutex<Ring>,
    latest: watch::Sender<Latest>,
}

/// Which events a reader wants.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only those from this time on.
    pub since: Option<Timestamp>,
    /// Only those of these clusters; empty: all.
    pub clusters: BTreeSet<ClusterName>,
    /// Only those of these kinds; empty: all.
    pub kinds: BTreeSet<ChangeKind>,
}

/// The events that a reader wants.
#[derive(Debug)]
pub struct FoundEvents {
    /// The events, the newest last.
    pub events: Vec<Arc<Event>>,
    /// The time since which all events are known.
    pub known_since: Timestamp,
}

/// The state that readers wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latest {
    /// The ID of the last event. Before the first one, it has number 0.
    pub id: u64,
    /// The generation of the current table; 0 before the first one.
    pub generation: u64,
    /// The number of tables since the start.
    pub tables: u64,
}

struct Ring {
    /// The last events. Their IDs increase.
    events: VecDeque<Arc<Event>>,
    /// The number of events of each kind.
    counts: BTreeMap<ChangeKind, usize>,
    /// The ID of the last event.
    last_id: u64,
    /// The highest ID of an event that was forgotten, or the ID before the first event.
    forgotten: u64,
    /// The time since which all events are here.
    known_since: Timestamp,
    changed: ChangedServices,
}

/// The services that the last tables changed.
#[derive(Default)]
struct ChangedServices {
    /// The services of each table.
    tables: VecDeque<ServiceKeys>,
    /// The number of services in `tables`.
    count: usize,
    /// The number of the last table.
    last: u64,
}

/// Gives changes the time at which they are recorded.
fn now(changes: impl IntoIterator<Item = Change>) -> impl Iterator<Item = (Timestamp, Change)> {
    let changes = changes.into_iter();
    changes.map(|change| (Timestamp(unix_milliseconds()), change))
}

// === impl Events ===

impl Events {
    /// Returns the time since which all events are in the ring.
    pub fn known_since(&self) -> Timestamp {
        self.0.ring.lock().known_since
    }

    /// Returns the selected events.
    pub fn find(&self, filter: &EventFilter) -> FoundEvents {
        let ring = self.0.ring.lock();
        let selected = ring.events.iter().filter(|event| filter.selects(event));
        FoundEvents {
            events: selected.cloned().collect(),
            known_since: ring.known_since,
        }
    }

    /// Records changes.
    pub fn record(&self, changes: impl IntoIterator<Item = Change>) {
        self.record_in_ring(now(changes), |_| ());
    }

    /// Records changes of earlier tables, with their times.
    pub(in crate::source) fn record_timed(&self, changes: Vec<(Timestamp, Change)>) {
        self.record_in_ring(changes, |_| ());
    }

    /// Records changes with their times, which are read after `apply`.
    fn record_in_ring<T>(
        &self,
        changes: impl IntoIterator<Item = (Timestamp, Change)>,
        apply: impl FnOnce(&mut Ring) -> T,
    ) -> T {
        let mut ring = self.0.ring.lock();
        let applied = apply(&mut ring);
        for (moment, change) in changes {
            ring.push(moment, change);
        }
        self.0.latest.send_if_modified(|latest| {
            let is_new = latest.id != ring.last_id;
            latest.id = ring.last_id;
            is_new
        });
        applied
    }

    /// Publishes a table that follows `last`, in which these services were built, and records its changes.
    pub(crate) fn note_published(
        &self,
        last: &Published,
        changes: Vec<Change>,
        services: &ServiceKeys,
        publish: impl FnOnce() -> Arc<Published>,
    ) -> Arc<Published> {
        let services = last.table.as_ref().map(|_| services);
        self.record_in_ring(now(changes), |ring| {
            let now = publish();
            ring.changed.add(services);
            self.note_table(&now, ring.changed.last);
            now
        })
    }

    /// Notes the current table, so that readers look at it.
    fn note_table(&self, now: &Published, tables: u64) {
        self.0.latest.send_if_modified(|latest| {
            let is_new = latest.tables != tables;
            (latest.generation, latest.tables) = (now.generation, tables);
            is_new
        });
    }

    /// Returns all events in the ring, the newest last.
    #[cfg(test)]
    pub fn all(&self) -> Vec<Arc<Event>> {
        self.0.ring.lock().events.iter().cloned().collect()
    }

    /// Returns at most `max` events that follow an ID. Returns `None` if the ID is of another process, or if an event
    /// that follows it is no longer in the ring.
    pub fn after(&self, id: u64, max: usize) -> Option<Vec<Arc<Event>>> {
        let ring = self.0.ring.lock();
        if !(ring.forgotten..=ring.last_id).contains(&id) {
            return None;
        }
        let known = ring.events.partition_point(|event| event.id <= id);
        Some(ring.events.range(known..).take(max).cloned().collect())
    }

    /// Returns at most `max` events until a time that concern one of these services, or all names, the newest first. An event
    /// that stands for changes of several services concerns those that have its cluster.
    pub fn of_services(
        &self,
        services: &BTreeSet<ServiceKey>,
        clusters: &BTreeSet<ClusterName>,
        until: Option<Timestamp>,
        max: usize,
    ) -> Vec<Arc<Event>> {
        let is_past = |event: &Event| until.is_none_or(|until| event.moment <= until);
        let concerns = |change: &Change| match (&change.service, &change.cluster) {
            (Some(service), _) => services.contains(service),
            (None, Some(cluster)) => clusters.contains(cluster),
            (None, None) => false,
        };
        let ring = self.0.ring.lock();
        let newest = ring.events.iter().rev();
        newest
            .filter(|event| concerns(&event.change) && is_past(event))
            .take(max)
            .cloned()
            .collect()
    }

    /// Returns the services that changed after a table, and the number of the last table. `None` instead of the services: too
    /// many changed, or all.
    pub fn changed_after(&self, table: u64) -> (Option<ServiceKeys>, u64) {
        let ring = self.0.ring.lock();
        (ring.changed.after(table), ring.changed.last)
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
        // The kernel does not refuse random numbers. The time also differs between processes.
        let number = random::octets().map_or_else(|_| unix_seconds(), u32::from_ne_bytes);
        let epoch = u64::from(number % (1 << EPOCH_BITS)).max(1);
        let last_id = epoch << NUMBER_BITS;
        let latest = Latest {
            id: last_id,
            ..Latest::default()
        };
        let ring = Ring::new(last_id, Timestamp(unix_milliseconds()));
        Self(Arc::new(Shared {
            ring: Mutex::new(ring),
            latest: watch::Sender::new(latest),
        }))
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

// === impl Ring ===

impl Ring {
    fn new(last_id: u64, known_since: Timestamp) -> Self {
        Self {
            events: VecDeque::new(),
            counts: BTreeMap::new(),
            last_id,
            forgotten: last_id,
            known_since,
            changed: ChangedServices::default(),
        }
    }

    fn push(&mut self, moment: Timestamp, change: Change) {
        self.last_id += 1;
        *self.counts.entry(change.kind).or_default() += 1;
        self.events.push_back(Arc::new(Event {
            id: self.last_id,
            time: moment.to_text(),
            moment,
            change,
        }));
        self.forget();
    }

    /// Forgets the oldest events of the kinds that have most of them.
    fn forget(&mut self) {
        while self.events.len() > MAX_EVENTS {
            let most = self.counts.iter().max_by_key(|(_, count)| **count);
            let Some((&kind, _)) = most else {
                return; // unreachable: events have kinds
            };
            let oldest = self
                .events
                .iter()
                .enumerate()
                .find(|(_, one)| one.change.kind == kind);
            let Some(event) = oldest
                .map(|(place, _)| place)
                .and_then(|place| self.events.remove(place))
            else {
                return; // unreachable: it is counted
            };
            *self.counts.entry(kind).or_default() -= 1;
            self.forgotten = self.forgotten.max(event.id);
            self.known_since = self.known_since.max(Timestamp(event.moment.0 + 1));
        }
    }
}

// === impl EventFilter ===

impl EventFilter {
    /// Returns whether it selects an event. One that concerns no cluster is none of any cluster.
    pub fn selects(&self, event: &Event) -> bool {
        let Event { moment, change, .. } = event;
        let cluster = change.cluster.as_ref();
        self.since.is_none_or(|since| since <= *moment)
            && (self.kinds.is_empty() || self.kinds.contains(&change.kind))
            && (self.clusters.is_empty()
                || cluster.is_some_and(|cluster| self.clusters.contains(cluster)))
    }
}

// === impl ChangedServices ===

impl ChangedServices {
    /// Adds the services of the next table. `None`: all.
    fn add(&mut self, services: Option<&ServiceKeys>) {
        self.last += 1;
        let known = services.filter(|services| services.len() <= MAX_CHANGED);
        let Some(services) = known else {
            self.tables.clear();
            self.count = 0;
            return;
        };
        self.tables.push_back(services.clone());
        self.count += services.len();
        while self.count > MAX_CHANGED || self.tables.len() > MAX_CHANGED {
            self.count -= self.tables.pop_front().map_or(0, |oldest| oldest.len());
        }
    }

    /// Returns the services of the tables that follow one, if all of them are known.
    fn after(&self, table: u64) -> Option<ServiceKeys> {
        let missed = usize::try_from(self.last.checked_sub(table)?).ok()?;
        let first = self.tables.len().checked_sub(missed)?;
        Some(self.tables.range(first..).flatten().cloned().collect())
    }
}

#[cfg(test)]
mod tests;
