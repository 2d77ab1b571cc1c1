//! `/api/v1/history`: when a service changed, and when services were not fine.

use axum::extract::{Query, State as FromState};
use axum::http::StatusCode;
use axum::http::header::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};

use super::body::json;
use super::state::{AdminState, NoMoment};
use crate::clock::unix_milliseconds;
use crate::explain::service_of;
use crate::model::{ServiceKey, Timestamp};
use crate::report::SchemaVersion;
use crate::table::{Impact, Spell};
use crate::zone::Name;

/// Maximum number of changes in a document, and of times in which services were not fine. A page has about as many pixels.
const MAX_MARKS: u32 = 1000;

/// Maximum number of events about the time before the history.
const MAX_EVENTS: usize = 10;

/// The query string.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    /// A name whose changes are wanted.
    name: Option<String>,
    /// The start of the time that is wanted; without it, the whole history (RFC 3339).
    from: Option<String>,
}

/// The response.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HistoryReport {
    schema_version: SchemaVersion,
    /// The time at which the history of this process begins.
    start: String,
    /// The time of the server.
    now: String,
    /// The times at which the service of the name changed.
    changes: Vec<ChangeMark>,
    /// The times at which services were not fine.
    spells: Vec<SpellReport>,
}

/// The last of some changes that are close to each other.
#[derive(Serialize)]
struct ChangeMark {
    time: String,
    /// Their number.
    count: usize,
}

/// A time in which services were not fine.
#[derive(Serialize)]
struct SpellReport {
    start: String,
    /// Absent if it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<String>,
    /// How bad the state of the worst service was.
    level: Impact,
    /// The largest number of services that were not fine.
    services: usize,
}

pub(super) async fn history(
    FromState(state): FromState<AdminState>,
    Query(query): Query<HistoryQuery>,
    headers: HeaderMap,
) -> Result<Response, NoMoment> {
    let from = query.from.as_deref().map(NoMoment::parse).transpose()?;
    let from = from.unwrap_or_default();
    let service = query.name.and_then(|name| service_named(&state, &name));
    let now = Timestamp(unix_milliseconds());
    let length = now.since(from.max(state.reader.history_start()));
    let timeline = state
        .reader
        .timeline(service.as_ref(), from, length / MAX_MARKS);
    let mark = |(time, count): (Timestamp, usize)| ChangeMark {
        time: time.to_exact_text(),
        count,
    };
    let report = HistoryReport {
        schema_version: SchemaVersion,
        start: timeline.start.to_exact_text(),
        now: now.to_exact_text(),
        changes: timeline.changes.into_iter().map(mark).collect(),
        spells: timeline.spells.into_iter().map(SpellReport::from).collect(),
    };
    Ok(json(&headers, &report))
}

/// Returns the response to a question about a time without a table: why there is none, and what the events know of the service
/// of the name before that time.
pub(super) fn without_table(state: &AdminState, name: &str, problem: NoMoment) -> Response {
    let NoMoment::Early(time, _) = problem else {
        return problem.into_response();
    };
    let services = service_named(state, name).into_iter().collect();
    let known = state.feeds.events();
    let events = known.of_services(&services, &Default::default(), Some(time), MAX_EVENTS);
    let lines = events
        .iter()
        .map(|event| format!("{} {}\n", event.time, event.change.text));
    let text = format!("{problem}\n{}", lines.collect::<String>());
    (StatusCode::NOT_FOUND, text).into_response()
}

/// Returns the service of a name.
fn service_named(state: &AdminState, name: &str) -> Option<ServiceKey> {
    service_of(&state.zones, &Name::from_text(name)?)
}

// === impl SpellReport ===

impl From<Spell> for SpellReport {
    fn from(spell: Spell) -> Self {
        Self {
            start: spell.start.to_exact_text(),
            end: spell.end.map(Timestamp::to_exact_text),
            level: spell.level,
            services: spell.services,
        }
    }
}
