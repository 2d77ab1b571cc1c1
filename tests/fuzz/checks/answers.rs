//! What holds of everything that is answered out of a table.

use std::collections::BTreeSet;
use std::net::IpAddr;

use global_dns::explain::{Context, Observer, explain};
use global_dns::mirror::GatewayDown;
use global_dns::report::Report;
use global_dns::table::{ConflictKind, Endpoint, Published, Service, Table};
use global_dns::wire::Transport;
use global_dns::zone::{Name, ZoneKind, print, reverse};
use support::query::query;

use super::foreign::{self, Decoded};
use super::messages::{self, SETTINGS};
use super::world::Seen;

/// Who explains.
const SERVER: Context<'_> = Context {
    watched: &[],
    observer: Observer::Server,
};

pub const A: u16 = 1;
const PTR: u16 = 12;
pub const AAAA: u16 = 28;
pub const SRV: u16 = 33;

/// Names that are asked for, of each table.
pub const NAMES: usize = 24;

/// Publishes a table.
pub fn published(table: &Table) -> Published {
    Published {
        table: Some(table.clone()),
        generation: 1,
        serial: 1,
        is_stale: false,
        is_expired: false,
    }
}

pub fn check(table: &Table, seen: &mut Seen) {
    let now = published(table);
    let zones = &SETTINGS.zones;
    let report = Report::new(zones, &now);
    let text = report.to_text();
    for skip in &report.skipped {
        assert!(
            !skip.detail.is_empty() && text.contains(&skip.object),
            "{skip:?}"
        );
    }
    for zone in zones.iter() {
        let _ = print::zone_file(zones, zone, &now);
    }
    let mut targets = BTreeSet::new();
    for name in owner_names(table) {
        targets.extend(check_name(&now, &name, seen));
    }
    for target in targets.iter().take(NAMES) {
        let found = [A, AAAA].map(|rtype| ask(&now, target, rtype, Transport::Tcp));
        let count: usize = found.iter().map(|reply| reply.addresses.len()).sum();
        assert!(count > 0, "{target} is led to, and has no address");
    }
    for service in table.services().filter(|s| !s.endpoints.is_empty()) {
        check_own_name(&now, service);
        let is_short = table.short_service(service.key.service.as_str()).is_some();
        seen.short_names += usize::from(is_short);
    }
}

/// Names of services and of addresses, as far as they can be asked for: `_P._R.` may make one too long.
fn owner_names(table: &Table) -> Vec<String> {
    let mut zones = SETTINGS.zones.iter();
    let forward = zones.find(|zone| zone.kind == ZoneKind::Forward).unwrap();
    let endpoints = table.services().flat_map(|service| &service.endpoints);
    let addresses = endpoints.flat_map(|endpoint| &endpoint.addresses);
    let reverse = addresses.map(|address| reverse::name_of(address.ip));
    let reverse: BTreeSet<String> = reverse
        .filter(|n| n.ends_with("10.in-addr.arpa."))
        .collect();
    let forward = print::owner_names(forward, table).into_iter().take(NAMES);
    let all = forward.chain(reverse);
    all.filter(|name| Name::from_text(name).is_some()).collect()
}

/// What is answered can be read by others, has each record once, and leads nowhere it must not.
/// Returns the targets.
fn check_name(now: &Published, name: &str, seen: &mut Seen) -> Vec<String> {
    let mut targets = Vec::new();
    let mut owns = false;
    let table = now.table.as_ref().unwrap();
    let is_canonical = is_canonical(table, name);
    let has_shadows = table.conflicts().any(|c| c.kind == ConflictKind::Shadowed);
    for rtype in [A, AAAA, SRV, PTR] {
        let [udp, tcp] = [Transport::Udp, Transport::Tcp].map(|over| ask(now, name, rtype, over));
        assert!(!tcp.is_truncated, "{name} fits");
        // A short name may be hidden by a canonical one; nothing hides that.
        assert!(tcp.rcode == 0 || !is_canonical, "{name} does not exist");
        assert!(udp.is_truncated || udp.counts[0] == tcp.counts[0], "{name}");
        owns |= tcp.counts[0] > 0;
        messages::check_usable(&tcp);
        let distinct: BTreeSet<IpAddr> = tcp.addresses.iter().copied().collect();
        assert_eq!(
            distinct.len(),
            tcp.addresses.len(),
            "{name}: each address once"
        );
        assert!(
            tcp.ttls.iter().all(|ttl| tcp.ttls[0] == *ttl),
            "{name}: one TTL"
        );
        seen.pointers += usize::from(rtype == PTR && tcp.counts[0] > 0);
        // What hides names that a short one leads to is reported.
        if is_canonical || name.ends_with(".arpa.") || !has_shadows {
            targets.extend(tcp.targets);
        }
    }
    seen.names += usize::from(owns);
    let name = Name::from_text(name).unwrap();
    let explanation = explain(&SETTINGS.zones, now, &SERVER, &name).unwrap();
    assert!(!explanation.to_text().is_empty() && (!owns || explanation.exists));
    targets
}

