//! RFC 5936 (AXFR), RFC 1995 (IXFR), RFC 1996 (NOTIFY), RFC 2136 (UPDATE): not supported, and refused with a reply.

use crate::conformance::cases::{check, formerr, nodata, notimp, nxdomain, refused, soa, west};
use crate::conformance::servers::serve_sample;

#[test]
fn rfc5936_s2_2_1_axfr_is_refused() {
    check(
        &serve_sample(),
        &[
            ("global. AXFR", refused()),
            ("db.prod.global. AXFR", refused()),
            ("example. AXFR", refused()),
            ("global. SOA", soa()),
        ],
    );
}

#[test]
fn rfc1995_s2_ixfr_is_refused() {
    const SOA_RECORD: &str =
        "<global.> 0006 0001 00000000 0016 00 00 00000001 00000000 00000000 00000000 00000000";
    let with = |counts: &str, rtype: &str, rest: &str| {
        format!("1234 0000 0001 0000 {counts} <global.> {rtype} 0001 | {rest}")
    };
    check(
        &serve_sample(),
        &[
            // With the client's SOA record.
            (
                &with("0001 0000", "00fb", SOA_RECORD),
                refused().with_question(),
            ),
            ("global. IXFR", refused()),
            // An SOA record in another query.
            (
                &with("0001 0000", "0006", SOA_RECORD),
                formerr().with_question(),
            ),
        ],
    );
}

#[test]
fn rfc1996_s3_notify_gets_notimp() {
    check(
        &serve_sample(),
        &[
            ("global. SOA +opcode=4", notimp()),
            ("global. SOA +opcode=4 +aa", notimp()),
            ("example. SOA +opcode=4", notimp()),
            ("global. SOA", soa()),
        ],
    );
}

#[test]
fn rfc2136_s3_update_gets_notimp_and_changes_nothing() {
    // Zone, no prerequisite, one record to add: new.prod.global. 60 A 192.0.2.1
    const ADD: &str = "1234 2800 0001 0000 0001 0000 <global.> 0006 0001 \
        | <new.prod.global.> 0001 0001 0000003c 0004 c0000201";
    // Delete every A record of db.prod.global.
    const DELETE: &str = "1235 2800 0001 0000 0001 0000 <global.> 0006 0001 \
        | <west.db.prod.global.> 0001 00ff 00000000 0000";
    check(
        &serve_sample(),
        &[
            // Add a record.
            (ADD, notimp().with_question()),
            // The record does not exist.
            ("new.prod.global. A", nxdomain()),
            // Delete an RRset.
            (DELETE, notimp().with_question()),
            // The RRset still exists.
            ("west.db.prod.global. A", west()),
            // No record in any section.
            ("global. SOA +opcode=5", notimp()),
            // No other record exists.
            ("west.db.prod.global. AAAA", nodata()),
        ],
    );
}
