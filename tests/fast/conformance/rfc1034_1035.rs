//! RFC 1034 and RFC 1035: the DNS protocol.

use support::objects::members;
use support::query::query;
use support::wire::Transport;

use crate::conformance::cases::{
    answer, check, decode, formerr, no_reply, nodata, notimp, nxdomain, refused, soa, west,
};
use crate::conformance::servers::{serve_objects, serve_sample};

#[test]
fn rfc1034_s4_3_1_recursion_is_not_available() {
    check(
        &serve_sample(),
        &[
            ("west.db.prod.global. A +rd", west()),
            ("west.db.prod.global. A", west()),
            ("www.example. A +rd", refused()),
            // The health probe of CoreDNS.
            (". NS +rd", refused()),
            // A name that ends with the letters of the zone name.
            ("notglobal. A", refused()),
            // The zone name as first label.
            ("global.example. A", refused()),
        ],
    );
}

#[test]
fn rfc1035_s2_3_4_names_are_limited_to_255_octets_and_labels_to_63() {
    let label = |length: usize| "x".repeat(length);
    let name = |last: usize| {
        let (full, last) = (label(63), label(last));
        format!("{full}.{full}.{full}.{last}.global.")
    };
    let too_long = format!("1234 0000 0001 0000 0000 0000 <{}> 0001 0001", name(55));
    let label_of_63 = format!("{}.prod.global. A", label(63));
    check(
        &serve_sample(),
        &[
            // A label of 63 octets.
            (&label_of_63, nxdomain()),
            // A name of 255 octets.
            (&format!("{} A", name(54)), nxdomain()),
            // A name of 256 octets.
            (&too_long, formerr()),
        ],
    );
}

#[test]
fn rfc1035_s3_2_4_only_class_in_is_answered() {
    check(
        &serve_sample(),
        &[
            ("west.db.prod.global. IN A", west()),
            ("west.db.prod.global. CH A", refused()),
            ("west.db.prod.global. HS A", refused()),
            ("west.db.prod.global. NONE A", refused()),
            ("west.db.prod.global. CLASS666 A", refused()),
        ],
    );
}

#[test]
fn rfc1035_s4_1_1_header_bits_and_opcodes_follow_the_standard() {
    check(
        &serve_sample(),
        &[
            // Bits that only replies use.
            ("west.db.prod.global. A +aa +tc +ra", west()),
            // RD is copied to a REFUSED reply.
            ("west.db.prod.global. CH A +rd", refused()),
            // RD is copied if the name is outside the zone.
            ("www.example. A +rd +cd +ad", refused()),
            // CD is not copied (RFC 4035 section 3.1.6).
            ("nope.global. A +cd", nxdomain()),
            // AD and CD are not copied to an answer.
            ("west.db.prod.global. A +rd +ad +cd +edns", west()),
            // AD and CD are not copied to NODATA.
            ("west.db.prod.global. MX +rd +ad +cd +edns", nodata()),
            // IQUERY (RFC 3425 section 3).
            ("global. A +opcode=1", notimp()),
            // STATUS.
            ("global. SOA +opcode=2 +rd", notimp()),
            // An unassigned opcode.
            ("global. SOA +opcode=3", notimp()),
            // DSO (RFC 8490).
            ("global. SOA +opcode=6", notimp()),
            // The last opcode.
            ("global. SOA +opcode=15", notimp()),
            ("global. SOA +opcode=0", soa()),
        ],
    );
}

/// A server that answers responses can create loops.
#[test]
fn rfc1035_s4_1_1_responses_are_not_answered() {
    check(
        &serve_sample(),
        &[
            // A response.
            (
                "1234 8000 0001 0000 0000 0000 <global.> 0006 0001",
                no_reply(),
            ),
            // The same message as a query.
            (
                "1234 0000 0001 0000 0000 0000 <global.> 0006 0001",
                soa().with_question(),
            ),
            // A malformed response.
            ("1234 8000 0009 0009 0009 0009", no_reply()),
            // A response with another opcode.
            ("1234 f800 0000 0000 0000 0000", no_reply()),
            // Only a header.
            ("1234 0000 0000 0000 0000 0000", formerr()),
            // Shorter than a header.
            ("1234 0000 0001 0000 0000 00", no_reply()),
            // Only an identifier.
            ("1234", no_reply()),
        ],
    );
}

