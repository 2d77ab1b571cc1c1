//! `/api/v1/status` and `/api/v1/summary`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State as FromState};
use axum::http::StatusCode;
use axum::http::header::{ETAG, HeaderMap, IF_NONE_MATCH};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::body::json;
use super::document::{Documents, Form};
use super::head::Head;
use super::state::{AdminState, NoMoment};
use crate::clock::unix_milliseconds;
use crate::model::Timestamp;

/// Answers `/api/v1/status`.
pub(super) async fn status(
    FromState(state): FromState<AdminState>,
    headers: HeaderMap,
) -> Response {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Status {
        #[serde(flatten)]
        head: Head,
        /// The time of the server in UTC.
        time: String,
        /// The time at which its history begins.
        history_start: String,
        /// Its settings, as `serve --print-settings` prints them. No secret is among them.
        settings: Arc<Value>,
    }
    let latest = state.feeds.events().latest();
    let head = Head::new(&state, &state.reader.load(), latest);
    let time = Timestamp(unix_milliseconds()).to_text();
    let history_start = state.reader.history_start();
    let history_start = state.feeds.clock().wall(history_start).to_exact_text();
    let status = Status {
        head,
        time,
        history_start,
        settings: state.settings.clone(),
    };
    json(&headers, &status)
}

/// The query string of `/api/v1/summary`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SummaryQuery {
    /// The time of the summary; without it, now (RFC 3339).
    at: Option<String>,
}

/// Answers `/api/v1/summary`.
pub(super) async fn summary(
    FromState(state): FromState<AdminState>,
    Query(query): Query<SummaryQuery>,
    Extension(documents): Extension<Documents>,
    headers: HeaderMap,
) -> Result<Response, NoMoment> {
    let past = query.at.as_deref().map(|at| state.moment_at(at));
    let past = past.transpose()?.map(|(moment, _)| moment);
    // In this order, the table is at least as new as the number that the client continues from.
    let latest = state.feeds.events().latest();
    let head = match &past {
        None => Head::new(&state, &state.reader.load(), latest),
        Some(past) => Head::of_past(&state, past),
    };
    let tag = head.tag();
    let known = headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok());
    // RFC 9110 section 13.1.2: the tags are compared weakly.
    let mut known = known.flat_map(|value| value.split(','));
    let is_known = known.any(|one| ["*", &tag].contains(&one.trim().trim_start_matches("W/")));
    let tag = [(ETAG, tag)];
    if is_known {
        return Ok((StatusCode::NOT_MODIFIED, tag).into_response());
    }
    let form = Form::Summary(Box::new(head));
    let current = || Arc::clone(&state.reader.load());
    let table = || past.map_or_else(current, |past| past.published);
    let document = documents.respond(&state.zones, table, form, &headers);
    Ok((tag, document.await).into_response())
}
