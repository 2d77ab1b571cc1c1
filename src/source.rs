//! Sources of objects: the API server ([`kube`](mod@kube)) or YAML files ([`file`](mod@file)); and the update loop.
//!
//! A source sends [`Update`]s. The update loop applies them, builds the table and publishes it. A single change is
//! published at once. Updates that are queued meanwhile are applied together, so there is no fixed delay and the queue
//! is bounded. The first table is published when every feed that it needs has been listed. If a source fails, the last table
//! stays in use. A list of the API server that lacks most objects is not applied; the next one is.

mod backoff;
mod change_log;
pub mod events;
pub mod feeds;
pub mod file;
mod flapping;
pub mod kube;
mod problem_log;
mod steady_clock;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use std::{iter, slice};

use futures::FutureExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use backoff::Backoff;
use change_log::ChangeLog;
pub use events::Events;
pub use feeds::{Feed, Feeds};
pub use problem_log::{log_problem, problem_of_failures};
pub use steady_clock::SteadyClock;

use crate::clock::unix_milliseconds;
use crate::heartbeat;
use crate::model::{Kind, Namespace, Object, ObjectKey, ObjectRef, ProblemKind, Timestamp};
use crate::table::links::LeasePoll;
use crate::table::publish::Reader;
use crate::table::store::{Objects, ServiceKeys};
use crate::table::{Publisher, Rules, Store, Table, Timers, build};

/// A change that a source reports.
#[derive(Debug)]
pub enum Update {
    /// One object was added, modified or (without `object`) deleted.
    Apply {
        /// The object's kind.
        kind: Kind,
        /// The object's key.
        key: ObjectKey,
        /// The object, reduced to the fields in use.
        object: Option<Object>,
        /// When the change arrived.
        arrival: Instant,
    },
    /// Complete lists that were read at the same time.
    Reset {
        /// Each feed with all its objects.
        lists: Vec<(Feed, Objects)>,
        /// If a list lacks most objects of its feed, lists are not applied, and this says so. Without it, they are applied in
        /// any case.
        doubt: Option<oneshot::Sender<()>>,
    },
    /// The Leases of mirror controllers (rule L1).
    Leases(LeasePoll),
}

/// The sender that a source uses. The channel is bounded, so a burst slows the source down and uses no more memory.
pub type Updates = mpsc::Sender<Update>;

/// The smallest number of objects of a watch of which a list may not lack most. Fewer may lose any share, but not all.
const MIN_GUARDED: usize = 11;

/// Maximum time for which the first table waits for the first list of Links (rule L2).
const LINKS_WAIT: Duration = Duration::from_secs(5);

/// When to free replaced tables. Queries use a table for much less time than this.
const FREE_RETIRED_AFTER: Duration = Duration::from_millis(100);

/// The number of updates that may be queued: several pages of a list.
const QUEUE_LENGTH: usize = 1024;

/// Settings of the update loop.
#[derive(Debug)]
pub struct UpdateSettings {
    /// The rules that the table is built with.
    pub rules: Rules,
    /// Whether tables follow the first one. If so, problems have the time since which they hold.
    pub is_following: bool,
}

/// Runs a source and the update loop until the source ends. After a panic, restarts both after a pause. The last table
/// stays in use meanwhile: an unforeseen object must not stop a server that can answer.
pub async fn run(
    mut source: impl AsyncFnMut(Feeds, Updates),
    feeds: Feeds,
    publisher: Publisher,
    settings: UpdateSettings,
) {
    let mut pauses = Backoff::default();
    let mut memory = LoopMemory::default();
    loop {
        let (updates, inbox) = mpsc::channel(QUEUE_LENGTH);
        let update_loop = UpdateLoop::new(&feeds, &publisher, &settings, &mut memory);
        let both = async { tokio::join!(source(feeds.clone(), updates), update_loop.run(inbox)) };
        // The state they share (feeds, publisher, memory) is consistent after a panic. The rest is dropped.
        if AssertUnwindSafe(both).catch_unwind().await.is_ok() {
            return;
        }
        feeds.panics.note();
        let problem = problem_of_failures(ProblemKind::SourcePanicked, &feeds.panics, feeds.clock);
        problem.iter().for_each(log_problem);
        // A pause is progress, too: see `/livez`.
        _ = timeout(pauses.next(), feeds.heartbeat.clone().follow_runtime()).await;
    }
}

/// What the update loop remembers when it is restarted.
#[derive(Debug, Default)]
struct LoopMemory {
    timers: Timers,
    log: ChangeLog,
}

