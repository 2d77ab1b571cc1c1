//! `/api/v1/events`: the last changes of answers, as JSON or as a stream of server-sent events.
//!
//! A stream sends four types of events. `change` has one change as its data. `table` has the generation of a new table.
//! `summary` has what changed in the summary (`follow.rs`), if the client follows it. `reset`
//! tells a client that the events after its last one are not known any more,
//! because the server was restarted or because there were too many; the client must load everything again.
//!
//! Both take only events of some clusters, of some kinds, and since a time (`?cluster=east&kind=down&since=`, several of
//! the first two separated by commas).
//!
//! A stream has a position in the ring and one batch of messages. It reads the ring when the client has taken the batch. So
//! a slow client delays nobody and costs little memory. If it falls behind the ring, it gets a `reset`; if it does not read
//! at all, its connection is closed.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State as FromState};
use axum::http::header::{ACCEPT, HeaderMap, HeaderName};
use axum::http::{HeaderValue, StatusCode};
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use futures::{StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use serde_json::json;
use strum::VariantArray as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout_at};

use super::follow::{SummaryFollower, TooMany};
use super::limits::EVENT_STREAM;
use super::state::{AdminState, NoMoment, shown};
use crate::explain::service_of;
use crate::report::SchemaVersion;
use crate::report::events::EventsReport;
use crate::server::Lifetime;
use crate::source::Events;
use crate::source::events::{EventFilter, Latest, MAX_EVENTS};
use crate::table::change::ChangeKind;
use crate::zone::Name;

/// The ID of the last event that a client received, which a browser sends when it connects again.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Maximum number of open streams of a listener: half of the connections that one address may have, so that a
/// port-forward has room for other requests.
const MAX_STREAMS: usize = 8;

/// A stream without events sends a comment after this time, so that proxies do not close it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The pause between two reads of the ring. In a storm of changes, each client then gets ten batches per second.
const PAUSE: Duration = Duration::from_millis(100);

/// Maximum length of a part of the query string in the sentence about it.
const MAX_SHOWN: usize = 100;

/// Maximum number of changes in one batch.
const MAX_IN_BATCH: usize = 100;

/// Maximum number of events about the time before the history.
const MAX_EARLIER: usize = 10;

/// Pause before a browser connects again.
const RETRY: Duration = Duration::from_secs(1);

/// The open streams of a listener. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Streams(Arc<Semaphore>);

/// The query string.
#[derive(Deserialize)]
pub(super) struct EventsQuery {
    /// The ID of the last event that the client knows.
    after: Option<String>,
    /// The field `tables` of the summary that the client has, if it follows the summary.
    tables: Option<u64>,
    /// The time of the first event (RFC 3339).
    since: Option<String>,
    /// Clusters, separated by commas.
    cluster: Option<String>,
    /// Kinds, separated by commas.
    kind: Option<String>,
}

/// An open stream.
struct EventStream {
    events: Events,
    latest: watch::Receiver<Latest>,
    filter: EventFilter,
    /// The ID of the last event that was sent.
    position: u64,
    /// The generation that the client knows about. `None` before the first batch.
    generation: Option<u64>,
    /// The summary, if the client follows it.
    summary: Option<SummaryFollower>,
    _permit: OwnedSemaphorePermit,
}

pub(super) async fn events(
    FromState(state): FromState<AdminState>,
    Query(query): Query<EventsQuery>,
    Extension(streams): Extension<Streams>,
    lifetime: Option<Extension<Lifetime>>,
    headers: HeaderMap,
) -> Response {
    let events = &state.feeds.events;
    let request = last_known(&query, &headers).and_then(|after| Ok((after, query.filter()?)));
    let (after, filter) = match request {
        Ok(request) => request,
        Err(problem) => return (StatusCode::BAD_REQUEST, problem).into_response(),
    };
    if !accepts_stream(&headers) {
        return list(events, after, &filter);
    }
    let Some(permit) = streams.open() else {
        let problem = format!("there are {MAX_STREAMS} streams of events already; close one\n");
        return (StatusCode::SERVICE_UNAVAILABLE, problem).into_response();
    };
    if let Some(Extension(lifetime)) = lifetime {
        lifetime.lift_limit();
    }
    let follower = |tables| SummaryFollower::new(state.clone(), tables);
    let summary = query.tables.map(follower);
    EventStream::new(events.clone(), filter, after, summary, permit).into_response()
}

/// Returns the response with the events that follow `after`, or else all.
fn list(events: &Events, after: Option<u64>, filter: &EventFilter) -> Response {
    let known = after.and_then(|id| events.after(id, MAX_EVENTS));
    let (all, known_since) = events.all();
    let mut events = known.unwrap_or(all);
    events.retain(|event| filter.selects(event));
    let report = EventsReport {
        schema_version: SchemaVersion,
        known_since: known_since.to_text(),
        events,
    };
    Json(report).into_response()
}

