//! The view `events`: the last changes of answers, the newest last.

use std::sync::Arc;

use strum::VariantArray as _;

use super::document::{Column, Document, Section};
use super::error::ViewError;
use super::filter::Filter;
use super::kind::View;
use super::page::limit;
use super::server::Server;
use super::table::listed;
use crate::model::{Timestamp, list_some};
use crate::source::events::{Event, MAX_EVENTS};
use crate::table::change::ChangeKind;

/// Makes the document of the events. Without a position or a time, the last ones are selected.
pub(super) fn events(server: &Server, filter: &Filter) -> Result<Document, ViewError> {
    let shown = server.shown(&Filter::default())?;
    let mut document = server.document(View::Events, &shown);
    check_kinds(filter)?;
    let known = &server.feeds.events;
    let (all, known_since) = known.all();
    let (events, is_complete) = match filter.after {
        None => (all, filter.since.is_none_or(|since| since >= known_since)),
        Some(id) => match known.after(id, MAX_EVENTS) {
            Some(later) => (later, true),
            None => (all, false),
        },
    };
    let mut selected: Vec<Arc<Event>> = events
        .into_iter()
        .filter(|one| selects(filter, one))
        .collect();
    let limit = filter.limit.map_or(MAX_EVENTS, |_| limit(filter));
    let more = selected.len().saturating_sub(limit);
    selected.drain(..more);
    let mut section = Section::new("", columns());
    for event in &selected {
        section.push(cells(event), event.as_ref());
    }
    document.sections.push(section);
    if !is_complete {
        let since = known_since.to_text();
        document.fail(0, &format!("this server knows the events since {since}"));
    }
    if selected.is_empty() {
        let services = listed(&shown.published);
        let unmatched = filter.unmatched(services.iter().copied());
        let none = || format!("no such change since {}", known_since.to_text());
        document.fail(0, &unmatched.unwrap_or_else(none));
    }
    Ok(document)
}

/// Returns an error if a kind does not exist.
pub(super) fn check_kinds(filter: &Filter) -> Result<(), ViewError> {
    let names = || ChangeKind::VARIANTS.iter().map(<&str>::from);
    let mut unknown = filter.kind.iter();
    match unknown.find(|kind| names().all(|name| name != kind.as_str())) {
        None => Ok(()),
        Some(kind) => {
            let names = names().collect::<Vec<_>>().join(", ");
            Err(ViewError::invalid(
                "kind",
                kind,
                &format!("the kinds are {names}"),
            ))
        }
    }
}

/// Returns whether an event is selected: by its keys, its kind and its time. An event that names no service concerns all.
pub fn selects(filter: &Filter, event: &Event) -> bool {
    let change = &event.change;
    let mut services = change.services.iter();
    let has_service = change.services.is_empty()
        || services.any(|key| filter.has_service(key.namespace.as_str(), key.service.as_str()));
    let cluster = change.cluster.as_ref().map_or("", |one| one.as_str());
    let is_later = filter.since.is_none_or(|since| since <= event.moment);
    has_service && is_later && filter.has_cluster(cluster) && filter.has_kind(change.kind.into())
}

fn columns() -> [Column; 7] {
    [
        Column::wide("ID"),
        Column::time("TIME"),
        Column::text("KIND"),
        Column::text("SERVICE"),
        Column::wide("CLUSTER"),
        Column::state(""),
        Column::text("TEXT"),
    ]
}

/// Returns an event as cells. Trouble is marked.
pub(super) fn cells(event: &Event) -> [String; 7] {
    let change = &event.change;
    let kind: &str = change.kind.into();
    let state = if change.is_trouble() { "attention" } else { "" };
    [
        event.id.to_string(),
        Timestamp::to_text(event.moment),
        kind.to_owned(),
        list_some(&change.services, 1),
        change
            .cluster
            .as_ref()
            .map_or_else(String::new, ToString::to_string),
        state.to_owned(),
        change.text.to_string(),
    ]
}
