//! One feed's connection to the API server: list, watch, and notice when it has gone quiet.
//!
//! kube's own `watcher` yields no event for bookmarks, finished watches and new ones, so nobody outside can tell a quiet
//! connection from a dead one; it loses an event that it cannot decode, and retries an expired version that is refused
//! at the start of a watch for ever. For this server the difference decides what people are told about a database, so
//! the loop is written out here, on the client's own requests:
//!
//! - a list is asked for whole, which API servers since Kubernetes 1.31 answer from memory (pages they read from etcd,
//!   all that is there for each page). Each object is reduced as it arrives; nothing is sent before the end;
//! - the server is asked to end every watch after `watch_timeout`. A connection without any sign of life for longer is
//!   dead: it is dropped and made anew, and the last table stays;
//! - what breaks is retried with a growing, jittered pause, from the last version seen, and listed again only if the
//!   server says that the version is gone or yet to come, or if an event could not be read;
//! - every `relist`, jittered, everything is listed anew, which heals gaps that nobody noticed;
//! - a list that is held (`--shrink-guard`) is followed by another one when [`Feeds`] says so;
//! - signs of life are a list that came whole, a watch that was opened, and what comes on it. What is refused, breaks off
//!   or never ends is none, so that the table's age grows for as long as nobody knows whether it is true. It also grows
//!   while a list is read, which takes seconds for 100,000 objects.

use std::time::Duration;

use futures::{AsyncBufReadExt as _, StreamExt as _, pin_mut};
use http::header::{CONNECTION, HeaderValue};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, VersionMatch, WatchParams};
use kube::core::{Request, WatchEvent};
use kube::{Client, Resource};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use super::super::backoff::{Backoff, jittered};
use super::super::{Feed, Feeds, Update, Updates};
use super::Timing;
use super::failure::{self, Failure, Stopped};
use super::list::ListReader;
use crate::mirror::{Kind, KubeObject, Object, ObjectKey, parse};
use crate::table::inputs::Objects;
use crate::telemetry::sentence;

/// How long after `watch_timeout` a watch that did not end counts as dead: what a busy API server may need.
const WATCH_GRACE: Duration = Duration::from_secs(5);
/// How long nothing may be heard while a list is awaited or read.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// How long one object may take: API servers wait three seconds for a version that is yet to come.
const RESUME_SILENCE: Duration = Duration::from_secs(8);
/// How long a list may take in all.
const LIST_TIMEOUT: Duration = Duration::from_secs(300);
/// The least time between the starts of two watches: a proxy that ends them at once must not make us spin.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// One feed's connection.
pub(super) struct Watcher {
    client: Client,
    timing: Timing,
    feed: Feed,
    /// The server filters by field; API servers before Kubernetes 1.31 refuse to.
    filters_fields: bool,
    /// The last list failed: a watch that goes on all the same is a sign of life, and no end of the trouble.
    is_list_failing: bool,
    feeds: Feeds,
    updates: Updates,
}

// === impl Watcher ===

impl Watcher {
    /// Makes a watcher of one feed.
    pub(super) fn new(
        client: Client,
        timing: Timing,
        feed: Feed,
        feeds: Feeds,
        updates: Updates,
    ) -> Self {
        let filters_fields = feed.watch.field_selector().is_some();
        Self {
            client,
            timing,
            feed,
            filters_fields,
            is_list_failing: false,
            feeds,
            updates,
        }
    }

