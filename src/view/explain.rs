//! The view `explain`: the answer for a name or an address, why it is so, and what is left out.
//!
//! An explanation starts with [`read()`](crate::zone::read()) and [`answer_question()`](crate::zone::answer::answer_question), as
//! every answer does, so it cannot differ from the answer. It adds the objects behind the answer.

mod address;
mod answers;
mod asked;
mod name;
mod nearest;

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::json;

use super::document::{Column, Document, Section};
use super::endpoint::{EndpointReport, ListedEndpoint, NameReply};
use super::error::ViewError;
use super::page::limit;
use super::problem::ProblemReport;
use super::server::Shown;
use super::table::ServiceRow;
use crate::model::{ClusterName, Exported, Hostname, Problem, ProblemKind, ServiceKey, mirrorable};
use crate::source::events::Event;
use crate::table::{Service, Table};
use crate::zone::{Reading, Zones};
use asked::Asked;
use name::{ReadName, exists};

pub(super) use answers::{AnswerReport, RecordReport};

/// Maximum number of changes in an explanation.
const MAX_CHANGES: usize = 10;

/// The explanation of a name or an address.
#[derive(Default)]
struct Explanation<'t> {
    /// The absolute name, or the address.
    name: String,
    /// The meaning of the name, as a clause.
    reading: String,
    /// Whether the name exists.
    exists: bool,
    /// What the name means. `None`: it is an address, and the replies are those for the names of the services.
    read: Option<ReadName<'t>>,
    /// The answer for each record type.
    answers: Vec<AnswerReport>,
    /// For an address: the names that return it.
    names: Vec<String>,
    /// All endpoints of the service, those that the replies contain first.
    endpoints: Vec<ListedEndpoint<'t>>,
    /// All problems that concern the name.
    problems: BTreeSet<Problem>,
    /// If the name does not exist: the most similar names that exist.
    nearest: Vec<String>,
}

/// Adds the explanation of a name or an address.
pub(super) fn explain(shown: &Shown<'_>, document: &mut Document) -> Result<(), ViewError> {
    let (filter, zones) = (shown.filter, &*shown.server.zones);
    let text = filter.name.as_deref().unwrap_or_default();
    let table = shown.table().ok_or(ViewError::NoTable)?;
    let asked = Asked::parse(zones, table, text)
        .ok_or_else(|| ViewError::invalid("name", text, "it is not a domain name"))?;
    let mut explained = match &asked {
        Asked::Address(address) => Explanation::of_address(shown, table, *address),
        Asked::Name(name) => {
            let name = ReadName::new(zones, &shown.published, table, name);
            Explanation::of_name(shown, name)
        }
    };
    explained
        .endpoints
        .retain(|one| filter.has_namespace(one.service.key.namespace.as_str()));
    explained.add_problems_of(shown);
    document.exit = if explained.exists { 0 } else { 3 };
    let listed = shown.page(explained.endpoints.iter(), document)?;
    let report = |one: &&ListedEndpoint<'_>| match &explained.read {
        Some(name) => name.reply.report(one),
        None => NameReply::of_own_name(one.service).report(one),
    };
    let endpoints = Section::of::<EndpointReport>("endpoints", listed.iter().map(report));
    document.sections = match filter.next {
        None => explained.sections(shown, endpoints),
        Some(_) => vec![endpoints],
    };
    document.sections.retain(|section| !section.rows.is_empty());
    Ok(())
}

/// Returns whether a text is a name or an address, before a server is asked.
pub fn is_subject(text: &str) -> bool {
    Asked::parse(&Zones(Vec::new()), &Table::default(), text).is_some()
}

// === impl Explanation ===

impl<'t> Explanation<'t> {
    /// Explains a name. Answers list as many records as a page has rows.
    fn of_name(shown: &'t Shown<'_>, name: ReadName<'t>) -> Self {
        let services = name.service.iter();
        let endpoints = services.flat_map(|one| name.reply.endpoints(one));
        let mut endpoints: Vec<ListedEndpoint<'_>> = endpoints.collect();
        // The records have indexes of this order.
        endpoints.sort_by_key(|one| !one.is_returned);
        let exists = exists(&name.reading);
        Self {
            name: name.name.to_string(),
            reading: name.describe(&endpoints, &shown.server.namespaces),
            exists,
            answers: AnswerReport::all(&name, &shown.published, &endpoints, limit(shown.filter)),
            names: Vec::new(),
            endpoints,
            problems: name.problems(),
            nearest: match exists {
                true => Vec::new(),
                false => nearest::nearest(name.zones, name.table, name.name),
            },
            read: Some(name),
        }
    }

    /// Explains an address. Its endpoints are returned if the names of their services return them.
    fn of_address(shown: &Shown<'_>, table: &'t Table, address: IpAddr) -> Self {
        let endpoints = address::endpoints_with(table, address);
        let names = address::names_with(shown, table, &endpoints, address);
        Self {
            name: address.to_string(),
            reading: address::describe(names.len(), endpoints.len()),
            exists: !names.is_empty(),
            names: names.into_iter().collect(),
            endpoints,
            ..Self::default()
        }
    }

