//! RFC 9619: a query has one question.

use crate::conformance::cases::{SOA, answer, check, formerr, notimp, raw};
use crate::conformance::servers::serve_sample;

#[test]
fn s4_query_without_exactly_one_question_gets_formerr() {
    const QUESTION: &str = "<global.> 0006 0001";
    let with = |flags: &str, count: &str, rest: &str| {
        format!("1234 {flags} {count} 0000 0000 0000 | {rest}")
    };
    check(
        &serve_sample(),
        &[
            raw(
                "one",
                &with("0000", "0001", QUESTION),
                answer(SOA).with_question(),
            ),
            raw("none", &with("0000", "0000", ""), formerr()),
            raw(
                "count 0, but one question",
                &with("0000", "0000", QUESTION),
                formerr(),
            ),
            raw(
                "two",
                &with("0000", "0002", &[QUESTION; 2].join(" ")),
                formerr(),
            ),
            raw(
                "two with different names",
                &with(
                    "0000",
                    "0002",
                    "<global.> 0006 0001 <db.prod.global.> 0001 0001",
                ),
                formerr(),
            ),
            raw(
                "count 2, but one question",
                &with("0000", "0002", QUESTION),
                formerr(),
            ),
            raw(
                "count 65,535, but one question",
                &with("0000", "ffff", QUESTION),
                formerr(),
            ),
            raw(
                "two, with RD",
                &with("0100", "0002", &[QUESTION; 2].join(" ")),
                formerr(),
            ),
            raw(
                "two, with another opcode",
                &with("2000", "0002", &[QUESTION; 2].join(" ")),
                notimp(),
            ),
        ],
    );
}
