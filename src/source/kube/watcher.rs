//! The watcher of one feed: it lists, watches, and detects connections that have gone silent.
//!
//! kube's own `watcher` yields no event for bookmarks and for watches that end or start, so its user cannot distinguish a
//! quiet connection from a broken one. It drops events that it cannot decode, has no limit for a line, and retries forever
//! if an expired version is refused at the start of a watch. This server must know how old its table is, so it implements
//! the loop with the client's requests:
//!
//! - List, watch from the version of the list, list again. Nothing runs beside a watch.
//! - A watch ends when its version has expired or is in the future, when an event cannot be decoded, and every [`RELIST`], with
//!   jitter, each watch at another time. The next list repairs events that were missed; the old objects stay until then.
//! - Each watch requests that the server end it after [`WATCH_TIMEOUT`]. A watch that ends continues from the last version
//!   seen, after a failure with growing pauses. A watch that is silent for longer is broken.
//! - A list is sent when it is complete ([`Requests`]), and through one [limiter](super::limiter). If the update loop doubts it,
//!   because it lacks most objects, the next one is consistent, follows after [`DOUBT_PAUSE`], and is applied in any case.
//! - Activity of a feed is a complete list, an event, a bookmark, or an opened watch, unless the one before it was silent. A refused,
//!   broken or endless response is not, so the age of the table grows until the next of these. It also grows while the first list is
//!   read, which takes seconds for 100,000 objects.
//! - A watch without an event or a bookmark for two turns makes its feed list once. If nothing was missed, the next such list is rare.
//!   Else lists replace the watch until it delivers, and that is a problem.
//!
//! All EndpointSlices are in one watch, although most do not matter: selectors would split them into several watches, between
//! which a slice moves when its labels change, in either order. Measured in a release build, with slices as a real API server
//! sends them (managed fields, seven labels, target references); TLS with AES-256-GCM:
//!
//! | | CPU |
//! |---|---|
//! | list of 10,000 ordinary slices with 1, 3, 10 endpoints: decompress | 16, 24, 47 ms |
//! | split and read the list | 49, 57, 84 ms |
//! | decrypt it (1.3, 1.8, 3.8 MB) | less than 1 ms |
//! | a second with 100 changes of slices with 100 endpoints: split and decode lines, read | 3.7 ms |
//! | decrypt them (3.2 MB) | 0.8 ms |
//!
//! Nothing is kept of a slice that does not matter, so a list needs the memory of one slice.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info};

use super::super::backoff::{Backoff, LONGEST_PAUSE, jittered};
use super::super::{Feeds, ObjectChange, Outcome, Update, Updates, log_problem};
use super::limiter::Limiters;
use super::requests::{Requests, VersionedList};
use super::responses::{EventKind, RequestFailure, WatchEvent, within};
use crate::model::{Kind, parse};
use crate::table::links::LinkList;
use crate::table::store::Objects;

/// The requested duration of a watch.
const WATCH_TIMEOUT: Duration = Duration::from_secs(40);
/// The silence after which a connection is broken. A busy API server may need more time to end a watch.
const MAX_SILENCE: Duration = Duration::from_secs(50);
/// The interval, without jitter, at which each watch of a server ends and its feed is listed again.
pub const RELIST: Duration = Duration::from_secs(12 * 60 * 60);
/// Interval of the requests for a kind that the API server does not define. A failed request for it is cheap, and counts
/// as activity of the feed.
const UNDEFINED_POLL: Duration = Duration::from_secs(12);
/// The pause before another list follows one that lacks most objects. After a shorter one, one outage could cause both
/// lists.
const DOUBT_PAUSE: Duration = Duration::from_secs(10);
/// A watch that is lost twice within this time is lost again and again. client-go starts its pauses again after it, too.
const CALM_PERIOD: Duration = Duration::from_secs(2 * 60);
/// What is wrong with a watch that does not deliver.
const DEAF: &str = "the watch delivers nothing, although objects change: a proxy may buffer it; lists replace it meanwhile";
/// The shortest duration of a watch that the API server ended.
const TURN: Duration = Duration::from_secs(36);
/// How many turns without an event or a bookmark make a feed list. The API server sends a bookmark at the end of each watch.
const SILENT_TURNS: u32 = 2;
/// The time from the first list that shows that nothing was missed to the next one, before jitter.
const SECOND_LIST: Duration = Duration::from_secs(5 * 60);
/// The time between later ones. The alert on the age of the table needs less than 15 minutes.
const LATER_LISTS: Duration = Duration::from_secs(12 * 60);
/// The shortest time between lists in place of a watch that does not deliver.
const SHORTEST_LIST_PAUSE: Duration = Duration::from_secs(15);
/// The longest one.
const LONGEST_LIST_PAUSE: Duration = Duration::from_secs(10 * 60);
/// The time between them, in durations of a list.
const LIST_SHARE: u32 = 20;
/// The shortest watch.
const MIN_WATCH: Duration = Duration::from_secs(5);
/// The version of the first list, which may have any version.
const ANY_VERSION: &str = "0";

