//! What holds of the reply to any message whatsoever.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use global_dns::mirror::{GatewayDown, Watch};
use global_dns::source::file::parse_texts;
use global_dns::table::{
    Inputs, LocalMembers, Published, Publisher, Rules, ShortNames, Table, build,
};
use global_dns::wire::cookie::Cookie;
use global_dns::wire::respond::PADDING_BLOCK;
use global_dns::wire::{
    Access, Arrival, RateLimit, Reject, Settings, Transport, parse, records, respond, write,
};
use global_dns::zone::{Order, Zone, ZoneKind, Zones};

use super::choices::Choices;
use super::foreign::{self, Decoded};
use super::memory::allocates_at_most;

/// What a client that sends a cookie gets.
const COOKIE: Cookie = [9; 24];

/// A zone and a reverse zone.
pub static SETTINGS: LazyLock<Settings> = LazyLock::new(|| {
    let zone = |name: &str, kind| Zone {
        name: name.parse().unwrap(),
        ttl: 5,
        negative_ttl: 5,
        ns_addresses: vec![Ipv4Addr::LOCALHOST.into()],
        kind,
    };
    let forward = "global".parse().unwrap();
    Settings {
        access: Access {
            allowed: vec!["192.0.2.0/24".parse().unwrap()],
            trusted: Vec::new(),
        },
        zones: Zones::new(vec![
            zone("global", ZoneKind::Forward),
            zone("10.in-addr.arpa", ZoneKind::Reverse(forward)),
        ]),
        order: Order::Rotate,
        udp_max: UDP_MAX,
        server_id: Some("replica-1".to_owned()),
        version_bind: Some("a DNS server".to_owned()),
        tcp_idle: Duration::from_secs(30),
    }
});

/// The table of the built-in sample, and of a service with more endpoints than a datagram holds.
static PUBLISHED: LazyLock<global_dns::table::publish::Reader> = LazyLock::new(|| {
    let mut lists = parse_texts(&[(Path::new("demo.yaml"), manifests())]).unwrap();
    let mut inputs = Inputs::default();
    for watch in Watch::ALL {
        inputs.reset(watch, None, lists.remove(&watch).unwrap_or_default());
    }
    let rules = rules();
    let built = build(&Table::default(), &inputs, &inputs.services(), &rules);
    let publisher = Publisher::default();
    publisher.publish(built, 1);
    publisher.reader()
});

/// The default rules, for a cluster called `hub`.
pub fn rules() -> Rules {
    Rules {
        cluster_name: "hub".parse().unwrap(),
        cluster_aliases: Default::default(),
        excluded_clusters: Default::default(),
        ttl: 5,
        ttl_max: 30,
        gateway_down: GatewayDown::LastResort,
        local_members: LocalMembers::Matching,
        short_names: ShortNames::On,
        pinned_names: Default::default(),
        default_namespace: None,
        longest_zone: b"\x06global\x00".len(),
        has_reverse_zones: true,
    }
}

fn manifests() -> String {
    let mut text = include_str!("../../../src/demo.yaml").to_owned();
    text += "
---
{kind: Service, metadata: {namespace: prod, name: wide-west, labels: {mirror.linkerd.io/mirrored-service: 'true',
  mirror.linkerd.io/cluster-name: west}}, spec: {clusterIP: None}}";
    for number in 0..200 {
        text += &format!(
            "
---
{{kind: Service, metadata: {{namespace: prod, name: wide-{number}-west, labels: {{mirror.linkerd.io/mirrored-service: 'true',
  mirror.linkerd.io/cluster-name: west, mirror.linkerd.io/headless-mirror-svc-name: wide-west}},
  annotations: {{mirror.linkerd.io/remote-svc-fq-name: wide-{number}.wide.prod.svc.cluster.local}}}},
  spec: {{clusterIP: 10.99.0.{number}, clusterIPs: [10.99.0.{number}], ports: [{{name: sql, port: 26257}}]}}}}"
        );
    }
    text
}

/// `--udp-max`.
const UDP_MAX: u16 = 1232;
/// Octets that are allocated for an answer: none, save for finding the services of an address.
const MOST_ALLOCATED: u64 = 512;
/// Octets that a reply without an answer may have beyond the query: an SOA record, a server cookie, NSID, keepalive, an
/// extended error.
const MOST_BEYOND: usize = 128;

