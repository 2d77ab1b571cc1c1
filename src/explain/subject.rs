//! The subject of an explanation: a name, which may lack its zone, or an address.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;

use super::context::Context;
use super::explanation::{AnsweringName, Explanation, exists, explain};
use crate::model::{Namespace, ServiceKey};
use crate::report::{EndpointReport, NameReply, ProblemReport, SchemaVersion};
use crate::table::{Published, Service, Table};
use crate::zone::answer::{answer_question, rtype_of};
use crate::zone::records::{AnswerContext, Data, Section};
use crate::zone::{Name, Zone, ZoneKind, Zones, read};

/// The subject of an explanation.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A name.
    Name(Box<Name>),
    /// An address.
    Address(IpAddr),
}

// === impl Subject ===

impl Subject {
    /// Parses an address, `NAMESPACE/SERVICE`, or a name. Adds a zone to a name that needs one: a service
    /// (`NAMESPACE/SERVICE`, `S.N`, `S`), or a name that exists only with a zone. A name with a final dot is complete.
    /// Returns `None` if the text is none of these.
    pub fn parse(zones: &Zones, table: Option<&Table>, text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self::Address(address.to_canonical()));
        }
        let (text, is_service) = match text.split_once('/') {
            Some((namespace, service)) if !service.contains('/') => {
                (format!("{service}.{namespace}"), true)
            }
            _ => (text.to_owned(), false),
        };
        let name = Name::from_text(&text)?;
        let is_complete = text.ends_with('.') || zones.find(&name).is_some();
        if is_complete && !is_service {
            return Some(Self::Name(Box::new(name)));
        }
        let forward = zones.iter().filter(|zone| zone.kind == ZoneKind::Forward);
        let with_zone = |zone: &Zone| Name::from_text(&format!("{text}.{}", zone.name));
        let candidates: Vec<Name> = forward.filter_map(with_zone).collect();
        let name_exists =
            |name: &&Name| table.is_some_and(|table| exists(&read(zones, table, name)));
        let existing = candidates.iter().find(name_exists);
        // A name of more labels may belong to any other zone.
        let needs_zone = is_service || name.count() <= 2;
        let chosen = existing.or_else(|| candidates.first().filter(|_| needs_zone));
        Some(Self::Name(Box::new(chosen.cloned().unwrap_or(name))))
    }

    /// Explains the subject. Returns `None` before the first complete table.
    pub fn explain(
        &self,
        zones: &Zones,
        published: &Published,
        context: &Context<'_>,
    ) -> Option<Explanation> {
        match self {
            Self::Name(name) => explain(zones, published, context, name),
            Self::Address(address) => explain_address(zones, published, *address),
        }
    }

    /// Returns the name, if the subject is one.
    pub fn name(&self) -> Option<&Name> {
        match self {
            Self::Name(name) => Some(name),
            Self::Address(_) => None,
        }
    }
}

