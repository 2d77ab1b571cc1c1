//! The watcher of one feed: it lists, watches, and detects connections that have gone silent.
//!
//! kube's own `watcher` yields no event for bookmarks and for watches that end or start. Its user cannot distinguish a
//! quiet connection from a dead one. It also drops events that it cannot decode. If an expired version is refused at
//! the start of a watch, it retries forever. This server must know how old its table is, so it implements the loop with
//! the client's requests:
//!
//! - A list is sent when it is complete ([`Requests`]).
//! - Each watch requests that the server end it after `watch_timeout`. A watch that is silent for longer is dead. It is
//!   dropped and reopened, and the last table stays in use.
//! - A watch that fails is retried from the last version seen, with growing pauses and jitter. The feed is relisted
//!   only if the version has expired, is in the future, or an event cannot be decoded.
//! - Lists go through one [limiter](super::limiter). If versions expire repeatedly, the pauses between lists grow too,
//!   although each list succeeds.
//! - One watch in turn is relisted every `relist`, with jitter. This repairs missed events. The watch continues
//!   meanwhile, whether or not the list succeeds, and its events are newer than the list ([`Overlap`]).
//! - A list that is held (`--shrink-guard`) is repeated when [`Feeds`] requests it.
//! - Activity of a feed is a complete list, an opened watch, or an event. A refused, broken or endless response is not
//!   activity, so the age of the table grows until the next success. It also grows while the first list is read, which
//!   takes seconds for 100,000 objects.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _, pin_mut};
use kube::core::WatchEvent;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info};

use super::super::backoff::{Backoff, jittered};
use super::super::{Arrival, Feed, Feeds, Update, Updates, log_problem};
use super::failure::{
    Failure, LIST_GROWTH, LIST_PAUSE, LONGEST_UNREACHABLE, StopReason, WATCH_PAUSE,
};
use super::overlap::Overlap;
use super::position::{Expiries, Position, Trust};
use super::requests::{ApiServer, Requests, VersionedList};
use super::timing::WatchTiming;
use crate::model::{KubeObject, Object, ObjectKey, parse};
use crate::table::links::UnknownReason;

/// The time after `watch_timeout` when a watch that did not end counts as dead. A busy API server may need it.
const WATCH_GRACE: Duration = Duration::from_secs(5);
/// The shortest time between the starts of two watches. It prevents a busy loop if a proxy ends watches at once.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of the requests for a kind that the API server does not define. A failed request for it is cheap, and counts
/// as activity of the feed.
const UNDEFINED_POLL: Duration = Duration::from_secs(30);

/// The watcher of one feed.
pub(super) struct Watcher {
    requests: Requests,
    timing: WatchTiming,
    feed: Feed,
    feeds: Feeds,
    updates: Updates,
    overlap: Mutex<Overlap>,
}

// === impl Watcher ===