/// The watcher of one feed.
pub(super) struct Watcher<'s> {
    requests: Requests,
    limiters: &'s Limiters,
    /// As [`RELIST`].
    relist: Duration,
    feeds: &'s Feeds,
    updates: &'s Updates,
    /// The last version seen in a list or an event.
    version: String,
    /// When the next list is due, whatever happens.
    next_list: Instant,
    /// When the watch was last lost.
    lost: Option<Instant>,
    /// How far the current watch came.
    progress: Progress,
    silence: Silence,
}

/// How far a watch came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// It may wait for its turn to check the version.
    Begun,
    /// It was requested, and nothing has arrived.
    Requested,
    /// It delivered an event or a bookmark.
    Heard,
}

/// What is known of a watch that nothing is heard from: a proxy may buffer it, a cache of the API server may be stuck, or nothing
/// changes and bookmarks are lost.
#[derive(Debug, Default)]
struct Silence {
    /// The time of watches without an event or a bookmark, one after the other. A proxy may end each of them early.
    time: Duration,
    /// When the feed is listed again because of the silence. `None`: after [`SILENT_TURNS`].
    due: Option<Instant>,
    /// Whether a list had changes that the watch did not deliver.
    is_deaf: bool,
}

/// Why a feed is listed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// It is time, or the kind was not defined.
    Due,
    /// The last list lacks most objects. The next one is consistent and applied in any case.
    Doubt,
    /// Nothing is heard from the watch.
    Silence,
    /// The watch has lost events, or cannot continue from its version.
    Lost,
    /// As [`Self::Lost`], and it was lost a short time ago, too.
    LostAgain,
}

// === impl Silence ===

impl Silence {
    /// Returns whether the feed must be listed. Watches end at full seconds.
    fn is_due(&self) -> bool {
        let soon = Instant::now() + Duration::from_secs(1);
        let is_over = self.due.is_none_or(|due| due <= soon);
        self.time >= TURN * SILENT_TURNS && is_over
    }

    /// Notes a list because of the silence, which took some time. `is_news`: it had changes that the watch did not deliver.
    fn note_list(&mut self, is_news: bool, duration: Duration) {
        self.is_deaf |= is_news;
        let pause = if self.is_deaf {
            (duration * LIST_SHARE).clamp(SHORTEST_LIST_PAUSE, LONGEST_LIST_PAUSE)
        } else if self.due.is_none() {
            SECOND_LIST
        } else {
            LATER_LISTS
        };
        self.due = Some(Instant::now() + jittered(pause));
    }
}

// === impl Watcher ===

impl<'s> Watcher<'s> {
    /// Creates the watcher of a feed.
    pub(super) fn new(
        requests: Requests,
        limiters: &'s Limiters,
        relist: Duration,
        feeds: &'s Feeds,
        updates: &'s Updates,
    ) -> Self {
        // The kinds take turns.
        let turn = requests.feed.kind as u32 + 1;
        let kinds = Kind::ALL.len() as u32;
        Self {
            requests,
            limiters,
            relist,
            feeds,
            updates,
            version: ANY_VERSION.to_owned(),
            next_list: Instant::now() + jittered(relist * turn / kinds),
            lost: None,
            progress: Progress::Begun,
            silence: Silence::default(),
        }
    }

