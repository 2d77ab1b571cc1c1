//! Each query has the same records over UDP, TCP, TLS and QUIC. hickory-server,
//! with the printed zone and without shared code, is the oracle for the records.

mod messages;
mod normal;
mod oracle;
mod transports;

use std::collections::BTreeSet;

use messages::{Kind, TestMessage};
use normal::Normal;
use oracle::Oracle;
use support::certificates::issue_valid;
use support::differences::{assert_none, set};
use support::encrypted::{QUIC, serve};
use support::http::get;
use support::objects::{Gateway, Manifest, local, mirror, objects};
use support::query::{hex, query};
use support::reply::{Record, Reply};
use support::server::Server;
use support::tls::{ConnectionEnd, read_end};
use support::wait::TIMEOUT;
use support::wire::{Transport, exchange};
use transports::{Replies, Transports};

const FLAGS: [&str; 4] = [
    "--cluster-name=hub",
    "--server-id=replica-1",
    "--ns-address=192.0.2.53,2001:db8::53",
    QUIC,
];

/// Number of messages.
const MESSAGES: usize = 3_000;
/// Number of concurrent messages. QUIC allows a hundred streams on a connection.
const BATCH: usize = 50;
const SEED: u64 = 0x5eed_0016;

/// Returns services of all forms: one to three clusters, both address families, all kinds of ports, gateways that are
/// down, local members, answers larger than a datagram, and one name in two namespaces.
fn sample() -> Manifest {
    const PORTS: [&[(&str, &str, u16)]; 4] = [
        &[("sql", "TCP", 26257)],
        &[("sql", "TCP", 26257), ("http", "TCP", 8080)],
        &[
            ("dns", "UDP", 53),
            ("dns", "TCP", 53),
            ("diameter", "SCTP", 3868),
        ],
        &[],
    ];
    let mut all = objects();
    for index in 0..24 {
        let namespace = ["prod", "shop", "kafka"][index % 3];
        let service = match index {
            0 => "db".to_owned(),
            1 | 2 => "twice".to_owned(),
            3 => "db-east".to_owned(),
            _ => format!("service-{index}"),
        };
        for (number, cluster) in ["east", "west", "north-1"].iter().enumerate() {
            if number > index % 3 {
                continue;
            }
            let ports = PORTS[(index + number) % 4];
            let mut member = mirror(namespace, &service, cluster).ports(ports);
            if index % 5 == 0 {
                member = member.annotation("global-dns/ttl", "17");
            }
            for host in 0..1 + (index + number) % 3 {
                let v4 = format!("10.{}.{index}.{}", 96 + number, host + 1);
                let v6 = format!("2001:db8:{number:x}::{index:x}:{host:x}");
                let addresses: &[&str] = match index % 4 {
                    0 => &[&v4, &v6],
                    1 => &[&v6],
                    _ => &[&v4],
                };
                let gateway = match (index + number + host) % 7 {
                    0 => Gateway::Down,
                    _ => Gateway::Up,
                };
                member = member.endpoint_behind(gateway, &format!("{service}-{host}"), addresses);
            }
            all = all.with(member);
        }
        if index % 6 == 0 {
            let own = local(namespace, &service)
                .endpoint(Some("own-0"), &format!("192.0.2.{}", index + 1), true)
                .endpoint(None, &format!("192.0.2.{}", index + 2), true)
                .endpoint(None, &format!("2001:db8:ffff::{index:x}"), true);
            all = all.with(own);
        }
    }
    for (service, count) in [("some", 28_u32), ("many", 90)] {
        let mut wide = mirror("prod", service, "east");
        for host in 0..count {
            let address = format!("10.99.{}.{host}", count % 256);
            wide = wide.endpoint(&format!("{service}-{host}"), &[&address]);
        }
        all = all.with(wide);
    }
    all.with(mirror("prod", "idle", "west"))
}

fn zone_of(server: &Server) -> String {
    let page = get(server.api, "/api/v1/table?output=zone").unwrap();
    assert_eq!(page.status, 200, "{}", page.body);
    page.body
}