/// Returns the response to a question about a time without a table: why there is none, and what the events know of the service
/// of the name before that time.
pub(super) fn without_table(state: &AdminState, name: &str, problem: NoMoment) -> Response {
    let NoMoment::Early(time, _) = problem else {
        return problem.into_response();
    };
    let name = Name::from_text(name);
    let service = name.and_then(|name| service_of(&state.zones, &name));
    let services = service.into_iter().collect();
    let known = &state.feeds.events;
    let events = known.of_services(&services, &BTreeSet::new(), Some(time), MAX_EARLIER);
    let lines = events
        .iter()
        .map(|event| format!("{} {}\n", event.time, event.change.text));
    let text = format!("{problem}\n{}", lines.collect::<String>());
    (StatusCode::NOT_FOUND, text).into_response()
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
        let shown = &text[..text.len().min(MAX_SHOWN)];
        format!("'{}' is not the ID of an event\n", shown.escape_ascii())
    })
}

// === impl EventsQuery ===

impl EventsQuery {
    fn filter(&self) -> Result<EventFilter, String> {
        let since = self.since.as_deref().map(NoMoment::parse).transpose();
        let cluster = |text: &str| {
            let problem = |error| {
                format!(
                    "'{}' is not a cluster: {error}\n",
                    shown(text).escape_debug()
                )
            };
            text.parse().map_err(problem)
        };
        let kind = |text: &str| ChangeKind::from_str(text).map_err(|_| unknown_kind(text));
        Ok(EventFilter {
            since: since.map_err(|problem| format!("{problem}\n"))?,
            clusters: parse_list(self.cluster.as_deref(), cluster)?,
            kinds: parse_list(self.kind.as_deref(), kind)?,
        })
    }
}

/// Parses the items of a list that commas separate.
fn parse_list<T: Ord>(
    list: Option<&str>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<BTreeSet<T>, String> {
    let items = list.unwrap_or_default().split(',');
    items.filter(|item| !item.is_empty()).map(parse).collect()
}

/// Returns the sentence about a kind that does not exist.
fn unknown_kind(text: &str) -> String {
    let kinds: Vec<&str> = ChangeKind::VARIANTS.iter().map(<&str>::from).collect();
    let kinds = kinds.join(", ");
    format!(
        "'{}' is not a kind of events; the kinds are {kinds}\n",
        shown(text).escape_debug()
    )
}

/// Returns whether a client prefers a stream to JSON.
fn accepts_stream(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter();
    let mut types = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
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
    fn new(
        events: Events,
        filter: EventFilter,
        after: Option<u64>,
        summary: Option<SummaryFollower>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let latest = events.subscribe();
        let position = after.unwrap_or(latest.borrow().id);
        Self {
            events,
            latest,
            filter,
            position,
            generation: None,
            summary,
            _permit: permit,
        }
    }

    /// Waits for the next batch. It is never empty.
    async fn next(&mut self) -> Vec<Message> {
        if self.generation.is_some() {
            sleep(PAUSE).await;
        }
        loop {
            let batch = self.read_news();
            if !batch.is_empty() {
                return batch;
            }
            match self.summary.as_ref().map(SummaryFollower::next_look) {
                // The sender exists as long as `events`.
                None => _ = self.latest.changed().await,
                Some(next) => _ = timeout_at(next, self.latest.changed()).await,
            }
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
        if self.generation != Some(latest.generation) {
            let table = self.message("table", json!({"generation": latest.generation}));
            let is_first = self.generation.is_none();
            batch.extend(table.map(|table| if is_first { table.retry(RETRY) } else { table }));
            self.generation = Some(latest.generation);
        }
        match self.summary.as_mut().and_then(SummaryFollower::look) {
            None => {}
            Some(Ok(delta)) => batch.extend(self.message("summary", delta)),
            Some(Err(TooMany)) => batch.extend(self.message("reset", json!({}))),
        }
        for event in events.unwrap_or_default() {
            self.position = event.id;
            if self.filter.selects(&event) {
                batch.extend(self.message("change", event));
            }
        }
        // The next batch follows at once.
        if self.position < latest.id {
            self.latest.mark_changed();
        }
        batch
    }

    /// Returns a message with the current position, from which the client continues when it connects again. It is never
    /// `None`: texts and numbers always have JSON.
    fn message(&self, kind: &str, data: impl Serialize) -> Option<Message> {
        let message = Message::default().id(self.position.to_string()).event(kind);
        message.json_data(data).ok()
    }
}

impl IntoResponse for EventStream {
    /// Returns the response. The ring is read when the client has taken the messages of the last batch.
    fn into_response(self) -> Response {
        let batches = stream::unfold(self, async |mut stream| Some((stream.next().await, stream)));
        let messages = batches.flat_map(stream::iter).map(Ok::<_, Infallible>);
        let keep_alive = KeepAlive::new()
            .interval(KEEP_ALIVE)
            .text("the server is there");
        Sse::new(messages).keep_alive(keep_alive).into_response()
    }
}

#[cfg(test)]
mod tests;
