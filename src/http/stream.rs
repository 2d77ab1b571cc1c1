//! The stream of `/api/v1/events`: server-sent events.
//!
//! A stream sends three types of events. `change` has one change as its data. `table` has the number of the table and the
//! services that differ, so that a page loads their rows again. `reset` tells a client that the events after its last one are not known
//! any more, because the server was restarted or because there were too many; the client must load everything again.
//!
//! A stream has a position in the ring and one batch of messages. It reads the ring when the client has taken the batch. So
//! a slow client delays nobody and costs little memory. If it falls behind the ring, it gets a `reset`; if it does not read
//! at all, its connection is closed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::HeaderName;
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt as _, stream};
use serde::Serialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;

use crate::source::Events;
use crate::source::events::Latest;
use crate::view::{Filter, Server, selects};

/// The media type of server-sent events.
pub(super) const MEDIA_TYPE: &str = "text/event-stream";

/// The ID of the last event that a client received, which a browser sends when it connects again.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Maximum number of open streams of a listener: a quarter of its connections, so that a port-forward has room for other requests.
pub(super) const MAX_STREAMS: usize = 8;

/// A stream without events sends a comment after this time, so that proxies do not close it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The pause between two reads of the ring. In a storm of changes, each client then gets ten batches per second.
const PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of changes in one batch.
const MAX_IN_BATCH: usize = 100;

/// Pause before a browser connects again.
const RETRY: Duration = Duration::from_secs(1);

/// An open stream.
struct EventStream {
    events: Events,
    latest: watch::Receiver<Latest>,
    filter: Filter,
    /// The ID of the last event that was sent.
    position: u64,
    /// The version of the table that the client knows about. `None` before the first batch.
    version: Option<u64>,
    _permit: OwnedSemaphorePermit,
}

/// Returns the response with the events that follow the position of a filter, or of the browser, or with new ones. `open` counts
/// the open streams of a listener.
pub(super) fn respond(
    open: &Arc<Semaphore>,
    server: &Server,
    filter: Filter,
    request: Request,
) -> Response {
    let Ok(permit) = open.clone().try_acquire_owned() else {
        let problem = format!("there are {MAX_STREAMS} streams of events already; close one\n");
        return (StatusCode::SERVICE_UNAVAILABLE, problem).into_response();
    };
    // The header is newer than the query string, which a browser repeats when it connects again.
    let header = request
        .headers()
        .get(LAST_EVENT_ID)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    let filter = Filter {
        after: header.or(filter.after),
        ..filter
    };
    EventStream::new(server.feeds.events.clone(), filter, permit).into_response()
}

// === impl EventStream ===

impl EventStream {
    fn new(events: Events, filter: Filter, permit: OwnedSemaphorePermit) -> Self {
        let latest = events.subscribe();
        let position = filter.after.unwrap_or(latest.borrow().id);
        Self {
            events,
            latest,
            filter,
            position,
            version: None,
            _permit: permit,
        }
    }

    /// Waits for the next batch. It is never empty.
    async fn next(&mut self) -> Vec<Message> {
        if self.version.is_some() {
            sleep(PAUSE).await;
        }
        loop {
            let batch = self.read_news();
            if !batch.is_empty() {
                return batch;
            }
            // The sender exists as long as `events`.
            _ = self.latest.changed().await;
        }
    }

    /// Returns what happened since the last batch.
    fn read_news(&mut self) -> Vec<Message> {
        let mut batch = Vec::new();
        // In this order, the table is at least as new as the events.
        let events = self.events.after(self.position, MAX_IN_BATCH);
        let latest = *self.latest.borrow_and_update();
        if events.is_none() {
            self.position = latest.id;
            batch.extend(self.message("reset", json!({})));
        }
        batch.extend(self.table(latest));
        for event in events.unwrap_or_default() {
            self.position = event.id;
            if selects(&self.filter, &event) {
                batch.extend(self.message("change", event));
            }
        }
        // The next batch follows at once.
        if self.position < latest.id {
            self.latest.mark_changed();
        }
        batch
    }

    /// Returns the message about a new table: its numbers, and the services that differ. Without them, all may differ.
    fn table(&mut self, latest: Latest) -> Option<Message> {
        let known = self.version.replace(latest.version);
        if known == Some(latest.version) {
            return None;
        }
        let services = known.and_then(|version| self.events.changed_after(version));
        let numbers = json!({
            "generation": latest.generation,
            "version": latest.version,
            "services": services,
        });
        let message = self.message("table", numbers)?;
        Some(match known {
            None => message.retry(RETRY),
            Some(_) => message,
        })
    }

    /// Returns the response. The ring is read when the client has taken the messages of the last batch.
    fn into_response(self) -> Response {
        let messages = stream::unfold(self, async |mut stream| Some((stream.next().await, stream)))
            .flat_map(stream::iter)
            .map(Ok::<_, Infallible>);
        let keep_alive = KeepAlive::new()
            .interval(KEEP_ALIVE)
            .text("the server is there");
        Sse::new(messages).keep_alive(keep_alive).into_response()
    }

    /// Returns a message with the current position, from which the client continues when it connects again. It is never
    /// `None`: texts and numbers always have JSON.
    fn message(&self, kind: &str, data: impl Serialize) -> Option<Message> {
        Message::default()
            .id(self.position.to_string())
            .event(kind)
            .json_data(data)
            .ok()
    }
}

#[cfg(test)]
mod tests;
