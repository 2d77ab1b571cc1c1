//! HTTP beside the DNS port: `/livez`, `/readyz` and `/metrics` for the cluster, `/api/v1/…` for people who look into
//! what is served.

mod host;
mod metrics;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::{Query, State as FromState};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;

pub use host::{ApiHost, ApiHosts, InvalidHost};
pub use metrics::Metrics;

use crate::explain::{Context, Observer, explain};
use crate::mirror::Namespace;
use crate::report::Report;
use crate::source::Feeds;
use crate::table::publish::Reader;
use crate::zone::print::zone_file;
use crate::zone::{Name, Zone, ZoneKind, ZoneName, Zones};

/// What the pages are made from.
#[derive(Clone)]
pub struct Pages {
    /// Current table.
    pub reader: Reader,
    /// The zones that are served.
    pub zones: Arc<Zones>,
    /// The namespaces of `--namespace`; none means all.
    pub namespaces: Arc<[Namespace]>,
    /// Signs of life of the source.
    pub feeds: Feeds,
    /// Everything that is counted.
    pub metrics: Metrics,
    /// Set when the process has been asked to end.
    pub draining: Arc<AtomicBool>,
}

// === Routes ===

/// Routes of `--admin-listen`.
pub fn admin_routes(pages: Pages) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(pages)
}

/// Routes of `--api-listen`. They show every namespace, and only to those who ask for one of `hosts`.
pub fn api_routes(pages: Pages, hosts: ApiHosts) -> Router {
    Router::new()
        .route("/api/v1/table", get(table))
        .route("/api/v1/conflicts", get(conflicts))
        .route("/api/v1/explain", get(explanation))
        .layer(from_fn_with_state(hosts, host::check))
        .with_state(pages)
}

/// Ready from the first complete table, or one that was saved, until the process is asked to end. Losing the API server
/// does not change that: the last table is answered for as long as it takes. Nor does `--max-stale`: every replica loses
/// the API server at once, and without any that is ready nobody would get the SERVFAIL that was asked for.
async fn readyz(FromState(pages): FromState<Pages>) -> (StatusCode, String) {
    let (status, lines) = if pages.draining.load(Ordering::Relaxed) {
        let lines = vec!["shutting down".to_owned()];
        (StatusCode::SERVICE_UNAVAILABLE, lines)
    } else if pages.reader.load().table.is_none() {
        let mut lines = vec!["no complete table yet".to_owned()];
        lines.extend(pages.problems());
        (StatusCode::SERVICE_UNAVAILABLE, lines)
    } else {
        let mut lines = vec!["ok".to_owned()];
        lines.extend(pages.problems());
        (StatusCode::OK, lines)
    };
    (status, lines.join("\n") + "\n")
}

impl Pages {
    /// Says what is wrong with the table and with its source.
    fn problems(&self) -> Vec<String> {
        let now = self.reader.load();
        let age = self.feeds.age().as_secs();
        let expired = now.is_expired.then(|| {
            let expired = "the table is older than --max-stale: answering SERVFAIL";
            format!("{expired}, after {age} s without a sign of life")
        });
        let stale = format!("answering from a snapshot of {age} s ago");
        let stale = now.is_stale.then_some(stale);
        let problems = expired.into_iter().chain(stale);
        problems.chain(self.feeds.troubles()).collect()
    }
}

async fn metrics(FromState(pages): FromState<Pages>) -> Response {
    const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match pages.metrics.render() {
        Ok(text) => ([(CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Query of `/api/v1/table`.
#[derive(Deserialize)]
struct TableQuery {
    /// `json`, which is the default, or `zone`.
    output: Option<String>,
    /// Which zone, for `output=zone`; the only one, if there is one.
    zone: Option<String>,
}

async fn table(FromState(pages): FromState<Pages>, Query(query): Query<TableQuery>) -> Response {
    let now = pages.reader.load();
    match query.output.as_deref() {
        None | Some("json") => Json(Report::new(&pages.zones, &now)).into_response(),
        Some("zone") => match choose_zone(&pages.zones, query.zone.as_deref()) {
            Ok(zone) => zone_file(&pages.zones, zone, &now).into_response(),
            Err(problem) => (StatusCode::BAD_REQUEST, problem + "\n").into_response(),
        },
        Some(other) => {
            let problem = format!("output '{other}' is neither json nor zone\n");
            (StatusCode::BAD_REQUEST, problem).into_response()
        }
    }
}

/// Picks the zone to print.
///
/// # Errors
///
/// A sentence, if the zone is not served, or none is named and there are several.
pub fn choose_zone<'z>(zones: &'z Zones, named: Option<&str>) -> Result<&'z Zone, String> {
    let served = || {
        let names: Vec<_> = zones.iter().map(|zone| zone.name.as_str()).collect();
        names.join(" ")
    };
    if let Some(text) = named {
        let name: ZoneName = text.parse().map_err(|e| format!("zone '{text}': {e}"))?;
        let found = zones.iter().find(|zone| zone.name == name);
        return found.ok_or_else(|| format!("zone '{name}' is not served; served: {}", served()));
    }
    let forward = zones.iter().filter(|zone| zone.kind == ZoneKind::Forward);
    match forward.collect::<Vec<_>>().as_slice() {
        [only] => Ok(only),
        _ => Err(format!("several zones are served, name one: {}", served())),
    }
}

async fn conflicts(FromState(pages): FromState<Pages>) -> Response {
    Json(Report::new(&pages.zones, &pages.reader.load()).conflicts).into_response()
}

/// Query of `/api/v1/explain`.
#[derive(Deserialize)]
struct ExplainQuery {
    /// The name to explain.
    name: String,
}

async fn explanation(
    FromState(pages): FromState<Pages>,
    Query(query): Query<ExplainQuery>,
) -> Response {
    let Some(name) = Name::from_text(&query.name) else {
        let problem = format!("'{}' is no domain name\n", query.name.escape_default());
        return (StatusCode::BAD_REQUEST, problem).into_response();
    };
    let context = Context {
        watched: &pages.namespaces,
        observer: Observer::Server,
    };
    match explain(&pages.zones, &pages.reader.load(), &context, &name) {
        Some(explanation) => Json(explanation).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "no complete table yet\n").into_response(),
    }
}