/// Answers a message as the listeners do, and checks what must hold of the reply.
pub fn check(packet: &[u8]) {
    let now = PUBLISHED.load();
    let udp = reply(&now, packet, Transport::Udp);
    let tcp = reply(&now, packet, Transport::Tcp);
    let is_query = packet.len() >= 12 && packet[2] & 0x80 == 0;
    for reply in [&udp, &tcp] {
        assert_eq!(
            reply.is_some(),
            is_query,
            "queries are answered, and only they"
        );
    }
    let (Some(udp), Some(tcp)) = (udp, tcp) else {
        return;
    };
    check_small(packet);
    check_records(&now, packet);
    check_encrypted(&now, packet, &tcp);
    let edns = match parse(packet) {
        Ok(query) => query.edns,
        Err(Reject::With { edns, .. }) => edns,
        Err(Reject::Drop) => panic!("dropped, but answered"),
    };
    let limit = edns.map_or(512, |edns| usize::from(edns.payload.clamp(512, UDP_MAX)));
    assert!(udp.len() <= limit, "{} octets of {limit}", udp.len());
    for (reply, over) in [(&udp, "UDP"), (&tcp, "TCP")] {
        assert_eq!(reply[..2], packet[..2], "{over}: the ID");
        let (bits, echoed) = (reply[2] & 0xf8, 0x80 | packet[2] & 0x78);
        assert_eq!(bits, echoed, "{over}: QR and the opcode");
        let decoded = foreign::decode(reply, over);
        assert_eq!(decoded.has_edns, edns.is_some(), "{over}: OPT for OPT");
        if decoded.counts[0] == 0 {
            let most = packet.len() + MOST_BEYOND;
            assert!(reply.len() <= most, "{over}: {} octets", reply.len());
        }
        check_usable(&decoded);
    }
    let is_truncated = |reply: &[u8]| reply[2] & 0x02 != 0;
    assert!(!is_truncated(&tcp), "nothing here is too long for TCP");
    let says_keepalive = edns.is_some_and(|edns| edns.wants_keepalive);
    if !is_truncated(&udp) && udp.len() == tcp.len() && !says_keepalive {
        assert_eq!(udp, tcp, "one reply for every transport");
    }
}

/// No answer leads to an address that is nobody's, save for this server's own name, whose address is the operator's.
pub fn check_usable(decoded: &Decoded) {
    let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let all = decoded.addresses.iter().chain(&decoded.additional);
    for address in all.filter(|address| **address != own) {
        let ip = address.to_canonical();
        assert!(ip == *address, "{address} is an IPv4 address in IPv6");
        let is_broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
        let is_nobodys = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast();
        assert!(!is_nobodys && !is_broadcast, "{address} is answered");
    }
}

/// What a forged source can make us send is hardly longer than what was sent in its name.
fn check_small(packet: &[u8]) {
    const REFUSED: u8 = 5;
    let now = PUBLISHED.load();
    let size = |reply: &[u8], what: &str| {
        // A server cookie, and an extended error.
        let most = packet.len() + 16 + 6;
        assert!(reply.len() <= most, "{what}: {} octets", reply.len());
        assert_eq!(reply[6..10], [0; 4], "{what}: records");
    };
    for over in [Transport::Udp, Transport::Tcp] {
        let stranger = reply_to(&now, packet, over, STRANGER, RateLimit::Within).unwrap();
        size(&stranger, "a stranger");
        assert_eq!(stranger[3] & 0x0f, REFUSED, "a stranger");
    }
    for client in [CLIENT, STRANGER] {
        let over = reply_to(&now, packet, Transport::Udp, client, RateLimit::Drop);
        assert_eq!(over, None);
    }
    let slipped = reply_to(&now, packet, Transport::Udp, CLIENT, RateLimit::Slip);
    assert_eq!(slipped.is_some(), parse(packet).is_ok());
    if let Some(slipped) = slipped {
        size(&slipped, "who asks too fast");
        assert_eq!(slipped[2] & 0x02, 0x02, "TC");
        assert_eq!(slipped[3] & 0x0f, 0, "no code that anybody would keep");
    }
}

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// Not in `--allow`.
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));

/// Answers a client of ours out of a table.
pub fn reply(now: &Published, packet: &[u8], over: Transport) -> Option<Vec<u8>> {
    reply_to(now, packet, over, CLIENT, RateLimit::Within)
}

/// The same out of the sample's table, into a buffer.
pub fn reply_into(packet: &[u8], over: Transport, out: &mut [u8]) -> Option<usize> {
    written(
        &PUBLISHED.load(),
        packet,
        over,
        CLIENT,
        RateLimit::Within,
        out,
    )
}

fn reply_to(
    now: &Published,
    packet: &[u8],
    over: Transport,
    client: IpAddr,
    rate_limit: RateLimit,
) -> Option<Vec<u8>> {
    let mut out = vec![0xaa; 65_535];
    LazyLock::force(&SETTINGS);
    let length = allocates_at_most(MOST_ALLOCATED, "an answer", || {
        written(now, packet, over, client, rate_limit, &mut out)
    })?;
    out.truncate(length);
    Some(out)
}

fn written(
    now: &Published,
    packet: &[u8],
    over: Transport,
    client: IpAddr,
    rate_limit: RateLimit,
    out: &mut [u8],
) -> Option<usize> {
    let arrival = Arrival {
        over,
        client,
        rate_limit,
        turn: 3,
        cookie: Some(COOKIE),
    };
    let query = parse(packet);
    let mut reply = respond(&SETTINGS, now, &query, &arrival)?;
    reply.order = order_of(packet);
    Some(write(&reply, &query, packet, out).length)
}

