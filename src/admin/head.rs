//! The state of the server at a glance: `/api/v1/status`, and the head of `/api/v1/summary`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use axum::Extension;
use axum::extract::State as FromState;
use axum::http::header::{ETAG, HeaderMap, IF_NONE_MATCH};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::attention::{CauseReport, LevelCounts};
use super::body::json;
use super::document::{Documents, Form};
use super::state::AdminState;
use crate::VERSION;
use crate::clock::unix_milliseconds;
use crate::model::{ClusterName, Timestamp};
use crate::report::{Health, SchemaVersion};
use crate::source::events::Latest;
use crate::table::links::{ClusterLink, LinkState, UnknownReason};
use crate::table::{Published, Table};
use crate::zone::{Zone, ZoneKind};

/// Maximum number of causes in a document. The others are counted.
const MAX_CAUSES: usize = 50;

/// The state of a server at a glance.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Head {
    schema_version: SchemaVersion,
    version: &'static str,
    /// `--cluster-name`.
    cluster: String,
    /// The name of the host: in a cluster, that of the pod.
    replica: String,
    /// The zones, with final dots, in the order of the flags.
    zones: Vec<String>,
    /// What follows the namespace in the names of services, one for each zone of `--zone`, in their order.
    name_suffixes: Vec<String>,
    /// The addresses of the DNS port.
    servers: Vec<String>,
    state: TableState,
    /// Since when the state holds, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// The number of tables that differ from the one before. `None` before the first table, as the next two.
    generation: Option<u64>,
    serial: Option<u32>,
    /// The hash of all answers, equal in replicas with equal answers.
    table_hash: Option<u64>,
    /// The number of tables since the start. A stream of events that starts here misses nothing.
    tables: u64,
    /// The ID of the last event.
    last_event: u64,
    /// How bad the worst problem is.
    level: Health,
    /// What somebody should look at: the worst first, and of these the newest.
    attention: Vec<CauseReport>,
    /// The number of causes that are not listed.
    more_attention: usize,
    /// The numbers of problems by level.
    problems: LevelCounts,
    /// The clusters: this one, and those of Links.
    clusters: Vec<ClusterReport>,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterReport {
    name: String,
    /// Whether it is this cluster.
    is_own: bool,
    /// The state of its Links: `linked`, `frozen`, `unlinked` or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<&'static str>,
    /// Since when the state holds, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
}

/// The state of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum TableState {
    /// There is no table yet.
    Loading,
    /// The table is confirmed by its source.
    Ready,
    /// The table comes from a snapshot of an earlier process.
    Stale,
    /// The table is older than `--max-stale`.
    Expired,
}

/// Answers `/api/v1/status`.
pub(super) async fn status(
    FromState(state): FromState<AdminState>,
    headers: HeaderMap,
) -> Response {
    #[derive(Serialize)]
    struct Status {
        #[serde(flatten)]
        head: Head,
        /// The time of the server in UTC.
        time: String,
    }
    let latest = *state.feeds.events().subscribe().borrow();
    let head = Head::new(&state, &state.reader.load(), latest);
    let time = Timestamp(unix_milliseconds()).to_text();
    json(&headers, &Status { head, time })
}

/// Answers `/api/v1/summary`.
pub(super) async fn summary(
    FromState(state): FromState<AdminState>,
    Extension(documents): Extension<Documents>,
    headers: HeaderMap,
) -> Response {
    // In this order, the table is at least as new as the number that the client continues from.
    let latest = *state.feeds.events().subscribe().borrow();
    let head = Head::new(&state, &state.reader.load(), latest);
    let tag = head.tag();
    let known = headers.get_all(IF_NONE_MATCH).iter();
    let known = known.filter_map(|value| value.to_str().ok());
    // RFC 9110 section 13.1.2: the tags are compared weakly.
    let mut known = known.flat_map(|value| value.split(','));
    let is_known = known.any(|one| one.trim().trim_start_matches("W/") == tag);
    let Ok(tag) = HeaderValue::try_from(tag) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let tag = [(ETAG, tag)];
    if is_known {
        return (StatusCode::NOT_MODIFIED, tag).into_response();
    }
    let form = Form::Summary(Box::new(head));
    let document = documents.respond(&state.zones, &state.reader, form, &headers);
    (tag, document.await).into_response()
}

