//! Checks of the reply to any message.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::LazyLock;

use global_dns::model::{Kind, Timestamp};
use global_dns::source::file::parse_texts;
use global_dns::table::{Published, Publisher, Rules, Store, Table, Timers, build};
use global_dns::wire::respond::PADDING_BLOCK;
use global_dns::wire::{Access, QueryContext, ResponseSettings, Transport, parse, respond, write};
use global_dns::zone::{AnswerOrder, Grammar, Zone, Zones};

use support::reply::{Record, Reply, rtype};

use super::choices::Choices;
use super::memory::allocates_at_most;
use super::tables::services_of;

/// Settings with a zone of each grammar.
pub static SETTINGS: LazyLock<ResponseSettings> = LazyLock::new(|| {
    let zone = |name: &str, grammar| Zone {
        name: name.parse().unwrap(),
        ttl: 5,
        ns_addresses: vec![Ipv4Addr::LOCALHOST.into()],
        grammar,
    };
    ResponseSettings {
        access: Access::new(&[], &[]),
        zones: Zones(vec![
            zone("global", Grammar::Global),
            zone("set", Grammar::Mcs),
            zone("one", Grammar::Cluster("east".parse().unwrap())),
        ]),
        order: AnswerOrder::Rotate,
        udp_max: UDP_MAX,
        server_id: "replica-1".to_owned(),
    }
});

/// The table of the built-in sample, plus a service with more endpoints than fit into a datagram.
static PUBLISHED: LazyLock<global_dns::table::publish::Reader> = LazyLock::new(|| {
    let mut lists = parse_texts(&[(Path::new("demo.yaml"), manifests())]).unwrap();
    let mut store = Store::default();
    for kind in Kind::ALL {
        store.reset(kind, None, lists.remove(&kind).unwrap_or_default());
    }
    let rules = rules();
    let built = build(
        &Table::default(),
        &store,
        &services_of(&store),
        &rules,
        &Timers::default(),
    );
    let publisher = Publisher::default();
    publisher.publish(built, Timestamp::from_seconds(1), 1);
    publisher.reader()
});

