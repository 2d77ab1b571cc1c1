//! `/api/v1/status`: the state of the server at a glance, with a sentence for each problem.

use axum::Json;
use axum::extract::State as FromState;
use serde::Serialize;

use super::state::AdminState;
use crate::VERSION;
use crate::model::{Level, Line, Problem, ProblemKind};
use crate::report::SchemaVersion;
use crate::table::Published;
use crate::zone::{Zone, ZoneKind};

/// The response of `/api/v1/status`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    schema_version: SchemaVersion,
    version: &'static str,
    /// `--cluster-name`.
    cluster: String,
    /// The zones, with final dots, in the order of the flags.
    zones: Vec<String>,
    /// What follows the namespace in the names of services, one for each zone of `--zone`, in their order.
    name_suffixes: Vec<String>,
    state: TableStatus,
    /// `None` before the first table.
    generation: Option<u64>,
    /// `None` before the first table.
    serial: Option<u32>,
    /// The hash of all answers, equal in replicas with equal answers. `None` before the first table.
    table_hash: Option<u64>,
    /// The time since the oldest watch was heard from.
    table_age_seconds: f64,
    /// The number of queries since the start.
    queries: u64,
    /// A sentence for each kind of problem that somebody should look at.
    problems: Vec<String>,
    /// What is known about the kind of each sentence of `problems`, in the same order.
    problem_rows: Vec<ProblemSummary>,
}

/// A problem, or several of one kind.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct ProblemSummary {
    kind: ProblemKind,
    level: Level,
    /// The number of problems.
    count: u32,
    /// One of them as a sentence, and the number of the others. The same text is in `problems`.
    text: Line,
    /// What a person does.
    hint: &'static str,
    /// The section of the manual.
    anchor: String,
}

/// The state of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum TableStatus {
    /// There is no table yet.
    Loading,
    /// The table is confirmed by its source.
    Ready,
    /// The table comes from a snapshot of an earlier process.
    Stale,
    /// The table is older than `--max-stale`.
    Expired,
}

pub(super) async fn status(FromState(state): FromState<AdminState>) -> Json<Status> {
    let now = state.reader.load();
    let has_table = now.table.is_some();
    let problems = state.problems(&now);
    let problem_rows: Vec<ProblemSummary> = problems.iter().map(ProblemSummary::from).collect();
    Json(Status {
        schema_version: SchemaVersion,
        version: VERSION,
        cluster: state.cluster_name.to_string(),
        zones: state
            .zones
            .iter()
            .map(|zone| zone.name.to_string())
            .collect(),
        name_suffixes: state.zones.iter().filter_map(name_suffix).collect(),
        state: TableStatus::of(&now),
        generation: has_table.then_some(now.generation),
        serial: has_table.then_some(now.serial),
        table_hash: has_table.then(|| state.metrics.facts.of(&now).hash),
        table_age_seconds: state.feeds.age().as_secs_f64(),
        queries: state.metrics.counters.queries(),
        problems: problem_rows
            .iter()
            .map(|row| row.text.to_string())
            .collect(),
        problem_rows,
    })
}

/// Returns what follows the namespace in the names of services of a zone.
fn name_suffix(zone: &Zone) -> Option<String> {
    match &zone.kind {
        ZoneKind::Forward => Some(zone.name.to_string()),
        ZoneKind::ClusterSet => Some(format!("svc.{}", zone.name)),
        ZoneKind::Reverse(_) => None,
    }
}

// === impl ProblemSummary ===

impl From<&(u32, Problem)> for ProblemSummary {
    fn from((count, first): &(u32, Problem)) -> Self {
        let row = first.kind.row();
        let text = match count {
            1 => first.to_string(),
            _ => format!("{first}; and {} more", count - 1),
        };
        Self {
            kind: row.kind,
            level: row.level,
            count: *count,
            text: text.into(),
            hint: row.hint,
            anchor: row.kind.anchor(),
        }
    }
}

// === impl TableStatus ===

impl TableStatus {
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
    use crate::table::Table;
    use crate::testing::published;

    #[test]
    fn state_names_the_worst() {
        let mut now = Published::default();
        assert_eq!(TableStatus::of(&now), TableStatus::Loading);
        now = published(Table::default());
        assert_eq!(TableStatus::of(&now), TableStatus::Ready);
        now.is_stale = true;
        assert_eq!(TableStatus::of(&now), TableStatus::Stale);
        now.is_expired = true;
        assert_eq!(TableStatus::of(&now), TableStatus::Expired);
    }
}
