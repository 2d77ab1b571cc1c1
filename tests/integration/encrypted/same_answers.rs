//! The same messages over TCP, TLS and HTTPS get the same replies.

use hickory_proto::op::{Edns, Message, OpCode, Query};
use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};
use hickory_proto::rr::{DNSClass, Name, Record, RecordType};
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder};

use super::{sample, small};
use crate::support::PATIENCE;
use crate::support::ask::{Question, question};
use crate::support::assert_none;
use crate::support::binary::Server;
use crate::support::encrypted::{Issued, issue_good, send, serve};
use crate::support::wire::{Over, exchange, read_framed};

const FLAGS: [&str; 4] = [
    "--cluster-name=hub",
    "--order=stable",
    "--server-id=replica-1",
    "--version-bind=a DNS server",
];

const NSID: u16 = 3;
const COOKIE: u16 = 10;
const KEEPALIVE: u16 = 11;

/// A question of class IN with EDNS options.
fn with_options(name: &str, rtype: RecordType, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut message = Message::query();
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), rtype));
    let mut edns = Edns::new();
    edns.set_max_payload(1232);
    for (code, value) in options {
        let option = EdnsOption::Unknown(*code, value.to_vec());
        edns.options_mut()
            .options
            .push((EdnsCode::from(*code), option));
    }
    message.set_edns(edns);
    message.to_vec().unwrap()
}

fn of_class(asked: &str, class: DNSClass) -> Vec<u8> {
    let class = u16::from(class);
    Question {
        class,
        ..question(asked).edns(1232)
    }
    .packet()
}

fn changed(asked: &str, change: impl FnOnce(&mut Question)) -> Vec<u8> {
    let mut question = question(asked).edns(1232);
    change(&mut question);
    question.packet()
}

fn patched(asked: &str, at: usize, octet: u8) -> Vec<u8> {
    let mut packet = question(asked).packet();
    packet[at] = octet;
    packet
}

/// Everything that a message gets decided about.
fn cases() -> Vec<(&'static str, Vec<u8>)> {
    let plain = |asked: &str| question(asked).packet();
    let edns = |asked: &str| question(asked).edns(1232).packet();
    let cookie: &[(u16, &[u8])] = &[(COOKIE, &[1, 2, 3, 4, 5, 6, 7, 8])];
    let everything: &[(u16, &[u8])] = &[(NSID, &[]), cookie[0], (KEEPALIVE, &[])];
    let mut no_question = with_options("global.", RecordType::A, cookie);
    no_question[5] = 0; // QDCOUNT
    no_question.drain(12..12 + 12); // the question
    vec![
        ("A without EDNS", plain("db.prod.global. A")),
        ("A", edns("db.prod.global. A")),
        ("AAAA", edns("db.prod.global. AAAA")),
        ("SRV, with addresses", edns("_sql._tcp.db.prod.global. SRV")),
        ("200 addresses", plain("many.prod.global. A")),
        ("200 SRV records", edns("many.prod.global. SRV")),
        ("a short name", edns("db.global. A")),
        ("upper and lower case", edns("dB.pRoD.gLoBaL. A")),
        ("SOA", edns("global. SOA")),
        ("NS", edns("global. NS")),
        ("TXT", edns("dns-version.global. TXT")),
        ("ANY", edns("db.prod.global. ANY")),
        ("an unknown type", edns("db.prod.global. TYPE666")),
        ("NODATA", edns("db.prod.global. MX")),
        ("NODATA without EDNS", plain("prod.global. A")),
        ("NXDOMAIN", edns("nope.prod.global. A")),
        ("NXDOMAIN without EDNS", plain("nope.prod.global. A")),
        ("REFUSED with an extended error", edns("www.example.org. A")),
        ("REFUSED without EDNS", plain("www.example.org. A")),
        ("a transfer", edns("global. AXFR")),
        ("a meta type", edns("global. TYPE251")),
        (
            "CHAOS",
            of_class("version.bind. TXT", DNSClass::CH),
        ),
        ("CHAOS, another name", of_class("db.prod.global. TXT", DNSClass::CH)),
        ("another class", of_class("db.prod.global. A", DNSClass::HS)),
        ("any class", of_class("db.prod.global. A", DNSClass::ANY)),
        (
            "BADVERS",
            changed("db.prod.global. A", |asked| asked.edns_version = 1),
        ),
        ("DO", changed("db.prod.global. A", |asked| asked.dnssec_ok = true)),
        (
            "RD, AD and CD",
            changed("db.prod.global. A", |asked| {
                asked.recursion_desired = true;
                asked.authentic_data = true;
                asked.checking_disabled = true;
            }),
        ),
        (
            "STATUS",
            changed("db.prod.global. A", |asked| asked.opcode = 2),
        ),
        (
            "NOTIFY",
            changed("global. SOA", |asked| asked.opcode = u8::from(OpCode::Notify)),
        ),
        (
            "UPDATE",
            changed("global. SOA", |asked| asked.opcode = u8::from(OpCode::Update)),
        ),
        ("an unknown operation", changed("global. SOA", |asked| asked.opcode = 9)),
        ("no question", b"\x12\x34\x01\0\0\0\0\0\0\0\0\0".to_vec()),
        ("no question, but a cookie", no_question),
        ("RCODE and TC in a query", patched("db.prod.global. A", 3, 0x03)),
        (
            "two questions",
            b"\x12\x34\x01\0\0\x02\0\0\0\0\0\0\x01a\0\0\x01\0\x01\x01b\0\0\x01\0\x01".to_vec(),
        ),
        (
            "a question's name with a pointer",
            b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\xc0\x04\0\x01\0\x01".to_vec(),
        ),
        (
            "an answer in a query",
            b"\x12\x34\x01\0\0\x01\0\x01\0\0\0\0\x01a\0\0\x01\0\x01\x01a\0\0\x01\0\x01\0\0\0\x05\0\x04\x0a\0\0\x01"
                .to_vec(),
        ),
        (
            "an option without a length",
            b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x01a\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\x02\0\x03".to_vec(),
        ),
        ("a cookie", with_options("db.prod.global.", RecordType::A, cookie)),
        ("a cookie that is too short", with_options("db.prod.global.", RecordType::A, &[(COOKIE, &[1, 2])])),
        ("NSID", with_options("db.prod.global.", RecordType::A, &[(NSID, &[])])),
        ("every option", with_options("nope.prod.global.", RecordType::A, everything)),
        ("an unknown option", with_options("db.prod.global.", RecordType::A, &[(65_001, b"?")])),
    ]
}