    /// Watches for ever, or until nobody listens any more.
    pub(super) async fn run(mut self) {
        let mut version: Option<String> = None;
        let mut relist_at = Instant::now();
        let mut backoff = Backoff::default();
        // The connection broke, and what it was to may have become something else meanwhile.
        let mut is_broken = false;
        loop {
            if version.is_none() || Instant::now() >= relist_at {
                match self.list().await {
                    Ok(listed) => {
                        (self.is_list_failing, is_broken) = (false, false);
                        version = Some(listed);
                        relist_at = Instant::now() + jittered(self.timing.relist);
                    }
                    Err(Stopped::Closed) => return,
                    Err(stopped) => {
                        self.is_list_failing = true;
                        self.report(&stopped);
                        let pause = backoff.next();
                        let asked = stopped.pause();
                        relist_at = Instant::now() + asked + pause;
                        if version.is_none() {
                            sleep(pause.max(asked)).await;
                            continue;
                        }
                        // Who asks to be left alone means watches, too.
                        sleep(asked).await;
                    }
                }
            }
            let Some(from) = version.as_mut() else {
                continue;
            };
            let resumed = match is_broken {
                true => self.resume(from).await,
                false => Ok(()),
            };
            let started = Instant::now();
            let stopped = match resumed {
                Ok(()) => self.watch(from, relist_at).await,
                Err(stopped) => stopped,
            };
            // The client tells a connection that broke as the end of the watch.
            let is_early =
                started.elapsed() < self.asked_to_last().mul_f64(0.9) && Instant::now() < relist_at;
            let has_ended = matches!(stopped, Stopped::Ended);
            is_broken = stopped.is_break() || has_ended && is_early;
            let is_brief = started.elapsed() < WATCH_INTERVAL;
            // A list that is followed by no watch is no success: lists are what costs an API server most. Nor is a watch
            // that goes on while lists fail.
            if !is_brief && !self.is_list_failing {
                backoff = Backoff::default();
            }
            match stopped {
                Stopped::Closed => return,
                Stopped::Ended if Instant::now() >= relist_at => {}
                Stopped::Unconfirmed => relist_at = Instant::now(),
                Stopped::Ended => {
                    if !self.is_list_failing {
                        backoff = Backoff::default();
                    }
                    if is_brief {
                        sleep(WATCH_INTERVAL).await;
                    }
                }
                Stopped::Gone(why) => {
                    info!(reason = why, "Listing anew");
                    version = None;
                    if is_brief {
                        sleep(backoff.next()).await;
                    }
                }
                stopped @ (Stopped::Silent(_) | Stopped::Failed(_) | Stopped::Busy(..)) => {
                    self.report(&stopped);
                    sleep(backoff.next().max(stopped.pause())).await;
                }
            }
        }
    }

    /// Lists everything, sends it as one update, and returns the version to watch from.
    async fn list(&mut self) -> Result<String, Stopped> {
        let listing = match timeout(LIST_TIMEOUT, self.listed()).await {
            Ok(Err(Failure::Refused(400, why))) if self.filters_fields => {
                info!(
                    reason = why,
                    "The API server cannot filter by field: filtering here instead"
                );
                self.filters_fields = false;
                timeout(LIST_TIMEOUT, self.listed()).await
            }
            other => other,
        };
        let (objects, version) = listing.unwrap_or(Err(Failure::Endless(LIST_TIMEOUT)))?;
        self.feeds.listed(&self.feed);
        self.send(Update::Reset(vec![(self.feed.clone(), objects)]))
            .await?;
        Ok(version)
    }

    /// Reads a list, and reduces each object as it arrives.
    async fn listed(&self) -> Result<(Objects, String), Failure> {
        let mut params = ListParams::default().labels(&self.feed.watch.label_selector());
        params.field_selector = self.field_selector();
        let request = self.request().list(&params);
        let mut request = request.map_err(|error| Failure::Broken(error.to_string()))?;
        // What a connection took to read a long list, it keeps as long as it is open.
        request
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
        let body = self.heard(self.client.request_stream(request)).await??;
        pin_mut!(body);
        let mut reader = ListReader::default();
        let mut objects = Objects::new();
        loop {
            let octets = self.heard(body.fill_buf()).await?;
            let octets = octets.map_err(|error| Failure::Broken(sentence(&error)))?;
            if octets.is_empty() {
                break;
            }
            reader.read(octets, |json| {
                objects.extend(self.reduce(&KubeObject::read(json)));
            })?;
            let length = octets.len();
            body.consume_unpin(length);
        }
        Ok((objects, reader.finish()?))
    }

    /// Waits for more of a list. None of it is a sign of life of the feed before it is whole: a refusal, or a list that
    /// breaks off or never ends, says nothing of what became of the objects.
    async fn heard<T>(&self, waiting: impl Future<Output = T>) -> Result<T, Failure> {
        let heard = timeout(LIST_SILENCE, waiting).await;
        heard.map_err(|_| Failure::Silent(LIST_SILENCE))
    }

