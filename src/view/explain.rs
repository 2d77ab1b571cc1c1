//! The view `explain`: the answer for a name or an address, why it is so, and what is left out.
//!
//! An explanation starts with [`read()`](crate::zone::read()) and [`answer_question()`](crate::zone::answer::answer_question), as
//! every answer does, so it cannot differ from the answer. It adds the objects behind the answer.

mod answers;
mod asked;
mod name;
mod nearest;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde_json::json;

use super::{
    Column, Document, EndpointReport, MAX_LIMIT, ProblemReport, Section, ServiceRow, Shown,
    ViewError, manual_command,
};
use crate::model::{ClusterName, Level, Problem, ProblemKind, ServiceKey};
use crate::source::events::Event;
use crate::table::Table;
use crate::zone::{Reading, Zones};
use asked::read_asked;
use name::ReadName;

pub(super) use answers::{AnswerReport, RecordReport};

/// Maximum number of changes in an explanation.
const MAX_CHANGES: usize = 10;
/// Maximum number of problems in an explanation. The others are counted: a tenant can invent any number of clusters.
const MAX_PROBLEMS: usize = 50;

/// Adds the explanation of a name, or of that of an address.
pub(super) fn explain(shown: &Shown<'_>, document: &mut Document) -> Result<(), ViewError> {
    let (filter, zones) = (shown.filter, &shown.server.zones);
    let text = filter.name.as_deref().unwrap_or_default();
    let table = shown.table().ok_or(ViewError::NoTable)?;
    let name = read_asked(zones, table, text, &filter.namespace)
        .ok_or_else(|| ViewError::invalid("name", text, "it is not a domain name"))?;
    let name = ReadName::new(shown, table, &name);
    document.exit = if name.reading.exists() { 0 } else { 3 };
    let page = shown.page(&name.endpoints, document);
    let more = name.endpoints.len() - page.len();
    let endpoints = page
        .into_iter()
        .map(|one| name.reply.report(one, shown.clock()));
    let endpoints = Section::of::<EndpointReport>("endpoints", endpoints);
    document.sections = match filter.next {
        None => name.sections(endpoints, rest(more, filter.page_size())),
        Some(_) => vec![endpoints],
    };
    document.sections.retain(|section| !section.rows.is_empty());
    Ok(())
}

/// Returns whether a text is a name or an address, before a server is asked.
pub fn is_subject(text: &str) -> bool {
    read_asked(&Zones(Vec::new()), &Table::default(), text, &[]).is_some()
}

// === impl ReadName ===

impl ReadName<'_> {
    /// Returns the sections of the first page.
    fn sections(&self, endpoints: Section, rest: Section) -> Vec<Section> {
        let row = self.service.and_then(|service| {
            let verdict = self.shown.verdict(service)?;
            Some(ServiceRow::new(self.shown, service, verdict))
        });
        let mut service = Section::of::<ServiceRow>("service", row);
        // There is room for all columns of one row.
        service
            .columns
            .iter_mut()
            .for_each(|column| column.priority = 0);
        let (mut problems, answers) = (self.all_problems(), AnswerReport::all(self));
        let more = problems.len().saturating_sub(MAX_PROBLEMS);
        problems.truncate(MAX_PROBLEMS);
        let mut listed = ProblemReport::section(&problems, self.shown);
        if more > 0 {
            listed.push_text([String::new(), format!("and {more} more")]);
        }
        vec![
            self.head(),
            service,
            Section::of::<AnswerReport>("answers", &answers),
            listed,
            what_to_do(&problems),
            self.records(&answers),
            endpoints,
            rest,
            self.nearest(),
            self.events(),
        ]
    }

    /// Returns the problems that concern the name, and those of the server, the worst first. Those of other services concern other
    /// names. An ambiguous short name of a service comes after what is wrong with the name that exists.
    fn all_problems(&self) -> Vec<Problem> {
        let mut problems = self.problems();
        if !matches!(self.reading, Reading::Outside) {
            let of_server = self.shown.problems().into_iter();
            let concerns = |key: &ServiceKey| self.key.as_ref() == Some(key);
            problems.extend(of_server.filter(|one| one.service.as_ref().is_none_or(concerns)));
        }
        let mut problems = Vec::from_iter(problems);
        problems.sort_by_key(|one| match one.kind {
            ProblemKind::ShortName if self.reading.exists() => (Reverse(Level::Warning), true),
            kind => (Reverse(kind.row().level), false),
        });
        problems
    }

    /// Returns the name and its meaning.
    fn head(&self) -> Section {
        let (name, reading) = (self.name.to_string(), self.describe());
        let mut section = Section::new("", [Column::text("")]);
        let object = json!({"name": name, "reading": reading, "exists": self.reading.exists()});
        section.push([name], &object);
        section.push_text([format!("  {reading}")]);
        section
    }

    /// Returns the records that are of no endpoint: those of a zone.
    fn records(&self, answers: &[AnswerReport]) -> Section {
        let mut section = Section::new("records", [Column::text(""), Column::text("")]);
        if self.endpoints.is_empty() {
            for record in answers.iter().flat_map(|answer| &answer.records) {
                section.push_text([record.rtype.clone(), record.data.clone()]);
            }
        }
        section
    }

    /// Returns the most similar names, if the name does not exist.
    fn nearest(&self) -> Section {
        let mut section = Section::new("nearest names that exist", [Column::text("")]);
        if !self.reading.exists() && self.address().is_none() {
            for name in nearest::nearest(&self.shown.server.zones, self.table, self.name) {
                section.push([name.clone()], &json!({"text": name}));
            }
        }
        section
    }

    /// Returns the last changes of the service, the newest first.
    fn events(&self) -> Section {
        let clusters = self
            .endpoints
            .iter()
            .filter_map(|one| one.endpoint.cluster.clone());
        let (clusters, key): (BTreeSet<ClusterName>, _) = (clusters.collect(), self.key.clone());
        let (known, at) = (&self.shown.server.feeds.events, self.shown.filter.at);
        let events = known.of_services(&key.into_iter().collect(), &clusters, at, MAX_CHANGES);
        Section::of::<Event>("events", events)
    }
}

/// Returns how many more endpoints there are, unless the other pages follow.
fn rest(more: usize, limit: usize) -> Section {
    let mut section = Section::new("", [Column::text("")]);
    if more > 0 && limit < MAX_LIMIT {
        section.push_text([format!("{more} more endpoints; -o wide shows all")]);
    }
    section
}

/// Returns what a person does about the problems, once for each kind and hint.
fn what_to_do(problems: &[Problem]) -> Section {
    let mut section = Section::new("what to do", [Column::text(""), Column::text("")]);
    let mut told = BTreeSet::new();
    let hints = problems
        .iter()
        .filter(|one| one.cause.is_none())
        .map(|one| (one.kind, one.hint()));
    for (kind, hint) in hints.filter(|hint| told.insert(hint.clone())) {
        let more = manual_command(kind.name());
        section.push_text([kind.to_string(), format!("{hint}; more: {more}")]);
    }
    section
}

#[cfg(test)]
mod tests;
