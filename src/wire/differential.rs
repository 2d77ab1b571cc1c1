#![allow(warnings, clippy::all)]
//! temporary: the old writer against the new one
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::old;
use super::*;
use crate::table::{Published, Rules, Table};
use crate::testing::{endpoint, gateway, local, mirror, published, rules, table, table_by, zones};
use crate::zone::{Name, Order, Zone, ZoneKind, Zones};

fn packet(name: &[u8], rtype: u16, class: u16, payload: Option<u16>, padding: bool) -> Vec<u8> {
    let mut p = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(payload.is_some())];
    p.extend(name);
    p.extend([rtype.to_be_bytes(), class.to_be_bytes()].concat());
    if let Some(payload) = payload {
        p.extend([0, 0, 41]);
        p.extend(payload.to_be_bytes());
        let options: &[u8] = if padding { b"\x00\x03\x00\x00\x00\x0b\x00\x00\x00\x0c\x00\x00" } else { b"" };
        p.extend([0, 0, 0x80, 0, 0, options.len() as u8]);
        p.extend(options);
    }
    p
}

fn settings(zones: Zones, order: Order) -> Settings {
    Settings { zones, access: Access { allowed: vec![], trusted: vec![] }, order, udp_max: 4096,
        server_id: Some("global-dns-0".into()), version_bind: Some("x".repeat(128)), tcp_idle: Duration::from_secs(30) }
}

fn arrival(over: Transport, turn: u32) -> Arrival {
    Arrival { over, client: IpAddr::from([192, 0, 2, 1]), rate_limit: RateLimit::Within, turn, cookie: None }
}

fn wire_of(name: &str, rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut wire = Name::from_text(name).unwrap().wire().to_vec();
    for o in &mut wire { if o.is_ascii_lowercase() && rng.bool() { *o = o.to_ascii_uppercase() } }
    wire
}

fn world(rng: &mut fastrand::Rng) -> (Table, Zones) {
    let services = ["db", "kafka", "east", "ns", "dns", "prod", "a-very-long-service-name-that-takes-almost-sixty-three-octets"];
    let spaces = ["prod", "shop", "db", "dns", "kafka"];
    let clusters = ["east", "west", "north", "kafka"];
    let mut objects = vec![];
    let mut n = 0u32;
    for _ in 0..rng.usize(1..5) {
        let (s, ns) = (services[rng.usize(..services.len())], spaces[rng.usize(..spaces.len())]);
        for c in clusters.iter().take(rng.usize(1..=4)) {
            objects.push(mirror(ns, s, c));
            let most = [1, 3, 9, 40, 300][rng.usize(..5)];
            for h in 0..rng.usize(0..=most) {
                n += 1;
                let host = if rng.u8(..8) == 0 { format!("h-{h}-{}", "x".repeat(40)) } else { format!("h-{h}") };
                let v4 = format!("10.{}.{}.{}", n / 60000, n / 250 % 250, n % 250 + 1);
                let v6 = format!("2001:db8::{:x}", n);
                let ips: &[&str] = match rng.u8(..4) { 0 => &[&v4, &v6], 1 => &[&v6], 2 => &["10.250.0.1"], _ => &[&v4] };
                objects.push(endpoint(ns, s, c, &host, ips));
                if rng.u8(..6) == 0 { objects.push(gateway(ns, &format!("{host}-{c}"), false)); }
            }
        }
        if rng.u8(..3) == 0 {
            objects.extend(local(ns, s, &[("h-0", "192.0.2.1", true), ("h-1", "192.0.2.2", true), ("l-2", "192.0.2.3", true)]));
        }
    }
    let mut rules = rules();
    if rng.bool() {
        // Several addresses of a family for one endpoint.
        rules.cluster_aliases = ["east", "west"].map(|l| (l.parse().unwrap(), "far".parse().unwrap())).into();
    }
    let table = table_by(&rules, &objects);
    let zones = zones(&["global", "10.in-addr.arpa", "8.b.d.0.1.0.0.2.ip6.arpa"]);
    let addresses = rng.usize(0..30);
    let with = |zone: &Zone| Zone { ns_addresses: (0..addresses).map(|i| if i % 3 == 0 { format!("2001:db8::{i}").parse().unwrap() } else { IpAddr::from([192, 0, 2, i as u8]) }).collect(), ttl: 7, negative_ttl: 3, ..zone.clone() };
    let with = |zone: &Zone| { let mut zone = with(zone); zone.ns_addresses.sort(); zone };
    let zones = Zones::new(zones.iter().map(with).collect());
    (table, zones)
}