/// The update loop: store and table of one source.
struct UpdateLoop<'p> {
    publisher: &'p Publisher,
    reader: Reader,
    rules: &'p Rules,
    store: Store,
    /// Services with changes that are not published yet.
    dirty: ServiceKeys,
    /// The arrivals of these changes, without those of lists. At most [`QUEUE_LENGTH`].
    arrivals: Vec<Instant>,
    /// Feeds that a table needs and that are not listed yet.
    unlisted: BTreeSet<Feed>,
    /// Until when the first table waits for Links, since all other lists are complete.
    links_deadline: Option<Instant>,
    /// Whether an update or a link changed something that is not published yet.
    has_news: bool,
    feeds: &'p Feeds,
    log: &'p mut ChangeLog,
    timers: &'p mut Timers,
}

impl<'p> UpdateLoop<'p> {
    /// Makes a loop that continues from the current table. Lists are collected separately and replace it when they are complete.
    fn new(
        feeds: &'p Feeds,
        publisher: &'p Publisher,
        settings: &'p UpdateSettings,
        LoopMemory { timers, log }: &'p mut LoopMemory,
    ) -> Self {
        timers.is_following = settings.is_following;
        let reader = publisher.reader();
        let needed = feeds.all().into_iter().filter(|feed| feed.kind.is_needed());
        let last = reader.load();
        let services = last.table.iter().flat_map(Table::services);
        Self {
            dirty: services.map(|service| service.key.clone()).collect(),
            reader,
            publisher,
            rules: &settings.rules,
            store: Store::default(),
            arrivals: Vec::new(),
            unlisted: needed.collect(),
            links_deadline: None,
            has_news: false,
            feeds,
            log,
            timers,
        }
    }

    async fn run(mut self, mut updates: mpsc::Receiver<Update>) {
        loop {
            self.feeds.heartbeat.beat();
            // Queries may still have used replaced tables when the last table was published. Free these later.
            let free = self.publisher.free_retired().then_some(FREE_RETIRED_AFTER);
            let record = self.log.next_due(self.feeds).map(|due| self.until(due));
            let waits = [free, self.next_wake(), record, Some(heartbeat::INTERVAL)];
            let wait = waits.into_iter().flatten().min().unwrap_or_default();
            let update = timeout(wait, updates.recv()).await;
            let now = self.feeds.clock.now();
            self.timers.now = now;
            self.log.record_until(now, self.feeds, now);
            match update {
                Err(_) => {}
                Ok(None) => return self.log.record_until(Timestamp(u64::MAX), self.feeds, now),
                Ok(Some(first)) => self.apply_queued(first, &mut updates),
            }
            self.publish_news();
        }
    }

    /// Applies an update and the queued ones. A limit keeps an endless stream of updates from delaying the table.
    fn apply_queued(&mut self, first: Update, updates: &mut mpsc::Receiver<Update>) {
        let queued = iter::from_fn(|| updates.try_recv().ok());
        for update in iter::once(first).chain(queued).take(QUEUE_LENGTH) {
            match update {
                Update::Apply {
                    kind,
                    key,
                    object,
                    arrival,
                } => self.apply(kind, key, object, arrival),
                Update::Reset { lists, doubt } => self.reset(lists, doubt),
                Update::Leases(poll) => self.timers.links.note_leases(poll, self.timers.now),
            }
        }
    }

    /// Publishes what changed, also because a delay has ended, if a table can be built.
    fn publish_news(&mut self) {
        self.has_news |= self.next_wake() == Some(Duration::ZERO);
        if self.is_complete() {
            self.update_links();
            if self.has_news {
                self.publish();
            }
        }
    }

    /// Returns whether every feed that a table needs has been listed. The first table also waits for Links, for a while.
    fn is_complete(&mut self) -> bool {
        if !self.unlisted.is_empty() {
            return false;
        }
        let now = Instant::now();
        let deadline = *self.links_deadline.get_or_insert(now + LINKS_WAIT);
        now >= deadline || !self.feeds.are_links_awaited()
    }

    /// Determines the states of links.
    fn update_links(&mut self) {
        let list = self.feeds.link_list();
        if let Some(services) = self.timers.update_links(&mut self.store, list, self.rules) {
            self.dirty.extend(services);
            self.has_news = true;
        }
    }

    /// Returns the time until the next delay ends. Until all feeds are listed, no delay changes the table.
    fn next_wake(&self) -> Option<Duration> {
        let deadline = self.links_deadline?;
        if self.feeds.are_links_awaited() && Instant::now() < deadline {
            return Some(deadline - Instant::now());
        }
        Some(self.until(self.timers.next_wake()?))
    }

