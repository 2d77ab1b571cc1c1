//! The response policy, question by question, and its result in the encoded reply.

use std::time::Duration;

use crate::testing::support::query::{Edns, Parts};
use crate::testing::support::rounds::has_all_rounds;

use super::query::option;
use super::respond::ExtendedError;
use super::*;
use crate::table::{NameFailure, Published, Table};
use crate::testing::{endpoint, local, mirror, published, table, zones};
use crate::zone::{AnswerOrder, Data, Failure, RecordType};

mod owner_names;

fn shop() -> Table {
    let mut objects = vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1", "2001:db8::1"]),
        endpoint("prod", "db", "east", "db-1", &["10.96.0.2"]),
        endpoint("prod", "db", "east", "db-2", &["10.96.0.3"]),
    ];
    let pods = [("db-0", "192.0.2.1", true), ("db-1", "192.0.2.2", true)];
    objects.extend(local("prod", "db", &pods));
    table(&objects)
}

fn settings() -> ResponseSettings {
    ResponseSettings {
        zones: zones(&["global"]),
        access: Access::around(&[]),
        order: AnswerOrder::Rotate,
        udp_max: 1232,
        server_id: "global-dns-0".to_owned(),
        tcp_idle: Duration::from_millis(30_050),
    }
}

/// The varying parts of a query.
#[derive(Clone, Copy)]
struct TestQuery {
    name: &'static str,
    rtype: u16,
    class: u16,
    opcode: u8,
    version: u8,
    /// UDP payload size in the OPT record. `None` means no OPT record.
    payload: Option<u16>,
}

const QUERY: TestQuery = TestQuery {
    name: "db.prod.global",
    rtype: 1,
    class: 1,
    opcode: 0,
    version: 0,
    payload: Some(1232),
};

fn packet(fields: TestQuery) -> Vec<u8> {
    let edns = fields.payload.map(|payload| Edns {
        payload,
        version: fields.version,
        options: vec![(option::NSID, Vec::new()), (option::KEEPALIVE, Vec::new())],
        ..Edns::plain()
    });
    let parts = Parts {
        bits: u16::from(fields.opcode) << 11,
        class: fields.class,
        edns,
        ..Parts::new(fields.name, fields.rtype)
    };
    parts.packet(0xabcd).0
}

const CONTEXT: QueryContext = QueryContext {
    transport: Transport::Udp,
    is_allowed: true,
    turn: 0,
};

/// Summarizes a reply: response code, extended error, AA, TC, number of answers, and NSID.
fn summary(now: &Published, fields: TestQuery, context: QueryContext) -> Option<String> {
    let (settings, packet) = (settings(), packet(fields));
    let query = parse(&packet);
    let reply = respond(&settings, now, &query, &context)?;
    let mut out = vec![0; 65_535];
    let written = write(&reply, &query, &packet, &mut out);
    assert!(written.length <= usize::from(reply.limit));
    assert_eq!(&out[..2], &packet[..2]);
    assert_eq!(out[2] & 0x79, packet[2] & 0x79, "opcode and RD");
    let error = reply.edns.and_then(|edns| edns.error);
    let mut words = vec![format!("{}", reply.rcode.0)];
    words.extend(error.map(|error| format!("error {}", error.code)));
    words.extend((out[2] & 0x04 != 0).then(|| "AA".to_owned()));
    words.extend((out[2] & 0x02 != 0).then(|| "TC".to_owned()));
    words.extend((out[7] != 0).then(|| format!("{} answers", out[7])));
    words.extend(
        reply
            .edns
            .and_then(|edns| edns.nsid)
            .map(|_| "NSID".to_owned()),
    );
    Some(words.join(", "))
}