    /// Returns the services that it is about.
    fn services(&self) -> BTreeSet<ServiceKey> {
        let of_endpoints = self.endpoints.iter().map(|one| &one.service.key);
        let of_name = self.read.iter().flat_map(|name| &name.key);
        of_endpoints.chain(of_name).cloned().collect()
    }

    /// Adds the problems of the server. Those of other services concern other names.
    fn add_problems_of(&mut self, shown: &Shown<'_>) {
        let is_outside = |name: &ReadName<'_>| matches!(name.reading, Reading::Outside);
        if !self.read.as_ref().is_some_and(is_outside) {
            let own = self.services();
            let mut problems = shown.problems();
            problems.retain(|one| one.service.as_ref().is_none_or(|key| own.contains(key)));
            self.problems.extend(problems);
        }
    }

    /// Returns the sections of the first page.
    fn sections(&self, shown: &Shown<'_>, endpoints: Section) -> Vec<Section> {
        let service = self.read.iter().flat_map(|name| name.service);
        let row = service.map(|one| ServiceRow::new(shown, one));
        let mut service = Section::of::<ServiceRow>("service", row);
        // There is room for all columns of one row.
        let columns = service.columns.iter_mut();
        columns.for_each(|column| column.priority = 0);
        vec![
            self.head(),
            ProblemReport::section(&self.problems),
            self.what_to_do(),
            service,
            Section::of::<AnswerReport>("answers", &self.answers),
            self.records(),
            lines("names", &self.names),
            endpoints,
            lines("nearest names that exist", &self.nearest),
            self.events(shown),
        ]
    }

    /// Returns the name and its meaning, and why other clusters cannot mirror a Service of this one.
    fn head(&self) -> Section {
        let (name, reading, exists) = (&self.name, &self.reading, self.exists);
        let mut section = Section::new("", [Column::text("")]);
        let object = json!({"name": name, "reading": reading, "exists": exists});
        section.push([name.clone()], &object);
        let service = self.read.as_ref().and_then(|name| name.service);
        let lines = [reading.clone()].into_iter();
        for line in lines.chain(service.and_then(not_mirrorable)) {
            section.push_text([format!("  {line}")]);
        }
        section
    }

    /// Returns what a person does about the problems, once for each kind and hint.
    fn what_to_do(&self) -> Section {
        let mut section = Section::new("what to do", [Column::text(""), Column::text("")]);
        let hints = self.problems.iter().map(|one| (one.kind, one.hint()));
        for (kind, hint) in hints.collect::<BTreeSet<_>>() {
            let page = kind.anchor();
            section.push_text([kind.to_string(), format!("{hint}; in the manual: {page}")]);
        }
        section
    }

    /// Returns the records that are of no endpoint: those of a zone.
    fn records(&self) -> Section {
        let mut section = Section::new("records", [Column::text(""), Column::text("")]);
        if self.endpoints.is_empty() {
            for record in self.answers.iter().flat_map(|answer| &answer.records) {
                section.push_text([record.rtype.clone(), record.data.clone()]);
            }
        }
        section
    }

    /// Returns the last changes of the services, the newest first.
    fn events(&self, shown: &Shown<'_>) -> Section {
        let endpoints = self.endpoints.iter();
        let clusters = endpoints.filter_map(|one| one.endpoint.cluster.clone());
        let clusters: BTreeSet<ClusterName> = clusters.collect();
        let (known, at) = (&shown.server.feeds.events, shown.filter.at);
        let events = known.of_services(&self.services(), &clusters, at, MAX_CHANGES);
        Section::of::<Event>("events", events)
    }
}

/// Returns why other clusters cannot mirror an exported Service of this one, and what to do.
fn not_mirrorable(service: &Service) -> Option<String> {
    let own = service.endpoints.iter().chain(&service.not_ready);
    let own: Vec<_> = own.filter(|one| one.is_local()).collect();
    let is_private = |one: &Problem| one.kind == ProblemKind::NotExported;
    let cluster = own
        .first()
        .filter(|_| !service.problems.iter().any(is_private))?
        .cluster
        .as_ref()?;
    let hosts = own.iter().map(|one| {
        let name = one.hostname.as_ref().filter(|name| {
            one.addresses
                .iter()
                .all(|address| **name != Hostname::from_address(address.ip))
        });
        name.map_or("", Hostname::as_str)
    });
    let exported = Exported {
        service: service.key.service.as_str(),
        cluster: cluster.as_str(),
        hosts: hosts.collect(),
        is_headless: own.iter().any(|one| one.hostname.is_some()),
        has_ports: own.iter().any(|one| one.ports.iter().next().is_some()),
    };
    let reason = mirrorable(&exported).err()?;
    Some(format!("other clusters cannot mirror it: {reason}"))
}

/// Returns a section of lines, each an object with its text.
fn lines(title: &str, lines: &[String]) -> Section {
    let mut section = Section::new(title, [Column::text("")]);
    for line in lines {
        section.push([line.clone()], &json!({"text": line}));
    }
    section
}

#[cfg(test)]
mod tests;
