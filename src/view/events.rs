//! The view `events`: the last changes of answers, the newest last.

use std::sync::Arc;

use strum::VariantArray as _;

use super::document::{Cell, Column, Document, Report, Section};
use super::error::ViewError;
use super::filter::Filter;
use super::kind::View;
use super::page::limit;
use super::server::Server;
use super::table::listed;
use crate::model::list_some;
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
    let section = Section::of::<Event>("", selected.iter().cloned());
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

impl Report for Event {
    /// Trouble is marked.
    fn cells() -> Vec<Cell<Self>> {
        vec![
            Column::wide("ID").of(|one| one.id.to_string()),
            Column::time("TIME").of(|one: &Self| one.time.clone()),
            Column::text("KIND").of(|one: &Self| <&str>::from(one.change.kind).to_owned()),
            Column::text("SERVICE").of(|one: &Self| list_some(&one.change.services, 1)),
            Column::wide("CLUSTER").of(|one: &Self| {
                let cluster = one.change.cluster.as_ref();
                cluster.map_or_else(String::new, ToString::to_string)
            }),
            Column::state("").of(|one: &Self| match one.change.is_trouble() {
                true => "attention".to_owned(),
                false => String::new(),
            }),
            Column::text("TEXT").of(|one: &Self| one.change.text.to_string()),
        ]
    }
}
