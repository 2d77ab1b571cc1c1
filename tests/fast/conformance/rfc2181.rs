//! RFC 2181: clarifications.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};

use support::objects::{Local, local, members};
use support::query::query;
use support::reply::Record;
use support::wait::TIMEOUT;
use support::wire::Transport;

use crate::conformance::cases::{answer, check, decode, nodata, west};
use crate::conformance::servers::{serve, serve_objects, serve_sample};

/// On Linux, every address of 127.0.0.0/8 is an address of the host.
#[test]
fn s4_1_source_address_of_a_reply_is_the_address_queried() {
    let server = serve(&["--listen", "0.0.0.0:0"]);
    for client in ["127.0.0.1:0", "127.0.0.9:0"] {
        let socket = UdpSocket::bind(client).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        for last in [1, 2, 3, 4, 2, 1] {
            let address = SocketAddr::from(([127, 0, 0, last], server.dns.port()));
            socket.send_to(&query("global. SOA").0, address).unwrap();
            let (_, from) = socket.recv_from(&mut [0; 512]).unwrap();
            assert_eq!(from, address, "{client}");
        }
    }
}

#[test]
fn s5_2_all_records_of_an_rrset_have_the_same_ttl() {
    check(
        &serve_sample(),
        &[
            // A service with the annotation for 20 s.
            (
                "slow.prod.global. A",
                answer(
                    "slow.prod.global. 20 IN A 10.96.50.1
                 slow.prod.global. 20 IN A 10.96.50.2",
                ),
            ),
            (
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
            // A negative answer has the TTL of the zone.
            ("slow.prod.global. AAAA", nodata()),
            // A service without the annotation.
            (
                "cache.prod.global. A",
                answer("cache.prod.global. 5 IN A 10.96.40.1"),
            ),
        ],
    );
}

#[test]
fn s8_ttl_is_that_of_the_settings_unless_a_service_has_one() {
    check(
        &serve(&["ttl=7"]),
        &[
            // The default.
            (
                "cache.prod.global. A",
                answer("cache.prod.global. 7 IN A 10.96.40.1"),
            ),
            (
                "slow-0.east.slow.prod.global. A",
                answer("slow-0.east.slow.prod.global. 20 IN A 10.96.50.1"),
            ),
        ],
    );
}

/// 20 SRV records fit into 1232 octets, but not all of their additional addresses.
#[test]
fn s9_tc_is_set_only_if_the_answer_section_is_truncated() {
    let server = serve_objects(members(&[20, 60]), &[]);
    let send = |question: &str, over| {
        let reply = server.send(&query(question), over).unwrap();
        (reply[2] & 0x02 != 0, decode(&reply))
    };
    let (is_truncated, message) = send("s20.prod.global. SRV +edns", Transport::Udp);
    assert_eq!((is_truncated, message.answers.len()), (false, 20));
    assert!((1..20).contains(&message.additional.len()), "{message:?}");
    let (is_truncated, message) = send("s20.prod.global. SRV +edns", Transport::Tcp);
    assert_eq!(
        (
            is_truncated,
            message.answers.len(),
            message.additional.len()
        ),
        (false, 20, 20)
    );

    let (is_truncated, message) = send("s60.prod.global. SRV +edns", Transport::Udp);
    assert!(
        is_truncated && (1..60).contains(&message.answers.len()),
        "{message:?}"
    );
    assert_eq!(message.additional.len(), 0);
    let (is_truncated, message) = send("s60.prod.global. SRV +edns", Transport::Tcp);
    assert_eq!(
        (
            is_truncated,
            message.answers.len(),
            message.additional.len()
        ),
        (false, 60, 60)
    );
}

/// Each host has three addresses of each family. Only hand-written slices look like this; the server reports them.
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
fn s9_rrsets_of_the_additional_section_are_complete_or_absent() {
    let addresses = (1..=20).map(|n| format!("192.0.2.{n},2001:db8::{n}"));
    let addresses = addresses.collect::<Vec<_>>().join(",");
    let server = serve_objects(
        hosts_with_many_addresses(),
        &[&format!("answers.nsAddresses=[{addresses}]")],
    );
    for (text, answers) in [("many.prod.global. SRV", 10), ("global. NS", 1)] {
        let reply = server.send(&query(text), Transport::Tcp).unwrap();
        let complete = decode(&reply);
        let all = rrsets(&complete.additional);
        let mut counts = BTreeSet::new();
        for size in (512..=1232).step_by(4) {
            let question = query(&format!("{text} +bufsize={size}"));
            let reply = server.send(&question, Transport::Udp).unwrap();
            let message = decode(&reply);
            let is_truncated = reply[2] & 0x02 != 0;
            assert_eq!(
                is_truncated,
                message.answers.len() < answers,
                "{text}, {size}"
            );
            let rrsets = rrsets(&message.additional);
            for (rrset, count) in &rrsets {
                assert_eq!(all[rrset], *count, "{text}, {size} octets: {rrset:?}");
            }
            counts.insert(rrsets.len());
        }
        assert!(counts.len() > 1, "{text}: {counts:?}");
    }
}

#[test]
fn s11_escaped_octets_of_a_label_match() {
    check(&serve_sample(), &[("\\119est.db.prod.global. A", west())]);
}
