//! RFC 8906 (BCP 231) section 8: every query of the compliance test, with its expected result.
//!
//! Each query is sent over UDP and TCP, so every test covers section 8.1.5.

use support::objects::members;
use support::query::query;
use support::wire::Transport;

use crate::conformance::cases::{answer, badvers, check, decode, formerr, nodata, notimp, soa};
use crate::conformance::servers::{serve, serve_objects, serve_sample};

#[test]
fn s8_every_query_of_the_compliance_test_has_its_reply() {
    check(
        &serve_sample(),
        &[
            // 8.1.1: the server is configured.
            ("global. SOA", soa()),
            // 8.1.2: an unknown type.
            ("global. TYPE1000", nodata()),
            // 8.1.3.1: CD.
            ("global. SOA +cd", soa()),
            // 8.1.3.2: AD.
            ("global. SOA +ad", soa()),
            // 8.1.3.3: the reserved bit.
            ("global. SOA +z", soa()),
            // 8.1.3.4: RD, which is copied.
            ("global. SOA +rd", soa()),
            // 8.1.4: an unknown opcode.
            ("global. SOA +opcode=15", notimp()),
            // 8.1.4: only a header, an unknown opcode.
            ("1234 7800 0000 0000 0000 0000", notimp()),
            // 8.1.4: only a header, opcode QUERY.
            ("1234 0000 0000 0000 0000 0000", formerr()),
            // 8.2.1: minimal EDNS.
            ("global. SOA +edns", soa()),
            // 8.2.2: version 1.
            ("global. SOA +edns=1", badvers()),
            // 8.2.3: option 100.
            ("global. SOA +ednsopt=100", soa()),
            // 8.2.4: flag 0x40.
            ("global. SOA +ednsflags=0x0040", soa()),
            // 8.2.5: version 1 with flag 0x40.
            ("global. SOA +edns=1 +ednsflags=0x0040", badvers()),
            // 8.2.6: version 1 with option 100.
            ("global. SOA +edns=1 +ednsopt=100", badvers()),
            // 8.2.8: DO, which is copied.
            ("global. SOA +do", soa()),
            // 8.2.9: version 1 with DO.
            ("global. SOA +edns=1 +do", badvers()),
        ],
    );
}

/// The RFC uses DNSKEY with 512 octets. The zone is unsigned, so a large RRset of addresses replaces it.
#[test]
fn s8_2_7_truncated_responses() {
    let server = serve_objects(members(&[60]), &[]);
    let all: String = (1..=60)
        .map(|n| format!("s60.prod.global. 5 IN A 10.96.0.{n}\n"))
        .collect();
    check(
        &server,
        &[
            (
                "s60.prod.global. A +do +bufsize=512",
                answer(&all).truncated_to(29),
            ),
            ("global. DNSKEY +do +bufsize=512", nodata()),
        ],
    );
}

#[test]
fn s8_2_10_several_known_options() {
    const ALL: &str = "global. SOA +nsid +cookie=2464c4abcf10c957 +ednsopt=9 +ednsopt=8:00010000";
    check(
        &serve(&["answers.serverId=x"]),
        &[
            // Cookie, NSID, EXPIRE, client subnet.
            (ALL, soa().option("NSID 78")),
        ],
    );
}

/// Section 3.1.3: every query gets a reply.
#[test]
fn s3_1_every_type_and_every_opcode_is_answered() {
    let server = serve_sample();
    for rtype in (0..=300).chain([32768, 32769, 65280, 65535]) {
        let question = query(&format!("db.prod.global. TYPE{rtype}"));
        let message = decode(&server.send(&question, Transport::Udp).unwrap());
        let expected = match rtype {
            1 | 33 | 255 => (0, true),
            41 | 249 | 250 | 253 | 254 => (4, false),
            251 | 252 => (5, false),
            _ => (0, false),
        };
        assert_eq!(
            (message.rcode, !message.answers.is_empty()),
            expected,
            "TYPE{rtype}"
        );
    }
    for opcode in 1..16 {
        let question = query(&format!("global. SOA +opcode={opcode}"));
        let message = decode(&server.send(&question, Transport::Udp).unwrap());
        assert_eq!((message.rcode, message.opcode), (4, opcode));
    }
}
