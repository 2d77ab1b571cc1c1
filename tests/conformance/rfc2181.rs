//! RFC 2181: clarifications.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};

use support::objects::{Local, local, members};
use support::query::query;
use support::reply::Record;
use support::wait::PATIENCE;
use support::wire::Over;

use crate::cases::{answer, case, check, decode, nodata};
use crate::servers::{sample, serve, serve_objects};

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
    let server = serve_objects(members(&[20, 60]), &[]);
    let ask = |question: &str, over| {
        let reply = server.send(&query(question), over).unwrap();
        (reply[2] & 0x02 != 0, decode(&reply))
    };
    let (is_cut, message) = ask("s20.prod.global. SRV +edns", Over::Udp);
    assert_eq!((is_cut, message.answers.len()), (false, 20));
    assert!((1..20).contains(&message.additional.len()), "{message:?}");
    let (is_cut, message) = ask("s20.prod.global. SRV +edns", Over::Tcp);
    assert_eq!(
        (is_cut, message.answers.len(), message.additional.len()),
        (false, 20, 20)
    );

    let (is_cut, message) = ask("s60.prod.global. SRV +edns", Over::Udp);
    assert!(
        is_cut && (1..60).contains(&message.answers.len()),
        "{message:?}"
    );
    assert_eq!(message.additional.len(), 0);
    let (is_cut, message) = ask("s60.prod.global. SRV +edns", Over::Tcp);
    assert_eq!(
        (is_cut, message.answers.len(), message.additional.len()),
        (false, 60, 60)
    );
}

/// Each host has three addresses of each family: slices that somebody wrote by hand, a case that is reported.
fn hosts_with_many_addresses() -> Local {
    let service = local("prod", "many").exported();
    (10..40).fold(service, |service, n| {
        let (host, v4) = (format!("h-{}", n % 10), format!("10.96.0.{n}"));
        service.pod(None, Some(&host), &[&v4, &format!("2001:db8::{n}")], true)
    })
}

/// Counts the records of each RRset.
fn rrsets(records: &[Record]) -> BTreeMap<(&str, u16), usize> {
    let mut counts = BTreeMap::new();
    for record in records {
        *counts.entry((&*record.owner, record.rtype)).or_default() += 1;
    }
    counts
}

#[test]
fn s9_an_rrset_of_the_additional_section_is_whole_or_absent() {
    let addresses = (1..=20).map(|n| format!("192.0.2.{n},2001:db8::{n}"));
    let addresses = addresses.collect::<Vec<_>>().join(",");
    let server = serve_objects(hosts_with_many_addresses(), &["--ns-address", &addresses]);
    for (asked, answers) in [("many.prod.global. SRV", 10), ("global. NS", 1)] {
        let whole = server.send(&query(asked), Over::Tcp).unwrap();
        let whole = decode(&whole);
        let all = rrsets(&whole.additional);
        let mut seen = BTreeSet::new();
        for size in (512..=1232).step_by(4) {
            let question = query(&format!("{asked} +bufsize={size}"));
            let reply = server.send(&question, Over::Udp).unwrap();
            let message = decode(&reply);
            let is_cut = reply[2] & 0x02 != 0;
            assert_eq!(is_cut, message.answers.len() < answers, "{asked}, {size}");
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
fn s11_a_label_may_be_written_by_the_numbers_of_its_octets() {
    check(
        &sample(),
        &[case(
            "plain letters",
            "\\119est.db.prod.global. A",
            answer("west.db.prod.global. 5 IN A 10.96.20.1"),
        )],
    );
}
