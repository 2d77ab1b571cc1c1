//! The whole table as a zone file (RFC 1035 section 5) that Knot, NSD and BIND load without a complaint.
//!
//! Which names there are is listed here; what each one owns is [`read()`] and answered like any question, so the file
//! cannot differ from the answers. The one exception is the address of `ns.dns.Z` if it is not known: `NS_STAND_IN`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;

use crate::zone::answer::rtype_of;
use crate::zone::{
    Answer, Name, RecordType, Row, RowData, View, Zone, ZoneKind, Zones, answer, read, reverse,
};
use crate::table::{Published, Service, Table};

/// Writes a zone as a zone file; an empty text before the first complete table.
pub fn zone_file(zones: &Zones, zone: &Zone, published: &Published) -> String {
    let Some(table) = &published.table else {
        return String::new();
    };
    let mut text = String::new();
    let apex = &zone.name;
    let soa = soa(zone, published.serial);
    let mut line = |owner: &str, ttl: u32, data: std::fmt::Arguments<'_>| {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{owner}\t{ttl}\tIN\t{data}");
    };
    line(apex.as_str(), zone.negative_ttl, format_args!("SOA\t{soa}"));
    line(apex.as_str(), zone.ttl, format_args!("NS\tns.dns.{apex}"));
    if zone.kind == ZoneKind::Forward {
        let version = format_args!("TXT\t\"{DNS_VERSION}\"");
        line(&format!("dns-version.{apex}"), zone.ttl, version);
    }
    for address in ns_addresses(zone) {
        let rtype = rtype_of(*address);
        line(
            &format!("ns.dns.{apex}"),
            zone.ttl,
            format_args!("{rtype}\t{address}"),
        );
    }
    // A server of this zone alone leads on to those within it, and knows that the names above them exist.
    for child in zones.children(zone) {
        let ns = format!("ns.dns.{}", child.name);
        line(child.name.as_str(), child.ttl, format_args!("NS\t{ns}"));
        for address in ns_addresses(child) {
            let data = format_args!("{}\t{address}", rtype_of(*address));
            line(&ns, child.ttl, data);
        }
    }
    if let ZoneKind::Reverse(below) = &zone.kind {
        let addresses = reverse::range_of_zone(zone)
            .into_iter()
            .flat_map(|range| table.addresses_in(range));
        for address in addresses {
            let owner = reverse::name_of(address);
            let Some(name) = Name::from_text(&owner) else {
                continue;
            };
            let Answer::Pointers(_, pointers) = answer(read(zones, table, &name), RecordType::PTR)
            else {
                continue;
            };
            for (service, endpoint) in pointers.endpoints() {
                let (host, cluster, key) = (&endpoint.hostname, &endpoint.cluster, &service.key);
                let (service_name, namespace) = (&key.service, &key.namespace);
                let data = format_args!("PTR\t{host}.{cluster}.{service_name}.{namespace}.{below}");
                line(&owner, pointers.ttl(), data);
            }
        }
        return text;
    }
    for owner in owner_names(zone, table) {
        let Some(name) = Name::from_text(&owner) else {
            continue;
        }; // longer than any question
        for rtype in RecordType::OF_SERVICES {
            let Answer::Data(within, view, _) = answer(read(zones, table, &name), rtype) else {
                continue;
            };
            if within.name != zone.name {
                continue; // a nested zone of ours begins above it
            }
            for data in rows_text(&name, &view, rtype) {
                line(&owner, view.service.ttl, format_args!("{data}"));
            }
        }
    }
    text
}

/// Writes the type and data of each row that a name owns: `A\t10.96.0.7`.
pub fn rows_text(name: &Name, view: &View<'_>, rtype: RecordType) -> Vec<String> {
    let tail = Name::read(&super::target_tail(view, name)).map(|tail| tail.to_string());
    let tail = tail.unwrap_or_default(); // always there: a tail of a name is a name
    let text = |row: &Row<'_>| match row.data {
        RowData::Address(ip) => format!("{rtype}\t{ip}"),
        RowData::Srv(port) => {
            let (host, cluster) = (&row.endpoint.hostname, &row.endpoint.cluster);
            format!("SRV\t0 {SRV_WEIGHT} {port} {host}.{cluster}.{tail}")
        }
    };
    let mut texts = Vec::new();
    let _ = view.visit_rows(rtype, &mut |row| {
        texts.push(text(&row));
        ControlFlow::Continue(())
    });
    texts
}

/// SRV weight of every row: none is preferred (RFC 2782).
pub const SRV_WEIGHT: u16 = 10;

/// Version of the Kubernetes DNS specification at `dns-version.Z`.
pub const DNS_VERSION: &str = "1.1.0";

/// Address of `ns.dns.Z` in a zone file if this server's is not known: that of any server that loads the file. Name servers
/// refuse a zone whose name server has no address.
const NS_STAND_IN: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Timers of the SOA record, for secondaries that do not exist: two hours, half an hour, a day.
pub const SOA_TIMERS: (u32, u32, u32) = (7200, 1800, 86400);

/// Returns the addresses of a zone's name server, or the one that stands in for them.
fn ns_addresses(zone: &Zone) -> &[IpAddr] {
    match zone.ns_addresses.as_slice() {
        [] => &[NS_STAND_IN],
        known => known,
    }
}

fn soa(zone: &Zone, serial: u32) -> String {
    let (apex, minimum) = (&zone.name, zone.negative_ttl);
    let (refresh, retry, expire) = SOA_TIMERS;
    format!("ns.dns.{apex} hostmaster.{apex} {serial} {refresh} {retry} {expire} {minimum}")
}

/// Lists the names that own records of services, in both families, sorted.
pub fn owner_names(zone: &Zone, table: &Table) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for service in table
        .services()
        .filter(|service| !service.endpoints.is_empty())
    {
        let (namespace, name) = (&service.key.namespace, &service.key.service);
        add_names(
            &mut names,
            service,
            &format!("{name}.{namespace}.{}", zone.name),
        );
        let short = table.short_name(name.as_str());
        if short.is_some_and(|short| short.owner.as_ref() == Ok(namespace)) {
            add_names(&mut names, service, &format!("{name}.{}", zone.name));
        }
    }
    names
}

/// Adds a service's names below `base`.
fn add_names(names: &mut BTreeSet<String>, service: &Service, base: &str) {
    for endpoint in &service.endpoints {
        let (host, cluster) = (&endpoint.hostname, &endpoint.cluster);
        for scope in [
            base.to_owned(),
            format!("{cluster}.{base}"),
            format!("{host}.{cluster}.{base}"),
        ] {
            let ports = endpoint
                .ports
                .iter()
                .filter_map(|port| Some((port.name.as_ref()?, port.protocol)));
            names.extend(
                ports.map(|(port, protocol)| format!("_{port}._{}.{scope}", protocol.label())),
            );
            names.insert(scope);
        }
    }
}
