//! The state of the server at a glance: `/api/v1/status`, and the head of `/api/v1/summary`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use serde::Serialize;

use super::attention::{CauseReport, LevelCounts};
use super::facts::TableFacts;
use super::state::AdminState;
use crate::VERSION;
use crate::model::{Problem, Timestamp};
use crate::report::{ClusterReport, SchemaVersion};
use crate::source::events::Latest;
use crate::table::{Impact, Moment, Published};
use crate::zone::Zone;

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
    /// The zones, with final dots, in the order of the settings.
    zones: Vec<String>,
    /// What follows the namespace in the names of services, one for each zone of `--zone`, in their order.
    name_suffixes: Vec<String>,
    /// The addresses of the DNS port.
    servers: Vec<String>,
    state: TableStatus,
    /// Since when the state holds, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// The number of tables that differ from the one before. `None` before the first table, as the next two.
    generation: Option<u64>,
    serial: Option<u32>,
    /// The hash of all answers, equal in replicas with equal answers.
    table_hash: Option<u64>,
    /// The time since which the table answered, if it is one of the past.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// The number of tables since the start; 0 for a table of the past, as the next number. A stream of events that starts here misses nothing.
    tables: u64,
    /// The ID of the last event.
    last_event: u64,
    /// How bad the worst problem or service is.
    level: Impact,
    /// The causes that need attention. Those that make most services fail come first, then by level, then the newest.
    attention: Vec<CauseReport>,
    /// The number of causes that are not listed.
    more_attention: usize,
    /// The numbers of problems by level.
    problems: LevelCounts,
    /// The clusters: this one, and those of Links.
    clusters: Vec<ClusterReport>,
}

/// The state of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum TableStatus {
    /// There is no table yet.
    Loading,
    /// The table is confirmed by its source.
    Ready,
}

// === impl Head ===

impl Head {
    /// Describes the server with a table. `latest` was read before the table.
    pub(super) fn new(state: &AdminState, now: &Arc<Published>, latest: Latest) -> Self {
        let problems = state.server_problems(now);
        Self::of_problems(state, now, latest, &state.metrics.facts.of(now), problems)
    }

    /// Describes the server at the time of a table of the past. All times at which it answered have the same head.
    pub(super) fn of_past(state: &AdminState, past: &Moment) -> Self {
        let now = &past.published;
        let facts = state.metrics.facts.of_past(now);
        let problems = state.past_problems(now);
        Self {
            from: Some(past.start.to_exact_text()),
            ..Self::of_problems(state, now, Latest::default(), &facts, problems)
        }
    }

    fn of_problems(
        state: &AdminState,
        now: &Published,
        latest: Latest,
        facts: &TableFacts,
        of_server: impl Iterator<Item = Problem>,
    ) -> Self {
        let causes = facts.causes_with(of_server);
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
            name_suffixes: zones().map(Zone::name_suffix).collect(),
            servers: identity.servers.iter().map(ToString::to_string).collect(),
            state: TableStatus::of(now),
            since: now.since.map(Timestamp::to_text),
            generation: table.map(|_| now.generation),
            serial: table.map(|_| now.serial),
            table_hash: table.map(|_| facts.hash),
            from: None,
            tables: latest.version,
            last_event: latest.id,
            level: causes.impact(),
            attention,
            more_attention,
            problems: causes.levels(),
            clusters: ClusterReport::all(&identity.cluster, table),
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
    pub(super) fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        serde_json::to_string(self)
            .unwrap_or_default()
            .hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }
}

// === impl TableStatus ===

impl TableStatus {
    fn of(now: &Published) -> Self {
        match now.table {
            None => Self::Loading,
            Some(_) => Self::Ready,
        }
    }
}
