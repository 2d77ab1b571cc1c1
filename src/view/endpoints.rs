//! The view `endpoints`: one row for each endpoint, and whether the name of its service returns it.

use super::document::{Document, Section};
use super::endpoint::{EndpointReport, ListedEndpoint, NameReply};
use super::error::ViewError;
use super::filter::Filter;
use super::kind::View;
use super::page::page;
use super::server::Server;
use super::table::{is_selected, listed, unmatched};

/// Makes the document of the endpoints.
pub(super) fn endpoints(server: &Server, filter: &Filter) -> Result<Document, ViewError> {
    let shown = server.shown(filter)?;
    let mut document = server.document(View::Endpoints, &shown);
    let listed = listed(&shown.published);
    let services = listed.iter().copied();
    let selected = services.clone();
    let selected = selected.filter(|service| is_selected(filter, service));
    let endpoints = selected.flat_map(ListedEndpoint::of_service);
    let endpoints = endpoints
        .filter(|one| filter.has_cluster(one.cluster()) && filter.has_state(one.state.name()));
    let rows = page(filter, shown.published.version, endpoints, &mut document)?;
    let report = |one: &ListedEndpoint<'_>| NameReply::of_own_name(one.service).report(one);
    let section = Section::of::<EndpointReport>("endpoints", rows.iter().map(report));
    document.sections.push(section);
    if let Some(sentence) = unmatched(filter, services) {
        document.fail(3, &sentence);
    }
    Ok(document)
}
