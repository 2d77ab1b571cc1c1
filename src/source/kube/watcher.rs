//! The watcher of one feed: it lists, watches, and detects connections that have gone silent.
//!
//! kube's own `watcher` yields no event for bookmarks and for watches that end or start. Its user cannot distinguish a
//! quiet connection from a broken one. It also drops events that it cannot decode. If an expired version is refused at
//! the start of a watch, it retries forever. This server must know how old its table is, so it implements the loop with
//! the client's requests:
//!
//! - A list is sent when it is complete ([`Requests`]).
//! - Each watch requests that the server end it after `watch_timeout`. A watch that is silent for longer is broken. It is
//!   dropped and reopened, and the last table stays in use.
//! - A watch that fails is retried from the last version seen, with growing pauses and jitter. The feed is relisted
//!   only if the version has expired, is in the future, or an event cannot be decoded.
//! - Lists go through one [limiter](super::limiter). If versions expire repeatedly, the pauses between lists grow too,
//!   although each list succeeds.
//! - Each watch is relisted every `relist`, with jitter, one after the other. This repairs missed events. The watch continues
//!   meanwhile, whether or not the list succeeds, and its events are newer than the list ([`Overlap`]).
//! - A list that lacks most objects is not applied, and is repeated when [`Feeds`] requests it.
//! - Activity of a feed is a complete list, an opened watch, or an event. A refused, broken or endless response is not
//!   activity, so the age of the table grows until the next success. It also grows while the first list is read, which
//!   takes seconds for 100,000 objects.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::pin_mut;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info};

use super::super::backoff::{Backoff, LONGEST_PAUSE, jittered};
use super::super::{Arrival, Feed, Feeds, Update, Updates, log_problem};
use super::failure::{Failure, LIST_GROWTH, LIST_PAUSE, LONGEST_UNREACHABLE, WATCH_PAUSE, within};
use super::lines::{EventKind, WatchEvent};
use super::overlap::Overlap;
use super::requests::{ApiServer, Requests, VersionedList};
use super::timing::WatchTiming;
use crate::table::links::UnknownReason;
use crate::table::store::Objects;

/// The time after `watch_timeout` when a watch that did not end counts as broken. A busy API server may need it.
const WATCH_GRACE: Duration = Duration::from_secs(10);
/// The shortest time between the starts of two watches. It prevents a busy loop if a proxy ends watches at once.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of the requests for a kind that the API server does not define. A failed request for it is cheap, and counts
/// as activity of the feed.
const UNDEFINED_POLL: Duration = Duration::from_secs(30);
/// If no version has expired for this long, the next one that expires is relisted without a pause. It is longer than
/// any pause.
const CALM_PERIOD: Duration = Duration::from_secs(10 * 60);

/// The watcher of one feed.
pub(super) struct Watcher {
    requests: Requests,
    timing: WatchTiming,
    feed: Feed,
    feeds: Feeds,
    updates: Updates,
    overlap: Mutex<Overlap>,
    /// The delay of the next relist beside a watch.
    relist_after: Duration,
    /// The pauses between lists while versions expire repeatedly, and the end of the last one.
    expiries: (Backoff, Option<Instant>),
}

/// The state of a watcher.
enum WatcherState {
    /// The feed must be listed before it can be watched.
    Unlisted,
    /// The API server does not define the kind of the feed.
    Undefined,
    /// The feed is listed, at a version from which it can be watched.
    Listed(String),
    /// The watch has lost events, or cannot continue from its version.
    Gone(Failure),
}

/// How new a list must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freshness {
    /// Not older than the last version seen. The first list may have any version.
    LastVersion,
    /// As new as the request.
    Consistent,
}