impl Watcher {
    /// Creates the watcher of a feed.
    pub(super) fn new(
        server: Arc<ApiServer>,
        timing: WatchTiming,
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

    /// Watches until the receiver of the updates is closed.
    pub(super) async fn run(self) {
        let mut expiries = Expiries::new();
        let mut relist_after = self.first_relist_delay();
        while let Some(version) = self.list_defined().await {
            let stopped = tokio::select! {
                stopped = self.watch_repeatedly(version) => stopped,
                stopped = self.relist_repeatedly(relist_after) => stopped,
            };
            let StopReason::Gone(reason) = &stopped else {
                return;
            };
            info!(reason, "Relisting");
            if let Some(pause) = expiries.next_pause() {
                self.note_watch_failure(&stopped);
                sleep(pause).await;
            }
            relist_after = self.relist_cycle();
        }
    }

    // --- lists ---

    /// Lists until the API server defines the kind and a list succeeds. Returns its version, or `None` if the receiver
    /// of the updates is closed.
    async fn list_defined(&self) -> Option<String> {
        let mut is_undefined = false;
        loop {
            let version = self.first_list().await?;
            if !version.is_empty() {
                return Some(version);
            }
            let interval = self.timing.relist.min(UNDEFINED_POLL);
            if !std::mem::replace(&mut is_undefined, true) {
                info!("The API server does not define this kind; asking again every {interval:?}");
            }
            self.wait_for_definition(interval).await.ok()?;
        }
    }

    /// Lists until a list succeeds. Returns its version, which is empty if the API server does not define the kind, or
    /// `None` if the receiver of the updates is closed.
    async fn first_list(&self) -> Option<String> {
        *self.overlap.lock() = Overlap::default();
        let mut backoff = Backoff::new(LIST_PAUSE, LIST_GROWTH);
        loop {
            let list = self.requests.list();
            match self.requests.server.limiter.list(list).await {
                Ok((objects, version)) => {
                    self.feeds.note_listed(&self.feed);
                    let is_undefined = version.is_empty();
                    let undefined = is_undefined.then_some(UnknownReason::Undefined);
                    self.feeds.note_definition(&self.feed, undefined);
                    let update = Update::Reset(vec![(self.feed.clone(), objects)]);
                    self.send(update).await.ok()?;
                    return Some(version);
                }
                Err(failure) => self.note_list_failure(&failure, &mut backoff).await,
            }
        }
    }

    /// Waits until it is time to ask again for a kind that the API server does not define. Fails if the receiver of the
    /// updates is closed.
    async fn wait_for_definition(&self, interval: Duration) -> Result<(), StopReason> {
        tokio::select! {
            () = sleep(jittered(interval)) => Ok(()),
            () = self.feeds.wait_for_relist(&self.feed) => {
                self.feeds.clear_relist(&self.feed);
                Ok(())
            }
            () = self.updates.closed() => Err(StopReason::Closed),
        }
    }

    /// Relists whenever a relist is due, beside the watch. Ends if the receiver of the updates is closed.
    async fn relist_repeatedly(&self, after: Duration) -> StopReason {
        let mut due = Instant::now() + jittered(after);
        loop {
            tokio::select! {
                () = sleep_until(due) => {}
                () = self.feeds.wait_for_relist(&self.feed) => self.feeds.clear_relist(&self.feed),
            }
            let (objects, version) = self.relist().await;
            if version.is_empty() {
                return StopReason::Gone("the API server does not define this kind".to_owned());
            }
            // Events that arrive while the channel is full are merged into the list, too.
            let Ok(permit) = self.updates.reserve().await else {
                return StopReason::Closed;
            };
            let objects = self.overlap.lock().finish(objects, &version);
            permit.send(Update::Reset(vec![(self.feed.clone(), objects)]));
            self.feeds.note_listed(&self.feed);
            due = Instant::now() + jittered(self.relist_cycle());
        }
    }

    /// Lists beside the watch until a list succeeds.
    async fn relist(&self) -> VersionedList {
        let mut backoff = Backoff::new(LIST_PAUSE, LIST_GROWTH);
        loop {
            let list = async {
                self.overlap.lock().begin();
                self.requests.list().await
            };
            match self.requests.server.limiter.list(list).await {
                Ok(list) => return list,
                Err(failure) => {
                    self.overlap.lock().abandon();
                    self.note_list_failure(&failure, &mut backoff).await;
                }
            }
        }
    }

    /// Returns the delay of the first relist. The watches take turns, one every `relist`.
    fn first_relist_delay(&self) -> Duration {
        let watches = self.feeds.watches();
        let turn = watches.iter().position(|one| *one == self.feed.watch);
        self.timing.relist * u32::try_from(turn.unwrap_or_default() + 1).unwrap_or(1)
    }

    /// Returns the time in which every watch is relisted once.
    fn relist_cycle(&self) -> Duration {
        self.timing.relist * u32::try_from(self.feeds.watches().len()).unwrap_or(1)
    }

    /// Reports a failed list. Waits if only this feed is affected; otherwise the limiter waits.
    async fn note_list_failure(&self, failure: &Failure, backoff: &mut Backoff) {
        match self
            .feeds
            .note_list_failure(&self.feed, &failure.to_string())
        {
            Some(problem) => log_problem(&problem),
            None => debug!(error = %failure, "List failed again"),
        }
        if !failure.is_server_wide() {
            sleep(failure.pause(backoff)).await;
        }
    }

    // --- watches ---

    /// Watches from `version`, one watch after the other, until the version is gone or the receiver of the updates is
    /// closed.
    async fn watch_repeatedly(&self, version: String) -> StopReason {
        let mut backoff = Backoff::new(WATCH_PAUSE, 2);
        let mut position = Position::new(version);
        loop {
            let started = Instant::now();
            let stopped = self.watch(&mut position).await;
            let duration = started.elapsed();
            let is_complete = self.is_complete(&stopped, duration);
            if is_complete || duration > LONGEST_UNREACHABLE {
                backoff.reset();
            }
            if !is_complete {
                position.trust = Trust::Doubtful;
            }
            let rest = WATCH_INTERVAL.saturating_sub(duration);
            let pause = match &stopped {
                StopReason::Closed | StopReason::Gone(_) => return stopped,
                StopReason::Ended if is_complete => rest,
                StopReason::Ended => stopped.pause(&mut backoff).max(rest),
                StopReason::Failed(_) => {
                    self.note_watch_failure(&stopped);
                    stopped.pause(&mut backoff)
                }
            };
            sleep(pause).await;
        }
    }

    /// Returns whether a watch lasted as long as requested. For the client, a broken connection looks like the end of
    /// the watch.
    fn is_complete(&self, stopped: &StopReason, duration: Duration) -> bool {
        matches!(stopped, StopReason::Ended) && duration >= self.requested_duration().mul_f64(0.9)
    }

    /// Opens a watch at `position` and applies its events until it stops. If the position is doubtful, checks beside
    /// the watch whether the server has reached it. Until then the watch does not count as activity.
    async fn watch(&self, position: &mut Position) -> StopReason {
        let seconds = u32::try_from(self.requested_duration().as_secs()).unwrap_or(u32::MAX);
        let opening = self.requests.watch(&position.version, seconds);
        let events = match timeout(self.silence_limit(), opening).await {
            Ok(Ok(events)) => events,
            // The CRD was removed, or no longer has the version.
            Ok(Err(Failure::Refused(404, reason))) if self.requests.is_optional() => {
                return StopReason::Gone(reason);
            }
            Ok(Err(failure)) => return failure.into(),
            Err(_) => return Failure::Silent(self.silence_limit()).into(),
        };
        let check = self.check_version(position.version.clone());
        pin_mut!(events, check);
        loop {
            if !position.is_doubtful() {
                self.feeds.note_activity(&self.feed);
            }
            let result = tokio::select! {
                event = self.next_event(&mut events) => match event {
                    Ok(event) => self.apply_event(event, position).await,
                    Err(stopped) => Err(stopped),
                },
                checked = &mut check, if position.is_doubtful() => {
                    checked.map(|()| position.trust = Trust::Certain)
                }
            };
            if let Err(stopped) = result {
                return stopped;
            }
        }
    }

    /// Waits for the next event of a watch.
    async fn next_event(
        &self,
        events: &mut (impl Stream<Item = Result<WatchEvent<Value>, StopReason>> + Unpin),
    ) -> Result<WatchEvent<Value>, StopReason> {
        let limit = self.silence_limit();
        let next = timeout(limit, events.next())
            .await
            .map_err(|_| Failure::Silent(limit))?;
        next.unwrap_or(Err(StopReason::Ended))
    }

    /// Applies an event and advances `position`. Fails if the event ends the watch.
    async fn apply_event(
        &self,
        event: WatchEvent<Value>,
        position: &mut Position,
    ) -> Result<(), StopReason> {
        let arrival = Arrival::now();
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let json = object.to_string();
                let object = KubeObject::read(&json);
                position.advance_to(&object);
                let reduced = parse::reduce(self.feed.watch, &object);
                let arrival = arrival.of_object(self.feed.watch, &object);
                self.send_object(&object, reduced, arrival).await
            }
            WatchEvent::Deleted(object) => {
                let json = object.to_string();
                let object = KubeObject::read(&json);
                position.advance_to(&object);
                self.send_object(&object, None, arrival).await
            }
            WatchEvent::Bookmark(bookmark) => {
                position.version = bookmark.metadata.resource_version;
                Ok(())
            }
            WatchEvent::Error(status) => Err(Failure::from_status(*status).into()),
        }
    }

    /// Waits until the server has confirmed that it has reached `version`.
    async fn check_version(&self, version: String) -> Result<(), StopReason> {
        let mut backoff = Backoff::new(LIST_PAUSE, LIST_GROWTH);
        loop {
            let check = self.requests.check_version(&version);
            match self.requests.server.limiter.check(check).await {
                Ok(()) => return Ok(()),
                Err(failure @ Failure::Refused(410, _)) => return Err(failure.into()),
                Err(failure) => {
                    let is_server_wide = failure.is_server_wide();
                    let pause = failure.pause(&mut backoff);
                    self.note_watch_failure(&failure.into());
                    // After a server-wide failure, the limiter waits.
                    if !is_server_wide {
                        sleep(pause).await;
                    }
                }
            }
        }
    }

    /// Returns how long a watch may be silent.
    fn silence_limit(&self) -> Duration {
        self.timing.watch_timeout + WATCH_GRACE
    }

    /// Returns the duration that is requested for a watch, in whole seconds.
    fn requested_duration(&self) -> Duration {
        Duration::from_secs(self.timing.watch_timeout.as_secs().max(1))
    }

    /// Reports a watch that stopped: in the log once, and in `/readyz` until there is activity again.
    fn note_watch_failure(&self, stopped: &StopReason) {
        match self.feeds.note_failure(&self.feed, &stopped.to_string()) {
            Some(problem) => log_problem(&problem),
            None => debug!(error = %stopped, "Watch failed again"),
        }
    }

    // --- updates ---

    /// Sends an object of the feed, reduced, or its deletion.
    async fn send_object(
        &self,
        object: &KubeObject<'_>,
        reduced: Option<(ObjectKey, Object)>,
        arrival: Arrival,
    ) -> Result<(), StopReason> {
        let (key, reduced) = match reduced {
            Some((key, reduced)) => (key, Some(reduced)),
            None => match object.key() {
                Some(key) => (key, None),
                None => return Ok(()), // an object without a name cannot be identified
            },
        };
        let version = numeric_version(object);
        let is_new = self
            .overlap
            .lock()
            .note_event(version, &key, reduced.as_ref());
        if !is_new {
            return Ok(());
        }
        self.send(Update::Apply {
            watch: self.feed.watch,
            key,
            object: reduced,
            arrival,
        })
        .await
    }

    async fn send(&self, update: Update) -> Result<(), StopReason> {
        self.updates
            .send(update)
            .await
            .map_err(|_| StopReason::Closed)
    }
}

/// Returns the resource version of an object, if it is a number.
fn numeric_version(object: &KubeObject<'_>) -> Option<u64> {
    object.resource_version()?.parse().ok()
}