#[test]
fn policy_decides_the_reply_to_each_kind_of_question() {
    let now = published(shop());
    for (case, fields, expected) in [
        ("a name", QUERY, "0, AA, 5 answers, NSID"),
        (
            "without EDNS",
            TestQuery {
                payload: None,
                ..QUERY
            },
            "0, AA, 5 answers",
        ),
        (
            "no such type",
            TestQuery { rtype: 16, ..QUERY },
            "0, AA, NSID",
        ),
        (
            "no such name",
            TestQuery {
                name: "nope.global",
                ..QUERY
            },
            "3, AA, NSID",
        ),
        (
            "outside the zone",
            TestQuery {
                name: "example.com",
                ..QUERY
            },
            "5, error 20, NSID",
        ),
        (
            "any class",
            TestQuery {
                class: 255,
                ..QUERY
            },
            "0, 5 answers, NSID",
        ),
        (
            "no such class",
            TestQuery { class: 4, ..QUERY },
            "5, error 21, NSID",
        ),
        (
            "AXFR",
            TestQuery {
                rtype: 252,
                ..QUERY
            },
            "5, error 21, NSID",
        ),
        (
            "IXFR",
            TestQuery {
                rtype: 251,
                ..QUERY
            },
            "5, error 21, NSID",
        ),
        ("OPT", TestQuery { rtype: 41, ..QUERY }, "4, NSID"),
        (
            "TKEY",
            TestQuery {
                rtype: 249,
                ..QUERY
            },
            "4, NSID",
        ),
        (
            "MAILA",
            TestQuery {
                rtype: 254,
                ..QUERY
            },
            "4, NSID",
        ),
        (
            "any type",
            TestQuery {
                rtype: 255,
                ..QUERY
            },
            "0, AA, 5 answers, NSID",
        ),
        (
            "unknown EDNS version",
            TestQuery {
                version: 1,
                ..QUERY
            },
            "16",
        ),
        ("UPDATE", TestQuery { opcode: 5, ..QUERY }, "4, NSID"),
        (
            "id.server",
            TestQuery {
                name: "id.server",
                rtype: 16,
                class: 3,
                ..QUERY
            },
            "0, 1 answers, NSID",
        ),
        (
            "another type of id.server",
            TestQuery {
                name: "id.server",
                rtype: 1,
                class: 3,
                ..QUERY
            },
            "5, error 21, NSID",
        ),
        (
            "version.bind",
            TestQuery {
                name: "version.bind",
                rtype: 16,
                class: 3,
                ..QUERY
            },
            "5, error 21, NSID",
        ),
    ] {
        assert_eq!(
            summary(&now, fields, CONTEXT).as_deref(),
            Some(expected),
            "{case}"
        );
    }
}

#[test]
fn chaos_texts_are_returned_if_configured() {
    let now = published(shop());
    let chaos_text = |settings: &ResponseSettings, name, rtype| {
        let query = parse(&packet(TestQuery {
            name,
            rtype,
            class: query::CLASS_CH,
            ..QUERY
        }));
        let reply = respond(settings, &now, &query, &CONTEXT).unwrap();
        match &reply.body {
            Body::Chaos(text) => {
                assert_eq!(reply.class(), query::CLASS_CH);
                Some(String::from_utf8(text.to_vec()).unwrap())
            }
            Body::Empty | Body::Answer(_) => None,
        }
    };
    let (open, name) = (settings(), "id.server");
    for rtype in [RecordType::TXT, RecordType::ANY] {
        let text = chaos_text(&open, name, rtype.0);
        assert_eq!(text.as_deref(), Some("global-dns-0"));
    }
    assert_eq!(chaos_text(&open, name, 1), None);
    assert_eq!(chaos_text(&open, "hostname.bind", 16), None);
    assert_eq!(chaos_text(&open, "version.bind", 16), None);
}

#[test]
fn missing_table_gets_servfail() {
    let ask = |now: &Published| summary(now, QUERY, CONTEXT);
    assert_eq!(
        ask(&Published::default()).as_deref(),
        Some("2, error 14, NSID")
    );
    assert_eq!(ExtendedError::NOT_READY.data(), [0, 14]);
    let failure = ExtendedError {
        failure: Some(Failure::Rule(NameFailure::ExpectedClustersMissing)),
        ..ExtendedError::NOT_READY
    };
    let data = [&[0, 14][..], b"expected clusters are missing"].concat();
    assert_eq!(failure.data(), data);
}

#[test]
fn denied_client_gets_a_minimal_reply() {
    let now = published(shop());
    let malformed = TestQuery { opcode: 5, ..QUERY };
    let stranger = QueryContext {
        is_allowed: false,
        ..CONTEXT
    };
    let refused = Some("5, error 18".to_owned());
    assert_eq!(summary(&now, QUERY, stranger), refused);
    assert_eq!(summary(&now, malformed, stranger), refused);
}

/// The source address may be forged, so the reply must not amplify the query.
#[test]
fn refusal_is_hardly_longer_than_the_query() {
    let (now, settings, packet) = (published(shop()), settings(), packet(QUERY));
    let query = parse(&packet);
    for transport in [Transport::Udp, Transport::Tcp] {
        let stranger = QueryContext {
            is_allowed: false,
            transport,
            ..CONTEXT
        };
        let reply = respond(&settings, &now, &query, &stranger).unwrap();
        let edns = reply.edns.unwrap();
        assert_eq!((edns.nsid, edns.keepalive), (None, None));
        let written = write(&reply, &query, &packet, &mut [0; 512]);
        // The extended error takes 6 octets, and the two options of the question took 8.
        assert_eq!(written.length, packet.len() - 8 + 6);
    }
}

#[test]
fn reply_has_the_serial_of_its_table() {
    let (now, settings) = (published(shop()), settings());
    for (name, rtype) in [("global", 6), ("nope.global", 1)] {
        let packet = packet(TestQuery {
            name,
            rtype,
            payload: None,
            ..QUERY
        });
        let query = parse(&packet);
        let reply = respond(&settings, &now, &query, &CONTEXT).unwrap();
        assert_eq!((reply.serial, now.serial), (1_790_000_000, 1_790_000_000));
        let mut out = [0; 512];
        let length = write(&reply, &query, &packet, &mut out).length;
        // Before refresh, retry, expire and minimum (RFC 1035 section 3.3.13).
        let serial = &out[length - 20..length - 16];
        assert_eq!(serial, 1_790_000_000_u32.to_be_bytes());
    }
}