#[test]
fn differential() { old_and_new_write_the_same_octets() }
pub fn old_and_new_write_the_same_octets() {
    let seconds: u64 = std::env::var("SECONDS").map_or(10, |s| s.parse().unwrap());
    let seed: u64 = std::env::var("SEED").map_or(1, |s| s.parse().unwrap());
    let mut rng = fastrand::Rng::with_seed(seed);
    let start = Instant::now();
    let (mut count, mut additional, mut far, mut cut, mut canonical, mut pointers) = (0u64, 0u64, 0u64, 0u64, 0u64, 0u64);
    let mut by_len = std::collections::BTreeMap::new();
    while start.elapsed() < Duration::from_secs(seconds) {
        let (table, zones) = world(&mut rng);
        let now = published(table.clone());
        let forward = zones.iter().find(|z| z.kind == ZoneKind::Forward).unwrap();
        let mut names: Vec<String> = crate::zone::print::owner_names(forward, &table).into_iter().collect();
        assert_eq!(crate::zone::print::owner_names(forward, &table), old::print::owner_names(forward, &table));
        for zone in zones.iter() {
            let (new, old) = (crate::zone::print::zone_file(&zones, zone, &now), old::print::zone_file(&zones, zone, &now));
            assert!(new == old, "zone file of {}:\n{new}\n\n{old}", zone.name);
        }
        rng.shuffle(&mut names);
        names.truncate(60);
        let addresses: Vec<String> = table.services().flat_map(|s| &s.endpoints).flat_map(|e| &e.addresses).map(|a| crate::zone::reverse::name_of(a.ip)).take(12).collect();
        names.extend(addresses);
        names.extend(["global.", "ns.dns.global.", "dns-version.global.", "dns.global.", "prod.global.", "nope.prod.global.", "x.global.",
            "10.in-addr.arpa.", "ns.dns.10.in-addr.arpa.", "1.10.in-addr.arpa.", "1.250.250.10.in-addr.arpa.", "example.com.", "id.server.", "version.bind."].map(str::to_owned));
        for name in &names {
            let Some(_) = Name::from_text(name) else { continue };
            for rtype in [1, 28, 33, 16, 6, 2, 255, 12, 252, 65] {
                let wire = wire_of(name, &mut rng);
                let class = [1, 1, 1, 1, 1, 255, 3, 4][rng.usize(..8)];
                let payload = match rng.u8(..4) { 0 => None, 1 => Some(65535), _ => Some(rng.u16(400..4200)) };
                let packet = packet(&wire, rtype, class, payload, rng.bool());
                let query = parse(&packet);
                let order = [Order::Rotate, Order::Rotate, Order::Shuffle, Order::LocalFirst, Order::Stable][rng.usize(..5)];
                let settings = settings(zones.clone(), order);
                for over in [Transport::Udp, Transport::Tcp, Transport::Tls] {
                    let turn = rng.u32(..);
                    let Some(mut reply) = respond(&settings, &now, &query, &arrival(over, turn)) else { continue };
                    let old_reply = old::respond::respond(&settings, &now, &query, &arrival(over, turn)).unwrap();
                    assert_eq!((old_reply.rcode, old_reply.authoritative, old_reply.edns, old_reply.limit, old_reply.order, old_reply.turn), (reply.rcode, reply.authoritative, reply.edns, reply.limit, reply.order, reply.turn));
                    assert_eq!(format!("{:?}", old_reply.body), format!("{:?}", reply.body));
                    if over != Transport::Udp && rng.u8(..3) == 0 { reply.limit = rng.u16(600..) }
                    let (mut one, mut two) = (vec![0xaa; 65_535], vec![0xaa; 65_535]);
                    let w1 = old::write::write(&reply, &query, &packet, &mut one);
                    let w2 = write(&reply, &query, &packet, &mut two);
                    assert_eq!((w1.length, w1.is_truncated), (w2.length, w2.is_truncated), "{name} {rtype} {order:?} {over:?}");
                    assert!(one[..w1.length] == two[..w1.length], "{name} {rtype} {order:?} {over:?}\n{:?}\n{:?}", &one[..w1.length], &two[..w1.length]);
                    if let Ok(q) = &query {
                        let (a, b) = (old::records::records(&reply, q), records(&reply, q));
                        assert_eq!((a.answers, a.soa, a.additionals), (b.answers, b.soa, b.additionals), "{name} {rtype}");
                        if let Body::Answer(crate::zone::Answer::Data(_, view, rtype)) = &reply.body {
                            canonical += u64::from(matches!(view.targets, crate::zone::Targets::Canonical(_)));
                            let Body::Answer(answer) = &reply.body else { unreachable!() };
                            assert_eq!(old::write::whole_answer(view, *rtype, &q.name), whole_answer(answer, &q.name));
                        }
                    }
                    count += 1;
                    cut += u64::from(w1.is_truncated);
                    additional += u64::from(u16::from_be_bytes([one[10], one[11]]) > 1);
                    far += u64::from(rtype == 33 && w1.length > 0x4000);
                    pointers += u64::from(rtype == 12 && one[7] > 0);
                    *by_len.entry(w1.length.ilog2()).or_insert(0u64) += 1;
                }
            }
        }
    }
    println!("{count} replies; {additional} with additional records, {far} beyond 0x3fff, {cut} truncated, {canonical} canonical targets, {pointers} pointers; lengths by log2 {by_len:?}");
}

