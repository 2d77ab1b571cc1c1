use std::collections::BTreeSet;

use crate::testing::support::query::{Edns, Parts};
use crate::testing::support::rounds::has_all_rounds;
use hickory_proto::op::{Message as HickoryMessage, OpCode, ResponseCode};
use hickory_proto::rr::Record;
use proptest::prelude::*;

use super::*;
use crate::table::Published;
use crate::testing::{endpoint, listing, mirror, table, zones};
use crate::wire::respond::{QueryContext, ResponseSettings, Transport, respond};
use crate::wire::{Access, parse};
use crate::zone::print::{bases_of_service, names_of_endpoint};
use crate::zone::{AnswerOrder, answer, read};

/// Returns a table with a service for each count. Its endpoints are in two clusters, and half of them are dual-stack.
fn published(counts: &[usize]) -> Published {
    let mut objects = Vec::new();
    for (number, count) in counts.iter().enumerate() {
        let service = format!("db{number}");
        for cluster in ["east", "west"] {
            objects.push(mirror("prod", &service, cluster));
        }
        for index in 0..*count {
            let cluster = if index % 2 == 0 { "east" } else { "west" };
            let (high, low) = (index / 250, index % 250 + 1);
            let v4 = format!("10.{number}.{high}.{low}");
            let v6 = format!("2001:db8::{number}:{index}");
            let ips = [v4.as_str(), v6.as_str()];
            let ips = if index % 4 < 2 { &ips[..] } else { &ips[..1] };
            objects.push(endpoint(
                "prod",
                &service,
                cluster,
                &format!("h-{number}-{index}"),
                ips,
            ));
        }
    }
    crate::testing::published(table(&objects))
}

fn settings(order: AnswerOrder) -> ResponseSettings {
    ResponseSettings {
        zones: zones(&["global"]),
        access: Access::new(&[], &[]),
        order,
        udp_max: 1232,
        server_id: "global-dns-0".to_owned(),
    }
}

/// Returns a query, with an OPT record if there is a payload size.
fn query(name: &str, rtype: u16, payload: Option<u16>) -> Vec<u8> {
    let edns = payload.map(|payload| Edns {
        payload,
        flags: 0x8000,
        ..Edns::plain()
    });
    query_with(name, rtype, edns)
}

fn query_with(name: &str, rtype: u16, edns: Option<Edns>) -> Vec<u8> {
    let parts = Parts {
        bits: 0x0110,
        edns,
        ..Parts::new(name, rtype)
    };
    parts.packet(0xabcd).0
}

fn context(transport: Transport, turn: u32) -> QueryContext {
    QueryContext {
        transport,
        is_allowed: true,
        turn,
    }
}

/// Returns the records of a reply by section: answers, SOA and additional ones.
fn expected(reply: &Reply<'_>, query: &Query) -> [Vec<String>; 3] {
    let mut sections = [const { Vec::new() }; 3];
    let Body::Answer(answer) = &reply.body else {
        return sections;
    };
    let context = AnswerContext {
        walk: reply.walk,
        ..AnswerContext::new(&query.name, reply.serial)
    };
    for record in answer.records(context) {
        let section = match record.section {
            MessageSection::Answer => 0,
            MessageSection::Authority => 1,
            MessageSection::Additional { .. } => 2,
        };
        let text = record.to_string().replace('\t', " ").replace('"', "");
        sections[section].push(text);
    }
    sections
}

/// Returns a decoded record as text in lower case.
fn text(record: &Record) -> String {
    let (name, ttl, class) = (&record.name, record.ttl, record.dns_class);
    let (rtype, data) = (record.record_type(), &record.data);
    let names = format!("{name} {ttl}").to_lowercase();
    format!("{names} {class} {rtype} {data}")
}

