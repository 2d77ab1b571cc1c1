//! Writes the whole table as a zone file (RFC 1035 section 5). Knot, NSD and BIND load it without warnings.
//!
//! This module only lists the names. Their records come from [`read()`] and [`answer()`], so the file matches the
//! answers. The exception is the address of `ns.dns.Z`, if it is unknown: `NS_PLACEHOLDER`.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use super::records::{
    AnswerContext, Data, MessageSection, Record, RecordName, SRV_WEIGHT, soa_numbers,
};
use super::walk::Addresses;
use super::{Grammar, Name, Reading, RecordType, Zone, Zones, answer, read};
use crate::table::{Endpoint, Published, Service, Table};

/// Address of `ns.dns.Z` in a zone file, if the address of this server is unknown. It means the server that loads the
/// file. Name servers reject a zone if its name server has no address.
const NS_PLACEHOLDER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A zone file: the records of the zone itself, and those of each service.
pub struct ZoneFile<'t> {
    zones: Zones,
    zone: &'t Zone,
    table: &'t Table,
    services: Vec<&'t Service>,
    serial: u32,
    ns_host: String,
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
        Some(Self {
            zones: with_name_servers(zones),
            zone,
            table,
            services: table.sorted_services(),
            serial: published.serial,
            ns_host: format!("ns.dns.{}", zone.name),
        })
    }

    /// Returns the number of parts: the zone itself, and each service.
    pub fn parts(&self) -> usize {
        1 + self.services.len()
    }

    /// Returns the lines of a part.
    pub fn part(&self, index: usize) -> Vec<String> {
        match index {
            0 => self.head(),
            _ => self.service(self.services[index - 1]),
        }
    }

    /// Returns the lines of the zone itself.
    fn head(&self) -> Vec<String> {
        let zone = self.zone;
        let apex = zone.name.as_str();
        let version = format!("dns-version.{apex}");
        let addresses = [RecordType::A, RecordType::AAAA];
        let mut lines = self.records(apex, zone, &[RecordType::SOA, RecordType::NS]);
        lines.extend(self.records(&version, zone, &[RecordType::TXT]));
        lines.extend(self.records(&self.ns_host, zone, &addresses));
        // A server of this zone alone delegates its child zones, and knows that the names above them exist.
        for child in self.zones.children(zone) {
            let ns_host = format!("ns.dns.{}", child.name);
            lines.extend(self.records(child.name.as_str(), child, &[RecordType::NS]));
            lines.extend(self.records(&ns_host, child, &addresses));
        }
        lines
    }

    /// Returns the lines of a service. The name of a service `ns` in namespace `dns` is the name server's, and a canonical name
    /// and a short name may be equal: then it belongs to another service.
    fn service(&self, service: &Service) -> Vec<String> {
        let names = names_of_service(self.zone, self.table, service).into_iter();
        let is_own = |owner: &String| {
            let name = Name::from_text(owner).filter(|_| *owner != self.ns_host);
            let reading = name.map(|name| read(&self.zones, self.table, &name));
            matches!(reading, Some(Reading::View(_, view)) if view.service.key == service.key)
        };
        names
            .filter(is_own)
            .flat_map(|owner| self.records(&owner, self.zone, &RecordType::OF_SERVICES))
            .collect()
    }

    /// Returns the lines of a name in a zone that have these types.
    fn records(&self, owner: &str, zone: &Zone, rtypes: &[RecordType]) -> Vec<String> {
        let Some(question) = Name::from_text(owner) else {
            return Vec::new(); // the name is too long for a question
        };
        let nearest = self.zones.find(&question);
        if nearest.is_none_or(|(nearest, _)| nearest.name != zone.name) {
            return Vec::new(); // the name is in a child zone
        }
        let context = AnswerContext::new(&question, self.serial);
        let mut lines = Vec::new();
        for rtype in rtypes {
            let answer = answer(read(&self.zones, self.table, &question), *rtype);
            let records = answer.records(context).into_iter();
            let of_answer = records.filter(|record| record.section == MessageSection::Answer);
            lines.extend(of_answer.map(|record| record.to_string()));
        }
        lines
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

/// Returns the names of a service that own records, sorted. Some may belong to another service.
pub fn names_of_service(zone: &Zone, table: &Table, service: &Service) -> BTreeSet<String> {
    let bases = bases_of_service(zone, table, service);
    let service = match zone.grammar {
        Grammar::Cluster(_) => service.without_alias(),
        Grammar::Global | Grammar::Mcs => service,
    };
    bases
        .iter()
        .flat_map(|base| {
            service
                .endpoints
                .iter()
                .flat_map(|endpoint| names_of_endpoint(&zone.grammar, endpoint, base))
        })
        .collect()
}

/// Returns the own names of a service in a zone: the canonical one, and the short one if it has that.
pub(crate) fn bases_of_service(zone: &Zone, table: &Table, service: &Service) -> Vec<String> {
    let ([name, namespace], suffix) = (service.key.labels(), zone.name_suffix());
    let mut bases = vec![format!("{name}.{namespace}.{suffix}")];
    if table.owns_short_name(&service.key) && zone.grammar == Grammar::Global {
        bases.push(format!("{name}.{suffix}"));
    }
    bases
}

/// Returns the names at and below `base` that have the records of an endpoint.
pub(crate) fn names_of_endpoint(grammar: &Grammar, endpoint: &Endpoint, base: &str) -> Vec<String> {
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
        for port in endpoint.ports.iter().filter(|_| has_ports) {
            let protocol = port.protocol.label();
            let name = port.name.as_ref();
            names.extend(name.map(|name| format!("_{name}._{protocol}.{scope}{base}")));
        }
        names.push(scope + base);
    }
    names
}