#[test]
fn all_transports_return_the_same_reply_and_the_oracle_the_same_records() {
    let issued = issue_valid();
    let server = serve(sample(), &issued, &FLAGS);
    let zone = zone_of(&server);
    let oracle = Oracle::start(&zone);
    let owners = zone.lines().map(|line| line.split('\t').next().unwrap());
    let owners: BTreeSet<&str> = owners.collect();
    let all = messages::generate(SEED, &owners.into_iter().collect::<Vec<_>>(), MESSAGES);

    let mut transports = Transports::connect(&server, &issued);
    let (mut differences, mut codes, mut judged) = (Vec::new(), BTreeSet::new(), 0);
    for batch in all.chunks(BATCH) {
        for (asked, replies) in batch.iter().zip(transports.ask(batch)) {
            differences.extend(transport_differences(asked, &replies));
            codes.insert(format!("{:?}: {}", asked.kind, rcode(&replies.tcp)));
            if asked.kind == Kind::Plain {
                judged += 1;
                differences.extend(oracle.compare(asked, &replies.tcp));
            }
        }
        // Usually there is more than one difference.
        if differences.len() > 20 {
            break;
        }
    }
    assert_none(&differences);
    assert!(
        judged > MESSAGES / 4,
        "the oracle compared {judged} messages"
    );
    // The replies must not only be errors.
    for code in [
        "Plain: 0",
        "Plain: 3",
        "Plain: 5",
        "Odd: 0",
        "Odd: 4",
        "Broken: 1",
        "Broken: 0",
    ] {
        assert!(codes.contains(code), "{code} in {codes:?}");
    }
}

fn rcode(reply: &[u8]) -> u8 {
    reply[3] & 0x0f
}

/// Returns descriptions of unexpected differences between replies.
fn transport_differences(asked: &TestMessage, replies: &Replies) -> Vec<String> {
    let tcp = Normal::of(&replies.tcp);
    let mut differences = Vec::new();
    let mut note =
        |over: &str, what: &str, one: &dyn std::fmt::Debug, other: &dyn std::fmt::Debug| {
            let packet = hex(&asked.packet);
            differences.push(format!(
                "{} {packet}\n over {over}: {what}\n  {one:?}\n over TCP\n  {other:?}",
                asked.what
            ));
        };
    let tls = Normal::of(&replies.tls);
    if replies.tls[..2] != replies.tcp[..2] {
        note("TLS", "identifier", &&replies.tls[..2], &&replies.tcp[..2]);
    }
    let [of_tls, of_tcp] = [&replies.tls, &replies.tcp].map(|reply| comparable_lines(reply));
    if of_tls != of_tcp {
        note("TLS", "records", &of_tls, &of_tcp);
    }
    if tls.keepalive.is_some() != tcp.keepalive.is_some() {
        note("TLS", "keepalive", &tls.keepalive, &tcp.keepalive);
    }
    let asks = asked.asks_for_padding;
    if asks.is_some_and(|asks| asks != tls.is_padded(replies.tls.len())) {
        note("TLS", "padding", &tls.padding, &asks);
    }
    let udp = Normal::of(&replies.udp);
    for (over, normal) in [("UDP", &udp), ("TCP", &tcp)] {
        if normal.padding.is_some() {
            note(over, "padding", &normal.padding, &"none in cleartext");
        }
    }
    if udp.keepalive.is_some() {
        note("UDP", "keepalive", &udp.keepalive, &"not over UDP");
    }
    if comparable_lines(&replies.udp) != of_tcp && !is_shortened(asked, &udp, &tcp) {
        note("UDP", "records", &hex(&replies.udp), &hex(&replies.tcp));
    }
    if let Some(quic) = &replies.quic {
        let quic = comparable_lines(quic);
        if quic != of_tcp {
            note("QUIC", "records", &quic, &of_tcp);
        }
    }
    differences
}

/// Returns whether a reply over UDP is the part of the TCP reply that fits (RFC 2181 section 9). Missing answers
/// require TC; missing additional records do not.
fn is_shortened(asked: &TestMessage, udp: &Normal, tcp: &Normal) -> bool {
    if asked
        .udp_limit
        .is_some_and(|limit| tcp.octets.len() <= limit)
    {
        return false;
    }
    let read = |normal: &Normal| Reply::read(&normal.octets).map(Reply::content);
    let (Ok(udp), Ok(tcp)) = (read(udp), read(tcp)) else {
        return false;
    };
    let is_whole = udp.answers == tcp.answers && udp.authority == tcp.authority;
    let has_all =
        |of_tcp: &[Record], of_udp: &[Record]| of_udp.iter().all(|one| of_tcp.contains(one));
    udp.is_truncated() != is_whole
        && has_all(&tcp.answers, &udp.answers)
        && has_all(&tcp.additional, &udp.additional)
        && (udp.rcode, &udp.questions) == (tcp.rcode, &tcp.questions)
        && udp.opt == tcp.opt
}