/// Explains an address by the endpoints that have it and the names that return it.
fn explain_address(zones: &Zones, published: &Published, address: IpAddr) -> Option<Explanation> {
    let table = published.table.as_ref()?;
    let (mut endpoints, mut names, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for service in table.sorted_services() {
        let reply = NameReply::of_own_name(published, service);
        for endpoint in reply.reports(service) {
            if !endpoint.addresses.contains(&address) {
                continue;
            }
            let labels = [&*endpoint.hostname, &*endpoint.cluster];
            for name in names_above(zones, service, labels) {
                if returns(zones, published, &name, address) && seen.insert(name.to_string()) {
                    names.push(AnsweringName::new(&name, &service.key));
                }
            }
            endpoints.push(endpoint);
        }
    }
    Some(Explanation {
        schema_version: SchemaVersion,
        name: address.to_string(),
        reading: describe_address(names.len(), endpoints.len()),
        exists: !names.is_empty(),
        answers: Vec::new(),
        names,
        endpoints,
        skipped: Vec::new(),
        conflicts: Vec::new(),
        problems: published
            .problems(None)
            .map(|one| ProblemReport::from(&one))
            .collect(),
        nearest: Vec::new(),
        notes: Vec::new(),
    })
}

/// Describes an address by the number of names that return it and of endpoints that have it.
fn describe_address(names: usize, endpoints: usize) -> String {
    match (names, endpoints) {
        (0, 0) => "not the address of an endpoint".to_owned(),
        (0, _) => "the address of an endpoint that no name returns".to_owned(),
        (1, _) => "an address that 1 name returns".to_owned(),
        (count, _) => format!("an address that {count} names return"),
    }
}

/// Returns the canonical and short names of an endpoint, of its cluster and of its service, in every zone. Some of them
/// may not exist. `labels` are `H` and `C`, empty if the endpoint has none.
fn names_above(zones: &Zones, service: &Service, [host, cluster]: [&str; 2]) -> Vec<Name> {
    let (namespace, name) = (&service.key.namespace, &service.key.service);
    let forward = zones.iter().filter(|zone| zone.kind == ZoneKind::Forward);
    let families = forward.flat_map(|zone| {
        let zone = &zone.name;
        [
            format!("{name}.{namespace}.{zone}"),
            format!("{name}.{zone}"),
        ]
    });
    let names = families.flat_map(|family| {
        let of_cluster = (!cluster.is_empty()).then(|| format!("{cluster}.{family}"));
        let of_host = of_cluster.as_ref().filter(|_| !host.is_empty());
        let of_host = of_host.map(|above| format!("{host}.{above}"));
        [of_host, of_cluster, Some(family)].into_iter().flatten()
    });
    names.filter_map(|name| Name::from_text(&name)).collect()
}

/// Returns whether the answer for a name contains an address.
fn returns(zones: &Zones, published: &Published, name: &Name, address: IpAddr) -> bool {
    let answer = answer_question(zones, published, name, rtype_of(address));
    let records = answer.records(AnswerContext::new(name, published.serial));
    let mut answered = records.iter().filter(|r| r.section == Section::Answer);
    answered.any(|record| match record.data {
        Data::A(ip) => address == ip,
        Data::Aaaa(ip) => address == ip,
        Data::Srv { .. } | Data::Ns(_) | Data::Soa(_) | Data::Ptr(_) | Data::Txt(_) => false,
    })
}

// === impl AnsweringName ===

impl AnsweringName {
    fn new(name: &Name, service: &ServiceKey) -> Self {
        Self {
            name: name.to_string(),
            namespace: service.namespace.to_string(),
            service: service.service.to_string(),
        }
    }
}

// === impl Explanation ===

impl Explanation {
    /// Keeps what belongs to these namespaces; without namespaces, everything. Returns whether the name is in one of them.
    /// An address is in all.
    pub fn retain_namespaces(&mut self, namespaces: &[Namespace]) -> bool {
        if namespaces.is_empty() || self.endpoints.is_empty() {
            return true;
        }
        let is_kept = |name: &str| namespaces.iter().any(|one| one.as_str() == name);
        let has_kept = |endpoint: &EndpointReport| is_kept(&endpoint.namespace);
        self.endpoints.retain(has_kept);
        // Only the explanation of an address has no answers.
        if !self.answers.is_empty() {
            return !self.endpoints.is_empty();
        }
        self.names.retain(|one| is_kept(&one.namespace));
        self.exists = !self.names.is_empty();
        self.reading = describe_address(self.names.len(), self.endpoints.len());
        true
    }

    /// Writes the names that return an address.
    pub(super) fn write_names(&self, text: &mut String) -> std::fmt::Result {
        if !self.names.is_empty() {
            writeln!(text, "\nnames:")?;
        }
        self.names
            .iter()
            .try_for_each(|one| writeln!(text, "  {}", one.name))
    }
}
