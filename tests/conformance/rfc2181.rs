//! RFC 2181: clarifications.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};

use serde_json::json;

use crate::support::{
    LocalService, Over, PATIENCE, answer, case, check, decode, endpoint, members, nodata, nxdomain,
    query, sample, serve, serve_objects,
};

/// On Linux every address of 127.0.0.0/8 is one of the host.
#[test]
fn s4_1_a_reply_leaves_from_the_address_that_was_asked() {
    let server = serve(&["--listen", "0.0.0.0:0"]);
    for client in ["127.0.0.1:0", "127.0.0.9:0"] {
        let socket = UdpSocket::bind(client).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        for last in [1, 2, 3, 4, 2, 1] {
            let asked = SocketAddr::from(([127, 0, 0, last], server.dns.port()));
            socket.send_to(&query("global. SOA").0, asked).unwrap();
            let (_, from) = socket.recv_from(&mut [0; 512]).unwrap();
            assert_eq!(from, asked, "{client}");
        }
    }
}

#[test]
fn s5_1_a_record_occurs_once() {
    let server = sample();
    for name in [
        "db.prod.global.",
        "db.global.",
        "hub.db.prod.global.",
        "web.shop.global.",
    ] {
        for rtype in ["A", "AAAA", "SRV"] {
            for over in [Over::Udp, Over::Tcp] {
                let reply = server
                    .ask(&query(&format!("{name} {rtype}")), over)
                    .unwrap();
                let mut records = decode(&reply).answer;
                let count = records.len();
                records.sort();
                records.dedup();
                assert_eq!(records.len(), count, "{name} {rtype}");
            }
        }
    }
}

#[test]
fn s5_2_the_records_of_an_rrset_have_one_ttl() {
    check(
        &sample(),
        &[
            case(
                "a service that asks for 20 s",
                "slow.prod.global. A",
                answer(
                    "slow.prod.global. 20 IN A 10.96.50.1
                 slow.prod.global. 20 IN A 10.96.50.2",
                ),
            ),
            case(
                "its SRV records, and the addresses beside them",
                "_nfs._tcp.slow.prod.global. SRV",
                answer(
                    "_nfs._tcp.slow.prod.global. 20 IN SRV 0 10 2049 slow-0.east.slow.prod.global.
                 _nfs._tcp.slow.prod.global. 20 IN SRV 0 10 2049 slow-1.east.slow.prod.global.",
                )
                .additional(
                    "slow-0.east.slow.prod.global. 20 IN A 10.96.50.1
                 slow-1.east.slow.prod.global. 20 IN A 10.96.50.2",
                ),
            ),
            case(
                "a negative answer has the zone's",
                "slow.prod.global. AAAA",
                nodata(),
            ),
            case(
                "a service that asks for nothing",
                "cache.prod.global. A",
                answer("cache.prod.global. 5 IN A 10.96.40.1"),
            ),
        ],
    );
}

#[test]
fn s8_ttls_are_as_configured() {
    check(
        &serve(&["--ttl", "7", "--ttl-max", "10"]),
        &[
            case(
                "the default",
                "cache.prod.global. A",
                answer("cache.prod.global. 7 IN A 10.96.40.1"),
            ),
            case(
                "more than allowed",
                "slow-0.east.slow.prod.global. A",
                answer("slow-0.east.slow.prod.global. 10 IN A 10.96.50.1"),
            ),
        ],
    );
}

/// 20 SRV records fit into 1232 octets. Their addresses, which are only additional, do not all fit beside them.
#[test]
fn s9_tc_says_that_the_answer_is_cut_and_nothing_else() {
    let server = serve_objects(&members(&[20, 60]), &[]);
    let ask = |question: &str, over| {
        let reply = server.ask(&query(question), over).unwrap();
        (reply[2] & 0x02 != 0, decode(&reply))
    };
    let (is_cut, message) = ask("s20.prod.global. SRV +edns", Over::Udp);
    assert_eq!((is_cut, message.answer.len()), (false, 20));
    assert!((1..20).contains(&message.additional.len()), "{message:?}");
    let (is_cut, message) = ask("s20.prod.global. SRV +edns", Over::Tcp);
    assert_eq!(
        (is_cut, message.answer.len(), message.additional.len()),
        (false, 20, 20)
    );

    let (is_cut, message) = ask("s60.prod.global. SRV +edns", Over::Udp);
    assert!(
        is_cut && (1..60).contains(&message.answer.len()),
        "{message:?}"
    );
    assert_eq!(message.additional.len(), 0);
    let (is_cut, message) = ask("s60.prod.global. SRV +edns", Over::Tcp);
    assert_eq!(
        (is_cut, message.answer.len(), message.additional.len()),
        (false, 60, 60)
    );
}