/// The position of a watch in the history of the API server.
struct Position {
    /// The last version seen.
    version: String,
    /// Whether the server must confirm that it has reached the version. The connection broke, and the server behind it
    /// may have been replaced or restored from a backup.
    is_doubtful: bool,
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
        // The watches take turns.
        let kinds = feeds.kinds();
        let turn = kinds.iter().position(|one| *one == feed.kind);
        let turn = u32::try_from(turn.unwrap_or_default() + 1).unwrap_or(1);
        let count = u32::try_from(kinds.len()).unwrap_or(1).max(turn);
        Self {
            requests: Requests::new(server, feed.clone()),
            timing,
            feed,
            feeds,
            updates,
            overlap: Mutex::default(),
            relist_after: timing.relist * turn / count,
            expiries: (Backoff::new(LIST_PAUSE, LIST_GROWTH), None),
        }
    }

    /// Watches until it is dropped.
    pub(super) async fn run(mut self) {
        let mut state = WatcherState::Unlisted;
        loop {
            state = self.step(state).await;
        }
    }

    async fn step(&mut self, state: WatcherState) -> WatcherState {
        match state {
            WatcherState::Unlisted => self
                .list(Freshness::LastVersion)
                .await
                .map_or(WatcherState::Undefined, WatcherState::Listed),
            WatcherState::Undefined => WatcherState::Listed(self.wait_for_definition().await),
            WatcherState::Listed(version) => {
                let after = self.relist_after;
                self.relist_after = self.timing.relist;
                tokio::select! {
                    gone = self.watch_repeatedly(version) => WatcherState::Gone(gone),
                    () = self.relist_repeatedly(after) => WatcherState::Undefined,
                }
            }
            WatcherState::Gone(failure) => {
                info!(reason = %failure, "Relisting");
                self.pause_after_expiry(&failure).await;
                WatcherState::Unlisted
            }
        }
    }

    /// Waits before the list that follows an expired version, unless no other version has expired for [`CALM_PERIOD`].
    async fn pause_after_expiry(&mut self, failure: &Failure) {
        let (pauses, last) = &mut self.expiries;
        if last.is_some_and(|last| last.elapsed() < CALM_PERIOD) {
            let pause = pauses.next(LONGEST_PAUSE);
            self.note_watch_failure(failure);
            sleep(pause).await;
        } else {
            pauses.reset();
        }
        self.expiries.1 = Some(Instant::now());
    }

    // --- lists ---

    /// Lists until a list succeeds, and sends it. Returns its version, or `None` if the API server does not define the
    /// kind. A watch may continue meanwhile.
    async fn list(&self, freshness: Freshness) -> Option<String> {
        let mut backoff = Backoff::new(LIST_PAUSE, LIST_GROWTH);
        let listed = loop {
            let list = self.list_once(freshness);
            match self.requests.server.limiter.list(list).await {
                Ok(listed) => break listed,
                Err(failure) => {
                    self.overlap.lock().abandon();
                    self.note_list_failure(&failure, &mut backoff).await;
                }
            }
        };
        // Events that arrive while the channel is full are merged into the list, too.
        let permit = self.updates.reserve().await;
        let (objects, version) = match listed {
            Some((mut objects, version)) => {
                self.overlap.lock().finish(&mut objects, &version);
                (objects, Some(version))
            }
            None => (Objects::new(), None),
        };
        let undefined = version.is_none().then_some(UnknownReason::Undefined);
        self.feeds.note_definition(&self.feed, undefined);
        self.feeds.note_listed(&self.feed);
        // Without a receiver, this watcher is dropped.
        if let Ok(permit) = permit {
            permit.send(Update::Reset {
                lists: vec![(self.feed.clone(), objects)],
                can_be_doubted: freshness == Freshness::LastVersion,
            });
        }
        version
    }

    /// Lists once. If the last version is gone, the list is consistent.
    async fn list_once(&self, freshness: Freshness) -> Result<Option<VersionedList>, Failure> {
        let last = self.overlap.lock().begin();
        if freshness == Freshness::LastVersion {
            match self.requests.list(Some(&last)).await {
                Err(Failure::Gone(reason)) => info!(reason, "Listing consistently"),
                listed => return listed,
            }
        }
        self.requests.list(None).await
    }

    /// Lists until the API server defines the kind. Returns the version of the list.
    async fn wait_for_definition(&self) -> String {
        let interval = self.timing.relist.min(UNDEFINED_POLL);
        info!("The API server does not define this kind; asking again every {interval:?}");
        loop {
            let due = Instant::now() + jittered(interval);
            let freshness = self.wait_for_relist(due).await;
            if let Some(version) = self.list(freshness).await {
                return version;
            }
        }
    }

    /// Relists whenever a relist is due, beside the watch. Ends if the API server does not define the kind.
    async fn relist_repeatedly(&self, mut after: Duration) {
        loop {
            let due = Instant::now() + jittered(after);
            let freshness = self.wait_for_relist(due).await;
            if self.list(freshness).await.is_none() {
                return;
            }
            after = self.timing.relist;
        }
    }

    /// Waits until a relist is due, or is requested. A requested one is consistent.
    async fn wait_for_relist(&self, due: Instant) -> Freshness {
        tokio::select! {
            () = sleep_until(due) => Freshness::LastVersion,
            () = self.feeds.wait_for_relist(&self.feed) => {
                self.feeds.clear_relist(&self.feed);
                Freshness::Consistent
            }
        }
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

    /// Watches from `version`, one watch after the other, until the version is gone or an event is lost.
    async fn watch_repeatedly(&self, version: String) -> Failure {
        let mut backoff = Backoff::new(WATCH_PAUSE, 2);
        let mut position = Position {
            version,
            is_doubtful: false,
        };
        loop {
            let started = Instant::now();
            let Err(failure) = self.watch(&mut position).await;
            let duration = started.elapsed();
            // For the client, a broken connection looks like the end of the watch.
            let is_ended = matches!(failure, Failure::Ended(_));
            let is_complete = is_ended && duration >= self.requested_duration().mul_f64(0.9);
            if is_complete || duration > LONGEST_UNREACHABLE {
                backoff.reset();
            }
            position.is_doubtful |= !is_complete;
            let rest = WATCH_INTERVAL.saturating_sub(duration);
            let pause = match &failure {
                Failure::Gone(_) | Failure::Unreadable(_) => return failure,
                _ if is_complete => rest,
                _ if is_ended => failure.watch_pause(&mut backoff).max(rest),
                _ => {
                    self.note_watch_failure(&failure);
                    failure.watch_pause(&mut backoff)
                }
            };
            sleep(pause).await;
        }
    }

    /// Opens a watch at `position` and applies its events until it stops. If the position is doubtful, checks beside
    /// the watch whether the server has reached it. Until then the watch does not count as activity.
    async fn watch(&self, position: &mut Position) -> Result<Infallible, Failure> {
        let limit = self.timing.watch_timeout + WATCH_GRACE;
        let opening = self
            .requests
            .watch(&position.version, self.requested_duration());
        let mut events = within(limit, opening)
            .await
            .map_err(|failure| match failure {
                // The CRD was removed, or no longer has the version.
                Failure::Refused {
                    code: 404, message, ..
                } if self.requests.is_optional() => Failure::Gone(message),
                other => other,
            })?;
        let check = self.check_version(position.version.clone());
        pin_mut!(check);
        loop {
            if !position.is_doubtful {
                self.feeds.note_activity(&self.feed);
            }
            tokio::select! {
                event = within(limit, events.next()) => match event? {
                    Some(event) => self.apply(event, position).await,
                    None => return Err(Failure::Ended("the watch ended".to_owned())),
                },
                checked = &mut check, if position.is_doubtful => {
                    checked?;
                    position.is_doubtful = false;
                }
            }
        }
    }

    /// Applies an event and advances `position`.
    async fn apply(&self, event: WatchEvent<'_>, position: &mut Position) {
        let (kind, object) = (self.feed.kind, &event.object);
        let arrival = match event.kind {
            EventKind::Applied => Arrival::now().of_object(object),
            EventKind::Deleted | EventKind::Bookmark => Arrival::now(),
        };
        let version = object.resource_version();
        if let Some(version) = version {
            position.version.replace_range(.., version);
        }
        let change = self.overlap.lock().note_event(version, event.change(kind));
        if let Some((key, object)) = change {
            let update = Update::Apply {
                kind,
                key,
                object,
                arrival,
            };
            // Without a receiver, this watcher is dropped.
            _ = self.updates.send(update).await;
        }
    }

    /// Waits until the server has confirmed that it has reached `version`.
    async fn check_version(&self, version: String) -> Result<(), Failure> {
        let mut backoff = Backoff::new(LIST_PAUSE, LIST_GROWTH);
        loop {
            let check = self.requests.check_version(&version);
            let failure = match self.requests.server.limiter.check(check).await {
                Err(failure) if !matches!(failure, Failure::Gone(_)) => failure,
                checked => return checked,
            };
            self.note_watch_failure(&failure);
            // After a server-wide failure, the limiter waits.
            if !failure.is_server_wide() {
                sleep(failure.pause(&mut backoff)).await;
            }
        }
    }

    /// Returns the duration that is requested for a watch, in whole seconds.
    fn requested_duration(&self) -> Duration {
        Duration::from_secs(self.timing.watch_timeout.as_secs().max(1))
    }

    /// Reports a watch that stopped: in the log once, and in `/readyz` until there is activity again.
    fn note_watch_failure(&self, failure: &Failure) {
        match self.feeds.note_failure(&self.feed, &failure.to_string()) {
            Some(problem) => log_problem(&problem),
            None => debug!(error = %failure, "Watch failed again"),
        }
    }
}