    /// Returns the duration until a time, or zero.
    fn until(&self, time: Timestamp) -> Duration {
        Duration::from_millis(time.0.saturating_sub(self.feeds.clock.now().0))
    }

    fn apply(&mut self, kind: Kind, key: ObjectKey, mut object: Option<Object>, arrival: Instant) {
        if let Some(object) = &mut object {
            self.date(kind, &key, object);
        }
        let services = self.store.apply(kind, key.clone(), object);
        if !self.store.take_changed() {
            return;
        }
        self.has_news = true;
        // The first table takes its own time.
        if !services.is_empty() && self.is_complete() {
            self.arrivals.push(arrival);
        }
        self.dirty.extend(services);
        if let Some(problem) = self.store.skipped().get(&ObjectRef { kind, key }) {
            log_problem(problem);
        }
    }

    /// Dates the problem of an object that is skipped.
    fn date(&self, kind: Kind, key: &ObjectKey, object: &mut Object) {
        if let Object::Skipped(skip) = object {
            let last = self.reader.load();
            let known = last.table.as_ref();
            let known = known.and_then(|table| table.skip_of(kind, key));
            let known = known.map_or(&[][..], slice::from_ref);
            let skip = slice::from_mut(Arc::make_mut(skip));
            self.timers.date(known, skip);
        }
    }

    /// Applies complete lists. When all feeds are listed, the first lists replace the current table, if there is one.
    fn reset(&mut self, lists: Vec<(Feed, Objects)>, doubt: Option<oneshot::Sender<()>>) {
        if let Some(doubt) = doubt
            && lists
                .iter()
                .any(|(feed, objects)| self.lacks_most(feed, objects))
        {
            // The source may have stopped.
            _ = doubt.send(());
            return;
        }
        let old = self.store.skipped().clone();
        for (feed, mut objects) in lists {
            debug!(%feed, objects = objects.len(), "Listed");
            for (key, object) in &mut objects {
                self.date(feed.kind, key, object);
            }
            let services = self.store.reset(feed.kind, namespace_of(&feed), objects);
            self.dirty.extend(services);
            // The first table may be empty.
            self.has_news |= self.unlisted.remove(&feed);
        }
        self.has_news |= self.store.take_changed();
        let skipped = self.store.skipped().iter();
        for (_, problem) in skipped.filter(|(key, one)| old.get(*key) != Some(*one)) {
            log_problem(problem);
        }
    }

    /// Returns whether a list has less than a tenth of the objects that its feed had, or none. It may be complete, well-formed
    /// and wrong: of an API server that was restored from an empty backup, or of another one behind a proxy.
    fn lacks_most(&self, feed: &Feed, listed: &Objects) -> bool {
        let known = self.store.count(feed.kind, namespace_of(feed));
        let lacks_most = known >= MIN_GUARDED && listed.len() * 10 < known;
        let lacks_most = lacks_most || listed.is_empty() && known > 0;
        if lacks_most {
            let objects = listed.len();
            warn!(%feed, objects, known, "List lacks most objects; listing again");
        }
        lacks_most
    }

    fn publish(&mut self) {
        self.has_news = false;
        let mut dirty = std::mem::take(&mut self.dirty);
        self.timers.wall = Timestamp(unix_milliseconds());
        dirty.extend(self.timers.due());
        let last = Arc::clone(&self.reader.load());
        let empty = Table::default();
        let last_table = last.table.as_ref().unwrap_or(&empty);
        let mut built = build(last_table, &self.store, &dirty, self.rules, self.timers);
        self.timers.apply(std::mem::take(&mut built.timers));
        self.timers.is_started = true;
        let arrivals = std::mem::take(&mut self.arrivals);
        let (services, time) = (built.services.clone(), self.timers.now);
        let wall = self.timers.wall.seconds();
        let flapping = self.feeds.events.flapping_services();
        self.publisher.note_flapping(flapping.into_keys().collect());
        if let Some(now) = self.publisher.publish(built, time, wall) {
            for arrival in arrivals {
                self.feeds.answer_delays.add(arrival.elapsed(), 1);
            }
            self.log
                .note_published(&last, &now, &services, self.feeds, time);
        }
    }
}

fn namespace_of(feed: &Feed) -> Option<&str> {
    feed.namespace.as_ref().map(Namespace::as_str)
}

#[cfg(test)]
mod tests;
