//! The response policy, question by question, and what it leaves to the writer.

use std::net::IpAddr;
use std::time::Duration;

use super::respond::ExtendedError;
use super::*;
use crate::table::{Published, Table};
use crate::testing::{endpoint, local, mirror, published, table, zones};
use crate::zone::{Order, RecordType, order};

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

fn settings() -> Settings {
    Settings {
        zones: zones(&["global"]),
        access: Access {
            allowed: vec!["192.0.2.0/24".parse().unwrap()],
            trusted: Vec::new(),
        },
        order: Order::Stable,
        udp_max: 1232,
        server_id: Some("global-dns-0".to_owned()),
        version_bind: None,
        tcp_idle: Duration::from_millis(30_050),
    }
}

/// A question, or what is wrong with it.
#[derive(Clone, Copy)]
struct Asked {
    name: &'static str,
    rtype: u16,
    class: u16,
    opcode: u8,
    version: u8,
    /// Octets that the client takes; `None`: it does not say.
    payload: Option<u16>,
}

const ASKED: Asked = Asked {
    name: "db.prod.global",
    rtype: 1,
    class: 1,
    opcode: 0,
    version: 0,
    payload: Some(1232),
};

fn packet(asked: Asked) -> Vec<u8> {
    let has_edns = u8::from(asked.payload.is_some());
    let mut packet = vec![
        0xab,
        0xcd,
        asked.opcode << 3,
        0,
        0,
        1,
        0,
        0,
        0,
        0,
        0,
        has_edns,
    ];
    for label in asked.name.split('.') {
        packet.push(label.len() as u8);
        packet.extend(label.as_bytes());
    }
    packet.push(0);
    packet.extend([asked.rtype.to_be_bytes(), asked.class.to_be_bytes()].concat());
    if let Some(payload) = asked.payload {
        // Who are you, and how long may I stay?
        let options = b"\x00\x03\x00\x00\x00\x0b\x00\x00";
        packet.extend([0, 0, 41]);
        packet.extend(payload.to_be_bytes());
        packet.extend([0, asked.version, 0, 0, 0, options.len() as u8]);
        packet.extend(options);
    }
    packet
}

const ARRIVAL: Arrival = Arrival {
    over: Transport::Udp,
    client: IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
    rate_limit: RateLimit::Within,
    turn: 0,
    cookie: None,
};

