//! The requests of one feed: complete lists, watches, and checks whether the server has reached a version.
//!
//! A list is one unpaginated, compressed response. API servers answer it from memory if the request names a version, but
//! read all objects from etcd for each page of a paginated list. Streamed lists are not used: some proxies drop the
//! bookmark that ends them.
//!
//! Each object is reduced when it arrives. All objects are returned when the list is complete.

use std::io;
use std::time::Duration;

use axum::body::Body;
use futures::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, TryStreamExt as _};
use hyper::StatusCode;
use hyper::header::{ACCEPT_ENCODING, CONNECTION, HeaderValue};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, VersionMatch, WatchParams};
use kube::client::Body as KubeBody;
use kube::core::{Request, Status};
use kube::{Client, Resource};
use tokio::time::timeout;

use super::super::Feed;
use super::responses::{EventReader, ListReader, RequestFailure, within};
use crate::model::{Kind, KubeObject, LINK_VERSIONS, parse};
use crate::table::store::Objects;

/// Maximum silence of a list, before and during the response. A part of a list is not activity of the feed: only a
/// complete list shows the current objects.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// Maximum time for a list in total.
const LIST_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum time for a version check. API servers wait three seconds for a version in the future.
const CHECK_TIMEOUT: Duration = Duration::from_secs(8);

/// Maximum length of the body that says why a request failed, in octets.
const MAX_REASON: u64 = 64 << 10;

/// The encoding of watches. Servers compress a watch event by event, if at all, which gains little. The client does not
/// support that either.
const NOT_COMPRESSED: HeaderValue = HeaderValue::from_static("identity");

/// The header of the request for a list. A connection keeps the buffers of a long list until it is closed.
const CLOSED: HeaderValue = HeaderValue::from_static("close");

/// The requests of one feed.
pub(super) struct Requests {
    client: Client,
    pub(super) feed: Feed,
    /// The version of Links that the API server has, as an index of [`LINK_VERSIONS`].
    version: usize,
}

/// A complete list and its resource version.
pub(super) type VersionedList = (Objects, String);

// === impl Requests ===

impl Requests {
    /// Creates the requests of a feed.
    pub(super) fn new(client: Client, feed: Feed) -> Self {
        Self {
            client,
            feed,
            version: 0,
        }
    }

    /// Lists all objects of the feed, not older than the version `oldest`. Without one, the list is consistent: as new as
    /// the request. Returns `None` if the API server does not define the kind.
    ///
    /// # Errors
    ///
    /// [`RequestFailure::Gone`] if the server does not have the version. Other failures if the list is not complete.
    pub(super) async fn list(
        &mut self,
        oldest: Option<&str>,
    ) -> Result<Option<VersionedList>, RequestFailure> {
        // A CRD defines it. An API server without it is complete.
        let is_optional = !self.feed.kind.is_needed();
        for version in 0..LINK_VERSIONS.len() {
            self.version = version;
            let list = timeout(LIST_TIMEOUT, self.list_version(oldest))
                .await
                .unwrap_or_else(|_| {
                    let seconds = LIST_TIMEOUT.as_secs();
                    let reason = format!("the list did not end within {seconds} s");
                    Err(RequestFailure::Broken(reason))
                });
            match list {
                Err(RequestFailure::Refused { code: 404, .. }) if is_optional => {}
                other => return other.map(Some),
            }
        }
        Ok(None)
    }

    /// Requests a list of the objects of the feed.
    async fn list_version(&self, oldest: Option<&str>) -> Result<VersionedList, RequestFailure> {
        let params = ListParams {
            resource_version: oldest.map(str::to_owned),
            ..ListParams::default()
        };
        let mut request = self.path().list(&params)?;
        request.headers_mut().insert(CONNECTION, CLOSED);
        let mut objects = Objects::new();
        let take = |json: &str| {
            objects.extend(parse::reduce(self.feed.kind, &KubeObject::read(json)));
        };
        let version = read_list(&self.client, request, take).await?;
        Ok((objects, version))
    }

