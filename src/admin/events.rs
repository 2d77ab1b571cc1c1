//! `/api/v1/events`: the last changes of answers, as JSON or as a stream of server-sent events.
//!
//! A stream sends three types of events. `change` has one change as its data. `table` has the generation of a new table,
//! or of one whose state changed. `reset` tells a client that the events after its last one are not known any more,
//! because the server was restarted or because there were too many; the client must load everything again.
//!
//! A stream has a position in the ring and no queue. It reads the ring when the client is ready for more. So a slow
//! client delays nobody and costs no memory. If it falls behind the ring, it gets a `reset`; if it does not read at all,
//! its connection is closed.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State as FromState};
use axum::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use futures::stream;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::AdminState;
use crate::report::SchemaVersion;
use crate::report::events::{Event, EventsReport};
use crate::server::Lifetime;
use crate::source::Events;
use crate::source::events::{Latest, MAX_EVENTS, TableState};

/// The ID of the last event that a client received, which a browser sends when it connects again.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// Maximum number of open streams of a listener: half of the connections that one address may have, so that a
/// port-forward has room for other requests.
const MAX_STREAMS: usize = 8;

/// A stream without events sends a comment after this time, so that proxies do not close it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The pause between two messages of a stream. Storms of changes then cost each client ten messages per second.
const PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of events in one message.
const MAX_IN_MESSAGE: usize = 100;

/// Pause before a browser connects again, in milliseconds.
const RETRY: u32 = 1000;

/// The open streams of a listener. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Streams(Arc<Semaphore>);

/// The query string.
#[derive(Deserialize)]
pub(super) struct EventsQuery {
    /// The ID of the last event that the client knows.
    after: Option<String>,
}

/// An open stream.
struct EventStream {
    events: Events,
    latest: watch::Receiver<Latest>,
    /// The ID of the last event that was sent.
    position: u64,
    /// The table that the client knows about.
    table: Option<TableState>,
    /// Text to send first.
    head: String,
    _permit: OwnedSemaphorePermit,
}

pub(super) async fn events(
    FromState(state): FromState<AdminState>,
    Query(query): Query<EventsQuery>,
    Extension(streams): Extension<Streams>,
    lifetime: Option<Extension<Lifetime>>,
    headers: HeaderMap,
) -> Response {
    let events = state.feeds.events();
    let after = match last_known(&query, &headers) {
        Ok(after) => after,
        Err(problem) => return (StatusCode::BAD_REQUEST, problem).into_response(),
    };
    if !accepts_stream(&headers) {
        let events = after.and_then(|id| events.after(id, MAX_EVENTS));
        let events = events.unwrap_or_else(|| state.feeds.events().all());
        return Json(report(&events)).into_response();
    }
    let Some(permit) = streams.open() else {
        let problem = format!("there are {MAX_STREAMS} streams of events already; close one\n");
        return (StatusCode::SERVICE_UNAVAILABLE, problem).into_response();
    };
    if let Some(Extension(lifetime)) = lifetime {
        lifetime.lift_limit();
    }
    let stream = EventStream::new(events.clone(), after, permit);
    let messages = stream::unfold(stream, async |mut stream| {
        let message = stream.next().await;
        Some((Ok::<_, Infallible>(Bytes::from(message)), stream))
    });
    let content_type = [(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM))];
    (content_type, Body::from_stream(messages)).into_response()
}

fn report(events: &[Arc<Event>]) -> EventsReport<&Event> {
    EventsReport {
        schema_version: SchemaVersion,
        events: events.iter().map(AsRef::as_ref).collect(),
    }
}

/// Returns the ID of the last event that a client knows. The header is newer than the query string, which a browser
/// repeats when it connects again.
fn last_known(query: &EventsQuery, headers: &HeaderMap) -> Result<Option<u64>, String> {
    let header = headers.get(LAST_EVENT_ID).map(HeaderValue::as_bytes);
    let after = query.after.as_deref().map(str::as_bytes);
    let Some(text) = header.or(after).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let id = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    id.map(Some).ok_or_else(|| {
        let shown = &text[..text.len().min(100)];
        format!("'{}' is not the ID of an event\n", shown.escape_ascii())
    })
}

/// Returns whether a client prefers a stream to JSON.
fn accepts_stream(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter();
    let types = values.filter_map(|value| value.to_str().ok());
    let mut types = types.flat_map(|value| value.split(','));
    types.any(|one| {
        let name = one.split(';').next().unwrap_or_default();
        name.trim().eq_ignore_ascii_case(EVENT_STREAM)
    })
}

// === impl Streams ===

impl Streams {
    /// Registers a stream, unless there are too many.
    fn open(&self) -> Option<OwnedSemaphorePermit> {
        self.0.clone().try_acquire_owned().ok()
    }
}

impl Default for Streams {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_STREAMS)))
    }
}

// === impl EventStream ===

impl EventStream {
    /// Opens a stream of the events that follow `after`, or of new ones.
    fn new(events: Events, after: Option<u64>, permit: OwnedSemaphorePermit) -> Self {
        let latest = events.subscribe();
        let position = after.unwrap_or(latest.borrow().id);
        Self {
            events,
            latest,
            position,
            table: None,
            head: format!("retry: {RETRY}\n\n"),
            _permit: permit,
        }
    }

    /// Waits for the next message. It is never empty.
    async fn next(&mut self) -> String {
        if self.head.is_empty() {
            sleep(PAUSE).await;
        }
        loop {
            let mut message = std::mem::take(&mut self.head);
            self.write_news(&mut message);
            if !message.is_empty() {
                return message;
            }
            match timeout(KEEP_ALIVE, self.latest.changed()).await {
                Ok(Ok(())) => {}
                Err(_) => return ": the server is there\n\n".to_owned(),
                // The server is shutting down. `events` holds a sender, so this does not happen before.
                Ok(Err(_)) => std::future::pending().await,
            }
        }
    }

    /// Writes what happened since the last message.
    fn write_news(&mut self, message: &mut String) {
        // In this order, the table is at least as new as the events.
        let events = self.events.after(self.position, MAX_IN_MESSAGE);
        let latest = *self.latest.borrow_and_update();
        let events = match events {
            Some(events) => events,
            None => {
                self.position = latest.id;
                self.write(message, "reset", "{}");
                Vec::new()
            }
        };
        if self.table != Some(latest.table) {
            self.table = Some(latest.table);
            let generation = latest.table.generation;
            self.write(
                message,
                "table",
                &format!("{{\"generation\":{generation}}}"),
            );
        }
        for event in events {
            self.position = event.id;
            // Texts and a number are always JSON.
            if let Ok(json) = serde_json::to_string(&event) {
                self.write(message, "change", &json);
            }
        }
        // The next message follows at once.
        if self.position < latest.id {
            self.latest.mark_changed();
        }
    }

    /// Writes an event with the current position, from which the client continues when it connects again.
    fn write(&self, message: &mut String, kind: &str, data: &str) {
        // Writing to a string does not fail. JSON has no line ends.
        let _ = write!(
            message,
            "id: {}\nevent: {kind}\ndata: {data}\n\n",
            self.position
        );
    }
}

#[cfg(test)]
mod tests;
