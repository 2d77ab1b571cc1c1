//! Sources of objects: the API server ([`kube`](mod@kube)) or YAML files ([`file`](mod@file)); and the update loop.
//!
//! A source sends [`Update`]s from a thread of its own. The update loop plays rounds: it applies [what has arrived](inbox), builds
//! services for at most 20 ms, and publishes the table. So a single change is published at once, and there is no fixed delay.
//! Namespaces take turns, so that none waits for the queue of another one. The first table is built in one piece, when every feed that
//! it needs has been listed. If a source fails, the last table stays in use. A list of the API server that lacks most objects is not
//! applied; the next one is.

mod backoff;
mod change_log;
pub mod events;
pub mod feeds;
pub mod file;
mod flapping;
pub mod inbox;
pub mod kube;
mod problem_log;
mod steady_clock;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::panic::AssertUnwindSafe;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use backoff::Backoff;
use change_log::ChangeLog;
pub use events::Events;
pub use feeds::{Feed, Feeds};
pub use inbox::{ObjectChange, Outcome, Update, Updates};
use problem_log::log_limited;
pub use problem_log::{log_ended, log_problem, problem_of_failures};
pub use steady_clock::SteadyClock;

use inbox::Inbox;
use turns::{Tenant, Turns};

use crate::clock::unix_milliseconds;
use crate::heartbeat;
use crate::model::{
    Kind, Namespace, Object, ObjectKey, ObjectRef, ProblemKind, ServiceKey, Text, Timestamp,
};
use crate::table::links::LinkList;
use crate::table::publish::Reader;
use crate::table::store::{Objects, ServiceKeys};
use crate::table::{Build, Built, Publisher, Rules, Store, Table, Timers};

/// The smallest number of objects of a watch of which a list may not lack most. Fewer may lose any share, but not all.
const MIN_GUARDED: usize = 11;

/// Maximum time for which the first table waits for the first list of Links (rule L2).
const LINKS_WAIT: Duration = Duration::from_secs(5);

/// When to free replaced tables. Queries use a table for much less time than this.
const FREE_RETIRED_AFTER: Duration = Duration::from_millis(100);

/// Maximum time of a round after the first table, besides its last build. What arrives meanwhile waits for the next one.
const ROUND: Duration = Duration::from_millis(20);

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
        let updates = Updates::default();
        let update_loop = UpdateLoop::new(&feeds, &publisher, &settings, &mut memory);
        let following = async {
            source(feeds.clone(), updates.clone()).await;
            updates.end();
        };
        let both = async { tokio::join!(following, update_loop.run(updates.inbox())) };
        // The state they share (feeds, publisher, memory) is consistent after a panic. The rest is dropped.
        if AssertUnwindSafe(both).catch_unwind().await.is_ok() {
            return;
        }
        feeds.panics.note();
        feeds.note_restart();
        problem_of_failures(ProblemKind::SourcePanicked, &feeds.panics, feeds.clock)
            .iter()
            .for_each(log_problem);
        // A pause is progress, too: see `/livez`.
        _ = timeout(pauses.next(), feeds.heartbeat.clone().follow_runtime()).await;
    }
}

/// What the update loop remembers when it is restarted.
#[derive(Debug, Default)]
struct LoopMemory {
    timers: Timers,
    log: ChangeLog,
    /// The number of objects that the last loop had of each feed, for the first lists of the next one.
    counts: BTreeMap<Feed, usize>,
}

/// The update loop: store and table of one source.
struct UpdateLoop<'p> {
    publisher: &'p Publisher,
    reader: Reader,
    rules: &'p Rules,
    store: Store,
    /// Services of objects that changed since the last round, by the tenant who changed them.
    changed: BTreeMap<Tenant, ServiceKeys>,
    /// The services that must be built.
    turns: Turns,
    /// For each of them that changes of objects concern, when the first arrived. Lists do not count.
    arrivals: BTreeMap<ServiceKey, Instant>,
    /// Whether the next round makes the first table since the start of the loop.
    is_first: bool,
    /// Maximum time of a round: [`ROUND`].
    round: Duration,
    /// Feeds that a table needs and that are not listed yet.
    unlisted: BTreeSet<Feed>,
    /// Until when the first table waits for Links, since all other lists are complete.
    links_deadline: Option<Instant>,
    /// How the Links are listed, and whether a first list of them is under way.
    link_list: Option<LinkList>,
    are_links_awaited: bool,
    /// Whether an update or a link changed something that is not published yet.
    has_news: bool,
    feeds: &'p Feeds,
    log: &'p mut ChangeLog,
    timers: &'p mut Timers,
    counts: &'p mut BTreeMap<Feed, usize>,
}

