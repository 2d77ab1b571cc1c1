//! The HTTP endpoints: `/livez`, `/readyz` and `/metrics` for the cluster, `/api/v1/…` for inspecting the table,
//! and the status page.
//!
//! Readers must not delay probes and answers. The probes run on a thread of their own, and so do the API and the metrics.
//! No response needs time or memory for the whole table at once: what metrics and status say is computed once for each
//! table (`facts.rs`), and the table is written to compressed documents (`document.rs`). `limits.rs` limits requests and
//! memory.

mod attention;
mod body;
mod document;
mod events;
mod facts;
mod follow;
mod gate;
mod head;
mod host;
mod limits;
mod liveness;
mod metrics;
mod page;
mod problems;
mod service_facts;
mod state;
mod summary;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::{Query, State as FromState};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use serde::Deserialize;

use body::json;
use document::{Documents, Form};
pub use facts::CurrentFacts;
pub use host::{ApiHost, ApiHosts};
use limits::Limits;
pub use liveness::Liveness;
pub use metrics::Metrics;
use state::NoMoment;
pub use state::{AdminState, Identity};

use crate::explain::{Context, Explanation, Observer, Subject, service_of};
use crate::model::{ProblemKind, Timestamp};
use crate::report::events::HistoryEvent;
use crate::report::problem_with_age;
use crate::table::{Grammar, Table};
use crate::zone::{Zone, ZoneName, Zones};

// === Routes ===

/// Returns the routes of `--admin-listen`.
pub fn admin_routes(state: AdminState) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(state)
}

/// Returns the routes of `--api-listen`. They show every namespace. `Host` and `Origin` of a request must be of `hosts`.
pub fn api_routes(state: AdminState, hosts: ApiHosts) -> Router {
    let limits = Limits::default();
    Router::new()
        .route("/api/v1/table", get(table))
        .route("/api/v1/explain", get(explanation))
        .route("/api/v1/problems", get(problems::problems))
        .route("/api/v1/status", get(summary::status))
        .route("/api/v1/summary", get(summary::summary))
        .route("/api/v1/events", get(events::events))
        .layer(Extension(events::Streams::default()))
        .layer(Extension(limits.memory().clone()))
        .layer(Extension(Documents::new(limits.memory().clone())))
        .layer(from_fn_with_state(limits, limits::limit))
        .merge(page::routes())
        .layer(from_fn_with_state(hosts, gate::check_request))
        .with_state(state)
}

/// Answers `/livez`. A process that cannot answer queries, or that does not see changes any more, must be restarted. It
/// is alive while the API server is unreachable: the update loop then waits for events, which is progress.
async fn livez(FromState(state): FromState<AdminState>) -> (StatusCode, String) {
    match state.liveness.problem() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(problem) => (StatusCode::SERVICE_UNAVAILABLE, problem + "\n"),
    }
}