    /// Lists and watches until it is dropped.
    pub(super) async fn run(mut self) {
        let mut reason = Reason::Due;
        loop {
            reason = self.list_and_watch(reason).await;
        }
    }

    /// Lists, and watches until the feed must be listed again.
    async fn list_and_watch(&mut self, reason: Reason) -> Reason {
        let is_silent = reason == Reason::Silence;
        let started = Instant::now();
        let Some((objects, version)) = self.list(reason).await else {
            self.send_list(Objects::new(), true);
            self.feeds
                .note_listed(&self.requests.feed, Some(LinkList::Undefined));
            sleep(jittered(UNDEFINED_POLL.min(self.relist))).await;
            return Reason::Due;
        };
        let duration = started.elapsed();
        self.version = version;
        let applied = self.send_list(objects, reason == Reason::Doubt);
        // The update loop has the list before it decides about links.
        if is_silent {
            self.feeds.note_heard(&self.requests.feed);
        } else {
            self.feeds.note_listed(&self.requests.feed, None);
        }
        match applied.await {
            Ok(Outcome::Doubted) => {
                sleep(DOUBT_PAUSE).await;
                return Reason::Doubt;
            }
            Ok(Outcome::Applied { is_news }) if is_silent => {
                self.silence.note_list(is_news, duration);
            }
            // The update loop has ended.
            Ok(Outcome::Applied { .. }) | Err(_) => {}
        }
        if self.silence.is_deaf {
            self.note_failure(&RequestFailure::Broken(DEAF.to_owned()));
        } else if is_silent {
            self.feeds.end_failure(&self.requests.feed);
        }
        self.watch_until_due().await
    }

    // --- lists ---

    /// Lists until a list succeeds.
    async fn list(&mut self, reason: Reason) -> Option<VersionedList> {
        let is_repeated = reason == Reason::LostAgain;
        let is_doubt = reason == Reason::Doubt;
        let mut pauses = Backoff::default();
        loop {
            let lists = &self.limiters.lists;
            match lists.run(is_repeated, self.list_once(is_doubt)).await {
                Ok(listed) => return listed,
                Err(failure) => {
                    self.note_failure(&failure);
                    // After a server-wide failure, the limiter waits.
                    if !failure.is_server_wide() {
                        sleep(pauses.next()).await;
                    }
                }
            }
        }
    }

    /// Lists once, not older than the last version. If that is gone, the list is consistent.
    async fn list_once(
        &mut self,
        is_consistent: bool,
    ) -> Result<Option<VersionedList>, RequestFailure> {
        if !is_consistent {
            match self.requests.list(Some(&self.version)).await {
                Err(RequestFailure::Gone(reason)) => info!(reason, "Listing consistently"),
                listed => return listed,
            }
        }
        self.requests.list(None).await
    }

    fn send_list(&self, objects: Objects, is_certain: bool) -> oneshot::Receiver<Outcome> {
        let (outcome, applied) = oneshot::channel();
        self.updates.send(Update::Reset {
            lists: vec![(self.requests.feed.clone(), objects)],
            is_certain,
            outcome,
        });
        applied
    }

    // --- watches ---

    /// Watches until the feed must be listed.
    async fn watch_until_due(&mut self) -> Reason {
        let due = self.next_list;
        tokio::select! {
            failure = self.watch_repeatedly() => {
                // The problem says it, not a line for each list.
                if matches!(failure, RequestFailure::Silent) {
                    return Reason::Silence;
                }
                info!(reason = %failure, "Listing again");
                let last = self.lost.replace(Instant::now());
                let is_repeated = last.is_some_and(|last| last.elapsed() < CALM_PERIOD);
                if !is_repeated {
                    return Reason::Lost; // versions expire now and then, which is no failure
                }
                self.note_failure(&failure);
                Reason::LostAgain
            }
            () = sleep_until(due) => {
                self.next_list = Instant::now() + jittered(self.relist);
                Reason::Due
            }
        }
    }