#[inline(never)]
fn run(f: &mut dyn FnMut(u32) -> usize, n: u32) -> f64 {
    let start = Instant::now();
    let mut sum = 0;
    for i in 0..n { sum += f(i); }
    std::hint::black_box(sum);
    start.elapsed().as_nanos() as f64 / f64::from(n)
}

#[test]
#[ignore]
fn timing_test() { timing() }

pub fn timing() {
    let mut objects = vec![];
    for c in ["east", "west", "north"] {
        objects.push(mirror("prod", "db", c));
        for h in 0..3 { objects.push(endpoint("prod", "db", c, &format!("db-{h}"), &[&format!("10.{}.0.{h}", c.len() * 7 + c.as_bytes()[0] as usize % 7)])); }
    }
    objects.push(mirror("prod", "wide", "east"));
    for h in 0..9 { objects.push(endpoint("prod", "wide", "east", &format!("wide-{h}"), &[&format!("10.77.0.{h}")])); }
    let table = table(&objects);
    assert_eq!(table.service("prod", "db").unwrap().endpoints.len(), 9);
    let now = published(table);
    let mut all = vec![];
    for (what, name, rtype, order) in [
        ("A, 9 endpoints, own name (rotate)", "db.prod.global", 1, Order::Rotate),
        ("A, 9 endpoints, own name (shuffle)", "db.prod.global", 1, Order::Shuffle),
        ("A, 9 endpoints, wide, own name (rotate)", "wide.prod.global", 1, Order::Rotate),
        ("A, 9 endpoints of a cluster (rotate)", "east.wide.prod.global", 1, Order::Rotate),
        ("A, 3 endpoints of a cluster (rotate)", "east.db.prod.global", 1, Order::Rotate),
        ("SRV, 9 records, 9 additional (rotate)", "_sql._tcp.db.prod.global", 33, Order::Rotate),
        ("SRV, 27 records, 9 additional (rotate)", "db.prod.global", 33, Order::Rotate),
        ("SRV, 9 records, 9 additional (stable)", "_sql._tcp.db.prod.global", 33, Order::Stable),
        ("SRV, 9 records, 9 additional (shuffle)", "_sql._tcp.db.prod.global", 33, Order::Shuffle),
        ("NXDOMAIN", "nope.prod.global", 1, Order::Rotate),
        ("NS", "global", 2, Order::Rotate),
    ] {
        if std::env::var("CASE").is_ok_and(|case| !what.contains(&case)) { continue; }
        let packet = packet(Name::from_text(name).unwrap().wire(), rtype, 1, Some(4096), false);
        let settings = settings(zones(&["global"]), order);
        let query = parse(&packet);
        let reply = respond(&settings, &now, &query, &arrival(Transport::Udp, 5)).unwrap();
        let (mut r1, mut r2) = (reply.clone(), reply.clone());
        let (mut out1, mut out2) = ([0u8; 4096], [0u8; 4096]);
        let w = write(&reply, &query, &packet, &mut out1);
        let counts = [7, 11].map(|i| out1[i]);
        let mut one = |i: u32| { r1.turn = i; old::write::write(&r1, &query, &packet, &mut out1).length };
        let mut two = |i: u32| { r2.turn = i; write(&r2, &query, &packet, &mut out2).length };
        if let Ok(n) = std::env::var("COUNT") {
            let n: u32 = n.parse().unwrap();
            let mode = std::env::var("MODE").unwrap();
            run(if mode == "old" { &mut one } else { &mut two }, n);
            continue;
        }
        let (mut a, mut b) = (vec![], vec![]);
        for round in 0..100 {
            // 1e6 of each, in turns of 1e4.
            if round % 2 == 0 { a.push(run(&mut one, 10_000)); b.push(run(&mut two, 10_000)); }
            else { b.push(run(&mut two, 10_000)); a.push(run(&mut one, 10_000)); }
        }
        let stats = |v: &mut Vec<f64>| { v.sort_by(f64::total_cmp); (v[0], v[v.len() / 2]) };
        let ((amin, amed), (bmin, bmed)) = (stats(&mut a), stats(&mut b));
        all.push(format!("{what:42} old min {amin:7.1} median {amed:7.1} | new min {bmin:7.1} median {bmed:7.1} ns | {:+.1} % ({} octets, {counts:?})", (bmin / amin - 1.0) * 100.0, w.length));
    }
    for (what, name, rtype) in [("respond + write: A", "db.prod.global", 1), ("respond + write: SRV", "_sql._tcp.db.prod.global", 33), ("respond + write: NXDOMAIN", "nope.prod.global", 1), ("respond + write: REFUSED", "example.com", 1)] {
        if std::env::var("CASE").is_ok_and(|case| !what.contains(&case)) { continue; }
        let packet = packet(Name::from_text(name).unwrap().wire(), rtype, 1, Some(4096), false);
        let settings = settings(zones(&["global"]), Order::Rotate);
        let query = parse(&packet);
        let (mut out1, mut out2) = ([0u8; 4096], [0u8; 4096]);
        let mut one = |i: u32| { let r = old::respond::respond(&settings, &now, &query, &arrival(Transport::Udp, i)).unwrap(); old::write::write(&r, &query, &packet, &mut out1).length };
        let mut two = |i: u32| { let r = respond(&settings, &now, &query, &arrival(Transport::Udp, i)).unwrap(); write(&r, &query, &packet, &mut out2).length };
        if let Ok(n) = std::env::var("COUNT") {
            let n: u32 = n.parse().unwrap();
            let mode = std::env::var("MODE").unwrap();
            run(if mode == "old" { &mut one } else { &mut two }, n);
            continue;
        }
        let (mut a, mut b) = (vec![], vec![]);
        for round in 0..100 {
            if round % 2 == 0 { a.push(run(&mut one, 10_000)); b.push(run(&mut two, 10_000)); }
            else { b.push(run(&mut two, 10_000)); a.push(run(&mut one, 10_000)); }
        }
        let stats = |v: &mut Vec<f64>| { v.sort_by(f64::total_cmp); (v[0], v[v.len() / 2]) };
        let ((amin, amed), (bmin, bmed)) = (stats(&mut a), stats(&mut b));
        all.push(format!("{what:42} old min {amin:7.1} median {amed:7.1} | new min {bmin:7.1} median {bmed:7.1} ns | {:+.1} %", (bmin / amin - 1.0) * 100.0));
    }
    println!("{}", all.join("\n"));
}
