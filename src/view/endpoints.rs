//! The view `endpoints`: one row for each endpoint, and whether the name of its service returns it.

use super::document::{Column, Document, Section};
use super::endpoint::{EndpointReport, NameReply};
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
    let selected = services
        .clone()
        .filter(|service| is_selected(filter, service));
    let endpoints = selected.flat_map(|service| {
        let reply = NameReply::of_own_name(service);
        let endpoints = reply.endpoints(service);
        endpoints.map(move |(endpoint, state, is_returned)| (service, endpoint, state, is_returned))
    });
    let endpoints = endpoints.filter(|(_, endpoint, state, _)| {
        filter.has_cluster(endpoint.labels()[1]) && filter.has_state(state.name())
    });
    let version = shown.published.version;
    let rows = page(filter, version, endpoints, &mut document)?;
    let service = Column::text("SERVICE");
    let mut section = Section::new(
        "endpoints",
        [service].into_iter().chain(EndpointReport::columns()),
    );
    for (service, endpoint, state, is_returned) in rows {
        let reply = NameReply::of_own_name(service);
        let report = reply.report(service, endpoint, state, is_returned);
        let name = format!("{}.{}", report.service, report.namespace);
        section.push([name].into_iter().chain(report.cells()), &report);
    }
    document.sections.push(section);
    if let Some(sentence) = unmatched(filter, services) {
        document.fail(3, &sentence);
    }
    Ok(document)
}