/// A reply in lines that can be compared; its order, its time and its compression aside.
fn seen(reply: &[u8]) -> Vec<String> {
    let message = Message::from_vec(reply).unwrap();
    let bits = u16::from_be_bytes([reply[2], reply[3]]);
    let mut lines = vec![
        format!("bits {bits:#06x}, {}", message.metadata.response_code),
        format!("questions {:?}", message.queries),
    ];
    let sections = [
        ("answer", &message.answers),
        ("authority", &message.authorities),
        ("additional", &message.additionals),
    ];
    for (name, records) in sections {
        let mut texts: Vec<String> = records.iter().map(record_text).collect();
        texts.sort();
        lines.extend(texts.into_iter().map(|text| format!("{name}: {text}")));
    }
    if let Some(edns) = &message.edns {
        let (payload, version) = (edns.max_payload(), edns.version());
        let dnssec_ok = edns.flags().dnssec_ok;
        lines.push(format!("OPT: {payload} {version} {dnssec_ok}"));
        let option = |(code, option): &(EdnsCode, EdnsOption)| {
            let code = u16::from(*code);
            let mut value = Vec::new();
            option.emit(&mut BinEncoder::new(&mut value)).unwrap();
            // The server's half of a cookie holds the time and the client's port has no part in it.
            let value = if code == COOKIE {
                &value[..12]
            } else {
                &value[..]
            };
            format!("option {code}: {value:?}")
        };
        lines.extend(edns.options().options.iter().map(option));
    }
    lines
}

fn record_text(record: &Record) -> String {
    record.to_string().to_lowercase()
}

fn over_tcp(server: &Server, packet: &[u8]) -> Vec<u8> {
    exchange(server.dns, packet, Over::Tcp, PATIENCE).unwrap()
}

fn over_tls(server: &Server, issued: &Issued, packet: &[u8]) -> Vec<u8> {
    issued.ask_tls(server.address("tls"), packet).unwrap()
}

