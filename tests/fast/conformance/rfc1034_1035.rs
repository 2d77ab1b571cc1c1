//! RFC 1034 and RFC 1035: the DNS protocol.

use support::objects::members;
use support::query::query;
use support::wire::Transport;

use crate::conformance::cases::{
    SOA, answer, case, check, decode, formerr, no_reply, nodata, notimp, nxdomain, raw, refused,
};
use crate::conformance::servers::{serve_objects, serve_sample};

#[test]
fn rfc1034_s4_3_1_recursion_is_not_available() {
    check(
        &serve_sample(),
        &[
            case(
                "RD is set: RA is clear",
                "west.db.prod.global. A +rd",
                answer("west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case(
                "RD is clear: RA is clear",
                "west.db.prod.global. A",
                answer("west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case("a name outside the zone", "www.example. A +rd", refused()),
            case("the health probe of CoreDNS", ". NS +rd", refused()),
            case(
                "a name that ends with the letters of the zone name",
                "notglobal. A",
                refused(),
            ),
            case(
                "the zone name as first label",
                "global.example. A",
                refused(),
            ),
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
            case("a label of 63 octets", &label_of_63, nxdomain()),
            case(
                "a name of 255 octets",
                &format!("{} A", name(54)),
                nxdomain(),
            ),
            raw("a name of 256 octets", &too_long, formerr()),
        ],
    );
}

#[test]
fn rfc1035_s3_2_4_only_class_in_is_answered() {
    check(
        &serve_sample(),
        &[
            case(
                "IN",
                "west.db.prod.global. IN A",
                answer("west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case("CH", "west.db.prod.global. CH A", refused()),
            case("HS", "west.db.prod.global. HS A", refused()),
            case("NONE", "west.db.prod.global. NONE A", refused()),
            case(
                "an unknown class",
                "west.db.prod.global. CLASS666 A",
                refused(),
            ),
        ],
    );
}

#[test]
fn rfc1035_s4_1_1_header_bits_and_opcodes_follow_the_standard() {
    check(
        &serve_sample(),
        &[
            case(
                "bits that only replies use",
                "west.db.prod.global. A +aa +tc +ra",
                answer("west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case(
                "RD is copied to a REFUSED reply",
                "west.db.prod.global. CH A +rd",
                refused(),
            ),
            case(
                "RD is copied if the name is outside the zone",
                "www.example. A +rd +cd +ad",
                refused(),
            ),
            case(
                "CD is not copied (RFC 4035 section 3.1.6)",
                "nope.global. A +cd",
                nxdomain(),
            ),
            case(
                "AD and CD are not copied to an answer",
                "west.db.prod.global. A +rd +ad +cd +edns",
                answer("west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case(
                "AD and CD are not copied to NODATA",
                "west.db.prod.global. MX +rd +ad +cd +edns",
                nodata(),
            ),
            case(
                "IQUERY (RFC 3425 section 3)",
                "global. A +opcode=1",
                notimp(),
            ),
            case("STATUS", "global. SOA +opcode=2 +rd", notimp()),
            case("an unassigned opcode", "global. SOA +opcode=3", notimp()),
            case("DSO (RFC 8490)", "global. SOA +opcode=6", notimp()),
            case("the last opcode", "global. SOA +opcode=15", notimp()),
            case("QUERY", "global. SOA +opcode=0", answer(SOA)),
        ],
    );
}

/// A server that answers responses can create loops.
#[test]
fn rfc1035_s4_1_1_responses_are_not_answered() {
    check(
        &serve_sample(),
        &[
            raw(
                "a response",
                "1234 8000 0001 0000 0000 0000 <global.> 0006 0001",
                no_reply(),
            ),
            raw(
                "the same message as a query",
                "1234 0000 0001 0000 0000 0000 <global.> 0006 0001",
                answer(SOA).with_question(),
            ),
            raw(
                "a malformed response",
                "1234 8000 0009 0009 0009 0009",
                no_reply(),
            ),
            raw(
                "a response with another opcode",
                "1234 f800 0000 0000 0000 0000",
                no_reply(),
            ),
            raw("only a header", "1234 0000 0000 0000 0000 0000", formerr()),
            raw(
                "shorter than a header",
                "1234 0000 0001 0000 0000 00",
                no_reply(),
            ),
            raw("only an identifier", "1234", no_reply()),
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
            raw(
                "complete",
                &with("<global.> 0006 0001"),
                answer(SOA).with_question(),
            ),
            raw("missing", &with(""), formerr()),
            raw("without type", &with("<global.>"), formerr()),
            raw("without class", &with("<global.> 0006"), formerr()),
            raw("with half a class", &with("<global.> 0006 00"), formerr()),
            raw(
                "a name without terminating label",
                &with("06 'global'"),
                formerr(),
            ),
            raw(
                "a label longer than the message",
                &with("3f 'global' 00 0006 0001"),
                formerr(),
            ),
            raw(
                "trailing octets are ignored",
                &with("<global.> 0006 0001 'anything'"),
                answer(SOA).with_question(),
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
            raw(
                "only a question",
                &with("0000 0000 0000", ""),
                answer(SOA).with_question(),
            ),
            raw(
                "an answer record",
                &with("0001 0000 0000", RECORD),
                formerr().with_question(),
            ),
            raw(
                "an authority record",
                &with("0000 0001 0000", RECORD),
                formerr().with_question(),
            ),
            raw(
                "one additional record of a common type",
                &with("0000 0000 0001", RECORD),
                answer(SOA).with_question(),
            ),
            raw(
                "three additional records",
                &with("0000 0000 0003", &[RECORD; 3].join(" ")),
                formerr().with_question(),
            ),
            raw(
                "counts of 65,535 without records",
                &with("ffff ffff ffff", ""),
                formerr().with_question(),
            ),
            raw(
                "a missing additional record",
                &with("0000 0000 0001", ""),
                formerr().with_question(),
            ),
            raw(
                "a truncated additional record",
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
            raw(
                "a plain name",
                &with("06 'global' 00"),
                answer(SOA).with_question(),
            ),
            raw("a pointer to itself", &with("c00c"), formerr()),
            raw(
                "a pointer after a label",
                &with("06 'global' c00c"),
                formerr(),
            ),
            raw("a pointer into the header", &with("c004"), formerr()),
            raw(
                "label type 01 (RFC 6891 section 5)",
                &with("46 'global' 00"),
                formerr(),
            ),
            raw("label type 10", &with("86 'global' 00"), formerr()),
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
            case(
                "one address below the limit",
                "s28.prod.global. A",
                answer(&all(28)),
            ),
            case("at the limit", "s29.prod.global. A", answer(&all(29))),
            case(
                "one address above the limit",
                "s30.prod.global. A",
                answer(&all(30)).truncated_to(29),
            ),
            case(
                "far above the limit",
                "s200.prod.global. A",
                answer(&all(200)).truncated_to(29),
            ),
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
            case(
                "data",
                "west.db.prod.global. ANY A",
                answer("west.db.prod.global. 5 IN A 10.96.20.1").not_authoritative(),
            ),
            case(
                "the same in class IN",
                "west.db.prod.global. IN A",
                answer("west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case(
                "no such name",
                "nope.global. ANY A",
                nxdomain().not_authoritative(),
            ),
        ],
    );
}