impl<'p> UpdateLoop<'p> {
    /// Makes a loop that continues from the current table. Lists are collected separately and replace it when they are complete.
    fn new(
        feeds: &'p Feeds,
        publisher: &'p Publisher,
        settings: &'p UpdateSettings,
        LoopMemory {
            timers,
            log,
            counts,
        }: &'p mut LoopMemory,
    ) -> Self {
        timers.is_following = settings.is_following;
        let reader = publisher.reader();
        let needed = feeds.all().into_iter().filter(|feed| feed.kind.is_needed());
        let last = reader.load();
        let of_table = last.table.iter().flat_map(Table::services);
        let of_table = of_table.map(|service| &service.key);
        // What is remembered of others must end.
        let services = of_table.chain(timers.services()).cloned().collect();
        Self {
            changed: [(None, services)].into(),
            reader,
            publisher,
            rules: &settings.rules,
            store: Store::default(),
            turns: Turns::default(),
            arrivals: BTreeMap::new(),
            is_first: true,
            round: ROUND,
            unlisted: needed.collect(),
            links_deadline: None,
            link_list: None,
            are_links_awaited: true,
            has_news: false,
            feeds,
            log,
            timers,
            counts,
        }
    }

    /// Plays rounds until the source has ended.
    async fn run(mut self, inbox: Inbox) {
        loop {
            self.feeds.heartbeat.beat();
            self.wait(&inbox).await;
            let now = self.feeds.clock.now();
            self.timers.now = now;
            self.log.record_until(now, self.feeds, now);
            // Asked for before the updates are taken: a source sends a list first, and then notes that it is complete.
            self.link_list = self.feeds.link_list();
            self.are_links_awaited = self.feeds.are_links_awaited();
            let has_ended = inbox.has_ended();
            for update in inbox.take() {
                self.apply_update(update);
            }
            self.play_round();
            if has_ended && self.turns.is_empty() {
                return self.log.record_until(Timestamp(u64::MAX), self.feeds, now);
            }
        }
    }

    /// Waits until there is something to do. If services must be built, others only have their turn.
    async fn wait(&self, inbox: &Inbox) {
        if !self.turns.is_empty() {
            return yield_now().await;
        }
        // Queries may still have used replaced tables when the last table was published. Free these later.
        let free = self.publisher.free_retired().then_some(FREE_RETIRED_AFTER);
        let record = self.log.next_due(self.feeds).map(|due| self.until(due));
        let wait = [free, self.next_wake(), record, Some(heartbeat::INTERVAL)]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or_default();
        _ = timeout(wait, inbox.wait()).await;
    }

    fn apply_update(&mut self, update: Update) {
        match update {
            Update::Apply(change) => self.apply(change),
            Update::Reset {
                lists,
                is_certain,
                outcome,
            } => {
                _ = outcome.send(self.reset(lists, is_certain)); // nobody may wait for it
            }
            Update::Leases(poll) => self.timers.links.note_leases(poll, self.timers.now),
        }
    }

