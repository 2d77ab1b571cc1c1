//! `/api/v1/problems`: the problems of the server and of its table, selected and page by page.

use std::borrow::Cow;
use std::cmp::Reverse;

use axum::extract::{Query, State as FromState};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::body::json;
use super::state::AdminState;
use crate::model::{Level, Problem, ProblemKind};
use crate::report::{ProblemReport, SchemaVersion};
use crate::table::Table;

/// The number of problems of a page, unless the request says another one.
const DEFAULT_LIMIT: usize = 200;
/// Maximum number of problems of a page.
const MAX_LIMIT: usize = 1000;

/// The query string.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProblemsQuery {
    kind: Option<ProblemKind>,
    level: Option<Level>,
    cluster: Option<String>,
    /// `namespace/name`.
    service: Option<String>,
    offset: Option<usize>,
    limit: Option<usize>,
}

/// The response.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProblemPage {
    schema_version: SchemaVersion,
    /// The number of selected problems, on all pages.
    total: usize,
    /// The worst first, of these the newest.
    problems: Vec<ProblemReport>,
}

pub(super) async fn problems(
    FromState(state): FromState<AdminState>,
    Query(query): Query<ProblemsQuery>,
    headers: HeaderMap,
) -> Response {
    let now = state.reader.load();
    let of_server = state.server_problems(&now).map(Cow::Owned);
    let of_table = now.table.iter().flat_map(Table::problems);
    let all = of_server.chain(of_table);
    let mut selected: Vec<Cow<'_, Problem>> = all.filter(|one| query.selects(one)).collect();
    selected.sort_by(|one, other| {
        let rank =
            |problem: &Problem| (Reverse(problem.kind.row().level), Reverse(problem.since()));
        rank(one).cmp(&rank(other)).then_with(|| one.cmp(other))
    });
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    let page = selected.iter().skip(query.offset.unwrap_or_default());
    let page = page
        .take(limit)
        .map(|one| ProblemReport::from(one.as_ref()));
    json(
        &headers,
        &ProblemPage {
            schema_version: SchemaVersion,
            total: selected.len(),
            problems: page.collect(),
        },
    )
}

// === impl ProblemsQuery ===

impl ProblemsQuery {
    /// Returns whether a problem is selected. What the query does not name selects everything.
    fn selects(&self, problem: &Problem) -> bool {
        let cluster = problem.cluster.as_ref().map(|cluster| cluster.as_str());
        let is_service = |wanted: &String| {
            let service = problem.service.as_ref();
            service.is_some_and(|service| service.to_string() == *wanted)
        };
        self.kind.is_none_or(|kind| problem.kind == kind)
            && self
                .level
                .is_none_or(|level| problem.kind.row().level == level)
            && self
                .cluster
                .as_deref()
                .is_none_or(|wanted| cluster == Some(wanted))
            && self.service.as_ref().is_none_or(is_service)
    }
}
