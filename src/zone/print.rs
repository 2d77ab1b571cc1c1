//! Writes the whole table as a zone file (RFC 1035 section 5). Knot, NSD and BIND load it without warnings.
//!
//! This module only lists the names. Their records come from [`read()`] and [`answer()`], so the file matches the
//! answers. The exception is the address of `ns.dns.Z`, if it is unknown: `NS_PLACEHOLDER`.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use super::order::Addresses;
use super::records::{AnswerContext, Data, Record, RecordName, SRV_WEIGHT, Section, soa_numbers};
use super::{Name, Reading, RecordType, Zone, Zones, answer, read};
use crate::table::{Endpoint, Grammar, Published, Service, Table};

/// Address of `ns.dns.Z` in a zone file, if the address of this server is unknown. It means the server that loads the
/// file. Name servers reject a zone if its name server has no address.
const NS_PLACEHOLDER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A zone file in progress.
struct ZoneFile<'t, W> {
    zones: &'t Zones,
    table: &'t Table,
    serial: u32,
    out: W,
}

/// Returns a zone as a zone file. Before the first complete table, the file is empty.
pub fn zone_file(zones: &Zones, zone: &Zone, published: &Published) -> String {
    let mut octets = Vec::new();
    // Writing to memory cannot fail, and names and records are ASCII.
    let _ = write_zone_file(&mut octets, zones, zone, published);
    String::from_utf8(octets).unwrap_or_default()
}

/// Writes a zone as a zone file, one service after the other, so that it needs no memory for the names of all services.
///
/// # Errors
///
/// If writing fails.
pub fn write_zone_file(
    out: impl io::Write,
    zones: &Zones,
    zone: &Zone,
    published: &Published,
) -> io::Result<()> {
    let Some(table) = &published.table else {
        return Ok(());
    };
    let mut file = ZoneFile {
        zones: &with_name_servers(zones),
        table,
        serial: published.serial,
        out,
    };
    let apex = &zone.name;
    let (version, ns_host) = (format!("dns-version.{apex}"), format!("ns.dns.{apex}"));
    file.write_records(apex.as_str(), zone, &[RecordType::SOA, RecordType::NS])?;
    file.write_records(&version, zone, &[RecordType::TXT])?;
    file.write_records(&ns_host, zone, &[RecordType::A, RecordType::AAAA])?;
    // A server of this zone alone delegates its child zones, and knows that the names above them exist.
    for child in zones.children(zone) {
        let ns_host = format!("ns.dns.{}", child.name);
        file.write_records(child.name.as_str(), child, &[RecordType::NS])?;
        file.write_records(&ns_host, child, &[RecordType::A, RecordType::AAAA])?;
    }
    for service in table.sorted_services() {
        // The name of a service `ns` in namespace `dns` is the name server's, which is written above.
        let names = names_of_service(zone, table, service).into_iter();
        for owner in names.filter(|owner| *owner != ns_host) {
            file.write_records_of(service, &owner, zone)?;
        }
    }
    Ok(())
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
    Zones::new(zones.iter().map(with_address).collect())
}

// === impl ZoneFile ===

impl<W: io::Write> ZoneFile<'_, W> {
    /// Writes the records of a name, unless it belongs to another service. A canonical name and a short name may be equal.
    fn write_records_of(&mut self, service: &Service, owner: &str, zone: &Zone) -> io::Result<()> {
        let name = Name::from_text(owner);
        match name.map(|name| read(self.zones, self.table, &name)) {
            Some(Reading::View(_, view)) if view.service.key == service.key => {
                self.write_records(owner, zone, &RecordType::OF_SERVICES)
            }
            _ => Ok(()),
        }
    }

    /// Writes the records of a name in a zone that have these types.
    fn write_records(&mut self, owner: &str, zone: &Zone, rtypes: &[RecordType]) -> io::Result<()> {
        let Some(question) = Name::from_text(owner) else {
            return Ok(()); // the name is too long for a question
        };
        let nearest = self.zones.find(&question);
        if nearest.is_none_or(|(nearest, _)| nearest.name != zone.name) {
            return Ok(()); // the name is in a child zone
        }
        let context = AnswerContext::new(&question, self.serial);
        for rtype in rtypes {
            let answer = answer(read(self.zones, self.table, &question), *rtype);
            let records = answer.records(context).into_iter();
            for record in records.filter(|record| record.section == Section::Answer) {
                writeln!(self.out, "{record}")?;
            }
        }
        Ok(())
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
            Self::Txt(text) => write_text(f, text),
        }
    }
}

/// Writes addresses. A record that is printed has one.
fn write_each(f: &mut fmt::Formatter<'_>, ips: &[impl fmt::Display]) -> fmt::Result {
    ips.iter().try_for_each(|ip| write!(f, "{ip}"))
}

/// Writes a character string in quotes (RFC 1035 section 5.1).
fn write_text(f: &mut fmt::Formatter<'_>, text: &[u8]) -> fmt::Result {
    f.write_str("\"")?;
    text.iter().try_for_each(|octet| match octet {
        b'"' | b'\\' => write!(f, "\\{}", char::from(*octet)),
        0x20..=0x7e => write!(f, "{}", char::from(*octet)),
        _ => write!(f, "\\{octet:03}"),
    })?;
    f.write_str("\"")
}

// === Names ===

/// Returns the names of a service that own records, sorted. Some may belong to another service.
pub fn names_of_service(zone: &Zone, table: &Table, service: &Service) -> BTreeSet<String> {
    let ([name, namespace], suffix) = (service.key.labels(), zone.name_suffix());
    let mut bases = vec![format!("{name}.{namespace}.{suffix}")];
    let owns_short_name = table
        .short_service(name)
        .is_some_and(|owner| owner.key == service.key);
    if owns_short_name && zone.grammar == Grammar::Global {
        bases.push(format!("{name}.{suffix}"));
    }
    let names = bases.iter().flat_map(|base| {
        let endpoints = service.endpoints.iter();
        endpoints.flat_map(|endpoint| names_of_endpoint(zone.grammar, endpoint, base))
    });
    names.collect()
}

/// Returns the names at and below `base` that have the records of an endpoint.
fn names_of_endpoint(grammar: Grammar, endpoint: &Endpoint, base: &str) -> Vec<String> {
    let [host, cluster] = endpoint.labels();
    let is_global = grammar == Grammar::Global;
    let scopes = [
        (String::new(), endpoint.is_selected),
        (format!("{cluster}."), is_global && !cluster.is_empty()),
        (format!("{host}.{cluster}."), !host.is_empty()),
    ];
    let mut names = Vec::new();
    for (scope, _) in scopes.into_iter().filter(|(_, exists)| *exists) {
        let has_ports = is_global || scope.is_empty();
        for port in endpoint.ports.iter().filter(|_| has_ports) {
            let protocol = port.protocol.label();
            let name = port.name.as_ref();
            names.extend(name.map(|name| format!("_{name}._{protocol}.{scope}{base}")));
        }
        names.push(scope + base);
    }
    names
}
