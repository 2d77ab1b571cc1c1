//! Checks of all answers from a table.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use global_dns::model::ProblemKind;
use global_dns::table::{Endpoint, Published, Table};
use global_dns::wire::Transport;
use global_dns::zone::{Name, Zone, Zones, print};
use support::query::query;
use support::reply::{Record, Reply};

use super::messages::{self, SETTINGS};
use super::seen::Seen;
use super::tables::{conflicts, skipped};

pub const A: u16 = 1;
pub const AAAA: u16 = 28;
pub const SRV: u16 = 33;

/// Maximum number of names to check in each table.
pub const NAMES: usize = 24;

/// Returns a table as published.
pub fn published(table: &Table) -> Published {
    Published {
        table: Some(table.clone()),
        generation: 1,
        serial: 1,
        ..Published::default()
    }
}

pub fn check(table: &Table, seen: &mut Seen) {
    let now = published(table);
    let zones = &SETTINGS.zones;
    for skip in skipped(table) {
        assert!(!skip.detail.is_empty(), "{skip:?}");
    }
    for zone in zones.iter() {
        let _ = zone_file(zones, zone, &now);
    }
    let mut targets = BTreeSet::new();
    for name in owner_names(table) {
        targets.extend(check_name(&now, &name, seen));
    }
    for target in targets.iter().take(NAMES) {
        let replies = [A, AAAA].map(|rtype| decoded_reply(&now, target, rtype, Transport::Tcp));
        let count: usize = replies.iter().map(|reply| reply.answers.len()).sum();
        assert!(
            count > 0,
            "{target} is the target of a record, but has no address"
        );
    }
    for service in table.services().filter(|s| !s.endpoints.is_empty()) {
        let is_short = table.short_service(service.key.service.as_str()).is_some();
        seen.note("short name", is_short);
    }
}

/// Returns a zone as a zone file. Before the first complete table, it is empty.
pub fn zone_file(zones: &Zones, zone: &Zone, published: &Published) -> String {
    let mut text = String::new();
    if let Some(file) = print::ZoneFile::new(zones, zone, published) {
        for owner in file.parts().flat_map(|part| file.names(part)) {
            let _ = file.visit_records(&owner, |record| {
                text += &format!("{record}\n");
                ControlFlow::Continue(())
            });
        }
    }
    text
}

/// Returns the names of services in a zone, sorted.
pub fn names_in(zone: &Zone, table: &Table) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for mut service in table.services() {
        let bases = print::bases_of_service(zone, table, service);
        if zone.grammar.cluster().is_some() {
            service = service.without_alias();
        }
        for endpoint in &service.endpoints {
            let below = |base: &String| {
                print::names_of_endpoint(&zone.grammar, endpoint, &endpoint.ports, base)
            };
            names.extend(bases.iter().flat_map(below));
        }
    }
    names
}

/// Returns the names of services that fit into a query. `_P._R.` may make a name too long.
fn owner_names(table: &Table) -> Vec<String> {
    let zones = SETTINGS.zones.iter();
    let all = zones.flat_map(|zone| names_in(zone, table).into_iter().take(NAMES));
    all.filter(|name| Name::from_text(name).is_some()).collect()
}

/// Asserts that the decoders can read the answers for a name, that no record is duplicate, and that no address is
/// unusable. Returns the targets.
fn check_name(now: &Published, name: &str, seen: &mut Seen) -> Vec<String> {
    let mut targets = Vec::new();
    let mut owns = false;
    let table = now.table.as_ref().unwrap();
    let canonical = canonical_rcode(table, name);
    let has_shadows = conflicts(table).any(|c| c.kind == ProblemKind::Shadowed);
    for rtype in [A, AAAA, SRV] {
        let [udp, tcp] =
            [Transport::Udp, Transport::Tcp].map(|over| decoded_reply(now, name, rtype, over));
        assert!(!tcp.is_truncated(), "{name} is truncated over TCP");
        // A canonical name may hide a short name, but no name hides a canonical one.
        assert!(canonical.is_none_or(|rcode| rcode == tcp.rcode), "{name}");
        let has_all = udp.answers.len() == tcp.answers.len();
        assert!(udp.is_truncated() || has_all, "{name}");
        owns |= !tcp.answers.is_empty();
        messages::check_usable(&tcp);
        tcp.data_set(); // fails if a record occurs twice
        let mut ttls = tcp.answers.iter().map(|record| record.ttl);
        let first = ttls.next();
        assert!(ttls.all(|ttl| Some(ttl) == first), "{name}: different TTLs");
        // Targets of a short name may be hidden, which is reported as a conflict.
        if canonical.is_some() || !has_shadows {
            let services = tcp.answers.iter().filter(|record| record.rtype == SRV);
            let target = |record: &Record| record.data.rsplit(' ').next().unwrap().to_owned();
            targets.extend(services.map(target));
        }
    }
    seen.note("name with records", owns);
    targets
}

/// Returns the RCODE of a canonical name of a service with endpoints: SERVFAIL if the service says why it fails.
fn canonical_rcode(table: &Table, name: &str) -> Option<u16> {
    let labels: Vec<&str> = name.split('.').collect();
    let [path @ .., service, namespace, "global", ""] = &labels[..] else {
        return None;
    };
    let service = table.service(namespace, service)?;
    let (port, scope) = match path {
        [port, protocol, scope @ ..] if port.starts_with('_') => {
            (Some((&port[1..], &protocol[1..])), scope)
        }
        scope => (None, scope),
    };
    let covered = match scope {
        [] if service.key.labels() == ["ns", "dns"] => &[], // the name of the server itself
        scope => service.endpoints_at(scope),
    };
    let has_port = |endpoint: &Endpoint| {
        let mut ports = endpoint.ports.iter();
        port.is_none_or(|(name, protocol)| ports.any(|port| port.is_named(name, protocol)))
    };
    let fails = scope.is_empty() && service.failure.is_some();
    covered
        .iter()
        .any(has_port)
        .then_some(if fails { 2 } else { 0 })
}

/// Asserts that two tables give the same answers.
pub fn check_same_answers(last: &Table, next: &Table) {
    let (one, other) = (published(last), published(next));
    let [names, others] = [last, next].map(owner_names);
    assert_eq!(
        names, others,
        "the names differ, but the table is reported as unchanged"
    );
    for name in names {
        for rtype in [A, AAAA, SRV] {
            let replies = [&one, &other].map(|now| reply(now, &name, rtype, Transport::Tcp));
            assert_eq!(
                replies[0], replies[1],
                "the answer for {name} differs, but the table is reported as unchanged"
            );
        }
    }
}

fn decoded_reply(now: &Published, name: &str, rtype: u16, over: Transport) -> Reply {
    let reply = reply(now, name, rtype, over);
    let limit = if over == Transport::Udp { 1232 } else { 65_535 };
    assert!(
        reply.len() <= limit,
        "{name}: {} octets, limit {limit}",
        reply.len()
    );
    messages::decode(&reply, name)
}

/// Returns the reply to a query with EDNS.
pub fn reply(now: &Published, name: &str, rtype: u16, over: Transport) -> Vec<u8> {
    // A constant identifier, because replies are compared.
    let packet = query(&format!("{name} TYPE{rtype} +bufsize=4096")).with_id(7);
    messages::reply(now, &packet.0, over).unwrap()
}