    /// Checks whether the server has reached `version`. An etcd that was restored from a backup has not. It accepts a
    /// watch from a version in the future, but sends no events. The check lists one object that is not older than
    /// `version`.
    ///
    /// # Errors
    ///
    /// [`RequestFailure::Gone`] if the server has not reached the version. Other failures if the check fails.
    pub(super) async fn check_version(&self, version: &str) -> Result<(), RequestFailure> {
        let params = ListParams::default()
            .limit(1)
            .at(version)
            .matching(VersionMatch::NotOlderThan);
        let request = self.path().list(&params)?;
        match within(CHECK_TIMEOUT, send(&self.client, request)).await {
            // A server that does not support or permit this list may still support the watch.
            Err(RequestFailure::Refused {
                code: 400 | 403 | 404,
                ..
            }) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Opens a watch from `version`. Requests bookmarks, and that the server end it after `duration`.
    ///
    /// # Errors
    ///
    /// If the server refuses it.
    pub(super) async fn watch(
        &self,
        version: &str,
        duration: Duration,
    ) -> Result<EventReader<impl AsyncBufRead + Unpin + use<>>, RequestFailure> {
        let params = WatchParams {
            timeout: u32::try_from(duration.as_secs()).ok(),
            ..WatchParams::default()
        };
        let mut request = self.path().watch(&params, version)?;
        request
            .headers_mut()
            .insert(ACCEPT_ENCODING, NOT_COMPRESSED);
        let body = send(&self.client, request).await;
        let body = body.map_err(|failure| match failure {
            // The CRD was removed, or no longer has the version.
            RequestFailure::Refused {
                code: 404, message, ..
            } if !self.feed.kind.is_needed() => RequestFailure::Gone(message),
            failure => failure,
        })?;
        Ok(EventReader::new(body))
    }

    fn path(&self) -> Request {
        let namespace = self.feed.namespace.as_ref().map(|n| n.as_str());
        Request::new(match self.feed.kind {
            Kind::Service => Service::url_path(&(), namespace),
            Kind::EndpointSlice => EndpointSlice::url_path(&(), namespace),
            Kind::Link => {
                let scope = namespace.map(|namespace| format!("namespaces/{namespace}/"));
                let version = LINK_VERSIONS[self.version];
                format!("/apis/{version}/{}links", scope.unwrap_or_default())
            }
        })
    }
}

/// Sends a request. Returns the body of its response.
///
/// # Errors
///
/// If the status is not 200: a proxy may redirect, or answer without content. Of the body, [`MAX_REASON`] octets are read.
async fn send(
    client: &Client,
    request: hyper::Request<Vec<u8>>,
) -> Result<impl AsyncBufRead + Unpin + use<>, RequestFailure> {
    let response = client.send(request.map(KubeBody::from)).await?;
    let status = response.status();
    let body = Body::new(response.into_body()).into_data_stream();
    let body = body.map_err(io::Error::other).into_async_read();
    if status == StatusCode::OK {
        return Ok(body);
    }
    let mut reason = Vec::new();
    body.take(MAX_REASON).read_to_end(&mut reason).await?;
    let status = serde_json::from_slice(&reason).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&reason);
        Status::failure(text.trim(), "").with_code(status.as_u16())
    });
    Err(RequestFailure::from_status(status))
}

/// Requests a list, which is one JSON object, and reads it object by object. Calls `take` with the JSON of each. Returns the
/// resource version of the list.
///
/// # Errors
///
/// If the list is not complete.
pub(super) async fn read_list(
    client: &Client,
    request: hyper::Request<Vec<u8>>,
    mut take: impl FnMut(&str),
) -> Result<String, RequestFailure> {
    let mut body = within(LIST_SILENCE, send(client, request)).await?;
    let mut reader = ListReader::default();
    loop {
        let octets = within(LIST_SILENCE, body.fill_buf()).await?;
        if octets.is_empty() {
            return reader.finish(take);
        }
        reader.read(octets, &mut take)?;
        let length = octets.len();
        body.consume_unpin(length);
    }
}
