//! The requests of one feed: complete lists, watches, and checks whether the server has reached a version.
//!
//! If the API server supports it, a list is streamed: the objects arrive as events of a watch, and a bookmark marks the
//! end. This costs the server a fraction of the memory of a plain list. By default, Kubernetes 1.33 and releases up to
//! 1.31 do not support it. Then one unpaginated, compressed list is requested. API servers since Kubernetes 1.31 answer
//! it from memory, but read all objects from etcd for each page of a paginated list. A missing feature is detected once
//! and remembered until the process ends.
//!
//! Each object is reduced when it arrives. All objects are returned when the list is complete.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt as _, Stream, pin_mut};
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
use super::failure::{self, Failure, StopReason};
use super::limiter::ListLimiter;
use super::lines::{LineError, events_of, is_complete, read_line};
use super::list::{ListError, ListReader, MAX_OBJECTS};
use crate::log::error_chain;
use crate::model::watch::{IMPORT_VERSIONS, LINK_VERSIONS};
use crate::model::{Kind, KubeObject, parse};
use crate::table::store::Objects;

/// Maximum silence of a list, before and during the response.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// Maximum time for a list in total.
const LIST_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum time for a version check. API servers wait three seconds for a version in the future.
const CHECK_TIMEOUT: Duration = Duration::from_secs(8);

/// The encoding of watches. Servers compress a watch event by event, if at all, which gains little. The client does not
/// support that either.
const NOT_COMPRESSED: HeaderValue = HeaderValue::from_static("identity");

/// The annotation of the bookmark that completes a streamed list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// An API server. All feeds share it.
pub(super) struct ApiServer {
    pub(super) client: Client,
    pub(super) limiter: ListLimiter,
    /// Whether it supports streamed lists.
    supports_streamed_lists: AtomicBool,
}

/// The requests of one feed.
pub(super) struct Requests {
    pub(super) server: Arc<ApiServer>,
    feed: Feed,
    /// The version of the kind that the API server has, as an index of [`versions`].
    version: AtomicUsize,
}

/// A complete list and its resource version. The version is empty if the API server does not define the kind.
pub(super) type VersionedList = (Objects, String);

// === impl ApiServer ===

impl ApiServer {
    /// Creates an API server. Assumes that it supports everything.
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            limiter: ListLimiter::default(),
            supports_streamed_lists: AtomicBool::new(true),
        }
    }
}

// === impl Requests ===

impl Requests {
    /// Creates the requests of a feed.
    pub(super) fn new(server: Arc<ApiServer>, feed: Feed) -> Self {
        Self {
            server,
            feed,
            version: AtomicUsize::new(0),
        }
    }

    /// Lists all objects of the feed.
    ///
    /// # Errors
    ///
    /// If the list is not complete.
    pub(super) async fn list(&self) -> Result<VersionedList, Failure> {
        if !self.is_optional() {
            return self.list_version().await;
        }
        for version in 0..versions(self.feed.watch.kind()).len() {
            self.version.store(version, Ordering::Relaxed);
            match self.list_version().await {
                Err(Failure::Refused(404, _)) => {}
                other => return other,
            }
        }
        Ok((Objects::new(), String::new()))
    }

    /// Returns whether an API server without the kind of the feed is complete: a CRD defines it.
    pub(super) fn is_optional(&self) -> bool {
        match self.feed.watch.kind() {
            Kind::ServiceImport | Kind::Link => true,
            Kind::Service | Kind::EndpointSlice => false,
        }
    }