fn over_https(server: &Server, issued: &Issued, packet: &[u8]) -> Vec<u8> {
    issued.ask_https(server.address("https"), packet).message()
}

#[test]
fn every_transport_gives_the_same_reply() {
    let issued = issue_good();
    let server = serve(sample(), &issued, &FLAGS);
    let mut differences = Vec::new();
    for (what, packet) in cases() {
        let tcp = seen(&over_tcp(&server, &packet));
        let tls = seen(&over_tls(&server, &issued, &packet));
        if tls != tcp {
            differences.push(format!("{what}, TLS:\n  {tls:#?}\n  TCP:\n  {tcp:#?}"));
        }
        // RFC 7828 is about TCP connections of DNS itself.
        let keepalive = format!("option {KEEPALIVE}: ");
        let tcp: Vec<_> = { tcp }
            .into_iter()
            .filter(|line| !line.starts_with(&keepalive))
            .collect();
        let https = seen(&over_https(&server, &issued, &packet));
        if https != tcp {
            differences.push(format!("{what}, HTTPS:\n  {https:#?}\n  TCP:\n  {tcp:#?}"));
        }
    }
    assert_none(&differences);
}

#[test]
fn keepalive_is_told_over_tls_and_not_over_https() {
    let issued = issue_good();
    let server = serve(small(), &issued, &FLAGS);
    let packet = with_options("db.prod.global.", RecordType::A, &[(KEEPALIVE, &[])]);
    let told = "option 11: [1, 44]".to_owned(); // 300 tenths of a second
    assert!(seen(&over_tcp(&server, &packet)).contains(&told));
    assert!(seen(&over_tls(&server, &issued, &packet)).contains(&told));
    assert!(!seen(&over_https(&server, &issued, &packet)).contains(&told));
}

#[test]
fn what_no_message_holds_is_cut_at_whole_records_and_keeps_its_opt_record() {
    let issued = issue_good();
    let server = serve(sample(), &issued, &FLAGS);
    let packet = question("huge.prod.global. SRV").edns(1232).packet();
    let tcp = Message::from_vec(&over_tcp(&server, &packet)).unwrap();
    for reply in [
        over_tls(&server, &issued, &packet),
        over_https(&server, &issued, &packet),
    ] {
        let reply = Message::from_vec(&reply).unwrap();
        assert!(reply.metadata.truncation);
        assert!(reply.edns.is_some() && reply.additionals.is_empty());
        assert!(
            (500..3_000).contains(&reply.answers.len()),
            "{}",
            reply.answers.len()
        );
        let texts = |message: &Message| message.answers.iter().map(record_text).collect::<Vec<_>>();
        let (some, all) = (texts(&reply), texts(&tcp));
        assert!(all.starts_with(&some) || some.starts_with(&all));
    }
    // Names are compressed less than over TCP, so that fewer records fit.
    let packet = question("huge.prod.global. A").packet();
    for (reply, least) in [
        (over_tcp(&server, &packet), 3_000),
        (over_tls(&server, &issued, &packet), 2_000),
        (over_https(&server, &issued, &packet), 2_000),
    ] {
        let reply = Message::from_vec(&reply).unwrap();
        assert!(reply.answers.len() >= least, "{}", reply.answers.len());
        assert_eq!(reply.metadata.truncation, reply.answers.len() < 3_000);
    }
    let of = |proto: &str| format!("global_dns_truncated_responses_total{{proto=\"{proto}\"}}");
    assert_eq!(server.metric(&of("tls")), 2.0);
    assert_eq!(server.metric(&of("https")), 2.0);
}

#[test]
fn a_tls_connection_takes_queries_in_a_row_and_answers_in_order() {
    let issued = issue_good();
    let server = serve(small(), &issued, &FLAGS);
    let mut stream = issued.connect(server.address("tls"), "dot").unwrap();
    for _ in 0..3 {
        let packets = [1_u8, 2, 3].map(|id| {
            let mut packet = question("db.prod.global. A").packet();
            packet[0] = id;
            packet
        });
        for packet in &packets {
            send(&mut stream, packet).unwrap();
        }
        for packet in &packets {
            let reply = read_framed(&mut stream).unwrap();
            assert_eq!(reply[..2], packet[..2]);
        }
    }
}
