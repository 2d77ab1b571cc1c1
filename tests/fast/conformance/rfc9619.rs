//! RFC 9619: a query has one question.

use crate::conformance::cases::{check, formerr, notimp, soa};
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
            // One.
            (&with("0000", "0001", QUESTION), soa().with_question()),
            // None.
            (&with("0000", "0000", ""), formerr()),
            // Count 0, but one question.
            (&with("0000", "0000", QUESTION), formerr()),
            // Two.
            (&with("0000", "0002", &[QUESTION; 2].join(" ")), formerr()),
            // Two with different names.
            (
                &with(
                    "0000",
                    "0002",
                    "<global.> 0006 0001 <db.prod.global.> 0001 0001",
                ),
                formerr(),
            ),
            // Count 2, but one question.
            (&with("0000", "0002", QUESTION), formerr()),
            // Count 65,535, but one question.
            (&with("0000", "ffff", QUESTION), formerr()),
            // Two, with RD.
            (&with("0100", "0002", &[QUESTION; 2].join(" ")), formerr()),
            // Two, with another opcode.
            (&with("2000", "0002", &[QUESTION; 2].join(" ")), notimp()),
        ],
    );
}
