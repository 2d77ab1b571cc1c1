//! RFC 2181: clarifications.

use std::net::{SocketAddr, UdpSocket};

use crate::support::{
    Over, PATIENCE, answer, case, check, decode, members, nodata, nxdomain, query, sample, serve,
    serve_objects,
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