/// Every order has its turn.
fn order_of(packet: &[u8]) -> Order {
    let orders = [
        Order::Rotate,
        Order::Shuffle,
        Order::LocalFirst,
        Order::Stable,
    ];
    orders[usize::from(packet[1] % 4)]
}

/// Inside TLS a reply is what it is over TCP, and padded for who asks.
fn check_encrypted(now: &Published, packet: &[u8], tcp: &[u8]) {
    let edns = match parse(packet) {
        Ok(query) => query.edns,
        Err(Reject::With { edns, .. }) => edns,
        Err(Reject::Drop) => None,
    };
    let says_keepalive = edns.is_some_and(|edns| edns.wants_keepalive);
    let is_padded = edns.is_some_and(|edns| edns.wants_padding);
    for over in [Transport::Tls, Transport::Https] {
        let own = reply(now, packet, over).expect("a reply, as over TCP");
        // HTTP has no keepalive of DNS.
        let is_shorter = over == Transport::Https && says_keepalive;
        let length = tcp.len() - if is_shorter { 6 } else { 0 };
        if is_padded {
            let padded = (length + 4).next_multiple_of(PADDING_BLOCK);
            assert_eq!(own.len(), padded, "{over:?}: whole blocks");
            let (own, tcp) = (foreign::decode(&own, "TLS"), foreign::decode(tcp, "TCP"));
            assert_eq!(own, tcp, "{over:?}: the rest is the same");
        } else if is_shorter {
            assert_eq!(own.len(), length, "{over:?}");
        } else {
            assert_eq!(own, tcp, "{over:?}");
        }
    }
}

/// Over QUIC a library writes the reply, out of records that are made apart: they are the same.
fn check_records(now: &Published, packet: &[u8]) {
    let query = parse(packet);
    let arrival = Arrival {
        over: Transport::Quic,
        client: CLIENT,
        rate_limit: RateLimit::Within,
        turn: 3,
        cookie: Some(COOKIE),
    };
    let (Some(mut reply), Ok(asked)) = (respond(&SETTINGS, now, &query, &arrival), &query) else {
        return;
    };
    reply.order = order_of(packet);
    let mut out = vec![0; 65_535];
    let length = write(&reply, &query, packet, &mut out).length;
    let sections = records(&reply, asked);
    foreign::check_same_records(
        &out[..length],
        [&sections.answers, &sections.soa, &sections.additionals],
    );
}

/// Makes a query out of choices, so that most names exist or nearly do.
pub fn question(choices: &[u8]) -> Vec<u8> {
    question_of(&mut Choices::new(choices))
}

/// The same, out of some of the choices.
pub fn question_of(choices: &mut Choices<'_>) -> Vec<u8> {
    const LABELS: [&[u8]; 22] = [
        b"db",
        b"prod",
        b"global",
        b"hub",
        b"west",
        b"east",
        b"db-0",
        b"DB-1",
        b"_sql",
        b"_tcp",
        b"_udp",
        b"wide",
        b"wide-7",
        b"ns",
        b"dns",
        b"dns-version",
        b"10",
        b"99",
        b"in-addr",
        b"arpa",
        b"nope",
        b"\xff",
    ];
    const TYPES: [u16; 12] = [1, 28, 33, 6, 2, 16, 12, 255, 252, 41, 65, 250];
    let mut next = || choices.octet();
    let mut packet = vec![next(), next(), next() & 0x79, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for _ in 0..next() % 8 {
        let label = LABELS[usize::from(next()) % LABELS.len()];
        packet.push(label.len() as u8);
        packet.extend(label);
    }
    if next() % 4 != 0 {
        packet.extend(b"\x06global");
    }
    packet.push(0);
    packet.extend(TYPES[usize::from(next()) % TYPES.len()].to_be_bytes());
    packet.extend([1_u16, 1, 1, 3, 255][usize::from(next()) % 5].to_be_bytes());
    if next() % 2 == 1 {
        packet[11] = 1;
        packet.extend([0, 0, 41, next(), next(), 0, next() % 2, next(), 0]);
        let options: Vec<u8> = match next() % 5 {
            0 => vec![],
            1 => vec![0, 3, 0, 0],
            2 => [&[0, 10, 0, 8][..], &[next(); 8]].concat(),
            3 => vec![0, 11, 0, 0],
            _ => vec![0, next(), 0, 2, next(), next()],
        };
        packet.extend((options.len() as u16).to_be_bytes());
        packet.extend(options);
    }
    packet
}

/// Tells the response code of the reply over UDP, and whether it has an answer.
pub fn codes(packet: &[u8]) -> (u8, bool) {
    let reply = reply(&PUBLISHED.load(), packet, Transport::Udp).unwrap();
    (reply[3] & 0x0f, reply[6..8] != [0, 0])
}
