//! Who feeds the inputs: the API server ([`kube`](mod@kube)) or YAML on disk ([`file`](mod@file)), and the one task that
//! follows them.
//!
//! A source sends [`Update`]s; `follow` applies them, builds, and publishes. An isolated change is published at once;
//! changes that queue up meanwhile are taken together, so there is no fixed delay and no queue that grows. Before the
//! first complete list of every feed there is no table, and a source that fails keeps the last one. A list that would drop
//! most of the table is held until another one says the same ([`ShrinkGuard`]).

mod backoff;
mod change_log;
pub mod feeds;
pub mod file;
mod guard;
pub mod kube;
mod snapshot;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::{debug, error, info, warn};

use backoff::Backoff;
use change_log::{ChangeLog, log_skip};
pub use feeds::{Feed, Feeds};
pub use guard::ShrinkGuard;
use guard::{Guard, Shrinkage, Verdict};
pub use snapshot::{SnapshotOf, Snapshots};

use crate::clock::unix_seconds;
use crate::mirror::{Namespace, Object, ObjectKey, ObjectRef, ServiceKey, Watch};
use crate::table::inputs::{Dirty, Loss, Objects};
use crate::table::publish::Reader;
use crate::table::{Built, Inputs, Publisher, Rules, Table, build};

/// What a source saw.
#[derive(Debug)]
pub enum Update {
    /// One object was added, modified or (without `object`) deleted.
    Apply {
        /// The watch that says so.
        watch: Watch,
        /// The object's key.
        key: ObjectKey,
        /// The object, reduced.
        object: Option<Object>,
    },
    /// Complete lists, taken at one moment: each feed with every object of it.
    Reset(Vec<(Feed, Objects)>),
}

/// The sending end that a source gets. Bounded, so that a burst slows the source down instead of growing a queue.
pub type Updates = mpsc::Sender<Update>;

/// `--cluster-name` where it is not given. Fit for trying out, not for peers that store each other's names (rule M6).
pub const DEFAULT_CLUSTER_NAME: &str = "local";

/// How long a query may still look at a table that is not current any more, give or take.
const LINGER: Duration = Duration::from_millis(100);

/// How often a sign of life is looked for when there was none for too long.
const SIGN_OF_LIFE: Duration = Duration::from_millis(500);

/// Longer than nothing will happen for.
const FOREVER: Duration = Duration::from_secs(24 * 60 * 60);

/// The first and the longest pause after a panic.
const PANIC_PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Updates that may wait: some pages of a list.
const QUEUE: usize = 1024;

/// Makes the channel between a source and [`follow`].
fn channel() -> (Updates, mpsc::Receiver<Update>) {
    mpsc::channel(QUEUE)
}

/// What `serve` wants of who follows a source.
#[derive(Debug)]
pub struct Policy {
    /// What the table is built by.
    pub rules: Rules,
    /// How much of it one list may drop.
    pub shrink_guard: ShrinkGuard,
    /// Where what the table is made from is saved, if it is.
    pub snapshot: Option<Snapshots>,
    /// How long the table may be answered from without a sign of life; `None`: for as long as it takes.
    pub max_stale: Option<Duration>,
}

/// Runs a source and what follows it, until the source ends. After a panic both begin anew, a pause later, and the table
/// stays meanwhile: one object that nobody foresaw must not end a server that can answer.
pub async fn run(
    mut source: impl AsyncFnMut(Feeds, Updates),
    feeds: Feeds,
    publisher: Publisher,
    mut policy: Policy,
) {
    let mut backoff = Backoff::new(PANIC_PAUSES.0, 2);
    loop {
        let (updates, inbox) = channel();
        let follow = follow(inbox, &feeds, &publisher, &mut policy);
        let both = async { tokio::join!(source(feeds.clone(), updates), follow) };
        // What they shared is either whole after a panic (feeds, publisher, snapshots) or gone.
        if AssertUnwindSafe(both).catch_unwind().await.is_ok() {
            return;
        }
        feeds.panicked();
        let pause = backoff.next(PANIC_PAUSES.1);
        error!(
            ?pause,
            "The source panicked: listing everything anew, with the last table meanwhile"
        );
        sleep(pause).await;
    }
}

/// Applies a source's updates, builds and publishes, until the source ends.
async fn follow(
    updates: mpsc::Receiver<Update>,
    feeds: &Feeds,
    publisher: &Publisher,
    policy: &mut Policy,
) {
    for feed in feeds.all() {
        feeds.release(&feed);
    }
    let mut follower = Follower {
        reader: publisher.reader(),
        publisher,
        rules: &policy.rules,
        inputs: Inputs::default(),
        dirty: Dirty::new(),
        awaited: feeds.all(),
        guard: Guard::new(policy.shrink_guard, feeds.clone()),
        snapshot: policy.snapshot.as_mut(),
        max_stale: policy.max_stale,
        feeds,
        log: ChangeLog::default(),
    };
    follower.restore();
    follower.run(updates).await;
}