#[test]
fn reply_limit_follows_from_client_server_and_transport() {
    let now = Published::default();
    let settings = settings();
    let limit = |payload, transport| {
        let query = parse(&packet(TestQuery { payload, ..QUERY }));
        respond(
            &settings,
            &now,
            &query,
            &QueryContext {
                transport,
                ..CONTEXT
            },
        )
        .unwrap()
        .limit
    };
    for (payload, expected) in [
        (None, 512),
        (Some(0), 512),
        (Some(511), 512),
        (Some(513), 513),
        (Some(1232), 1232),
        (Some(65_535), 1232),
    ] {
        assert_eq!(limit(payload, Transport::Udp), expected, "{payload:?}");
    }
    for transport in [Transport::Tcp, Transport::Tls, Transport::Quic] {
        assert_eq!(limit(None, transport), 65_535);
    }
}

#[test]
fn keepalive_is_returned_only_over_tcp_and_tls() {
    let now = Published::default();
    let settings = settings();
    let keepalive = |transport, wants: bool| {
        let mut packet = packet(QUERY);
        if !wants {
            // An unknown option.
            let end = packet.len();
            packet[end - 3] = 0xff;
        }
        let query = parse(&packet);
        let reply = respond(
            &settings,
            &now,
            &query,
            &QueryContext {
                transport,
                ..CONTEXT
            },
        );
        reply.unwrap().edns.unwrap().keepalive
    };
    // In tenths of a second (RFC 7828 section 3.1).
    assert_eq!(keepalive(Transport::Tcp, true), Some(300));
    assert_eq!(keepalive(Transport::Tls, true), Some(300));
    assert_eq!(keepalive(Transport::Tcp, false), None);
    assert_eq!(keepalive(Transport::Udp, true), None);
}

/// Returns the first address or target of the answer for `db.prod.global`. `number` is the number of the query.
fn first_record(
    settings: &ResponseSettings,
    now: &Published,
    packet: &[u8],
    number: u32,
) -> String {
    let context = QueryContext {
        turn: number,
        ..CONTEXT
    };
    let query = parse(packet);
    let reply = respond(settings, now, &query, &context).unwrap();
    let mut first = String::new();
    let _ = reply.visit_records(&query.unwrap().name, |record| {
        first = match record.data {
            Data::Addresses(part) => Data::Addresses(part.each().next().unwrap()).to_string(),
            Data::Srv { target, .. } => target.to_string(),
            other => panic!("{other:?}"),
        };
        std::ops::ControlFlow::Break(())
    });
    first
}

#[test]
fn every_endpoint_is_first_equally_often_for_every_client_and_type() {
    const ROUNDS: usize = 30;
    // The time grows with the square of the number.
    let many = has_all_rounds().then_some(100);
    for endpoints in [2, 3, 4, 10, 25].into_iter().chain(many) {
        let mut objects = vec![mirror("prod", "db", "east")];
        objects.extend((0..endpoints).map(|index| {
            let (v4, v6) = (format!("10.96.0.{index}"), format!("2001:db8::{index}"));
            endpoint("prod", "db", "east", &format!("db-{index}"), &[&v4, &v6])
        }));
        let now = published(table(&objects));
        for order in [AnswerOrder::Rotate, AnswerOrder::LocalFirst] {
            let settings = ResponseSettings {
                order,
                ..settings()
            };
            // A with AAAA, like the queries of stub resolvers, and with SRV.
            for types in [&[1, 28][..], &[1, 28, 33]] {
                let packets: Vec<Vec<u8>> = types
                    .iter()
                    .map(|rtype| {
                        packet(TestQuery {
                            rtype: *rtype,
                            ..QUERY
                        })
                    })
                    .collect();
                for clients in [1, 2, 5] {
                    let mut number = 0;
                    let mut counts = std::collections::BTreeMap::new();
                    for _ in 0..ROUNDS * endpoints {
                        for client in 0..clients {
                            for (rtype, packet) in types.iter().zip(&packets) {
                                let first = first_record(&settings, &now, packet, number);
                                *counts.entry((client, rtype, first)).or_insert(0) += 1;
                                number += 1;
                            }
                        }
                    }
                    let what =
                        format!("{order:?}, {endpoints} endpoints, {types:?}, {clients} clients");
                    assert_eq!(counts.len(), clients * types.len() * endpoints, "{what}");
                    let fair = ROUNDS / 4..ROUNDS * 2;
                    assert!(
                        counts.values().all(|count| fair.contains(count)),
                        "{what}: {counts:?}"
                    );
                }
            }
        }
    }
}
