//! The response policy, question by question, and its result in the encoded reply.

use std::time::Duration;

use crate::testing::support::query::{Edns, Parts};
use crate::testing::support::rounds::has_all_rounds;

use super::query::option;
use super::*;
use crate::table::Published;
use crate::testing::{endpoint, mirror, published, table, zones};
use crate::zone::{AnswerOrder, Data};

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