/// Returns the default rules, for a cluster with the name `hub`.
pub fn rules() -> Rules {
    global_dns::settings::Settings::parse("", "clusterName: hub")
        .unwrap()
        .rules()
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

/// The value of `answers.udpMax`.
const UDP_MAX: u16 = 1232;
/// The code of the padding option (RFC 7830).
const PADDING: u16 = 12;
/// Maximum allocation for an answer in octets. Only the search for the services of an address allocates.
const MAX_ALLOCATION: u64 = 512;
/// Maximum octets that a reply without an answer adds to the query: an SOA record, NSID, keepalive and an extended
/// error.
const MAX_ADDED: usize = 128;

/// Answers a message as the listeners do, and checks the reply.
pub fn check(packet: &[u8]) {
    let now = PUBLISHED.load();
    let udp = reply(&now, packet, Transport::Udp);
    let tcp = reply(&now, packet, Transport::Tcp);
    let is_query = packet.len() >= 12 && packet[2] & 0x80 == 0;
    for reply in [&udp, &tcp] {
        assert_eq!(
            reply.is_some(),
            is_query,
            "queries, and only queries, must get a reply"
        );
    }
    let (Some(udp), Some(tcp)) = (udp, tcp) else {
        return;
    };
    check_amplification(packet);
    check_encrypted(&now, packet, &tcp);
    let edns = parse(packet).expect("it is answered").edns;
    let limit = edns.map_or(512, |edns| usize::from(edns.payload.clamp(512, UDP_MAX)));
    assert!(udp.len() <= limit, "{} octets of {limit}", udp.len());
    for (reply, over) in [(&udp, "UDP"), (&tcp, "TCP")] {
        assert_eq!(reply[..2], packet[..2], "{over}: the identifier differs");
        let (bits, echoed) = (reply[2] & 0xf8, 0x80 | packet[2] & 0x78);
        assert_eq!(bits, echoed, "{over}: QR or the opcode is wrong");
        let decoded = decode(reply, over);
        assert_eq!(
            decoded.opt.is_some(),
            edns.is_some(),
            "{over}: the reply has OPT if and only if the query has it"
        );
        if decoded.answers.is_empty() {
            let limit = packet.len() + MAX_ADDED;
            assert!(
                reply.len() <= limit,
                "{over}: {} octets, limit {limit}",
                reply.len()
            );
        }
        check_usable(&decoded);
    }
    let is_truncated = |reply: &[u8]| reply[2] & 0x02 != 0;
    assert!(!is_truncated(&tcp), "TC is set over TCP");
    let wants_keepalive = edns.is_some_and(|edns| edns.wants_keepalive);
    if !is_truncated(&udp) && udp.len() == tcp.len() && !wants_keepalive {
        assert_eq!(udp, tcp, "the replies over UDP and TCP differ");
    }
}

/// Reads a reply. Fails if it is malformed.
pub fn decode(reply: &[u8], over: &str) -> Reply {
    Reply::read(reply).unwrap_or_else(|error| panic!("{over}: {error}: {reply:?}"))
}

/// Returns the addresses in records.
pub fn addresses(records: &[Record]) -> impl Iterator<Item = IpAddr> {
    let own = records.iter();
    let own = own.filter(|record| [rtype::A, rtype::AAAA].contains(&record.rtype));
    own.map(|record| record.data.parse().unwrap())
}

/// Asserts that no address is unusable. The operator configures the address of the server's own name.
pub fn check_usable(reply: &Reply) {
    let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let all = addresses(&reply.answers).chain(addresses(&reply.additional));
    for address in all.filter(|address| *address != own) {
        let ip = address.to_canonical();
        assert!(ip == address, "{address} is an IPv4-mapped IPv6 address");
        let is_broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
        let is_special = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast();
        assert!(!is_special && !is_broadcast, "{address} is in an answer");
    }
}

/// Asserts that refused replies are hardly longer than the query, so that forged sources gain nothing.
fn check_amplification(packet: &[u8]) {
    const REFUSED: u8 = 5;
    let now = PUBLISHED.load();
    let size = |reply: &[u8], what: &str| {
        // The reply may add an extended DNS error.
        let limit = packet.len() + 6;
        assert!(
            reply.len() <= limit,
            "{what}: {} octets, limit {limit}",
            reply.len()
        );
        assert_eq!(reply[6..10], [0; 4], "{what}: the reply has records");
    };
    for over in [Transport::Udp, Transport::Tcp] {
        let refused = reply_to(&now, packet, over, false).unwrap();
        size(&refused, "a prohibited client");
        assert_eq!(refused[3] & 0x0f, REFUSED, "a prohibited client");
    }
}

/// Returns the reply from a table to an allowed client.
pub fn reply(now: &Published, packet: &[u8], over: Transport) -> Option<Vec<u8>> {
    reply_to(now, packet, over, true)
}

/// Writes the reply from the sample table into a buffer. Returns its length.
pub fn reply_into(packet: &[u8], over: Transport, out: &mut [u8]) -> Option<usize> {
    write_reply(&PUBLISHED.load(), packet, over, true, out)
}

fn reply_to(now: &Published, packet: &[u8], over: Transport, is_allowed: bool) -> Option<Vec<u8>> {
    let mut out = vec![0xaa; 65_535];
    LazyLock::force(&SETTINGS);
    let length = allocates_at_most(MAX_ALLOCATION, "an answer", || {
        write_reply(now, packet, over, is_allowed, &mut out)
    })?;
    out.truncate(length);
    Some(out)
}

fn write_reply(
    now: &Published,
    packet: &[u8],
    over: Transport,
    is_allowed: bool,
    out: &mut [u8],
) -> Option<usize> {
    let context = QueryContext {
        transport: over,
        is_allowed,
        turn: 3,
    };
    let message = parse(packet)?;
    let mut reply = respond(&SETTINGS, now, &message, &context);
    reply.walk.order = order_of(packet);
    Some(write(&reply, &message, packet, out).length)
}

/// Returns an order that depends on the packet, so that all orders are used.
fn order_of(packet: &[u8]) -> AnswerOrder {
    let orders = [AnswerOrder::Rotate, AnswerOrder::LocalFirst];
    orders[usize::from(packet[1] % 2)]
}

/// Asserts that a reply over TLS is the same as over TCP, except for padding.
fn check_encrypted(now: &Published, packet: &[u8], tcp: &[u8]) {
    let edns = parse(packet).and_then(|message| message.edns);
    let own = reply(now, packet, Transport::Tls).expect("a reply over TCP implies one over TLS");
    if edns.is_some_and(|edns| edns.wants_padding) {
        let padded = (tcp.len() + 4).next_multiple_of(PADDING_BLOCK);
        assert_eq!(own.len(), padded, "the padded length is wrong");
        let without_padding = |octets, over| {
            let mut reply = decode(octets, over).content();
            let options = reply.opt.iter_mut().map(|opt| &mut opt.options);
            options.for_each(|options| options.retain(|(code, _)| *code != PADDING));
            reply
        };
        let (own, tcp) = (without_padding(&own, "TLS"), without_padding(tcp, "TCP"));
        assert_eq!(own, tcp, "padding changes the message");
    } else {
        assert_eq!(own, tcp);
    }
}

/// Builds a query from choices. Most names exist or are similar to existing names.
pub fn question(choices: &[u8]) -> Vec<u8> {
    question_from(&mut Choices::new(choices))
}

/// Builds a query from the next choices.
pub fn question_from(choices: &mut Choices<'_>) -> Vec<u8> {
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

/// Returns the response code of the reply over UDP, and whether it has an answer.
pub fn rcode_and_answer(packet: &[u8]) -> (u8, bool) {
    let reply = reply(&PUBLISHED.load(), packet, Transport::Udp).unwrap();
    (reply[3] & 0x0f, reply[6..8] != [0, 0])
}
