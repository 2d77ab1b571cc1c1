//! The view `events`: the last changes of answers, the newest last.

use super::{Cells, Document, Filter, Report, Section, Shown, is_listed, text_of};
use crate::model::list_some;
use crate::source::events::{Event, MAX_EVENTS};

/// Adds the events. Without a position or a time, the last ones are selected.
pub(super) fn events(shown: &Shown<'_>, document: &mut Document) {
    let (filter, known) = (shown.filter, &shown.server.feeds.events);
    let (all, known_since) = known.all();
    let later = filter.after.and_then(|id| known.after(id, MAX_EVENTS));
    let is_complete = match filter.after {
        Some(_) => later.is_some(),
        None => filter.since.is_none_or(|since| since >= known_since),
    };
    let mut events = later.unwrap_or(all);
    events.retain(|one| selects(filter, one));
    let limit = filter.limit.map_or(MAX_EVENTS, |_| filter.page_size());
    match filter.after {
        // The next request continues after the last of these.
        Some(_) => events.truncate(limit),
        None => drop(events.drain(..events.len().saturating_sub(limit))),
    }
    let since = known_since.to_text();
    let is_empty = events.is_empty();
    let none = || is_empty.then(|| format!("no such change since {since}"));
    // An event that names no service does not show that one matches.
    let unmatched = events
        .iter()
        .all(|one| one.change.services.is_empty())
        .then(|| filter.unmatched(&shown.services()).or_else(none));
    document.sections.push(Section::of::<Event>("", events));
    let incomplete = || format!("this server knows the events since {since}");
    document.fail_if(0, (!is_complete).then(incomplete));
    document.fail_if(0, unmatched.flatten());
}

/// Returns whether an event is selected: by its keys, its kind and its time. An event that names no service concerns all.
pub fn selects(filter: &Filter, event: &Event) -> bool {
    let change = &event.change;
    let mut services = change.services.iter();
    let has_service =
        change.services.is_empty() || services.any(|key| filter.has_service(key.labels()));
    let cluster = change.cluster.as_ref().map_or("", |one| one.as_str());
    let is_later = filter.since.is_none_or(|since| since <= event.moment);
    let is_of_kind = is_listed(&filter.kind, change.kind.into());
    has_service && is_later && is_of_kind && is_listed(&filter.cluster, cluster)
}

impl Report for Event {
    /// Trouble is marked.
    fn cells(columns: Cells<Self>) -> Cells<Self> {
        columns
            .wide("ID", |one| one.id.to_string())
            .time("TIME", |one| one.time.clone())
            .text("KIND", |one| <&str>::from(one.change.kind).to_owned())
            .text("SERVICE", |one| list_some(&one.change.services, 1))
            .wide("CLUSTER", |one| text_of(one.change.cluster.as_ref()))
            .state("", |one| {
                let is_trouble = one.change.is_trouble();
                if is_trouble { "attention" } else { "" }.to_owned()
            })
            .text("TEXT", |one| one.change.text.to_string())
    }
}
