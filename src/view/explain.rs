//! The view `explain`: the answer for a name or an address, why it is so, and what is left out.
//!
//! An explanation starts with [`read()`](crate::zone::read()) and [`answer_question()`](crate::zone::answer::answer_question), as
//! every answer does, so it cannot differ from the answer. It adds the objects behind the answer.

mod address;
mod asked;
mod explanation;
mod missing;
mod names;
mod nearest;
mod notes;

use std::collections::BTreeSet;

use serde_json::json;

use super::document::{Column, Document, Section};
use super::endpoint::EndpointReport;
use super::error::ViewError;
use super::events::cells;
use super::filter::Filter;
use super::kind::View;
use super::page::{limit, page};
use super::problems::ProblemReport;
use super::server::{Server, Shown};
use crate::model::{ClusterName, ServiceKey};
use crate::source::events::Event;
use crate::zone::Zones;
use asked::Asked;
use explanation::{Explanation, ListedEndpoint};

pub(super) use explanation::AnswerReport;

/// Maximum number of changes in an explanation.
const MAX_CHANGES: usize = 10;

/// Makes the document that explains a name or an address.
pub(super) fn explain(server: &Server, filter: &Filter) -> Result<Document, ViewError> {
    let shown = server.shown(filter)?;
    let text = filter.name.as_deref().unwrap_or_default();
    let table = shown.published.table.as_ref().ok_or(ViewError::NoTable)?;
    let asked = Asked::parse(&server.zones, table, text)
        .ok_or_else(|| ViewError::invalid("name", text, "it is not a domain name"))?;
    let limit = limit(filter);
    let mut explained = match &asked {
        Asked::Address(address) => address::explain(&server.zones, &shown.published, *address),
        Asked::Name(name) => {
            let watched = &server.namespaces;
            Explanation::of_name(&server.zones, &shown.published, watched, name, limit)
        }
    }
    .ok_or(ViewError::NoTable)?;
    explained
        .endpoints
        .retain(|one| filter.has_namespace(one.service.key.namespace.as_str()));
    // Those of other services concern other names.
    let listed = &explained.endpoints;
    let own: BTreeSet<&ServiceKey> = listed.iter().map(|one| &one.service.key).collect();
    let concerns = |key: &ServiceKey| own.contains(key);
    let of_server = server.problems_of(&shown).into_iter();
    let of_server = of_server.filter(|one| one.service.as_ref().is_none_or(concerns));
    if explained.is_served {
        explained.problems.extend(of_server);
    }
    document(server, filter, &shown, &asked, &explained)
}

/// Returns whether a text is a name or an address, before a server is asked.
pub fn is_subject(text: &str) -> bool {
    Asked::parse(
        &Zones::new(Vec::new()),
        &crate::table::Table::default(),
        text,
    )
    .is_some()
}

fn document(
    server: &Server,
    filter: &Filter,
    shown: &Shown,
    asked: &Asked,
    explained: &Explanation<'_>,
) -> Result<Document, ViewError> {
    let mut document = server.document(View::Explain, shown);
    document.exit = if explained.exists { 0 } else { 3 };
    let version = shown.published.version;
    let endpoints = explained.endpoints.iter();
    let listed = page(filter, version, endpoints, &mut document)?;
    if filter.next.is_none() {
        let events = events(server, shown, asked, explained);
        document.sections.extend([
            explained.head(),
            ProblemReport::section("problems", &explained.problems),
            explained.what_to_do(),
            explained.answers(),
            explained.records(),
            lines("names", &explained.names),
        ]);
        document.sections.push(endpoints_section(&listed));
        document.sections.extend([
            lines("nearest names that exist", &explained.nearest),
            lines("notes", &explained.notes),
            changes(&events),
        ]);
    } else {
        document.sections.push(endpoints_section(&listed));
    }
    document.sections.retain(|section| !section.rows.is_empty());
    Ok(document)
}

/// Returns a section of lines, each an object with its text.
fn lines(title: &str, lines: &[String]) -> Section {
    let mut section = Section::new(title, [Column::text("")]);
    for line in lines {
        section.push([line.clone()], &json!({"section": title, "text": line}));
    }
    section
}

fn endpoints_section(listed: &[&ListedEndpoint<'_>]) -> Section {
    let mut section = Section::new("endpoints", EndpointReport::columns());
    for one in listed {
        let report = one.report();
        let mut object = serde_json::to_value(&report).unwrap_or_default();
        object["section"] = "endpoints".into();
        section.push(report.cells(), &object);
    }
    section
}

/// Returns the last changes of the services, the newest first.
fn events(
    server: &Server,
    shown: &Shown,
    asked: &Asked,
    explained: &Explanation<'_>,
) -> Vec<std::sync::Arc<Event>> {
    let listed = &explained.endpoints;
    let mut services: BTreeSet<ServiceKey> =
        listed.iter().map(|one| one.service.key.clone()).collect();
    services.extend(asked.service(&server.zones));
    let clusters = listed.iter().filter_map(|one| one.endpoint.cluster.clone());
    let clusters: BTreeSet<ClusterName> = clusters.collect();
    let known = &server.feeds.events;
    known.of_services(&services, &clusters, shown.at, MAX_CHANGES)
}

fn changes(events: &[std::sync::Arc<Event>]) -> Section {
    let mut section = Section::new("last changes", [Column::time(""), Column::text("")]);
    for event in events {
        let [_, time, .., text] = cells(event);
        let mut object = serde_json::to_value(event.as_ref()).unwrap_or_default();
        object["section"] = "events".into();
        section.push([time, text], &object);
    }
    section
}