#[test]
fn rfc1035_s4_1_2_malformed_question_gets_formerr() {
    const HEADER: &str = "1234 0100 0001 0000 0000 0000";
    let with = |question: &str| format!("{HEADER} | {question}");
    check(
        &serve_sample(),
        &[
            // Complete.
            (&with("<global.> 0006 0001"), soa().with_question()),
            // Missing.
            (&with(""), formerr()),
            // Without type.
            (&with("<global.>"), formerr()),
            // Without class.
            (&with("<global.> 0006"), formerr()),
            // With half a class.
            (&with("<global.> 0006 00"), formerr()),
            // A name without terminating label.
            (&with("06 'global'"), formerr()),
            // A label longer than the message.
            (&with("3f 'global' 00 0006 0001"), formerr()),
            // Trailing octets are ignored.
            (
                &with("<global.> 0006 0001 'anything'"),
                soa().with_question(),
            ),
        ],
    );
}

#[test]
fn rfc1035_s4_1_3_unexpected_records_in_a_query_get_formerr() {
    const RECORD: &str = "<global.> 0001 0001 00000005 0004 c0000201";
    let with =
        |counts: &str, rest: &str| format!("1234 0000 0001 {counts} <global.> 0006 0001 | {rest}");
    check(
        &serve_sample(),
        &[
            // Only a question.
            (&with("0000 0000 0000", ""), soa().with_question()),
            // An answer record.
            (&with("0001 0000 0000", RECORD), formerr().with_question()),
            // An authority record.
            (&with("0000 0001 0000", RECORD), formerr().with_question()),
            // One additional record of a common type.
            (&with("0000 0000 0001", RECORD), soa().with_question()),
            // Three additional records.
            (
                &with("0000 0000 0003", &[RECORD; 3].join(" ")),
                formerr().with_question(),
            ),
            // Counts of 65,535 without records.
            (&with("ffff ffff ffff", ""), formerr().with_question()),
            // A missing additional record.
            (&with("0000 0000 0001", ""), formerr().with_question()),
            // A truncated additional record.
            (
                &with("0000 0000 0001", "<global.> 0001 0001 00000005 0004 c000"),
                formerr().with_question(),
            ),
        ],
    );
}

#[test]
fn rfc1035_s4_1_4_pointers_in_a_question_get_formerr() {
    const HEADER: &str = "1234 0000 0001 0000 0000 0000";
    let with = |name: &str| format!("{HEADER} {name} 0006 0001");
    check(
        &serve_sample(),
        &[
            // A plain name.
            (&with("06 'global' 00"), soa().with_question()),
            // A pointer to itself.
            (&with("c00c"), formerr()),
            // A pointer after a label.
            (&with("06 'global' c00c"), formerr()),
            // A pointer into the header.
            (&with("c004"), formerr()),
            // Label type 01 (RFC 6891 section 5).
            (&with("46 'global' 00"), formerr()),
            // Label type 10.
            (&with("86 'global' 00"), formerr()),
        ],
    );
}

/// The header has 12 octets, the question 21 or 22, each address 16: 29 addresses fit into 512 octets.
#[test]
fn rfc1035_s4_2_1_udp_replies_without_edns_are_limited_to_512_octets() {
    let all = |count: usize| {
        let lines = (1..=count).map(|n| format!("s{count}.prod.global. 5 IN A 10.96.0.{n}\n"));
        lines.collect::<String>()
    };
    let server = serve_objects(members(&[28, 29, 30, 200]), &[]);
    check(
        &server,
        &[
            // One address below the limit.
            ("s28.prod.global. A", answer(&all(28))),
            // At the limit.
            ("s29.prod.global. A", answer(&all(29))),
            // One address above the limit.
            ("s30.prod.global. A", answer(&all(30)).truncated_to(29)),
            // Far above the limit.
            ("s200.prod.global. A", answer(&all(200)).truncated_to(29)),
        ],
    );
}

#[test]
fn rfc1035_s4_2_2_tcp_replies_have_up_to_65535_octets() {
    let server = serve_objects(members(&[4000]), &[]);
    let reply = server
        .send(&query("s4000.prod.global. A"), Transport::Tcp)
        .unwrap();
    let message = decode(&reply);
    assert_eq!(message.answers.len(), 4000);
    assert_eq!(reply[2] & 0x02, 0, "TC must be clear");
    assert!(reply.len() > 64_000);
}

#[test]
fn rfc1035_s6_2_answers_for_class_any_are_not_authoritative() {
    check(
        &serve_sample(),
        &[
            ("west.db.prod.global. ANY A", west().not_authoritative()),
            ("west.db.prod.global. IN A", west()),
            ("nope.global. ANY A", nxdomain().not_authoritative()),
        ],
    );
}