/// Where a source's updates end up.
struct Follower<'p> {
    publisher: &'p Publisher,
    reader: Reader,
    rules: &'p Rules,
    inputs: Inputs,
    /// Services whose change is not published yet.
    dirty: Dirty,
    /// Feeds that were not listed yet: before all were, there is no table.
    awaited: BTreeSet<Feed>,
    guard: Guard,
    snapshot: Option<&'p mut Snapshots>,
    max_stale: Option<Duration>,
    feeds: &'p Feeds,
    log: ChangeLog,
}

impl Follower<'_> {
    async fn run(mut self, mut updates: mpsc::Receiver<Update>) {
        loop {
            // Tables that queries still looked at when the last one was published are let go a moment later.
            let linger = self.publisher.free_retired().then_some(LINGER);
            let save = self.save_if_due();
            let waits = linger.into_iter().chain(save).chain(self.expire());
            let wait = waits.min().unwrap_or(FOREVER);
            match timeout(wait, updates.recv()).await {
                Err(_) => {}
                Ok(None) => return,
                Ok(Some(first)) => self.take(first, &mut updates),
            }
        }
    }

    /// Applies an update and those that wait behind it; publishes the outcome when everything was listed.
    fn take(&mut self, first: Update, updates: &mut mpsc::Receiver<Update>) {
        let mut next = Some(first);
        let mut taken = 0;
        while let Some(update) = next {
            match update {
                Update::Apply { watch, key, object } => self.apply(watch, key, object),
                Update::Reset(lists) => self.reset(lists),
            }
            taken += 1;
            // What came in meanwhile belongs to this table; an endless stream must not hold it back.
            next = if taken < QUEUE {
                updates.try_recv().ok()
            } else {
                None
            };
        }
        if self.awaited.is_empty() {
            self.publish();
        }
    }

    /// Starts with the table that there is, or with what a process before has saved, if that can be used. What is listed
    /// is kept apart from it, and replaces it when it is complete.
    fn restore(&mut self) {
        if let Some(table) = &self.reader.load().table {
            self.dirty = table
                .services()
                .map(|service| service.key.clone())
                .collect();
            return;
        }
        let snapshot = self.snapshot.as_deref();
        let Some(restored) = snapshot.and_then(Snapshots::load) else {
            return;
        };
        let services = restored.inputs.services();
        let built = build(&Table::default(), &restored.inputs, &services, self.rules);
        self.feeds.restored(restored.age);
        let now = self.publisher.publish_stale(built, unix_seconds());
        warn!(
            age = ?restored.age,
            serial = now.serial,
            services = services.len(),
            "Answering from a snapshot until everything is listed"
        );
        self.dirty = services;
    }

    /// Saves what the table is made from when it is time to; returns when to look again.
    fn save_if_due(&mut self) -> Option<Duration> {
        match &mut self.snapshot {
            Some(snapshot) if self.awaited.is_empty() => {
                Some(snapshot.save_if_due(&self.inputs, self.feeds.age()))
            }
            _ => None,
        }
    }

    /// Notes whether the table is too old by now; returns when to look again.
    fn expire(&self) -> Option<Duration> {
        let most = self.max_stale?;
        let age = self.feeds.age();
        let is_expired = age > most;
        let now = self.reader.load();
        if now.table.is_some() && now.is_expired != is_expired {
            drop(now);
            self.publisher.set_expired(is_expired);
            match is_expired {
                true => error!(?age, "The table is too old: answering SERVFAIL"),
                false => info!("Heard again: answering from the table"),
            }
        }
        // What is heard again may be no update.
        Some(if is_expired {
            SIGN_OF_LIFE
        } else {
            most - age + LINGER
        })
    }

    fn apply(&mut self, watch: Watch, key: ObjectKey, object: Option<Object>) {
        if let Some(Object::Skipped(skip)) = &object {
            let object = ObjectRef {
                kind: watch.kind(),
                key: key.clone(),
            };
            log_skip(&object, skip.reason, &skip.detail);
        }
        self.dirty.extend(match object {
            Some(object) => self.inputs.apply(watch, key, object),
            None => self.inputs.delete(watch, key),
        });
    }

    fn reset(&mut self, lists: Vec<(Feed, Objects)>) {
        let known = self.inputs.skipped().clone();
        for (feed, objects) in &lists {
            debug!(%feed, objects = objects.len(), "Listed");
        }
        match self.awaited.is_empty() {
            true => self.relist(lists),
            false => self.list(lists),
        }
        let skipped = self.inputs.skipped().iter();
        for ((watch, key), skip) in skipped.filter(|(key, skip)| known.get(*key) != Some(*skip)) {
            let object = ObjectRef {
                kind: watch.kind(),
                key: key.clone(),
            };
            log_skip(&object, skip.reason, &skip.detail);
        }
    }

    /// Takes the first lists of feeds. When they are complete, they replace the table that there is, if any.
    fn list(&mut self, lists: Vec<(Feed, Objects)>) {
        for (feed, _) in &lists {
            self.awaited.remove(feed);
        }
        self.dirty.extend(replace(&mut self.inputs, lists));
        if !self.awaited.is_empty() || self.reader.load().table.is_none() {
            return;
        }
        let feeds: Vec<Feed> = self.feeds.all().into_iter().collect();
        // What the feeds had seen of each service is not known any more: its endpoints are.
        let services = self.dirty.iter().cloned();
        let losses = services.map(|service| (service, Loss::default())).collect();
        let would = self.shrinkage(&self.inputs, &self.dirty, &losses);
        if self.guard.judge(&feeds, [would]) == Verdict::Held {
            self.awaited = feeds.into_iter().collect();
        }
    }

    /// Takes complete lists of what was listed before, or holds them.
    fn relist(&mut self, lists: Vec<(Feed, Objects)>) {
        let feeds: Vec<Feed> = lists.iter().map(|(feed, _)| feed.clone()).collect();
        let suspects = self.suspects(&lists);
        if suspects.is_empty() {
            let why = "A list that was held is not confirmed: dropped";
            self.guard.release(&feeds, why);
            self.dirty.extend(replace(&mut self.inputs, lists));
            return;
        }
        // What came before is not these lists' doing.
        self.publish();
        let mut next = self.inputs.clone();
        let dirty = replace(&mut next, lists);
        let would = suspects
            .iter()
            .map(|losses| self.shrinkage(&next, &dirty, losses));
        if self.guard.judge(&feeds, would.collect::<Vec<_>>()) == Verdict::Passes {
            self.inputs = next;
            self.dirty = dirty;
        }
    }

    /// Returns what each list lacks that needs a closer look.
    fn suspects(&self, lists: &[(Feed, Objects)]) -> Vec<BTreeMap<ServiceKey, Loss>> {
        let losses = lists.iter().filter_map(|(feed, objects)| {
            let (watch, namespace) = (feed.watch, namespace_of(feed));
            let lost = self.inputs.count_lost(watch, namespace, objects);
            let is_answered = |key: &ServiceKey| self.is_answered(key);
            let leaves_none = || {
                let inputs = &self.inputs;
                inputs.touches_all(watch, namespace, objects, is_answered)
            };
            let is_suspect = self.guard.suspects(lost, leaves_none);
            is_suspect.then(|| self.inputs.losses(watch, namespace, objects))
        });
        losses.collect()
    }

    /// Tells whether a service has endpoints in the table that is current.
    fn is_answered(&self, key: &ServiceKey) -> bool {
        let now = self.reader.load();
        let service = now.table.as_ref();
        let service = service.and_then(|t| t.service(key.namespace.as_str(), key.service.as_str()));
        service.is_some_and(|service| !service.endpoints.is_empty())
    }

    /// Tells what would become of the services that a list speaks of.
    fn shrinkage(
        &self,
        next: &Inputs,
        dirty: &Dirty,
        losses: &BTreeMap<ServiceKey, Loss>,
    ) -> Shrinkage {
        let last = self.reader.load();
        let empty = Table::default();
        let last = last.table.as_ref().unwrap_or(&empty);
        let next = build(last, next, dirty, self.rules);
        Shrinkage::between(last, &next.table, losses, self.guard.rule())
    }

    fn publish(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        let last = self.reader.load();
        let empty = Table::default();
        let last_table = last.table.as_ref().unwrap_or(&empty);
        let built: Built = build(last_table, &self.inputs, &dirty, self.rules);
        self.log.note(last_table, &built.table, &dirty, self.rules);
        if last.is_stale {
            info!("Everything was listed: the saved table is replaced");
        }
        if let Some(snapshot) = self.snapshot.as_mut()
            && (last.is_stale || last.table.is_none() || !dirty.is_empty())
        {
            snapshot.note_change();
        }
        let now = self.publisher.publish(built, unix_seconds());
        if now.generation != last.generation {
            let (generation, serial) = (now.generation, now.serial);
            info!(
                generation,
                serial,
                changed_services = dirty.len(),
                "Published table"
            );
        }
    }
}

/// Replaces what feeds have seen by complete lists.
fn replace(inputs: &mut Inputs, lists: Vec<(Feed, Objects)>) -> Dirty {
    let reset =
        |(feed, objects): (Feed, Objects)| inputs.reset(feed.watch, namespace_of(&feed), objects);
    lists.into_iter().flat_map(reset).collect()
}

fn namespace_of(feed: &Feed) -> Option<&str> {
    feed.namespace.as_ref().map(Namespace::as_str)
}

#[cfg(test)]
mod tests;
