//! What one feed asks an API server for: complete lists, watches, and whether it has come as far as a version.
//!
//! A list is streamed where the API server does that: the objects come as events of a watch, and a bookmark says that
//! they are complete. That costs the server a fraction of the memory of a list. Where it does not (by default Kubernetes
//! 1.33, and 1.31 and older), the list is asked for whole, and compressed: API servers since Kubernetes 1.31 answer that
//! from memory. Pages they read from etcd, all that is there for each page. What a server does not offer is found out
//! once, and kept until the process ends.
//!
//! Each object is reduced as it arrives, and all of them are returned when the list is complete.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, Stream, pin_mut};
use http::header::{ACCEPT_ENCODING, CONNECTION, HeaderValue};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, VersionMatch, WatchParams};
use kube::core::{Request, Status, WatchEvent};
use kube::{Client, Resource};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::timeout;
use tracing::info;

use super::super::Feed;
use super::failure::{self, Failure};
use super::limiter::ListLimiter;
use super::list::{LONGEST, ListError, ListReader, MOST};
use crate::log::sentence;
use crate::mirror::{Kind, KubeObject, Object, ObjectKey, parse};
use crate::table::inputs::Objects;

/// How long nothing may be heard while a list is awaited or read.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// How long a list may take in all.
const LIST_TIMEOUT: Duration = Duration::from_secs(300);
/// How long one object may take: API servers wait three seconds for a version that is yet to come.
const CHECK_SILENCE: Duration = Duration::from_secs(8);

/// On the bookmark that completes a streamed list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// An API server, as all feeds share it.
pub(super) struct ApiServer {
    client: Client,
    pub(super) limiter: ListLimiter,
    /// It filters by field; API servers before Kubernetes 1.31 refuse to.
    filters_fields: AtomicBool,
    /// It streams lists.
    streams_lists: AtomicBool,
}

/// The requests of one feed.
pub(super) struct Requests {
    pub(super) server: Arc<ApiServer>,
    feed: Feed,
}

/// A complete list, and the version that it is of.
pub(super) type Listed = (Objects, String);

// === impl ApiServer ===

impl ApiServer {
    /// Makes one that is assumed to offer everything.
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            limiter: ListLimiter::default(),
            filters_fields: AtomicBool::new(true),
            streams_lists: AtomicBool::new(true),
        }
    }
}

// === impl Requests ===

impl Requests {
    /// Makes the requests of a feed.
    pub(super) fn new(server: Arc<ApiServer>, feed: Feed) -> Self {
        Self { server, feed }
    }