/// Answers a packet, and checks the properties of every reply.
fn reply(
    settings: &ResponseSettings,
    now: &Published,
    packet: &[u8],
    transport: Transport,
    turn: u32,
) -> (Vec<u8>, Written) {
    let parsed = parse(packet).unwrap();
    let reply = respond(settings, now, &parsed, &context(transport, turn));
    let mut out = vec![0; 65_535];
    let written = write(&reply, &parsed, packet, &mut out);
    out.truncate(written.length);
    assert!(written.length <= usize::from(reply.limit));
    let message = HickoryMessage::from_vec(&out).unwrap();
    let [answers, soa, additionals] = expected(&reply, parsed.query.as_ref().unwrap());
    let header = message.metadata;
    assert_eq!((header.id, header.op_code), (0xabcd, OpCode::Query));
    assert!(header.recursion_desired && !header.recursion_available && !header.checking_disabled);
    assert_eq!(header.truncation, written.is_truncated);
    assert_eq!(
        header.response_code,
        ResponseCode::from(0, reply.rcode as u8)
    );
    assert_eq!(message.edns.is_some(), reply.edns.is_some());
    let texts = |records: &[Record]| records.iter().map(text).collect::<Vec<_>>();
    assert_eq!(texts(&message.authorities), soa);
    assert_eq!(texts(&message.answers), answers[..message.answers.len()]);
    let kept = message.additionals.len();
    assert_eq!(texts(&message.additionals), additionals[..kept]);
    assert_eq!(written.is_truncated, message.answers.len() < answers.len());
    if written.is_truncated {
        assert!(message.additionals.is_empty());
    }
    // An RRset is complete or absent (RFC 2181 section 9).
    let rrset = |text: &String| {
        let fields: Vec<&str> = text.split(' ').collect();
        (fields[0].to_owned(), fields[3].to_owned())
    };
    if let (Some(last), Some(next)) = (additionals[..kept].last(), additionals.get(kept)) {
        assert_ne!(rrset(last), rrset(next));
    }
    (out, written)
}

const TYPES: [u16; 8] = [1, 28, 33, 16, 6, 2, 255, 65];

#[test]
fn every_name_and_type_is_encoded_as_its_records() {
    let (now, settings) = (published(&[0, 1, 3, 9, 60]), settings(AnswerOrder::Rotate));
    let zone = settings.zones.iter().next().unwrap();
    let table = now.table.as_ref().unwrap();
    let mut names = BTreeSet::new();
    for service in table.services() {
        for base in bases_of_service(zone, table, service) {
            let endpoints = service.endpoints.iter();
            names.extend(endpoints.flat_map(|endpoint| {
                names_of_endpoint(&zone.grammar, endpoint, &endpoint.ports, &base)
            }));
        }
    }
    let others = [
        "global.",
        "ns.dns.global.",
        "dns.global.",
        "dns-version.global.",
        "prod.global.",
        "nope.prod.global.",
        "_tcp.db1.prod.global.",
        "x.global.",
        "db0.prod.global.",
    ];
    names.extend(others.map(str::to_owned));
    assert!(names.len() > 400);
    let ways = [
        (None, Transport::Udp),
        (Some(512), Transport::Udp),
        (Some(1232), Transport::Udp),
        (Some(4096), Transport::Udp),
        (Some(0), Transport::Tcp),
        (None, Transport::Tcp),
    ];
    for (turn, name) in names.iter().enumerate() {
        for (index, rtype) in TYPES.into_iter().enumerate() {
            // Without all rounds, each name and type is asked for in one of the ways.
            let one = (turn + index) % ways.len();
            let selected = if has_all_rounds() {
                &ways[..]
            } else {
                &ways[one..=one]
            };
            for (payload, transport) in selected {
                let packet = query(name, rtype, *payload);
                reply(&settings, &now, &packet, *transport, turn as u32);
            }
        }
    }
}

#[test]
fn records_within_a_length_are_those_of_a_reply() {
    let (now, settings) = (published(&[9]), settings(AnswerOrder::Rotate));
    let name = Name::from_text("db0.prod.global").unwrap();
    let table = now.table.as_ref().unwrap();
    let answer = answer(read(&settings.zones, table, &name), RecordType::A);
    let packet = query("db0.prod.global", 1, Some(1232));
    let (bytes, _) = reply(&settings, &now, &packet, Transport::Udp, 0);
    let all = answer.records(AnswerContext::new(&name, 0)).len();
    assert_eq!(records_within(&answer, &name, bytes.len()), all);
    assert_eq!(records_within(&answer, &name, bytes.len() - 1), all - 1);
}