/// Answers `/readyz`. The server is ready from the time at which it answers from its first table until it receives a signal to
/// terminate. It stays ready if the API server is unreachable, because it continues to answer from the last table.
async fn readyz(FromState(state): FromState<AdminState>) -> (StatusCode, String) {
    let now = state.reader.load();
    let shutdown = state.shutdown();
    let is_open = now.table.is_some() && state.is_open.load(Ordering::Relaxed);
    let status = if shutdown.is_some() || !is_open {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    let ready = status.is_success().then(|| "ok".to_owned());
    let problems = shutdown.into_iter().chain(state.metrics.problems(&now));
    let lines = ready
        .into_iter()
        .chain(problems.map(|one| problem_with_age(&one)));
    let waits = now.table.iter().flat_map(missing_clusters);
    let lines: Vec<String> = lines.chain(waits).collect();
    (status, lines.join("\n") + "\n")
}

/// Maximum number of services with a line of their own in `/readyz`.
const MAX_LINES: usize = 50;

/// Returns a line for each service whose name waits for expected clusters (rule K8).
fn missing_clusters(table: &Table) -> Vec<String> {
    let waiting = table.waiting_services().take(MAX_LINES);
    let problems = waiting.flat_map(|service| &service.problems);
    let waits = problems.filter(|problem| problem.kind == ProblemKind::ExpectedClustersMissing);
    let mut lines: Vec<String> = waits.map(problem_with_age).collect();
    let more = table.waiting_count().saturating_sub(MAX_LINES);
    if more > 0 {
        let sentence = ProblemKind::ExpectedClustersMissing.row().sentence;
        lines.push(format!("{sentence}: {more} more services"));
    }
    lines
}

async fn metrics(FromState(state): FromState<AdminState>) -> Response {
    const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let metrics = state.metrics;
    let rendered = state.api_runtime.spawn(async move { metrics.render() });
    match rendered.await {
        Ok(Ok(text)) => ([(CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// The query string of `/api/v1/table`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableQuery {
    /// `json` (default) or `zone`.
    output: Option<String>,
    /// The zone for `output=zone`. Optional if one zone is served.
    zone: Option<String>,
    /// The time of the table; without it, now (RFC 3339).
    at: Option<String>,
}

async fn table(
    FromState(state): FromState<AdminState>,
    Query(query): Query<TableQuery>,
    Extension(documents): Extension<Documents>,
    headers: HeaderMap,
) -> Result<Response, NoMoment> {
    let (now, at) = state.table_at(query.at.as_deref())?;
    let form = match query.output.as_deref() {
        None | Some("json") => Ok(Form::Json(at, state.problems_at(&now, at))),
        Some("zone") => choose_zone(&state.zones, query.zone.as_deref())
            .map(|zone| Form::ZoneFile(Box::new(zone.clone()))),
        Some(other) => Err(format!("invalid output '{other}': use json or zone")),
    };
    Ok(match form {
        Ok(form) => {
            let current = || Arc::clone(&state.reader.load());
            let table = || if at.is_some() { now } else { current() };
            documents.respond(&state.zones, table, form, &headers).await
        }
        Err(problem) => (StatusCode::BAD_REQUEST, problem + "\n").into_response(),
    })
}

/// Chooses the zone to print.
///
/// # Errors
///
/// A sentence, if the named zone is not served, or if several zones are served and none is named.
pub fn choose_zone<'z>(zones: &'z Zones, named: Option<&str>) -> Result<&'z Zone, String> {
    let served = || {
        let names: Vec<_> = zones.iter().map(|zone| zone.name.as_str()).collect();
        names.join(" ")
    };
    if let Some(text) = named {
        let name: ZoneName = text.parse().map_err(|e| format!("zone '{text}': {e}"))?;
        let zone = zones.iter().find(|zone| zone.name == name);
        return zone.ok_or_else(|| format!("zone '{name}' is not served; served: {}", served()));
    }
    let forward = zones.iter().filter(|zone| zone.grammar == Grammar::Global);
    match forward.collect::<Vec<_>>().as_slice() {
        [only] => Ok(only),
        _ => Err(format!("several zones are served; name one: {}", served())),
    }
}

/// Maximum number of changes in an explanation.
const MAX_CHANGES: usize = 50;

/// Adds the last changes of the services of an explanation. A service without endpoints has changes, too.
fn with_history(
    explanation: Explanation,
    state: &AdminState,
    subject: &Subject,
    at: Option<Timestamp>,
) -> Explanation {
    let mut services = explanation.services();
    services.extend(
        subject
            .name()
            .and_then(|name| service_of(&state.zones, name)),
    );
    let known = &state.feeds.events;
    let events = known.of_services(&services, &explanation.clusters(), at, MAX_CHANGES);
    Explanation {
        history: events
            .iter()
            .map(|event| HistoryEvent::from(event.as_ref()))
            .collect(),
        at: at.map(Timestamp::to_exact_text),
        ..explanation
    }
}

/// The query string of `/api/v1/explain`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainQuery {
    /// The name or address to explain, as in the command `explain`.
    name: String,
    /// The time of the answer; without it, now (RFC 3339).
    at: Option<String>,
}

async fn explanation(
    FromState(state): FromState<AdminState>,
    Query(query): Query<ExplainQuery>,
    headers: HeaderMap,
) -> Response {
    let (now, at) = match state.table_at(query.at.as_deref()) {
        Ok(found) => found,
        Err(problem) => return events::without_table(&state, &query.name, problem),
    };
    let Some(subject) = Subject::parse(&state.zones, now.table.as_ref(), &query.name) else {
        let problem = format!("'{}' is not a domain name\n", query.name.escape_default());
        return (StatusCode::BAD_REQUEST, problem).into_response();
    };
    let context = Context {
        watched: &state.namespaces,
        observer: Observer::Server,
    };
    let explanation = subject.explain(&state.zones, &now, &context);
    match explanation.map(|explanation| with_history(explanation, &state, &subject, at)) {
        Some(explanation) => json(&headers, &explanation),
        None => {
            let sentence = ProblemKind::NoTable.row().sentence;
            (StatusCode::SERVICE_UNAVAILABLE, format!("{sentence}\n")).into_response()
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
