//! One feed's connection to the API server: list, watch, and notice when it has gone quiet.
//!
//! kube's own `watcher` yields no event for bookmarks, finished watches and new ones, so nobody outside can tell a quiet
//! connection from a dead one; it loses an event that it cannot decode, and retries an expired version that is refused
//! at the start of a watch for ever. For this server the difference decides what people are told about a database, so
//! the loop is written out here, on the client's own requests:
//!
//! - nothing of a list is sent before its end ([`Requests`]);
//! - the server is asked to end every watch after `watch_timeout`. A connection without any sign of life for longer is
//!   dead: it is dropped and made anew, and the last table stays;
//! - what breaks is retried with growing, jittered pauses, from the last version seen, and listed again only if the
//!   server says that the version is gone or yet to come, or if an event could not be read;
//! - lists go through one [limiter](super::limiter). Versions that are gone again and again are listed again with growing
//!   pauses, too, although each list succeeds;
//! - every `relist`, jittered, the next of the watches is relisted, which heals gaps that nobody noticed. The watch goes
//!   on meanwhile, whatever becomes of the list, and what comes on it is newer than the list ([`Overlap`]);
//! - a list that is held (`--shrink-guard`) is followed by another one when [`Feeds`] says so;
//! - signs of life are a list that came whole, a watch that was opened, and what comes on it. What is refused, breaks off
//!   or never ends is none, so that the table's age grows for as long as nobody knows whether it is true. It also grows
//!   while a first list is read, which takes seconds for 100,000 objects.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _, pin_mut};
use kube::core::WatchEvent;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info, warn};

use super::super::backoff::{Backoff, LONGEST, jittered};
use super::super::{Feed, Feeds, Update, Updates};
use super::Timing;
use super::failure::{Failure, LIST_GROWTH, LIST_PAUSE, LONGEST_UNREACHABLE, Stopped, WATCH_PAUSE};
use super::overlap::Overlap;
use super::requests::{ApiServer, Listed, Requests};
use crate::mirror::{KubeObject, Object, ObjectKey, Watch};

/// How long after `watch_timeout` a watch that did not end counts as dead: what a busy API server may need.
const WATCH_GRACE: Duration = Duration::from_secs(5);
/// The least time between the starts of two watches: a proxy that ends them at once must not make us spin.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// For how long no version must have been gone before one that is gone is listed again at once. Longer than any pause.
const CALM: Duration = Duration::from_secs(10 * 60);

/// One feed's connection.
pub(super) struct Watcher {
    requests: Requests,
    timing: Timing,
    feed: Feed,
    feeds: Feeds,
    updates: Updates,
    overlap: Mutex<Overlap>,
}

/// How far a feed was followed.
struct Position {
    /// The version that was seen last.
    version: String,
    trust: Trust,
}

/// Whether the server is known to have come as far as a version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// It said so itself.
    Certain,
    /// The connection broke, and what it was to may have become something else meanwhile.
    Doubtful,
}

// === impl Watcher ===

impl Watcher {
    /// Makes a watcher of one feed.
    pub(super) fn new(
        server: Arc<ApiServer>,
        timing: Timing,
        feed: Feed,
        feeds: Feeds,
        updates: Updates,
    ) -> Self {
        Self {
            requests: Requests::new(server, feed.clone()),
            timing,
            feed,
            feeds,
            updates,
            overlap: Mutex::default(),
        }
    }

    /// Watches for ever, or until nobody listens any more.
    pub(super) async fn run(self) {
        let mut pauses = Backoff::new(LIST_PAUSE, LIST_GROWTH);
        let mut lost: Option<Instant> = None;
        let mut relist_after = self.first_relist();
        loop {
            let Some(version) = self.first_list().await else {
                return;
            };
            let stopped = tokio::select! {
                stopped = self.watches(version) => stopped,
                stopped = self.relists(relist_after) => stopped,
            };
            let Stopped::Gone(reason) = &stopped else {
                return;
            };
            info!(reason, "Listing anew");
            if lost.is_some_and(|lost| lost.elapsed() < CALM) {
                self.watch_failed(&stopped);
                sleep(pauses.next(LONGEST)).await;
            } else {
                pauses.reset();
            }
            lost = Some(Instant::now());
            relist_after = self.cycle();
        }
    }

    // --- lists ---

    /// Lists while there is no version to watch from, until a list succeeds; returns its version, or `None` if nobody
    /// listens any more.
    async fn first_list(&self) -> Option<String> {
        *self.overlap.lock() = Overlap::default();
        let mut backoff = Backoff::new(LIST_PAUSE, LIST_GROWTH);
        loop {
            let list = self.requests.list();
            match self.requests.server.limiter.list(list).await {
                Ok((objects, version)) => {
                    self.feeds.listed(&self.feed);
                    let update = Update::Reset(vec![(self.feed.clone(), objects)]);
                    self.send(update).await.ok()?;
                    return Some(version);
                }
                Err(failure) => self.list_failed(&failure, &mut backoff).await,
            }
        }
    }