    /// Asks, before a watch goes on from `version`, whether the server has come that far at all. An etcd that was
    /// restored from a backup has not, and watches from its future are accepted and hear nothing. What is asked for is
    /// one object, whichever, that is no older.
    async fn resume(&self, version: &str) -> Result<(), Stopped> {
        let params = ListParams::default().limit(1).at(version);
        let params = params.matching(VersionMatch::NotOlderThan);
        let request = self.request().list(&params);
        let request = request.map_err(|error| Stopped::Failed(error.to_string()))?;
        let asked = timeout(RESUME_SILENCE, self.client.request_text(request)).await;
        match asked.map_err(|_| Stopped::Silent(RESUME_SILENCE))? {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if failure::is_future(&status) => {
                Err(Stopped::Gone(status.message))
            }
            // A server that does not know the question may know the watch.
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 404) => Ok(()),
            Err(error) => Err(Failure::from(error).into()),
        }
    }

    /// Follows a watch from `version`, which moves along, until it stops or `until` comes.
    async fn watch(&self, version: &mut String, until: Instant) -> Stopped {
        let silence = self.timing.watch_timeout + WATCH_GRACE;
        let mut params = WatchParams::default().labels(&self.feed.watch.label_selector());
        params.field_selector = self.field_selector();
        params.timeout = u32::try_from(self.asked_to_last().as_secs()).ok();
        let request = match self.request().watch(&params, version) {
            Ok(request) => request,
            Err(error) => return Stopped::Failed(error.to_string()),
        };
        let opening = self.client.request_events::<Value>(request);
        let events = match timeout(silence, opening).await {
            Ok(Ok(events)) => events,
            Ok(Err(error)) => return Failure::from(error).into(),
            Err(_) => return Stopped::Silent(silence),
        };
        let unconfirmed = self.feeds.relist_due(&self.feed);
        pin_mut!(events, unconfirmed);
        loop {
            self.note_life();
            let next = tokio::select! {
                next = timeout(silence, events.next()) => next,
                () = tokio::time::sleep_until(until) => return Stopped::Ended,
                () = &mut unconfirmed => {
                    self.feeds.take_relist(&self.feed);
                    return Stopped::Unconfirmed;
                }
            };
            let applied = match next {
                Err(_) => return Stopped::Silent(silence),
                Ok(None) => return Stopped::Ended,
                Ok(Some(Err(kube::Error::SerdeError(error)))) => {
                    return Stopped::Gone(format!("an event could not be read: {error}"));
                }
                Ok(Some(Err(error))) => return Failure::from(error).into(),
                Ok(Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)))) => {
                    let json = object.to_string();
                    let object = KubeObject::read(&json);
                    note_version(version, &object);
                    let update = match self.reduce(&object) {
                        Some((key, object)) => Some((key, Some(object))),
                        None => object.key().map(|key| (key, None)),
                    };
                    self.apply(update).await
                }
                Ok(Some(Ok(WatchEvent::Deleted(object)))) => {
                    let json = object.to_string();
                    let object = KubeObject::read(&json);
                    note_version(version, &object);
                    self.apply(object.key().map(|key| (key, None))).await
                }
                Ok(Some(Ok(WatchEvent::Bookmark(bookmark)))) => {
                    *version = bookmark.metadata.resource_version;
                    Ok(())
                }
                Ok(Some(Ok(WatchEvent::Error(status)))) => {
                    return Failure::refused(*status).into();
                }
            };
            if let Err(stopped) = applied {
                return stopped;
            }
        }
    }

    /// Returns when the server is asked to end a watch: whole seconds.
    fn asked_to_last(&self) -> Duration {
        Duration::from_secs(self.timing.watch_timeout.as_secs().max(1))
    }

    /// Notes that the server lets us watch from what we have seen, or told us something.
    fn note_life(&self) {
        match self.is_list_failing {
            true => self.feeds.breathes(&self.feed),
            false => self.feeds.alive(&self.feed),
        }
    }

    async fn apply(&self, update: Option<(ObjectKey, Option<Object>)>) -> Result<(), Stopped> {
        match update {
            Some((key, object)) => {
                self.send(Update::Apply {
                    watch: self.feed.watch,
                    key,
                    object,
                })
                .await
            }
            None => Ok(()), // an object without a name cannot be anything to us
        }
    }

    /// Reduces an object; `None` if it is not for this watch, which only an API server that filters less can send.
    fn reduce(&self, object: &KubeObject<'_>) -> Option<(ObjectKey, Object)> {
        let watch = self.feed.watch;
        let is_ours = watch.selects(object);
        is_ours.then(|| Some((object.key()?, parse::object(watch, object))))?
    }

    async fn send(&self, update: Update) -> Result<(), Stopped> {
        self.updates.send(update).await.map_err(|_| Stopped::Closed)
    }

    fn field_selector(&self) -> Option<String> {
        self.feed
            .watch
            .field_selector()
            .filter(|_| self.filters_fields)
            .map(str::to_owned)
    }

    fn request(&self) -> Request {
        let namespace = self.feed.namespace.as_ref().map(|n| n.as_str());
        Request::new(match self.feed.watch.kind() {
            Kind::Service => Service::url_path(&(), namespace),
            Kind::EndpointSlice => EndpointSlice::url_path(&(), namespace),
        })
    }

    /// Tells people what ails the feed: on the log when it is news, in `/readyz` as long as it lasts.
    fn report(&self, stopped: &Stopped) {
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
}

fn note_version(version: &mut String, object: &KubeObject<'_>) {
    if let Some(seen) = object.resource_version() {
        version.replace_range(.., seen);
    }
}
