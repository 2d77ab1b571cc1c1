//! Writes the whole table as a zone file (RFC 1035 section 5). Knot, NSD and BIND load it without warnings.
//!
//! This module only lists the names. Their records come from [`read()`] and [`answer()`], so the file matches the
//! answers. The exception is the address of `ns.dns.Z`, if it is unknown: `NS_PLACEHOLDER`.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use super::order::Addresses;
use super::records::{AnswerContext, Data, Record, SRV_WEIGHT, Section};
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
    for service in table.all().sorted() {
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
        if nearest.is_none_or(|nearest| nearest.name != zone.name) {
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
            Self::Soa(soa) => {
                let ([primary, mailbox], numbers) = (soa.names(), soa.numbers());
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
    let mut names = BTreeSet::new();
    let [name, namespace] = service.key.labels();
    match zone.grammar {
        Grammar::Global => {
            add_names(
                &mut names,
                service,
                &format!("{name}.{namespace}.{}", zone.name),
            );
            let short = table.short_name(name);
            if short.is_some_and(|short| short.owner.as_ref() == Ok(&service.key.namespace)) {
                add_names(&mut names, service, &format!("{name}.{}", zone.name));
            }
        }
        Grammar::Mcs => {
            let base = format!("{name}.{namespace}.svc.{}", zone.name);
            add_mcs_names(&mut names, service, &base);
        }
    }
    names
}

/// Adds the names of a service in a zone with the grammar `mcs`.
fn add_mcs_names(names: &mut BTreeSet<String>, service: &Service, base: &str) {
    for endpoint in &service.endpoints {
        if endpoint.is_selected {
            add_with_ports(names, endpoint, base.to_owned());
        }
        let host = endpoint.hostname.as_ref().zip(endpoint.cluster.as_ref());
        names.extend(host.map(|(host, cluster)| format!("{host}.{cluster}.{base}")));
    }
}

/// Adds the names of a service at and below `base`.
fn add_names(names: &mut BTreeSet<String>, service: &Service, base: &str) {
    for endpoint in &service.endpoints {
        let mut scopes = Vec::new();
        if endpoint.is_selected {
            scopes.push(base.to_owned());
        }
        if let Some(cluster) = &endpoint.cluster {
            scopes.push(format!("{cluster}.{base}"));
            let host = endpoint.hostname.as_ref();
            scopes.extend(host.map(|host| format!("{host}.{cluster}.{base}")));
        }
        for scope in scopes {
            add_with_ports(names, endpoint, scope);
        }
    }
}

/// Adds a name of an endpoint, and the names of its ports.
fn add_with_ports(names: &mut BTreeSet<String>, endpoint: &Endpoint, scope: String) {
    let ports = endpoint
        .ports
        .iter()
        .filter_map(|port| Some((port.name.as_ref()?, port.protocol)));
    names.extend(ports.map(|(port, protocol)| format!("_{port}._{}.{scope}", protocol.label())));
    names.insert(scope);
}
