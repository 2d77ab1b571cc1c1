//! `/api/v1/problems`: the problems of the server and of its table, selected and page by page.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use axum::Extension;
use axum::extract::{Query, State as FromState};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::body::json;
use super::limits::{Memory, no_memory};
use super::state::{AdminState, NoMoment};
use crate::model::{Level, Problem, ProblemKind};
use crate::report::{ProblemReport, SchemaVersion};
use crate::table::Table;

/// The number of problems of a page, unless the request says another one.
const DEFAULT_LIMIT: usize = 200;
/// Maximum number of problems of a page.
const MAX_LIMIT: usize = 1000;

/// Estimated size of a problem with its texts, in octets.
const PROBLEM_SIZE: usize = size_of::<Problem>() + 200;

/// The query string.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProblemsQuery {
    kind: Option<ProblemKind>,
    level: Option<Level>,
    cluster: Option<String>,
    /// `namespace/name`.
    service: Option<String>,
    offset: Option<usize>,
    limit: Option<usize>,
    /// The time of the problems; without it, now (RFC 3339).
    at: Option<String>,
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
    Extension(memory): Extension<Memory>,
    headers: HeaderMap,
) -> Result<Response, NoMoment> {
    let (now, at) = state.table_at(query.at.as_deref())?;
    let of_server = state.problems_at(&now, at);
    let all = || {
        let of_table = now.table.iter().flat_map(Table::problems);
        of_server.iter().chain(of_table)
    };
    let page = ProblemPage::new(&query, all, &memory);
    Ok(page.map_or_else(no_memory, |page| json(&headers, &page)))
}

// === impl ProblemPage ===

impl ProblemPage {
    /// Selects a page. There may be a problem for each object, so only those up to the end of the page are kept, within the
    /// limit of memory. Returns `None` if there is not enough.
    fn new<'p, P: Iterator<Item = &'p Problem>>(
        query: &ProblemsQuery,
        all: impl Fn() -> P,
        memory: &Memory,
    ) -> Option<Self> {
        let selected = || all().filter(|one| query.selects(one));
        let total = selected().count();
        let offset = query.offset.unwrap_or_default();
        let limit = query.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
        let end = offset.saturating_add(limit).min(total);
        let _memory = memory.reserve(end * PROBLEM_SIZE)?;
        // The last of them is on top.
        let mut first = BinaryHeap::with_capacity(end + 1);
        for problem in selected() {
            let level = problem.kind.row().level;
            first.push((Reverse(level), Reverse(problem.since()), problem));
            if first.len() > end {
                first.pop();
            }
        }
        let page = first.into_sorted_vec().into_iter().skip(offset);
        Some(Self {
            schema_version: SchemaVersion,
            total,
            problems: page.map(|(_, _, problem)| problem.into()).collect(),
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A tenant can create thousands of objects that are skipped. The first page must stay readable, and a page far behind it
    /// must not take more memory than the budget of all readers.
    #[test]
    fn page_keeps_only_the_problems_before_its_end_in_memory() {
        let many: Vec<Problem> = (0..5000)
            .map(|number| Problem::new(ProblemKind::UnusableObject, format!("object {number:04}")))
            .collect();
        let all = || many.iter();
        let memory = Memory::new(PROBLEM_SIZE * 1000 / 1024);
        let page = |offset: usize, limit: usize| {
            let query = ProblemsQuery {
                offset: Some(offset),
                limit: Some(limit),
                ..ProblemsQuery::default()
            };
            let page = ProblemPage::new(&query, all, &memory)?;
            assert_eq!(page.total, 5000);
            let details = page.problems.iter().map(|one| one.detail.to_string());
            Some(details.collect::<Vec<_>>())
        };
        assert_eq!(page(0, 2).unwrap(), ["object 0000", "object 0001"]);
        assert_eq!(page(900, 1).unwrap(), ["object 0900"]);
        assert_eq!(page(4000, 1), None);
        assert_eq!(page(usize::MAX, 1), None);
        // The memory is free again.
        assert_eq!(page(0, 900).unwrap().len(), 900);
    }
}