/// Returns what follows the namespace in the names of services of a zone.
fn name_suffix(zone: &Zone) -> Option<String> {
    match &zone.kind {
        ZoneKind::Forward => Some(zone.name.to_string()),
        ZoneKind::ClusterSet => Some(format!("svc.{}", zone.name)),
        ZoneKind::Reverse(_) => None,
    }
}

// === impl Head ===

impl Head {
    /// Describes the server with a table. `latest` was read before the table.
    pub(super) fn new(state: &AdminState, now: &Arc<Published>, latest: Latest) -> Self {
        let causes = state.causes(now);
        let mut attention = causes.serious();
        let more_attention = attention.len().saturating_sub(MAX_CAUSES);
        attention.truncate(MAX_CAUSES);
        let identity = &state.identity;
        let table = now.table.as_ref();
        let zones = || state.zones.iter();
        Self {
            schema_version: SchemaVersion,
            version: VERSION,
            cluster: identity.cluster.to_string(),
            replica: identity.replica.clone(),
            zones: zones().map(|zone| zone.name.to_string()).collect(),
            name_suffixes: zones().filter_map(name_suffix).collect(),
            servers: identity.servers.iter().map(ToString::to_string).collect(),
            state: TableState::of(now),
            since: now.since.map(Timestamp::to_text),
            generation: table.map(|_| now.generation),
            serial: table.map(|_| now.serial),
            table_hash: table.map(|_| state.metrics.facts.of(now).hash),
            tables: latest.tables,
            last_event: latest.id,
            level: causes.health(),
            attention,
            more_attention,
            problems: causes.levels(),
            clusters: clusters(&identity.cluster, table),
        }
    }

    /// Returns whether another head differs in nothing but the numbers of the table.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let unnumbered = |head: &Self| Self {
            generation: None,
            serial: None,
            table_hash: None,
            tables: 0,
            last_event: 0,
            ..head.clone()
        };
        unnumbered(self) == unnumbered(other)
    }

    /// Returns the entity tag of a summary with this head (RFC 9110 section 8.8.3). A summary depends on the table, which the
    /// number of tables and the ID of the last event identify, also between processes.
    fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        serde_json::to_string(self)
            .unwrap_or_default()
            .hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }
}

/// Returns this cluster and those of Links.
fn clusters(own: &ClusterName, table: Option<&Table>) -> Vec<ClusterReport> {
    let own = ClusterReport {
        name: own.to_string(),
        is_own: true,
        link: None,
        since: None,
    };
    let links = table
        .into_iter()
        .flat_map(|table| table.links().clusters.values());
    // Files without Links say nothing about them.
    let is_given = |link: &&ClusterLink| link.state != LinkState::Unknown(UnknownReason::NotGiven);
    let linked = links.filter(is_given).map(|link| ClusterReport {
        name: link.cluster.to_string(),
        is_own: false,
        link: Some(link.state.name()),
        since: link.state.since().map(Timestamp::to_text),
    });
    std::iter::once(own).chain(linked).collect()
}

// === impl TableState ===

impl TableState {
    fn of(now: &Published) -> Self {
        match (&now.table, now.is_expired, now.is_stale) {
            (None, _, _) => Self::Loading,
            (Some(_), true, _) => Self::Expired,
            (Some(_), false, true) => Self::Stale,
            (Some(_), false, false) => Self::Ready,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::published;

    #[test]
    fn state_names_the_worst() {
        let mut now = Published::default();
        assert_eq!(TableState::of(&now), TableState::Loading);
        now = published(Table::default());
        assert_eq!(TableState::of(&now), TableState::Ready);
        now.is_stale = true;
        assert_eq!(TableState::of(&now), TableState::Stale);
        now.is_expired = true;
        assert_eq!(TableState::of(&now), TableState::Expired);
    }
}