/// What a reply says in short: code, extended error, AA, TC, and whether there is an answer.
fn told(now: &Published, asked: Asked, arrival: Arrival) -> Option<String> {
    let (settings, packet) = (settings(), packet(asked));
    let query = parse(&packet);
    let reply = respond(&settings, now, &query, &arrival)?;
    let mut out = vec![0; 65_535];
    let written = write(&reply, &query, &packet, &mut out);
    assert!(written.length <= usize::from(reply.limit));
    assert_eq!(&out[..2], &packet[..2]);
    assert_eq!(out[2] & 0x79, packet[2] & 0x79, "opcode and RD");
    let error = reply.edns.and_then(|edns| edns.error);
    let mut words = vec![format!("{}", reply.rcode.0)];
    words.extend(error.map(|error| format!("error {}", error.code())));
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
fn every_question_gets_what_the_policy_says() {
    let now = published(shop());
    for (case, asked, expected) in [
        ("a name", ASKED, "0, AA, 5 answers, NSID"),
        (
            "without EDNS",
            Asked {
                payload: None,
                ..ASKED
            },
            "0, AA, 5 answers",
        ),
        ("no such type", Asked { rtype: 16, ..ASKED }, "0, AA, NSID"),
        (
            "no such name",
            Asked {
                name: "nope.global",
                ..ASKED
            },
            "3, AA, NSID",
        ),
        (
            "elsewhere",
            Asked {
                name: "example.com",
                ..ASKED
            },
            "5, error 20, NSID",
        ),
        (
            "any class",
            Asked {
                class: 255,
                ..ASKED
            },
            "0, 5 answers, NSID",
        ),
        (
            "no such class",
            Asked { class: 4, ..ASKED },
            "5, error 21, NSID",
        ),
        (
            "a transfer",
            Asked {
                rtype: 252,
                ..ASKED
            },
            "5, error 21, NSID",
        ),
        (
            "a small transfer",
            Asked {
                rtype: 251,
                ..ASKED
            },
            "5, error 21, NSID",
        ),
        ("OPT", Asked { rtype: 41, ..ASKED }, "4, NSID"),
        (
            "TKEY",
            Asked {
                rtype: 249,
                ..ASKED
            },
            "4, NSID",
        ),
        (
            "MAILA",
            Asked {
                rtype: 254,
                ..ASKED
            },
            "4, NSID",
        ),
        (
            "any type",
            Asked {
                rtype: 255,
                ..ASKED
            },
            "0, AA, 5 answers, NSID",
        ),
        (
            "EDNS of tomorrow",
            Asked {
                version: 1,
                ..ASKED
            },
            "16",
        ),
        ("an update", Asked { opcode: 5, ..ASKED }, "4, NSID"),
        (
            "who are you",
            Asked {
                name: "id.server",
                rtype: 16,
                class: 3,
                ..ASKED
            },
            "0, 1 answers, NSID",
        ),
        (
            "another type of it",
            Asked {
                name: "id.server",
                rtype: 1,
                class: 3,
                ..ASKED
            },
            "5, error 21, NSID",
        ),
        (
            "what nobody wants told",
            Asked {
                name: "version.bind",
                rtype: 16,
                class: 3,
                ..ASKED
            },
            "5, error 21, NSID",
        ),
    ] {
        assert_eq!(
            told(&now, asked, ARRIVAL).as_deref(),
            Some(expected),
            "{case}"
        );
    }
}

#[test]
fn who_it_is_and_which_version_are_told_if_the_operator_wants_them_told() {
    let now = published(shop());
    let told = |settings: &Settings, name, rtype| {
        let query = parse(&packet(Asked {
            name,
            rtype,
            class: query::CLASS_CH,
            ..ASKED
        }));
        match respond(settings, &now, &query, &ARRIVAL).unwrap().body {
            Body::Chaos(text) => Some(String::from_utf8(text.to_vec()).unwrap()),
            Body::Code | Body::ByTcp | Body::Answer(_) => None,
        }
    };
    let quiet = Settings {
        server_id: None,
        ..settings()
    };
    let open = Settings {
        version_bind: Some("1.2.3".to_owned()),
        ..settings()
    };
    for (name, text) in [("id.server", "global-dns-0"), ("version.bind", "1.2.3")] {
        for rtype in [RecordType::TXT, RecordType::ANY] {
            assert_eq!(told(&open, name, rtype.0).as_deref(), Some(text), "{name}");
            assert_eq!(told(&quiet, name, rtype.0), None, "{name}");
        }
        assert_eq!(told(&open, name, 1), None, "{name}");
    }
    assert_eq!(told(&open, "hostname.bind", 16), None);
}

#[test]
fn the_table_may_be_missing_or_too_old() {
    let expired = Published {
        is_expired: true,
        ..published(shop())
    };
    let ask = |now: &Published| told(now, ASKED, ARRIVAL);
    assert_eq!(
        ask(&Published::default()).as_deref(),
        Some("2, error 14, NSID")
    );
    assert_eq!(ask(&expired).as_deref(), Some("2, error 24, NSID"));
    let codes = [ExtendedError::Prohibited, ExtendedError::NotSupported].map(ExtendedError::code);
    assert_eq!(codes, [18, 21]);
}

#[test]
fn who_may_not_ask_or_asks_too_fast_gets_little() {
    let now = published(shop());
    let malformed = Asked { opcode: 5, ..ASKED };
    let stranger = Arrival {
        client: [198, 51, 100, 1].into(),
        ..ARRIVAL
    };
    let (slip, over) = (
        Arrival {
            rate_limit: RateLimit::Slip,
            ..ARRIVAL
        },
        Arrival {
            rate_limit: RateLimit::Drop,
            ..ARRIVAL
        },
    );
    let little = Some("5, error 18".to_owned());
    assert_eq!(told(&now, ASKED, stranger), little);
    assert_eq!(told(&now, malformed, stranger), little);
    assert_eq!(told(&now, ASKED, slip), Some("0, TC".to_owned()));
    // By TCP it would be as wrong.
    assert_eq!(told(&now, malformed, slip), None);
    assert_eq!(told(&now, ASKED, over), None);
    assert_eq!(
        told(
            &now,
            ASKED,
            Arrival {
                rate_limit: RateLimit::Drop,
                ..stranger
            }
        ),
        None
    );
}

/// Who may not be the one who asked must not be sent more than was asked.
#[test]
fn a_refusal_is_hardly_longer_than_the_question() {
    let (now, settings, packet) = (published(shop()), settings(), packet(ASKED));
    let query = parse(&packet);
    for over in [Transport::Udp, Transport::Tcp] {
        let stranger = Arrival {
            client: [198, 51, 100, 1].into(),
            over,
            ..ARRIVAL
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
fn a_reply_tells_the_serial_of_the_table_that_it_is_of() {
    let (now, settings) = (published(shop()), settings());
    for (name, rtype) in [("global", 6), ("nope.global", 1)] {
        let packet = packet(Asked {
            name,
            rtype,
            payload: None,
            ..ASKED
        });
        let query = parse(&packet);
        let reply = respond(&settings, &now, &query, &ARRIVAL).unwrap();
        assert_eq!((reply.serial, now.serial), (1_790_000_000, 1_790_000_000));
        let mut out = [0; 512];
        let length = write(&reply, &query, &packet, &mut out).length;
        // Before refresh, retry, expire and minimum (RFC 1035 section 3.3.13).
        let serial = &out[length - 20..length - 16];
        assert_eq!(serial, 1_790_000_000_u32.to_be_bytes());
    }
}

#[test]
fn a_reply_is_as_long_as_client_server_and_transport_allow() {
    let now = Published::default();
    let settings = settings();
    let limit = |payload, over| {
        let query = parse(&packet(Asked { payload, ..ASKED }));
        respond(&settings, &now, &query, &Arrival { over, ..ARRIVAL })
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
    for over in [
        Transport::Tcp,
        Transport::Tls,
        Transport::Https,
        Transport::Quic,
    ] {
        assert_eq!(limit(None, over), 65_535);
    }
}

#[test]
fn idle_times_are_told_where_a_connection_has_one() {
    let now = Published::default();
    let settings = settings();
    let keepalive = |over, wants: bool| {
        let mut packet = packet(ASKED);
        if !wants {
            // An option that nobody knows.
            let end = packet.len();
            packet[end - 3] = 0xff;
        }
        let query = parse(&packet);
        let reply = respond(&settings, &now, &query, &Arrival { over, ..ARRIVAL });
        reply.unwrap().edns.unwrap().keepalive
    };
    // In tenths of a second (RFC 7828 section 3.1).
    assert_eq!(keepalive(Transport::Tcp, true), Some(300));
    assert_eq!(keepalive(Transport::Tls, true), Some(300));
    assert_eq!(keepalive(Transport::Tcp, false), None);
    assert_eq!(keepalive(Transport::Udp, true), None);
    assert_eq!(keepalive(Transport::Https, true), None);
}

#[test]
fn replies_say_how_long_they_may_be_kept() {
    let zone = crate::zone::Zone {
        name: "global".parse().unwrap(),
        ttl: 7,
        negative_ttl: 3,
        ns_addresses: Vec::new(),
        kind: crate::zone::ZoneKind::Forward,
    };
    let settings = Settings {
        zones: crate::zone::Zones::new(vec![zone]),
        ..settings()
    };
    let age = |now: &Published, name: &'static str, rtype: u16| {
        let asked = Asked {
            name,
            rtype,
            ..ASKED
        };
        let query = parse(&packet(asked));
        let reply = respond(&settings, now, &query, &ARRIVAL).unwrap();
        reply.max_age(query.as_ref().unwrap())
    };
    let now = published(shop());
    for (name, rtype, expected) in [
        ("db.prod.global", 1, Some(5)),
        ("db.prod.global", 16, Some(3)),
        ("nope.prod.global", 1, Some(3)),
        ("global", 6, Some(3)),
        ("global", 2, Some(7)),
        ("dns-version.global", 16, Some(7)),
        ("example.org", 1, None),
    ] {
        assert_eq!(age(&now, name, rtype), expected, "{name} {rtype}");
    }
    assert_eq!(age(&Published::default(), "db.prod.global", 1), None);
}

/// The first row's host in the answer to the query of this number for `db.prod.global`.
fn first_host<'t>(
    settings: &'t Settings,
    now: &'t Published,
    packet: &[u8],
    number: u32,
) -> &'t str {
    let arrival = Arrival {
        turn: number,
        ..ARRIVAL
    };
    let reply = respond(settings, now, &parse(packet), &arrival).unwrap();
    let Body::Answer(crate::zone::Answer::Data(_, view, rtype)) = &reply.body else {
        panic!("{:?}", reply.body)
    };
    let mut first = None;
    let _ = order::visit_rows(view, *rtype, reply.order, reply.turn, |row| {
        first = Some(row.endpoint.hostname.as_str());
        std::ops::ControlFlow::Break(())
    });
    first.unwrap()
}

#[test]
fn every_endpoint_is_first_equally_often_for_every_client_and_type() {
    const ROUNDS: usize = 30;
    for endpoints in [2, 3, 4, 10, 25, 100] {
        let mut objects = vec![mirror("prod", "db", "east")];
        objects.extend((0..endpoints).map(|index| {
            let (v4, v6) = (format!("10.96.0.{index}"), format!("2001:db8::{index}"));
            endpoint("prod", "db", "east", &format!("db-{index}"), &[&v4, &v6])
        }));
        let now = published(table(&objects));
        for order in [Order::Rotate, Order::LocalFirst] {
            let settings = Settings {
                order,
                ..settings()
            };
            // A with AAAA, as stub resolvers ask; and SRV, too.
            for types in [&[1, 28][..], &[1, 28, 33]] {
                let packets: Vec<Vec<u8>> = types
                    .iter()
                    .map(|rtype| {
                        packet(Asked {
                            rtype: *rtype,
                            ..ASKED
                        })
                    })
                    .collect();
                for clients in [1, 2, 5] {
                    let mut number = 0;
                    let mut counts = std::collections::BTreeMap::new();
                    for _ in 0..ROUNDS * endpoints {
                        for client in 0..clients {
                            for (rtype, packet) in types.iter().zip(&packets) {
                                let host = first_host(&settings, &now, packet, number);
                                *counts.entry((client, rtype, host)).or_insert(0) += 1;
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