/// Each host has three addresses of each family: slices that somebody wrote by hand, a case that is reported.
fn hosts_with_many_addresses() -> String {
    let ports = json!([{"name": "sql", "port": 26257, "protocol": "TCP"}]);
    let service = LocalService {
        namespace: "prod",
        name: "many",
        ports: &ports,
    };
    let mut items = vec![service.service(true, json!({}))];
    for (family, prefix) in [("IPv4", "10.96.0."), ("IPv6", "2001:db8::")] {
        let endpoints = (10..40).map(|n| {
            let host = format!("h-{}", n % 10);
            endpoint(&format!("{prefix}{n}"), true, Some(&host), None)
        });
        let name = format!("many-{}", family.to_lowercase());
        items.push(service.slice(&name, family, endpoints.collect()));
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// Counts the records of each RRset.
fn rrsets(records: &[String]) -> BTreeMap<(&str, &str), usize> {
    let mut counts = BTreeMap::new();
    for record in records {
        let fields: Vec<&str> = record.split(' ').collect();
        *counts.entry((fields[0], fields[3])).or_default() += 1;
    }
    counts
}

#[test]
fn s9_an_rrset_of_the_additional_section_is_whole_or_absent() {
    let addresses = (1..=20).map(|n| format!("192.0.2.{n},2001:db8::{n}"));
    let addresses = addresses.collect::<Vec<_>>().join(",");
    let server = serve_objects(&hosts_with_many_addresses(), &["--ns-address", &addresses]);
    for (asked, answers) in [("many.prod.global. SRV", 10), ("global. NS", 1)] {
        let whole = server.ask(&query(asked), Over::Tcp).unwrap();
        let whole = decode(&whole);
        let all = rrsets(&whole.additional);
        let mut seen = BTreeSet::new();
        for size in (512..=1232).step_by(4) {
            let question = query(&format!("{asked} +bufsize={size}"));
            let reply = server.ask(&question, Over::Udp).unwrap();
            let message = decode(&reply);
            let is_cut = reply[2] & 0x02 != 0;
            assert_eq!(is_cut, message.answer.len() < answers, "{asked}, {size}");
            let rrsets = rrsets(&message.additional);
            for (rrset, count) in &rrsets {
                assert_eq!(all[rrset], *count, "{asked}, {size} octets: {rrset:?}");
            }
            seen.insert(rrsets.len());
        }
        assert!(seen.len() > 1, "{asked}: {seen:?}");
    }
}

#[test]
fn s10_3_ns_and_srv_name_hosts_with_addresses_and_no_aliases() {
    check(
        &sample(),
        &[
            case("the name server", "ns.dns.global. CNAME", nodata()),
            case(
                "its address",
                "ns.dns.global. A",
                answer("ns.dns.global. 5 IN A 192.0.2.53"),
            ),
            case("an SRV target", "db-0.east.db.prod.global. CNAME", nodata()),
            case("a service", "db.prod.global. CNAME", nodata()),
        ],
    );
}

#[test]
fn s11_a_label_holds_any_octets() {
    check(
        &sample(),
        &[
            case("a zero octet", "db\\000.prod.global. A", nxdomain()),
            case("octets above 127", "\\255\\254.prod.global. A", nxdomain()),
            case("a dot inside a label", "db\\046prod.global. A", nxdomain()),
            case("a blank", "west\\032db.prod.global. A", nxdomain()),
            case(
                "plain letters, written as numbers",
                "\\119est.db.prod.global. A",
                answer("west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
        ],
    );
}
