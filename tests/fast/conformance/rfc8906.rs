//! RFC 8906 (BCP 231) section 8: every query of the compliance test, with its expected result.
//!
//! Each query is sent over UDP and TCP, so every test covers section 8.1.5.

use support::objects::members;
use support::query::query;
use support::wire::Transport;

use crate::conformance::cases::{
    SOA, answer, badvers, case, check, decode, formerr, nodata, notimp, raw,
};
use crate::conformance::servers::{serve, serve_objects, serve_sample};

#[test]
fn s8_1_1_server_is_configured_for_the_zone() {
    check(&serve_sample(), &[case("SOA", "global. SOA", answer(SOA))]);
}

#[test]
fn s8_1_2_unknown_types() {
    check(
        &serve_sample(),
        &[
            case("unknown", "global. TYPE1000", nodata()),
            case("known", "global. SOA", answer(SOA)),
        ],
    );
}

#[test]
fn s8_1_3_1_cd_1() {
    check(
        &serve_sample(),
        &[case("CD", "global. SOA +cd", answer(SOA))],
    );
}

#[test]
fn s8_1_3_2_ad_1() {
    check(
        &serve_sample(),
        &[case("AD", "global. SOA +ad", answer(SOA))],
    );
}

#[test]
fn s8_1_3_3_reserved_bit() {
    check(&serve_sample(), &[case("Z", "global. SOA +z", answer(SOA))]);
}

#[test]
fn s8_1_3_4_recursive_queries() {
    check(
        &serve_sample(),
        &[case("RD, which is copied", "global. SOA +rd", answer(SOA))],
    );
}

#[test]
fn s8_1_4_unknown_opcodes() {
    check(
        &serve_sample(),
        &[
            raw("only a header", "1234 7800 0000 0000 0000 0000", notimp()),
            case("with a question", "global. SOA +opcode=15", notimp()),
            raw(
                "only a header, opcode QUERY",
                "1234 0000 0000 0000 0000 0000",
                formerr(),
            ),
        ],
    );
}

#[test]
fn s8_1_5_tcp() {
    let server = serve_sample();
    let reply = server.send(&query("global. SOA"), Transport::Tcp).unwrap();
    assert_eq!(decode(&reply).answers.len(), 1);
}

#[test]
fn s8_2_1_minimal_edns() {
    check(
        &serve_sample(),
        &[
            case("with EDNS", "global. SOA +edns", answer(SOA)),
            case("without EDNS", "global. SOA", answer(SOA)),
        ],
    );
}

#[test]
fn s8_2_2_version_negotiation() {
    check(
        &serve_sample(),
        &[case("version 1", "global. SOA +edns=1", badvers())],
    );
}

#[test]
fn s8_2_3_unknown_options() {
    check(
        &serve_sample(),
        &[case("option 100", "global. SOA +ednsopt=100", answer(SOA))],
    );
}

#[test]
fn s8_2_4_unknown_flags() {
    check(
        &serve_sample(),
        &[case(
            "flag 0x40",
            "global. SOA +ednsflags=0x0040",
            answer(SOA),
        )],
    );
}

#[test]
fn s8_2_5_version_negotiation_with_unknown_flags() {
    check(
        &serve_sample(),
        &[case(
            "both",
            "global. SOA +edns=1 +ednsflags=0x0040",
            badvers(),
        )],
    );
}

#[test]
fn s8_2_6_version_negotiation_with_unknown_options() {
    check(
        &serve_sample(),
        &[case("both", "global. SOA +edns=1 +ednsopt=100", badvers())],
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
            case(
                "OPT is kept",
                "s60.prod.global. A +do +bufsize=512",
                answer(&all).truncated_to(29),
            ),
            case("not truncated", "global. DNSKEY +do +bufsize=512", nodata()),
        ],
    );
}

#[test]
fn s8_2_8_do_1() {
    check(
        &serve_sample(),
        &[case("DO, which is copied", "global. SOA +do", answer(SOA))],
    );
}

#[test]
fn s8_2_9_version_negotiation_with_do_1() {
    check(
        &serve_sample(),
        &[case("both", "global. SOA +edns=1 +do", badvers())],
    );
}

#[test]
fn s8_2_10_several_known_options() {
    const ALL: &str = "global. SOA +nsid +cookie=2464c4abcf10c957 +ednsopt=9 +ednsopt=8:00010000";
    check(
        &serve_sample(),
        &[case(
            "cookie, NSID, EXPIRE, client subnet",
            ALL,
            answer(SOA),
        )],
    );
    check(
        &serve(&["--server-id", "x"]),
        &[case(
            "the same, with NSID configured",
            ALL,
            answer(SOA).option("NSID 78"),
        )],
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
