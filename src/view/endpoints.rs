//! The view `endpoints`: one row for each endpoint, and whether the name of its service returns it.

use super::document::{Document, Section};
use super::endpoint::{EndpointReport, ListedEndpoint, NameReply};
use super::error::ViewError;
use super::filter::is_listed;
use super::server::Shown;

/// Adds one row for each endpoint, and whether the name of its service returns it.
pub(super) fn endpoints(shown: &Shown<'_>, document: &mut Document) -> Result<(), ViewError> {
    let (filter, services) = (shown.filter, shown.services());
    let endpoints = services
        .iter()
        .filter(|service| filter.selects(service))
        .flat_map(|service| shown.endpoints(service))
        .filter(|one| {
            is_listed(&filter.cluster, one.cluster()) && is_listed(&filter.state, one.state.name())
        });
    let rows = shown.page(endpoints, document)?;
    let report = |one: &ListedEndpoint<'_>| {
        let (zones, now) = (&shown.server.zones, &shown.published);
        NameReply::of_own_name(zones, now, one.service).report(one, shown.clock())
    };
    let section = Section::of::<EndpointReport>("endpoints", rows.iter().map(report));
    document.sections.push(section);
    document.fail_if(3, filter.unmatched(&services));
    Ok(())
}