/// Tells whether a service owns a name below its namespace's.
fn is_canonical(table: &Table, name: &str) -> bool {
    let labels: Vec<&str> = name.split('.').collect();
    let [path @ .., service, namespace, "global", ""] = &labels[..] else {
        return false;
    };
    let Some(service) = table.service(namespace, service) else {
        return false;
    };
    let (port, scope) = match path {
        [port, protocol, scope @ ..] if port.starts_with('_') => {
            (Some((&port[1..], &protocol[1..])), scope)
        }
        scope => (None, scope),
    };
    let covered = match scope {
        [] => &service.endpoints[..],
        [cluster] => service.in_cluster(cluster),
        [host, cluster] => service.at_host(cluster, host),
        _ => &[],
    };
    let has_port = |e: &Endpoint| port.is_none_or(|(name, protocol)| e.has_port(name, protocol));
    covered.iter().any(has_port)
}

/// The name of a service answers with the addresses of all that are alive, or by rule M4 with the others.
fn check_own_name(now: &Published, service: &Service) {
    let name = format!("{}.{}.global", service.key.service, service.key.namespace);
    if name == "ns.dns.global" {
        return; // the server's own
    }
    let any_alive = service.endpoints.iter().any(|endpoint| endpoint.alive);
    let shows = |endpoint: &&Endpoint| match service.gateway_down {
        GatewayDown::Include => true,
        GatewayDown::Exclude => endpoint.alive,
        GatewayDown::LastResort => endpoint.alive || !any_alive,
    };
    let shown = service.endpoints.iter().filter(shows);
    let expected: BTreeSet<IpAddr> = shown.flat_map(|e| &e.addresses).map(|a| a.ip).collect();
    let found = [A, AAAA].map(|rtype| ask(now, &name, rtype, Transport::Tcp).addresses);
    assert_eq!(
        found.concat().into_iter().collect::<BTreeSet<_>>(),
        expected,
        "{name}"
    );
}

/// A table that answers as the one before answers as the one before.
pub fn check_same(last: &Table, next: &Table) {
    let (one, other) = (published(last), published(next));
    let [names, others] = [last, next].map(owner_names);
    assert_eq!(names, others, "names come and go, and nobody says so");
    for name in names {
        for rtype in [A, AAAA, SRV, PTR] {
            let replies = [&one, &other].map(|now| reply(now, &name, rtype, Transport::Tcp));
            assert_eq!(replies[0], replies[1], "{name} moves, and nobody says so");
        }
    }
}

fn ask(now: &Published, name: &str, rtype: u16, over: Transport) -> Decoded {
    let reply = reply(now, name, rtype, over);
    let limit = if over == Transport::Udp { 1232 } else { 65_535 };
    assert!(reply.len() <= limit, "{name}: {} octets", reply.len());
    foreign::decode(&reply, name)
}

/// Asks with EDNS.
pub fn reply(now: &Published, name: &str, rtype: u16, over: Transport) -> Vec<u8> {
    // Always the same identifier: replies are compared.
    let packet = query(&format!("{name} TYPE{rtype} +bufsize=4096")).with_id(7);
    messages::reply(now, &packet.0, over).unwrap()
}