    /// Relists when it is time to, until the process ends. The watch goes on meanwhile.
    async fn relists(&self, after: Duration) -> Stopped {
        let mut due = Instant::now() + jittered(after);
        loop {
            tokio::select! {
                () = sleep_until(due) => {}
                () = self.feeds.relist_due(&self.feed) => self.feeds.take_relist(&self.feed),
            }
            let (objects, version) = self.relist().await;
            // What comes while there is no room belongs to the list, too.
            let Ok(room) = self.updates.reserve().await else {
                return Stopped::Closed;
            };
            let objects = self.overlap.lock().end(objects, &version);
            room.send(Update::Reset(vec![(self.feed.clone(), objects)]));
            self.feeds.listed(&self.feed);
            due = Instant::now() + jittered(self.cycle());
        }
    }

    /// Lists while the watch goes on, until a list succeeds.
    async fn relist(&self) -> Listed {
        let mut backoff = Backoff::new(LIST_PAUSE, LIST_GROWTH);
        loop {
            let list = async {
                self.overlap.lock().begin();
                self.requests.list().await
            };
            match self.requests.server.limiter.list(list).await {
                Ok(listed) => return listed,
                Err(failure) => {
                    self.overlap.lock().give_up();
                    self.list_failed(&failure, &mut backoff).await;
                }
            }
        }
    }

    /// Returns when the first relist is due: the watches take turns, one every `relist`.
    fn first_relist(&self) -> Duration {
        let turn = Watch::ALL.iter().position(|one| *one == self.feed.watch);
        self.timing.relist * u32::try_from(turn.unwrap_or_default() + 1).unwrap_or(1)
    }

    /// Returns how long it takes until every watch had its turn.
    fn cycle(&self) -> Duration {
        self.timing.relist * u32::try_from(Watch::ALL.len()).unwrap_or(1)
    }

    /// Tells of a list that failed, and waits if the reason is the feed's own. Otherwise the limiter does.
    async fn list_failed(&self, failure: &Failure, backoff: &mut Backoff) {
        let problem = failure.to_string();
        if self.feeds.list_failed(&self.feed, &problem) {
            warn!(
                error = problem,
                "List failed: keeping what was seen, and trying again"
            );
        } else {
            debug!(error = problem, "Still no list");
        }
        if !failure.is_of_the_server() {
            sleep(failure.pause(backoff)).await;
        }
    }

    // --- watches ---

    /// Watches from `version`, again and again, until that version is gone or nobody listens any more.
    async fn watches(&self, version: String) -> Stopped {
        let mut backoff = Backoff::new(WATCH_PAUSE, 2);
        let mut position = Position::at(version);
        loop {
            let started = Instant::now();
            let stopped = self.watch(&mut position).await;
            let lasted = started.elapsed();
            let is_whole = self.is_whole(&stopped, lasted);
            if is_whole || lasted > LONGEST_UNREACHABLE {
                backoff.reset();
            }
            if !is_whole {
                position.trust = Trust::Doubtful;
            }
            let rest = WATCH_INTERVAL.saturating_sub(lasted);
            let pause = match &stopped {
                Stopped::Closed | Stopped::Gone(_) => return stopped,
                Stopped::Ended if is_whole => rest,
                Stopped::Ended => stopped.pause(&mut backoff).max(rest),
                Stopped::Failed(_) => {
                    self.watch_failed(&stopped);
                    stopped.pause(&mut backoff)
                }
            };
            sleep(pause).await;
        }
    }

    /// Tells whether a watch ended when it was asked to. The client tells a connection that broke as the end of the
    /// watch, too.
    fn is_whole(&self, stopped: &Stopped, lasted: Duration) -> bool {
        matches!(stopped, Stopped::Ended) && lasted >= self.asked_to_last().mul_f64(0.9)
    }

    /// Follows a watch from `position`, which moves along, until it stops. If it is doubtful whether the server has come as
    /// far, asks; the watch does not count as activity before.
    async fn watch(&self, position: &mut Position) -> Stopped {
        let seconds = u32::try_from(self.asked_to_last().as_secs()).unwrap_or(u32::MAX);
        let opening = self.requests.watch(&position.version, seconds);
        let events = match timeout(self.silence(), opening).await {
            Ok(Ok(events)) => events,
            Ok(Err(failure)) => return failure.into(),
            Err(_) => return Failure::Silent(self.silence()).into(),
        };
        let check = self.check(position.version.clone());
        pin_mut!(events, check);
        loop {
            if !position.is_doubtful() {
                self.feeds.alive(&self.feed);
            }
            let taken = tokio::select! {
                event = self.next(&mut events) => match event {
                    Ok(event) => self.take(event, position).await,
                    Err(stopped) => Err(stopped),
                },
                checked = &mut check, if position.is_doubtful() => {
                    checked.map(|()| position.trust = Trust::Certain)
                }
            };
            if let Err(stopped) = taken {
                return stopped;
            }
        }
    }