    /// Lists everything.
    ///
    /// # Errors
    ///
    /// If the list does not come whole.
    pub(super) async fn list(&self) -> Result<Listed, Failure> {
        if self.server.streams_lists.load(Ordering::Relaxed) {
            match in_time(self.streamed_list()).await {
                Err(failure) if failure.is_of_streaming() => {
                    let reason = failure.to_string();
                    info!(
                        reason,
                        "The API server does not stream lists: listing instead"
                    );
                    self.server.streams_lists.store(false, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        match in_time(self.whole_list()).await {
            Err(Failure::Refused(400, reason)) if self.field_selector().is_some() => {
                info!(
                    reason,
                    "The API server cannot filter by field: filtering here instead"
                );
                self.server.filters_fields.store(false, Ordering::Relaxed);
                in_time(self.whole_list()).await
            }
            other => other,
        }
    }

    /// Reads a list as one object.
    async fn whole_list(&self) -> Result<Listed, Failure> {
        let mut params = ListParams::default().labels(&self.feed.watch.label_selector());
        params.field_selector = self.field_selector();
        let request = self.path().list(&params);
        let body = self.stream(request, None).await?;
        pin_mut!(body);
        let mut reader = ListReader::default();
        let mut objects = Objects::new();
        loop {
            let octets = heard(body.fill_buf()).await?;
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

    /// Reads a list as events of a watch, until the bookmark that completes it.
    async fn streamed_list(&self) -> Result<Listed, Failure> {
        let params = WatchParams {
            timeout: u32::try_from(LIST_TIMEOUT.as_secs()).ok(),
            ..self.watch_params()
        };
        // No version: the list is as new as the request.
        let request = self.path().watch(&params.initial_events(), "");
        // A watch is compressed event by event, if at all, which gains little. The client cannot read it, either.
        let encoding = HeaderValue::from_static("identity");
        let body = self.stream(request, Some(encoding)).await?;
        pin_mut!(body);
        let mut objects = Objects::new();
        let mut line = Vec::new();
        loop {
            read_line(&mut body, &mut line).await?;
            if let Some(version) = self.take_event(&line, &mut objects)? {
                return Ok((objects, version));
            }
            if objects.len() > MOST {
                return Err(ListError::TooMany.into());
            }
        }
    }

    /// Takes an event of a streamed list; returns the version of the one that completes it. What changes meanwhile comes
    /// as events, too.
    fn take_event(&self, line: &[u8], objects: &mut Objects) -> Result<Option<String>, Failure> {
        let event: Event<'_> = serde_json::from_slice(line).map_err(ListError::Unreadable)?;
        let json = event.object.get();
        match &*event.kind {
            "ADDED" | "MODIFIED" => {
                let object = KubeObject::read(json);
                match self.reduce(&object) {
                    Some((key, object)) => _ = objects.insert(key, object),
                    None => _ = object.key().and_then(|key| objects.remove(&key)),
                }
                Ok(None)
            }
            "DELETED" => {
                let key = KubeObject::read(json).key();
                _ = key.and_then(|key| objects.remove(&key));
                Ok(None)
            }
            "BOOKMARK" => Ok(version_at_end(json)?),
            _ => {
                let status: Status = serde_json::from_str(json).map_err(ListError::Unreadable)?;
                Err(Failure::refused(status))
            }
        }
    }

    /// Opens a response that may be long.
    async fn stream(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        encoding: Option<HeaderValue>,
    ) -> Result<impl AsyncBufRead + use<>, Failure> {
        let mut request = request.map_err(|error| Failure::Broken(sentence(&error)))?;
        let headers = request.headers_mut();
        // What a connection took to read a long list, it keeps as long as it is open.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        if let Some(encoding) = encoding {
            headers.insert(ACCEPT_ENCODING, encoding);
        }
        Ok(heard(self.server.client.request_stream(request)).await??)
    }

    /// Asks whether the server has come as far as `version`. An etcd that was restored from a backup has not, and watches
    /// from its future are accepted and hear nothing. What is asked for is one object, whichever, that is no older.
    ///
    /// # Errors
    ///
    /// [`Failure::Refused`] with 410 if it has not, and every other failure if that cannot be found out.
    pub(super) async fn check(&self, version: &str) -> Result<(), Failure> {
        let params = ListParams::default().limit(1).at(version);
        let params = params.matching(VersionMatch::NotOlderThan);
        let request = self.path().list(&params);
        let request = request.map_err(|error| Failure::Broken(sentence(&error)))?;
        let asked = timeout(CHECK_SILENCE, self.server.client.request_text(request)).await;
        match asked.map_err(|_| Failure::Silent(CHECK_SILENCE))? {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if failure::is_future(&status) => {
                Err(Failure::Refused(410, status.message))
            }
            // A server that does not know the question may know the watch.
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 404) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a watch from `version` that the server is asked to end after `seconds`.
    ///
    /// # Errors
    ///
    /// If it is refused.
    pub(super) async fn watch(
        &self,
        version: &str,
        seconds: u32,
    ) -> Result<impl Stream<Item = kube::Result<WatchEvent<Value>>> + use<>, Failure> {
        let params = WatchParams {
            timeout: Some(seconds),
            ..self.watch_params()
        };
        let request = self.path().watch(&params, version);
        let request = request.map_err(|error| Failure::Broken(sentence(&error)))?;
        Ok(self.server.client.request_events::<Value>(request).await?)
    }

    /// Reduces an object; `None` if it is not for this watch, which only an API server that filters less can send.
    pub(super) fn reduce(&self, object: &KubeObject<'_>) -> Option<(ObjectKey, Object)> {
        let watch = self.feed.watch;
        let is_ours = watch.selects(object);
        is_ours.then(|| Some((object.key()?, parse::object(watch, object))))?
    }

    fn watch_params(&self) -> WatchParams {
        let mut params = WatchParams::default().labels(&self.feed.watch.label_selector());
        params.field_selector = self.field_selector();
        params
    }

    fn field_selector(&self) -> Option<String> {
        let filters = self.server.filters_fields.load(Ordering::Relaxed);
        let selector = self.feed.watch.field_selector();
        selector.filter(|_| filters).map(str::to_owned)
    }

    fn path(&self) -> Request {
        let namespace = self.feed.namespace.as_ref().map(|n| n.as_str());
        Request::new(match self.feed.watch.kind() {
            Kind::Service => Service::url_path(&(), namespace),
            Kind::EndpointSlice => EndpointSlice::url_path(&(), namespace),
        })
    }
}

/// Gives up a list that goes on and on.
async fn in_time(list: impl Future<Output = Result<Listed, Failure>>) -> Result<Listed, Failure> {
    let listed = timeout(LIST_TIMEOUT, list).await;
    listed.unwrap_or(Err(Failure::Endless(LIST_TIMEOUT)))
}

/// Waits for more of a list. None of it counts as activity of the feed before it is whole: a refusal, or a list that
/// breaks off or never ends, says nothing of what became of the objects.
async fn heard<T>(waiting: impl Future<Output = T>) -> Result<T, Failure> {
    let heard = timeout(LIST_SILENCE, waiting).await;
    heard.map_err(|_| Failure::Silent(LIST_SILENCE))
}

/// Reads the next line of a streamed list.
async fn read_line(
    body: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> Result<(), Failure> {
    line.clear();
    let mut limited = body.take(LONGEST as u64);
    let read = timeout(LIST_SILENCE, limited.read_until(b'\n', line)).await;
    let read = read.map_err(|_| Failure::Unfinished("silence"))?;
    read.map_err(|error| Failure::Broken(sentence(&error)))?;
    if line.last() == Some(&b'\n') {
        return Ok(());
    }
    Err(match line.len() {
        0 => Failure::Unfinished("it ended"),
        LONGEST => ListError::TooLong.into(),
        _ => Failure::Broken("a streamed list broke off".to_owned()),
    })
}

/// Returns the version of a bookmark, if it completes a streamed list.
fn version_at_end(json: &str) -> Result<Option<String>, ListError> {
    let Bookmark { metadata } = serde_json::from_str(json)?;
    let end = metadata.annotations.get(INITIAL_EVENTS_END);
    let is_end = end.is_some_and(|value| value == "true");
    Ok(is_end.then_some(metadata.resource_version))
}

/// One line of a watch.
#[derive(Deserialize)]
struct Event<'e> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'e, str>,
    #[serde(borrow)]
    object: &'e RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}
