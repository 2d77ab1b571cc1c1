//! Writes the whole table as a zone file (RFC 1035 section 5). Knot, NSD and BIND load it without warnings.
//!
//! This module only lists the names. Their records come from [`read()`] and [`answer()`], so the file matches the
//! answers. The exception is the address of `ns.dns.Z`, if it is unknown: `NS_PLACEHOLDER`.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use std::{fmt, iter, ptr};

use super::records::{
    AnswerContext, Data, MessageSection, Record, RecordName, SRV_WEIGHT, soa_numbers,
};
use super::walk::Addresses;
use super::{Grammar, Name, Reading, RecordType, Zone, Zones, answer, read};
use crate::model::Port;
use crate::table::{Endpoint, Published, Service, Table};

/// Address of `ns.dns.Z` in a zone file, if the address of this server is unknown. It means the server that loads the
/// file. Name servers reject a zone if its name server has no address.
const NS_PLACEHOLDER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A zone file: the records of the zone itself, and those of each endpoint.
pub struct ZoneFile<'t> {
    zones: Zones,
    zone: &'t Zone,
    table: &'t Table,
    services: Vec<&'t Service>,
    serial: u32,
    ns_host: String,
}

/// A part of a zone file.
#[derive(Clone, Copy)]
pub enum Part<'t> {
    /// The zone itself.
    Zone,
    /// The names of a service whose first endpoint this is.
    Endpoint(&'t Service, &'t Endpoint),
}

/// A name in a zone file, with the types of its records.
pub struct OwnerName<'f> {
    name: String,
    zone: &'f Zone,
    rtypes: &'static [RecordType],
}

/// Returns the zones with a placeholder for each missing address of a name server.
fn with_name_servers(zones: &Zones) -> Zones {
    let with_address = |zone: &Zone| {
        let mut zone = zone.clone();
        if zone.ns_addresses.is_empty() {
            zone.ns_addresses.push(NS_PLACEHOLDER);
        }
        zone
    };
    Zones(zones.iter().map(with_address).collect())
}

// === impl ZoneFile ===

impl<'t> ZoneFile<'t> {
    /// Lists the services of a zone. Returns `None` before the first complete table.
    pub fn new(zones: &Zones, zone: &'t Zone, published: &'t Published) -> Option<Self> {
        let table = published.table.as_ref()?;
        let mut services = table.sorted_services();
        if zone.grammar.cluster().is_some() {
            services
                .iter_mut()
                .for_each(|one| *one = one.without_alias());
        }
        Some(Self {
            zones: with_name_servers(zones),
            zone,
            table,
            services,
            serial: published.serial,
            ns_host: format!("ns.dns.{}", zone.name),
        })
    }

    /// Returns the parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = Part<'t>> {
        let endpoints = |service: &&'t Service| {
            let service = *service;
            let endpoints = service.endpoints.iter();
            endpoints.map(move |endpoint| Part::Endpoint(service, endpoint))
        };
        iter::once(Part::Zone).chain(self.services.iter().flat_map(endpoints))
    }

    /// Returns the names of a part that may have records.
    pub fn names(&self, part: Part<'_>) -> Vec<OwnerName<'_>> {
        match part {
            Part::Zone => self.own_names(),
            Part::Endpoint(service, endpoint) => {
                let names = self.names_from(service, endpoint).into_iter();
                let of_zone = |name| OwnerName::new(name, self.zone, &RecordType::OF_SERVICES);
                names.map(of_zone).collect()
            }
        }
    }

    /// Returns the names of the zone itself.
    fn own_names(&self) -> Vec<OwnerName<'_>> {
        const ADDRESSES: &[RecordType] = &[RecordType::A, RecordType::AAAA];
        let zone = self.zone;
        let apex = zone.name.to_string();
        let version = format!("dns-version.{apex}");
        let mut names = vec![
            OwnerName::new(apex, zone, &[RecordType::SOA, RecordType::NS]),
            OwnerName::new(version, zone, &[RecordType::TXT]),
            OwnerName::new(self.ns_host.clone(), zone, ADDRESSES),
        ];
        // A server of this zone alone delegates its child zones, and knows that the names above them exist.
        for child in self.zones.children(zone) {
            let ns_host = format!("ns.dns.{}", child.name);
            let apex = child.name.to_string();
            names.push(OwnerName::new(apex, child, &[RecordType::NS]));
            names.push(OwnerName::new(ns_host, child, ADDRESSES));
        }
        names
    }

    /// Returns the names of a service whose first endpoint this is, sorted. The name of a service `ns` in namespace `dns` is the name
    /// server's, and a canonical name and a short name may be equal: then it belongs to another service.
    fn names_from(&self, service: &Service, endpoint: &Endpoint) -> BTreeSet<String> {
        let is_first = |owner: &String| {
            let name = Name::from_text(owner).filter(|_| *owner != self.ns_host);
            match name.map(|name| read(&self.zones, self.table, &name)) {
                Some(Reading::View(_, view)) if view.service.key == service.key => {
                    let first = view.endpoints().next();
                    first.is_some_and(|first| ptr::eq(first, endpoint))
                }
                _ => false,
            }
        };
        let bases = bases_of_service(self.zone, self.table, service);
        let names = bases.iter().flat_map(|base| {
            names_of_endpoint(&self.zone.grammar, endpoint, &endpoint.ports, base)
        });
        names.filter(is_first).collect()
    }

    /// Visits the records of a name, each of which is a line, until `visit` breaks.
    pub fn visit_records(
        &self,
        owner: &OwnerName<'_>,
        mut visit: impl FnMut(Record<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some(question) = Name::from_text(&owner.name) else {
            return ControlFlow::Continue(()); // the name is too long for a question
        };
        let nearest = self.zones.find(&question);
        if nearest.is_none_or(|(nearest, _)| nearest.name != owner.zone.name) {
            return ControlFlow::Continue(()); // the name is in a child zone
        }
        let context = AnswerContext::new(&question, self.serial);
        for rtype in owner.rtypes {
            let answer = answer(read(&self.zones, self.table, &question), *rtype);
            let mut page = ControlFlow::Continue(());
            let _ = answer.visit_each(context, |record| {
                if record.section != MessageSection::Answer {
                    return ControlFlow::Break(());
                }
                page = visit(record);
                page
            });
            page?;
        }
        ControlFlow::Continue(())
    }
}