    /// Waits for the next event of a watch.
    async fn next(
        &self,
        events: &mut (impl Stream<Item = kube::Result<WatchEvent<Value>>> + Unpin),
    ) -> Result<WatchEvent<Value>, Stopped> {
        let silence = self.silence();
        let next = timeout(silence, events.next()).await;
        match next.map_err(|_| Failure::Silent(silence))? {
            None => Err(Stopped::Ended),
            Some(Ok(event)) => Ok(event),
            Some(Err(kube::Error::SerdeError(error))) => Err(Stopped::Gone(format!(
                "an event could not be read: {error}"
            ))),
            Some(Err(error)) => Err(Failure::from(error).into()),
        }
    }

    /// Takes an event, and moves `position` along. Fails if it says that watching ends.
    async fn take(&self, event: WatchEvent<Value>, position: &mut Position) -> Result<(), Stopped> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let json = object.to_string();
                let object = KubeObject::read(&json);
                position.move_to(&object);
                self.apply(&object, self.requests.reduce(&object)).await
            }
            WatchEvent::Deleted(object) => {
                let json = object.to_string();
                let object = KubeObject::read(&json);
                position.move_to(&object);
                self.apply(&object, None).await
            }
            WatchEvent::Bookmark(bookmark) => {
                position.version = bookmark.metadata.resource_version;
                Ok(())
            }
            WatchEvent::Error(status) => Err(Failure::refused(*status).into()),
        }
    }

    /// Asks whether the server has come as far as `version`, until it says so.
    async fn check(&self, version: String) -> Result<(), Stopped> {
        let mut backoff = Backoff::new(LIST_PAUSE, LIST_GROWTH);
        loop {
            let check = self.requests.check(&version);
            match self.requests.server.limiter.check(check).await {
                Ok(()) => return Ok(()),
                Err(Failure::Refused(410, reason)) => return Err(Stopped::Gone(reason)),
                Err(failure) => {
                    let is_of_the_server = failure.is_of_the_server();
                    let pause = failure.pause(&mut backoff);
                    self.watch_failed(&failure.into());
                    // Otherwise the limiter waits.
                    if !is_of_the_server {
                        sleep(pause).await;
                    }
                }
            }
        }
    }

    /// Returns how long nothing may be heard on a watch.
    fn silence(&self) -> Duration {
        self.timing.watch_timeout + WATCH_GRACE
    }

    /// Returns when the server is asked to end a watch: whole seconds.
    fn asked_to_last(&self) -> Duration {
        Duration::from_secs(self.timing.watch_timeout.as_secs().max(1))
    }

    /// Tells of a watch that stopped: on the log when it is news, in `/readyz` as long as it lasts.
    fn watch_failed(&self, stopped: &Stopped) {
        let problem = stopped.to_string();
        if self.feeds.failed(&self.feed, &problem) {
            warn!(
                error = problem,
                "Lost the watch: keeping what was seen, and trying again"
            );
        } else {
            debug!(error = problem, "Still no watch");
        }
    }

    // --- updates ---

    /// Sends that an object of the feed is there as reduced, or that it is not there.
    async fn apply(
        &self,
        object: &KubeObject<'_>,
        reduced: Option<(ObjectKey, Object)>,
    ) -> Result<(), Stopped> {
        let (key, reduced) = match reduced {
            Some((key, reduced)) => (key, Some(reduced)),
            None => match object.key() {
                Some(key) => (key, None),
                None => return Ok(()), // an object without a name cannot be anything to us
            },
        };
        let version = number(object);
        if !self.overlap.lock().note(version, &key, reduced.as_ref()) {
            return Ok(());
        }
        self.send(Update::Apply {
            watch: self.feed.watch,
            key,
            object: reduced,
        })
        .await
    }

    async fn send(&self, update: Update) -> Result<(), Stopped> {
        self.updates.send(update).await.map_err(|_| Stopped::Closed)
    }
}

// === impl Position ===

impl Position {
    /// Starts at the version of a list.
    fn at(version: String) -> Self {
        Self {
            version,
            trust: Trust::Certain,
        }
    }

    /// Moves along to the version of an object that was heard of.
    fn move_to(&mut self, object: &KubeObject<'_>) {
        if let Some(seen) = object.resource_version() {
            self.version.replace_range(.., seen);
        }
    }

    /// Tells whether the server has to be asked how far it has come.
    fn is_doubtful(&self) -> bool {
        self.trust == Trust::Doubtful
    }
}

/// Returns the version of an object, if it is a number.
fn number(object: &KubeObject<'_>) -> Option<u64> {
    object.resource_version()?.parse().ok()
}