/// Formats a reply for comparison, without compression, order of records and ID.
fn comparable_lines(reply: &[u8]) -> Vec<String> {
    let normal = Normal::of(reply);
    let message = Reply::read(&normal.octets).unwrap();
    let bits = u16::from_be_bytes([reply[2], reply[3]]);
    let mut lines = vec![
        format!("bits {bits:#06x}, {}", message.status()),
        format!("questions {:?}", message.questions),
        format!("OPT {:?}", message.opt),
    ];
    let sections = [
        ("answer", &message.answers),
        ("authority", &message.authority),
        ("additional", &message.additional),
    ];
    for (name, records) in sections {
        let texts = set(records.iter().map(text));
        lines.extend(texts.into_iter().map(|text| format!("{name}: {text}")));
    }
    lines
}

fn text(record: &Record) -> String {
    record.to_string().to_lowercase()
}

/// A message that is not a query closes a stream connection.
#[test]
fn messages_that_are_not_queries_are_not_answered() {
    let issued = issue_valid();
    let server = serve(sample(), &issued, &FLAGS);
    let tls = server.address("tls");
    let query = query("db.prod.global. A").0;
    let mut response = query.clone();
    response[2] |= 0x80;
    for (what, packet) in [
        ("a response", &response[..]),
        ("a malformed response", &response[..13]),
        ("half a header", &query[..6]),
        ("one octet less than a header", &query[..11]),
    ] {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server.dns).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.send(packet).unwrap();
        let mut another = query.clone();
        another[..2].copy_from_slice(b"ab");
        socket.send(&another).unwrap();
        let mut reply = [0; 512];
        socket.recv(&mut reply).unwrap();
        assert_eq!(&reply[..2], b"ab", "{what} over UDP");
        assert!(exchange(server.dns, packet, Transport::Tcp, TIMEOUT).is_err());
        let mut stream = issued.tls(tls);
        support::tls::send(&mut stream, packet).unwrap();
        assert_eq!(
            read_end(&mut stream),
            ConnectionEnd::CloseNotify,
            "{what} over TLS"
        );
    }
}

/// An answer that exceeds every message: complete records that fit, TC, the OPT record, and a log line.
#[test]
fn too_large_answers_are_truncated_equally() {
    let mut huge = local("prod", "huge").exported();
    for index in 0..5_000_u32 {
        let address = std::net::Ipv4Addr::from(0x0a60_1001 + index).to_string();
        huge = huge.endpoint(None, &address, true);
    }
    let issued = issue_valid();
    let server = serve(objects().with(huge), &issued, &FLAGS);
    let mut transports = Transports::connect(&server, &issued);
    for asked in ["huge.prod.global. A", "huge.prod.global. SRV"] {
        let packet = query(&format!("{asked} +edns")).0;
        let asked = TestMessage::plain(asked, packet);
        let replies = transports.ask(std::slice::from_ref(&asked)).remove(0);
        let tcp = Reply::read(&replies.tcp).unwrap();
        assert!(tcp.is_truncated() && tcp.opt.is_some(), "{}", asked.what);
        assert!(tcp.answers.len() > 1_000, "{}", tcp.answers.len());
        let tls = Reply::read(&replies.tls).unwrap();
        assert!(tls.is_truncated() && tls.opt.is_some(), "{}", asked.what);
        assert!(tls.answers.len() > 1_000, "{}", tls.answers.len());
        // Over QUIC, compression is weaker, so fewer records fit.
        let quic = Reply::read(&replies.quic.unwrap()).unwrap();
        assert!(quic.is_truncated() && quic.opt.is_some());
        assert!(quic.answers.len() > 500, "{}", quic.answers.len());
    }
    let of = |proto: &str| format!("global_dns_truncated_responses_total{{proto=\"{proto}\"}}");
    for (proto, count) in [("udp", 2.0), ("tcp", 2.0), ("tls", 2.0), ("quic", 2.0)] {
        assert_eq!(server.metric(&of(proto)), count, "{proto}");
    }
}
