//! RFC 5936 (AXFR), RFC 1995 (IXFR), RFC 1996 (NOTIFY), RFC 2136 (UPDATE): not offered, and said so.

use crate::cases::{SOA, answer, case, check, formerr, nodata, notimp, nxdomain, raw, refused};
use crate::servers::sample;

#[test]
fn rfc5936_s2_2_1_axfr_is_refused() {
    check(
        &sample(),
        &[
            case("the zone", "global. AXFR", refused()),
            case(
                "with EDNS",
                "global. AXFR +edns",
                refused().option("EDE 21"),
            ),
            case("a name in it", "db.prod.global. AXFR", refused()),
            case("a zone of others", "example. AXFR", refused()),
            case("the SOA record may be had", "global. SOA", answer(SOA)),
        ],
    );
}

#[test]
fn rfc1995_s2_ixfr_is_refused() {
    const OURS: &str =
        "<global.> 0006 0001 00000000 0016 00 00 00000001 00000000 00000000 00000000 00000000";
    let with = |counts: &str, rtype: &str, rest: &str| {
        format!("1234 0000 0001 0000 {counts} <global.> {rtype} 0001 | {rest}")
    };
    check(
        &sample(),
        &[
            raw(
                "with the client's SOA record",
                &with("0001 0000", "00fb", OURS),
                refused().echoing(),
            ),
            case("without it", "global. IXFR", refused()),
            case(
                "with EDNS",
                "global. IXFR +edns",
                refused().option("EDE 21"),
            ),
            raw(
                "no other question brings one",
                &with("0001 0000", "0006", OURS),
                formerr().echoing(),
            ),
        ],
    );
}

#[test]
fn rfc1996_s3_notify_is_not_implemented() {
    check(
        &sample(),
        &[
            case("the zone", "global. SOA +opcode=4", notimp()),
            case(
                "as primaries send it",
                "global. SOA +opcode=4 +aa",
                notimp(),
            ),
            case("a zone of others", "example. SOA +opcode=4", notimp()),
            case("the same question as a query", "global. SOA", answer(SOA)),
        ],
    );
}

#[test]
fn rfc2136_s3_update_is_not_implemented_and_changes_nothing() {
    // Zone, no prerequisite, one record to add: new.prod.global. 60 A 192.0.2.1
    const ADD: &str = "1234 2800 0001 0000 0001 0000 <global.> 0006 0001 \
        | <new.prod.global.> 0001 0001 0000003c 0004 c0000201";
    // Delete every A record of db.prod.global.
    const DELETE: &str = "1235 2800 0001 0000 0001 0000 <global.> 0006 0001 \
        | <west.db.prod.global.> 0001 00ff 00000000 0000";
    check(
        &sample(),
        &[
            raw("add a record", ADD, notimp().echoing()),
            case("it is not there", "new.prod.global. A", nxdomain()),
            raw("delete an RRset", DELETE, notimp().echoing()),
            case(
                "it is there",
                "west.db.prod.global. A",
                answer("west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case("no section at all", "global. SOA +opcode=5", notimp()),
            case(
                "nothing else has changed",
                "west.db.prod.global. AAAA",
                nodata(),
            ),
        ],
    );
}
