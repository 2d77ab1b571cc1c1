//! The view `problems`: the causes first, then each problem, those of the server and of clusters before those of services.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::{Document, Filter, ProblemReport, Shown, is_listed};
use crate::model::Problem;
use crate::table::Table;

/// Adds the problems.
pub(super) fn problems(shown: &Shown<'_>, document: &mut Document) {
    let filter = shown.filter;
    let of_server = shown.problems().into_iter().map(Cow::Owned);
    let of_table = shown.table().into_iter().flat_map(Table::reported_problems);
    let all = of_server.chain(of_table);
    // Documents are made one at a time, so that the list of all is in memory once.
    let mut selected: Vec<Cow<'_, Problem>> = all.filter(|one| is_selected(filter, one)).collect();
    selected.sort_by(|one, other| {
        let rank = |one: &Problem| (Reverse(one.kind.row().level), one.service.is_some());
        rank(one).cmp(&rank(other)).then_with(|| one.cmp(other))
    });
    let rows = shown.page(selected, document);
    if !filter.selects_rows() {
        document
            .sections
            .push(shown.causes().section(shown.print_context()));
    }
    document
        .sections
        .push(ProblemReport::section(&rows, shown.print_context()));
}

/// Returns whether a problem is selected: by its kind, its cluster, and its service, object or text.
fn is_selected(filter: &Filter, problem: &Problem) -> bool {
    let cluster = problem.cluster.as_ref().map_or("", |one| one.as_str());
    let has_name = match (&problem.service, problem.objects.first()) {
        (Some(key), _) => filter.has_service(key.labels()),
        (None, Some(object)) => {
            let key = &object.key;
            filter.has_service([&key.name.text(), &key.namespace])
        }
        (None, None) => {
            let text = format!("{} {}", problem.subject(), problem.detail);
            let is_part = |one: &String| text.contains(one.as_str());
            filter.namespace.is_empty()
                && (filter.text.is_empty() || filter.text.iter().any(is_part))
        }
    };
    has_name && is_listed(&filter.kind, problem.kind.name()) && is_listed(&filter.cluster, cluster)
}