#[test]
fn record_that_ends_at_the_limit_is_included() {
    let settings = ResponseSettings {
        udp_max: 4096,
        ..settings(AnswerOrder::Rotate)
    };
    let now = published(&[9]);
    let ask = |payload, transport| {
        let packet = query("_sql._tcp.db0.prod.global", 33, Some(payload));
        let (bytes, written) = reply(&settings, &now, &packet, transport, 0);
        assert!(!written.is_truncated);
        bytes
    };
    let whole = ask(4096, Transport::Tcp);
    let length = whole.len() as u16;
    assert_eq!(ask(length, Transport::Udp), whole);
    // The last record is an additional address of 16 or 28 octets.
    let less = ask(length - 1, Transport::Udp).len() + 16;
    assert!(less == whole.len() || less + 12 == whole.len(), "{less}");
}

#[test]
fn targets_beyond_the_reach_of_pointers_are_written_as_labels() {
    let (now, settings) = (published(&[400, 250]), settings(AnswerOrder::Rotate));
    for name in ["_sql._tcp.db0.prod.global", "db1.prod.global", "db1.global"] {
        // `reply` compares the records with those that hickory decodes.
        let (bytes, written) = reply(&settings, &now, &query(name, 33, None), Transport::Tcp, 0);
        assert!(!written.is_truncated && bytes.len() > 0x4000);
        let message = HickoryMessage::from_vec(&bytes).unwrap();
        assert!(message.additionals.len() >= 250, "{name}");
        let last = &message.additionals.last().unwrap().name;
        assert!(
            message
                .answers
                .iter()
                .any(|row| row.data.to_string().contains(&last.to_string()))
        );
    }
}

/// Clients ignore a reply without its question.
#[test]
fn question_is_kept_if_the_options_are_too_long() {
    let [host, cluster, namespace] = ["h", "c", "n"].map(|letter| letter.repeat(60));
    let headless = format!("db-{cluster}");
    let objects = [
        mirror(&namespace, "db", &cluster),
        listing(&namespace, &headless, &[(&host, "10.0.0.1")]),
    ];
    let now = crate::testing::published(table(&objects));
    let name = format!("{host}.{cluster}.db.{namespace}.global");
    let edns = Edns {
        payload: 512,
        options: vec![(3, Vec::new())],
        ..Edns::plain()
    };
    let packet = query_with(&name, 1, Some(edns));
    // The length of the identifier; whether the reply has a text, and the identifier.
    for (length, has_text, has_nsid) in [(20, true, true), (200, false, true), (300, false, false)]
    {
        let settings = ResponseSettings {
            server_id: "x".repeat(length),
            ..settings(AnswerOrder::Rotate)
        };
        let (bytes, _) = reply(&settings, &now, &packet, Transport::Udp, 0);
        assert_eq!(HickoryMessage::from_vec(&bytes).unwrap().queries.len(), 1);
        let contains = |text: &[u8]| bytes.windows(text.len()).any(|octets| octets == text);
        assert_eq!(contains(b"is missing"), has_text, "{length}");
        assert!(contains(&[0, 15]) && contains(&[0, 14]), "{length}");
        assert_eq!(contains(b"xxx"), has_nsid, "{length}");
    }
}

proptest! {
    #[test]
    fn udp_equals_tcp_if_both_fit(count in 0..40_usize, rtype in prop::sample::select(TYPES.to_vec()), turn in any::<u32>()) {
        let (now, settings) = (published(&[count]), settings(AnswerOrder::Rotate));
        let packet = query("db0.prod.global", rtype, Some(1232));
        let (udp, udp_written) = reply(&settings, &now, &packet, Transport::Udp, turn);
        let (tcp, _) = reply(&settings, &now, &packet, Transport::Tcp, turn);
        if tcp.len() <= 1232 {
            prop_assert_eq!(udp, tcp);
        } else {
            prop_assert!(udp.len() <= 1232);
            prop_assert!(udp_written.is_truncated || rtype == 33);
        }
    }
}
