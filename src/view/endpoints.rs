//! The view `endpoints`: one row for each endpoint, and whether the name of its service returns it.

use std::ptr;

use super::{Document, EndpointReport, Section, Shown, is_listed};

/// Adds one row for each endpoint, and whether the name of its service returns it.
pub(super) fn endpoints(shown: &Shown<'_>, document: &mut Document) {
    let (filter, services) = (shown.filter, shown.services());
    let endpoints = services
        .iter()
        .filter(|service| filter.selects(service))
        .flat_map(|service| shown.endpoints(service))
        .filter(|one| {
            is_listed(&filter.cluster, one.cluster()) && is_listed(&filter.state, one.state.name())
        });
    let rows = shown.page(endpoints, document);
    let mut reports = Vec::new();
    for rows in rows.chunk_by(|one, other| ptr::eq(one.service, other.service)) {
        let reply = shown.own_reply(rows[0].service);
        reports.extend(rows.iter().map(|one| reply.report(one, shown.clock())));
    }
    let section = Section::of::<EndpointReport>("endpoints", reports);
    document.sections.push(section);
    document.fail_if(3, filter.unmatched(&services));
}