    /// Builds and publishes what changed, also because a delay has ended, if a table can be built.
    fn play_round(&mut self) {
        self.has_news |= self.next_wake() == Some(Duration::ZERO);
        if self.is_complete() {
            let store = &mut self.store;
            let turned = self.timers.update_links(store, self.link_list, self.rules);
            if let Some(services) = turned {
                self.note_changed(None, services);
                self.has_news = true;
            }
            if self.has_news || !self.turns.is_empty() {
                self.build();
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
        now >= deadline || !self.are_links_awaited
    }

    /// Returns the time until the next delay ends. Until all feeds are listed, no delay changes the table.
    fn next_wake(&self) -> Option<Duration> {
        let deadline = self.links_deadline?;
        if self.are_links_awaited && Instant::now() < deadline {
            return Some(deadline - Instant::now());
        }
        Some(self.until(self.timers.next_wake()?))
    }

    /// Returns the duration until a time, or zero.
    fn until(&self, time: Timestamp) -> Duration {
        Duration::from_millis(time.0.saturating_sub(self.feeds.clock.now().0))
    }

    /// Returns who changed an object. Links are in namespaces of administrators. Nobody waits for another one before the first table.
    fn tenant_of(&self, kind: Kind, namespace: &Text) -> Tenant {
        (kind != Kind::Link && !self.is_first).then(|| namespace.clone())
    }

    /// Notes services of objects that a tenant changed.
    fn note_changed(&mut self, tenant: Tenant, services: ServiceKeys) {
        if !services.is_empty() {
            self.changed.entry(tenant).or_default().extend(services);
        }
    }

    fn apply(&mut self, change: ObjectChange) {
        let ObjectChange {
            kind,
            key,
            mut object,
            arrival,
        } = change;
        if let Some(object) = &mut object {
            self.date(kind, &key, object);
        }
        let services = self.store.apply(kind, key.clone(), object);
        if !self.store.take_changed() {
            return;
        }
        self.has_news = true;
        // The first table takes its own time.
        for service in services.iter().filter(|_| !self.is_first) {
            self.arrivals.entry(service.clone()).or_insert(arrival);
        }
        self.note_changed(self.tenant_of(kind, &key.namespace), services);
        if let Some(problem) = self.store.skipped().get(&ObjectRef { kind, key }) {
            log_limited(problem, &mut self.log.limiter, self.timers.now);
        }
    }

    /// Dates the problem of an object that is skipped.
    fn date(&self, kind: Kind, key: &ObjectKey, object: &mut Object) {
        if let Object::Skipped(skip) = object {
            let last = self.reader.load();
            let known = last
                .table
                .as_ref()
                .and_then(|table| table.skip_of(kind, key));
            let new = slice::from_mut(Arc::make_mut(skip));
            self.timers.date(known.map_or(&[], slice::from_ref), new);
        }
    }

    /// Applies complete lists. When all feeds are listed, the first lists replace the current table, if there is one.
    fn reset(&mut self, lists: Vec<(Feed, Objects)>, is_certain: bool) -> Outcome {
        let mut all = lists.iter();
        if !is_certain && all.any(|(feed, objects)| self.lacks_most(feed, objects)) {
            return Outcome::Doubted;
        }
        let old = self.store.skipped().clone();
        for (feed, mut objects) in lists {
            debug!(%feed, objects = objects.len(), "Listed");
            for (key, object) in &mut objects {
                self.date(feed.kind, key, object);
            }
            for service in self.store.reset(feed.kind, namespace_of(&feed), objects) {
                let tenant = self.tenant_of(feed.kind, service.namespace.text());
                self.note_changed(tenant, [service].into());
            }
            // The first table may be empty.
            self.has_news |= self.unlisted.remove(&feed);
        }
        let is_news = self.store.take_changed();
        self.has_news |= is_news;
        let skipped = self.store.skipped().iter();
        for (_, problem) in skipped.filter(|(key, one)| old.get(*key) != Some(*one)) {
            log_limited(problem, &mut self.log.limiter, self.timers.now);
        }
        Outcome::Applied { is_news }
    }

    /// Returns whether a list has less than a tenth of the objects that its feed had, or none. It may be complete, well-formed
    /// and wrong: of an API server that was restored from an empty backup, or of another one behind a proxy.
    fn lacks_most(&self, feed: &Feed, listed: &Objects) -> bool {
        let of_last_loop = self.counts.get(feed).filter(|_| self.is_first);
        let of_store = self.store.count(feed.kind, namespace_of(feed));
        let known = of_last_loop.copied().unwrap_or(of_store);
        let lacks_most =
            known >= MIN_GUARDED && listed.len() * 10 < known || listed.is_empty() && known > 0;
        if lacks_most {
            let objects = listed.len();
            warn!(%feed, objects, known, "List lacks most objects; listing again");
        }
        lacks_most
    }

    /// Builds services in their turns until the round ends, and publishes the table.
    fn build(&mut self) {
        self.has_news = false;
        self.timers.wall = Timestamp(unix_milliseconds());
        let due = self.timers.take_due();
        self.note_changed(None, due);
        let last = Arc::clone(&self.reader.load());
        let empty = Table::default();
        let last_table = last.table.as_ref().unwrap_or(&empty);
        let mut build = Build::begin(last_table, &self.store, self.rules, self.timers);
        let mut delays = Vec::new();
        self.turns.add(&None, build.others());
        for (tenant, services) in take(&mut self.changed) {
            self.turns.add(&tenant, build.dependents(&services));
        }
        let started = std::time::Instant::now();
        while let Some(turn) = self.turns.take() {
            let begun = std::time::Instant::now();
            delays.extend(self.arrivals.remove(&turn.service));
            build.add(turn.service);
            self.turns.charge(turn.tenant, begun.elapsed());
            self.feeds.heartbeat.beat();
            if !self.is_first && started.elapsed() >= self.round {
                break;
            }
        }
        let mut built = build.finish();
        self.timers.apply(take(&mut built.timers));
        self.timers.is_started = true;
        let services = built.services.clone();
        let time = self.timers.now;
        let wall = self.timers.wall.seconds();
        built.is_busy = self.count_changes(last_table, &built);
        self.is_first = false;
        if let Some(now) = self.publisher.publish(built, time, wall) {
            for arrival in delays {
                self.feeds.answer_delays.add(arrival.elapsed(), 1);
            }
            let links = take(&mut self.timers.links.changed);
            self.log
                .note_published(&last, &now, &services, &links, self.feeds, time);
        }
    }

    /// Counts the services with other answers. Returns whether all that differ change all the time.
    fn count_changes(&mut self, last: &Table, built: &Built) -> bool {
        let mut flapping = self.feeds.events.flapping();
        for key in &built.services {
            let hashes = [last, &built.table].map(|table| table.find(key)?.answers);
            if hashes[0] != hashes[1]
                && !self.is_first
                && let Some(problem) = flapping.count(key, hashes, self.timers.now)
            {
                log_limited(problem, &mut self.log.limiter, self.timers.now);
            }
        }
        flapping.are_busy(&built.services)
    }
}

impl Drop for UpdateLoop<'_> {
    fn drop(&mut self) {
        // One that never had all lists knows less than the one before.
        if self.is_first {
            return;
        }
        for feed in self.feeds.all() {
            let count = self.store.count(feed.kind, namespace_of(&feed));
            self.counts.insert(feed, count);
        }
    }
}

fn namespace_of(feed: &Feed) -> Option<&str> {
    feed.namespace.as_ref().map(Namespace::as_str)
}

#[cfg(test)]
mod tests;