    /// Watches from the last version, one watch after the other, until the version is gone or an event is lost.
    async fn watch_repeatedly(&mut self) -> RequestFailure {
        let mut pauses = Backoff::default();
        // After a broken connection, the server behind it may have been replaced or restored from a backup.
        let mut is_doubtful = false;
        loop {
            let started = Instant::now();
            let Err(failure) = self.watch(is_doubtful).await;
            let duration = started.elapsed();
            let is_ended = matches!(failure, RequestFailure::Ended(_));
            // For the client, a broken connection looks like the end of the watch.
            is_doubtful = !is_ended || duration < TURN;
            if !is_doubtful || duration > LONGEST_PAUSE {
                pauses.reset();
            }
            let is_silent = self.progress == Progress::Requested && (is_ended || duration > TURN);
            if is_silent {
                self.silence.time += duration;
            }
            // A server that asks for less gets no lists.
            let is_refused = matches!(failure, RequestFailure::Refused { .. });
            match failure {
                RequestFailure::Gone(_)
                | RequestFailure::Unreadable(_)
                | RequestFailure::Silent => return failure,
                _ if self.silence.is_due() && !is_refused => return RequestFailure::Silent,
                _ if !is_doubtful => {}
                failure => {
                    // A list may have shown that nothing was missed by watches that break after a silence.
                    let is_harmless = is_silent && self.silence.due.is_some();
                    if !is_ended && !is_harmless {
                        self.note_failure(&failure);
                    }
                    let pause = pauses.next();
                    if is_silent && is_ended {
                        self.silence.time += pause;
                    }
                    sleep(pause).await;
                }
            }
        }
    }

    /// Opens a watch at the last version and applies its events until it stops. If `is_doubtful`, the server must confirm
    /// before that it has reached the version.
    async fn watch(&mut self, is_doubtful: bool) -> Result<Infallible, RequestFailure> {
        self.progress = Progress::Begun;
        if is_doubtful {
            let check = self.requests.check_version(&self.version);
            self.limiters.checks.run(false, check).await?;
        }
        self.progress = Progress::Requested;
        let due = self.silence.due.filter(|_| self.silence.is_deaf);
        let rest = due.map(|due| due.saturating_duration_since(Instant::now()));
        // One that works again sends a bookmark before it ends.
        let duration = rest.map_or(WATCH_TIMEOUT, |rest| rest.clamp(MIN_WATCH, WATCH_TIMEOUT));
        let watch = self.requests.watch(&self.version, duration);
        let mut events = within(MAX_SILENCE, watch).await?;
        if self.silence.time < TURN {
            self.feeds.note_activity(&self.requests.feed);
        } else if self.silence.due.is_some() && !self.silence.is_deaf {
            // Nothing is missed, so that the feed only has to be reachable.
            self.feeds.end_failure(&self.requests.feed);
        }
        let mut limit = rest.map_or(MAX_SILENCE, |rest| rest.clamp(MIN_WATCH, MAX_SILENCE));
        loop {
            let Some(event) = within(limit, events.next()).await? else {
                return Err(RequestFailure::Ended("the watch ended".to_owned()));
            };
            self.progress = Progress::Heard;
            self.silence = Silence::default();
            limit = MAX_SILENCE;
            self.feeds.note_activity(&self.requests.feed);
            self.apply(event);
        }
    }

    /// Applies an event.
    fn apply(&mut self, event: WatchEvent<'_>) {
        let kind = self.requests.feed.kind;
        let object = &event.object;
        let version = object.resource_version();
        if !version.is_empty() {
            self.version.replace_range(.., version);
        }
        let arrival = Instant::now();
        let read = match event.kind {
            EventKind::Applied => parse::read(kind, object),
            EventKind::Deleted => None,
            EventKind::Bookmark => return,
        };
        // An object without a name cannot be identified.
        if let Some(key) = object.key() {
            self.updates.send(Update::Apply(ObjectChange {
                kind,
                key,
                object: read,
                arrival,
            }));
        }
    }

    /// Reports a failure: in the log once, and in `/readyz` until there is activity again.
    fn note_failure(&self, failure: &RequestFailure) {
        match self
            .feeds
            .note_failure(&self.requests.feed, &failure.to_string())
        {
            Some(problem) => log_problem(&problem),
            None => debug!(error = %failure, "Request failed again"),
        }
    }
}