// === impl OwnerName ===

impl<'f> OwnerName<'f> {
    fn new(name: String, zone: &'f Zone, rtypes: &'static [RecordType]) -> Self {
        Self { name, zone, rtypes }
    }
}

// === impl Record ===

impl fmt::Display for Record<'_> {
    /// Writes the record as a line of a zone file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}\tIN\t{}", self.owner, self.ttl, self.data)
    }
}

// === impl Data ===

impl fmt::Display for Data<'_> {
    /// Writes the type and data as in a zone file: `A\t10.96.0.7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t", self.rtype())?;
        match self {
            Self::Addresses(Addresses::V4(ips)) => write_each(f, ips),
            Self::Addresses(Addresses::V6(ips)) => write_each(f, ips),
            Self::Srv { port, target } => write!(f, "0 {SRV_WEIGHT} {port} {target}"),
            Self::Ns(target) => write!(f, "{target}"),
            Self::Soa(zone, serial) => {
                let ([primary, mailbox], numbers) =
                    (RecordName::of_soa(zone), soa_numbers(*serial));
                write!(f, "{primary} {mailbox}")?;
                numbers.iter().try_for_each(|number| write!(f, " {number}"))
            }
            // Those of a zone are versions, without characters that must be escaped.
            Self::Txt(text) => write!(f, "\"{}\"", text.escape_ascii()),
        }
    }
}

/// Writes addresses. A record that is printed has one.
fn write_each(f: &mut fmt::Formatter<'_>, ips: &[&[impl fmt::Display]; 2]) -> fmt::Result {
    ips.iter()
        .copied()
        .flatten()
        .try_for_each(|ip| write!(f, "{ip}"))
}

// === Names ===

/// Returns the own names of a service in a zone: the canonical one, and the short one if it has that.
pub fn bases_of_service(zone: &Zone, table: &Table, service: &Service) -> Vec<String> {
    let ([name, namespace], suffix) = (service.key.labels(), zone.name_suffix());
    let mut bases = vec![format!("{name}.{namespace}.{suffix}")];
    if table.owns_short_name(&service.key) && zone.grammar == Grammar::Global {
        bases.push(format!("{name}.{suffix}"));
    }
    bases
}

/// Returns the names at and below `base` that have the records of an endpoint, with these of its ports.
pub fn names_of_endpoint(
    grammar: &Grammar,
    endpoint: &Endpoint,
    ports: &[Port],
    base: &str,
) -> Vec<String> {
    let [host, cluster] = endpoint.labels();
    let mut scopes = Vec::new();
    match grammar {
        Grammar::Cluster(of) if of.as_str() != cluster => return scopes,
        Grammar::Cluster(_) => scopes.push(String::new()),
        Grammar::Global | Grammar::Mcs if endpoint.is_selected() => scopes.push(String::new()),
        Grammar::Global | Grammar::Mcs => {}
    }
    if *grammar == Grammar::Global && !cluster.is_empty() {
        scopes.push(format!("{cluster}."));
    }
    if !host.is_empty() {
        scopes.push(match grammar {
            Grammar::Cluster(_) => format!("{host}."),
            Grammar::Global | Grammar::Mcs => format!("{host}.{cluster}."),
        });
    }
    let mut names = Vec::new();
    for scope in scopes {
        let has_ports = *grammar != Grammar::Mcs || scope.is_empty();
        for port in ports.iter().filter(|_| has_ports) {
            let protocol = port.protocol.label();
            let name = port.name.as_ref();
            names.extend(name.map(|name| format!("_{name}._{protocol}.{scope}{base}")));
        }
        names.push(scope + base);
    }
    names
}