    /// Lists all objects of the feed, in one version of their kind.
    async fn list_version(&self) -> Result<VersionedList, Failure> {
        if self.server.supports_streamed_lists.load(Ordering::Relaxed) {
            match with_list_timeout(self.streamed_list()).await {
                // Neither the support of streamed lists nor other kinds are in doubt.
                Err(failure @ Failure::Refused(403 | 404, _)) if self.is_optional() => {
                    return Err(failure);
                }
                Err(failure) if failure.is_streaming_unsupported() => {
                    let reason = failure.to_string();
                    info!(
                        reason,
                        "API server does not support streamed lists; using plain lists"
                    );
                    let supported = &self.server.supports_streamed_lists;
                    supported.store(false, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        with_list_timeout(self.plain_list()).await
    }

    /// Reads a plain list, which is one JSON object.
    async fn plain_list(&self) -> Result<VersionedList, Failure> {
        let params = ListParams::default().labels(&self.feed.watch.label_selector());
        let request = self.path().list(&params);
        let body = self.open_stream(request, None).await?;
        pin_mut!(body);
        let mut reader = ListReader::default();
        let mut objects = Objects::new();
        loop {
            let octets = with_silence_limit(body.fill_buf())
                .await?
                .map_err(|error| Failure::Broken(error_chain(&error)))?;
            if octets.is_empty() {
                break;
            }
            reader.read(octets, |json| {
                objects.extend(parse::reduce(self.feed.watch, &KubeObject::read(json)));
            })?;
            let length = octets.len();
            body.consume_unpin(length);
        }
        Ok((objects, reader.finish()?))
    }

    /// Reads a streamed list: events of a watch, until the bookmark that completes it.
    async fn streamed_list(&self) -> Result<VersionedList, Failure> {
        let params = WatchParams {
            timeout: u32::try_from(LIST_TIMEOUT.as_secs()).ok(),
            ..self.watch_params()
        };
        // Without a version, the list is as new as the request.
        let request = self.path().watch(&params.initial_events(), "");
        let body = self.open_stream(request, Some(NOT_COMPRESSED)).await?;
        pin_mut!(body);
        let mut objects = Objects::new();
        let mut line = Vec::new();
        loop {
            read_list_line(&mut body, &mut line).await?;
            if let Some(version) = self.apply_event(&line, &mut objects)? {
                return Ok((objects, version));
            }
            if objects.len() > MAX_OBJECTS {
                return Err(ListError::TooMany.into());
            }
        }
    }

    /// Applies an event of a streamed list. Returns the version of the bookmark that completes the list. Changes during
    /// the list are events, too.
    fn apply_event(&self, line: &[u8], objects: &mut Objects) -> Result<Option<String>, Failure> {
        let event: WatchLine<'_> = serde_json::from_slice(line).map_err(ListError::Unreadable)?;
        let json = event.object.get();
        match &*event.kind {
            "ADDED" | "MODIFIED" => {
                let object = KubeObject::read(json);
                match parse::reduce(self.feed.watch, &object) {
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
                Err(Failure::from_status(status))
            }
        }
    }

    /// Opens a response that may be long.
    async fn open_stream(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        encoding: Option<HeaderValue>,
    ) -> Result<impl AsyncBufRead + use<>, Failure> {
        let mut request = request.map_err(|error| Failure::Broken(error_chain(&error)))?;
        let headers = request.headers_mut();
        // A connection keeps the buffers of a long list until it is closed.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        if let Some(encoding) = encoding {
            headers.insert(ACCEPT_ENCODING, encoding);
        }
        Ok(with_silence_limit(self.server.client.request_stream(request)).await??)
    }

    /// Checks whether the server has reached `version`. An etcd that was restored from a backup has not. It accepts a
    /// watch from a version in the future, but sends no events. The check lists one object that is not older than
    /// `version`.
    ///
    /// # Errors
    ///
    /// [`Failure::Refused`] with 410 if the server has not reached the version. Other failures if the check fails.
    pub(super) async fn check_version(&self, version: &str) -> Result<(), Failure> {
        let params = ListParams::default()
            .limit(1)
            .at(version)
            .matching(VersionMatch::NotOlderThan);
        let request = self
            .path()
            .list(&params)
            .map_err(|error| Failure::Broken(error_chain(&error)))?;
        let response = timeout(CHECK_TIMEOUT, self.server.client.request_text(request)).await;
        match response.map_err(|_| Failure::Silent(CHECK_TIMEOUT))? {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if failure::is_future_version(&status) => {
                Err(Failure::Refused(410, status.message))
            }
            // A server that does not support or permit this list may still support the watch.
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 404) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a watch from `version`. Requests that the server end it after `seconds`.
    ///
    /// # Errors
    ///
    /// If the server refuses it.
    pub(super) async fn watch(
        &self,
        version: &str,
        seconds: u32,
    ) -> Result<impl Stream<Item = Result<WatchEvent<Value>, StopReason>> + use<>, Failure> {
        let params = WatchParams {
            timeout: Some(seconds),
            ..self.watch_params()
        };
        let mut request = self
            .path()
            .watch(&params, version)
            .map_err(|error| Failure::Broken(error_chain(&error)))?;
        request
            .headers_mut()
            .insert(ACCEPT_ENCODING, NOT_COMPRESSED);
        let body = self.server.client.request_stream(request).await?;
        Ok(events_of(Box::pin(body)))
    }

    fn watch_params(&self) -> WatchParams {
        WatchParams::default().labels(&self.feed.watch.label_selector())
    }

    fn path(&self) -> Request {
        let namespace = self.feed.namespace.as_ref().map(|n| n.as_str());
        let kind = self.feed.watch.kind();
        let version = versions(kind).get(self.version.load(Ordering::Relaxed));
        Request::new(url_path(
            kind,
            namespace,
            version.copied().unwrap_or_default(),
        ))
    }
}

/// Returns the versions of a kind that a CRD defines, the newest first.
pub(super) fn versions(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Service | Kind::EndpointSlice => &[],
        Kind::ServiceImport => &IMPORT_VERSIONS,
        Kind::Link => &LINK_VERSIONS,
    }
}

/// Returns the path of all objects of a kind, in one namespace or in all. `version` is that of a kind that a CRD defines.
pub(super) fn url_path(kind: Kind, namespace: Option<&str>, version: &str) -> String {
    let resource = match kind {
        Kind::Service => return Service::url_path(&(), namespace),
        Kind::EndpointSlice => return EndpointSlice::url_path(&(), namespace),
        Kind::ServiceImport => "serviceimports",
        Kind::Link => "links",
    };
    match namespace {
        None => format!("/apis/{version}/{resource}"),
        Some(namespace) => format!("/apis/{version}/namespaces/{namespace}/{resource}"),
    }
}

/// Limits the duration of a list.
async fn with_list_timeout(
    list: impl Future<Output = Result<VersionedList, Failure>>,
) -> Result<VersionedList, Failure> {
    let list = timeout(LIST_TIMEOUT, list).await;
    list.unwrap_or(Err(Failure::Endless(LIST_TIMEOUT)))
}

/// Limits the wait for more of a list. A part of a list is not activity of the feed: only a complete list shows the
/// current objects.
async fn with_silence_limit<T>(part: impl Future<Output = T>) -> Result<T, Failure> {
    let part = timeout(LIST_SILENCE, part).await;
    part.map_err(|_| Failure::Silent(LIST_SILENCE))
}

/// Reads the next line of a streamed list.
async fn read_list_line(
    body: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> Result<(), Failure> {
    let read = timeout(LIST_SILENCE, read_line(body, line))
        .await
        .map_err(|_| Failure::Unfinished("the server stopped sending"))?;
    read.map_err(|error| match error {
        LineError::TooLong => ListError::TooLong.into(),
        LineError::Broken(error) => Failure::Broken(error_chain(&error)),
    })?;
    match line.len() {
        _ if is_complete(line) => Ok(()),
        0 => Err(Failure::Unfinished("the response ended")),
        _ => Err(Failure::Broken(
            "the streamed list broke off within an event".to_owned(),
        )),
    }
}

/// Returns the resource version of a bookmark, if it completes a streamed list.
fn version_at_end(json: &str) -> Result<Option<String>, ListError> {
    let Bookmark { metadata } = serde_json::from_str(json)?;
    let end = metadata.annotations.get(INITIAL_EVENTS_END);
    let is_end = end.is_some_and(|value| value == "true");
    Ok(is_end.then_some(metadata.resource_version))
}

/// One line of a watch.
#[derive(Deserialize)]
struct WatchLine<'e> {
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
