//! RFC 1034 and RFC 1035: DNS itself.

use support::objects::members;
use support::query::query;
use support::wire::Over;

use crate::cases::{
    SOA, answer, case, check, decode, dropped, formerr, nodata, notimp, nxdomain, raw, refused,
};
use crate::servers::{sample, serve_objects};

#[test]
fn rfc1034_s4_3_1_there_is_no_recursion() {
    check(
        &sample(),
        &[
            case(
                "wanted or not, RA is clear",
                "west.db.prod.global. A +rd",
                answer("west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case(
                "not wanted",
                "west.db.prod.global. A",
                answer("west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case("a name of others", "www.example. A +rd", refused()),
            case("the health probe of CoreDNS", ". NS +rd", refused()),
            case(
                "a name that only ends like the zone",
                "notglobal. A",
                refused(),
            ),
            case(
                "the zone's name as another label",
                "global.example. A",
                refused(),
            ),
        ],
    );
}

#[test]
fn rfc1035_s2_3_4_names_have_255_octets_and_labels_63() {
    let label = |length: usize| "x".repeat(length);
    let name = |last: usize| {
        let (full, last) = (label(63), label(last));
        format!("{full}.{full}.{full}.{last}.global.")
    };
    let too_long = format!("1234 0000 0001 0000 0000 0000 <{}> 0001 0001", name(55));
    let label_of_63 = format!("{}.prod.global. A", label(63));
    check(
        &sample(),
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
fn rfc1035_s3_2_4_class_in() {
    check(
        &sample(),
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
fn rfc1035_s4_1_1_the_header() {
    check(
        &sample(),
        &[
            case(
                "bits that only replies have",
                "west.db.prod.global. A +aa +tc +ra",
                answer("west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case(
                "RD comes back with a failure, too",
                "west.db.prod.global. CH A +rd",
                refused(),
            ),
            case(
                "and without the zone",
                "www.example. A +rd +cd +ad",
                refused(),
            ),
            case(
                "CD does not come back (RFC 4035 section 3.1.6)",
                "nope.global. A +cd",
                nxdomain(),
            ),
            case(
                "nor do the other bits with an answer",
                "west.db.prod.global. A +rd +ad +cd +edns",
                answer("west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case(
                "nor without one",
                "west.db.prod.global. MX +rd +ad +cd +edns",
                nodata(),
            ),
            case(
                "IQUERY (RFC 3425 section 3)",
                "global. A +opcode=1",
                notimp(),
            ),
            case("STATUS", "global. SOA +opcode=2 +rd", notimp()),
            case(
                "an opcode that nobody has",
                "global. SOA +opcode=3",
                notimp(),
            ),
            case("DSO (RFC 8490)", "global. SOA +opcode=6", notimp()),
            case("the last opcode", "global. SOA +opcode=15", notimp()),
            case("QUERY", "global. SOA +opcode=0", answer(SOA)),
        ],
    );
}

/// Answering responses makes loops.
#[test]
fn rfc1035_s4_1_1_responses_are_never_answered() {
    check(
        &sample(),
        &[
            raw(
                "a response",
                "1234 8000 0001 0000 0000 0000 <global.> 0006 0001",
                dropped(),
            ),
            raw(
                "the same as a query",
                "1234 0000 0001 0000 0000 0000 <global.> 0006 0001",
                answer(SOA).echoing(),
            ),
            raw(
                "a response that makes no sense",
                "1234 8000 0009 0009 0009 0009",
                dropped(),
            ),
            raw(
                "a response with another opcode",
                "1234 f800 0000 0000 0000 0000",
                dropped(),
            ),
            raw("a header alone", "1234 0000 0000 0000 0000 0000", formerr()),
            raw(
                "less than a header",
                "1234 0000 0001 0000 0000 00",
                dropped(),
            ),
            raw("an identifier alone", "1234", dropped()),
        ],
    );
}

#[test]
fn rfc1035_s4_1_2_the_question() {
    const HEADER: &str = "1234 0100 0001 0000 0000 0000";
    let with = |question: &str| format!("{HEADER} | {question}");
    check(
        &sample(),
        &[
            raw("whole", &with("<global.> 0006 0001"), answer(SOA).echoing()),
            raw("missing", &with(""), formerr()),
            raw("without type", &with("<global.>"), formerr()),
            raw("without class", &with("<global.> 0006"), formerr()),
            raw("with half a class", &with("<global.> 0006 00"), formerr()),
            raw("a name without end", &with("06 'global'"), formerr()),
            raw(
                "a label that runs off the end",
                &with("3f 'global' 00 0006 0001"),
                formerr(),
            ),
            raw(
                "octets behind it are ignored",
                &with("<global.> 0006 0001 'anything'"),
                answer(SOA).echoing(),
            ),
        ],
    );
}

#[test]
fn rfc1035_s4_1_3_a_query_has_nothing_but_a_question() {
    const RECORD: &str = "<global.> 0001 0001 00000005 0004 c0000201";
    let with =
        |counts: &str, rest: &str| format!("1234 0000 0001 {counts} <global.> 0006 0001 | {rest}");
    check(
        &sample(),
        &[
            raw(
                "nothing else",
                &with("0000 0000 0000", ""),
                answer(SOA).echoing(),
            ),
            raw(
                "an answer",
                &with("0001 0000 0000", RECORD),
                formerr().echoing(),
            ),
            raw(
                "an authority",
                &with("0000 0001 0000", RECORD),
                formerr().echoing(),
            ),
            raw(
                "one additional record of a common type",
                &with("0000 0000 0001", RECORD),
                answer(SOA).echoing(),
            ),
            raw(
                "three additional records",
                &with("0000 0000 0003", &[RECORD; 3].join(" ")),
                formerr().echoing(),
            ),
            raw(
                "65,535 answers, none of them there",
                &with("ffff ffff ffff", ""),
                formerr().echoing(),
            ),
            raw(
                "an additional record that is not there",
                &with("0000 0000 0001", ""),
                formerr().echoing(),
            ),
            raw(
                "one that is cut",
                &with("0000 0000 0001", "<global.> 0001 0001 00000005 0004 c000"),
                formerr().echoing(),
            ),
        ],
    );
}

#[test]
fn rfc1035_s4_1_4_a_question_has_no_pointers() {
    const HEADER: &str = "1234 0000 0001 0000 0000 0000";
    let with = |name: &str| format!("{HEADER} {name} 0006 0001");
    check(
        &sample(),
        &[
            raw(
                "a plain name",
                &with("06 'global' 00"),
                answer(SOA).echoing(),
            ),
            raw("a pointer to itself", &with("c00c"), formerr()),
            raw(
                "a pointer behind a label",
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

/// 12 octets of header, 21 or 22 of question and 16 for each address: 29 of them fit into 512.
#[test]
fn rfc1035_s4_2_1_a_datagram_has_512_octets() {
    let all = |count: usize| {
        let lines = (1..=count).map(|n| format!("s{count}.prod.global. 5 IN A 10.96.0.{n}\n"));
        lines.collect::<String>()
    };
    let server = serve_objects(members(&[28, 29, 30, 200]), &[]);
    check(
        &server,
        &[
            case("almost full", "s28.prod.global. A", answer(&all(28))),
            case("full", "s29.prod.global. A", answer(&all(29))),
            case(
                "one too many",
                "s30.prod.global. A",
                answer(&all(30)).truncated_to(29),
            ),
            case(
                "far too many",
                "s200.prod.global. A",
                answer(&all(200)).truncated_to(29),
            ),
        ],
    );
}

#[test]
fn rfc1035_s4_2_2_messages_over_tcp_have_up_to_65535_octets() {
    let server = serve_objects(members(&[4000]), &[]);
    let reply = server
        .send(&query("s4000.prod.global. A"), Over::Tcp)
        .unwrap();
    let message = decode(&reply);
    assert_eq!(message.answers.len(), 4000);
    assert_eq!(reply[2] & 0x02, 0, "TC");
    assert!(reply.len() > 64_000);
}

#[test]
fn rfc1035_s6_2_no_answer_for_any_class_is_authoritative() {
    check(
        &sample(),
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
