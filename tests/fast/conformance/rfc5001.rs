//! RFC 5001 (NSID) and RFC 4892 (`id.server`): identification of the server.

use crate::conformance::cases::{answer, check, nxdomain, refused, west};
use crate::conformance::servers::serve;

/// `conformance-0`
const NSID: &str = "NSID 636f6e666f726d616e63652d30";

#[test]
fn s2_2_nsid_is_sent_if_requested() {
    check(
        &serve(&["answers.serverId=conformance-0"]),
        &[
            ("west.db.prod.global. A +nsid", west().option(NSID)),
            ("west.db.prod.global. A +edns", west()),
            ("west.db.prod.global. A", west()),
            // Requested, nonexistent name.
            ("nope.global. A +nsid", nxdomain().option(NSID)),
            (
                "www.example. A +nsid",
                refused().option(NSID).option("EDE 20"),
            ),
            // Requested with a payload, which is ignored.
            ("west.db.prod.global. A +nsid=abcd", west().option(NSID)),
        ],
    );
}

#[test]
fn rfc4892_s3_1_only_the_chaos_name_of_the_server_is_answered() {
    check(
        &serve(&["answers.serverId=conformance-0"]),
        &[
            (
                "id.server. CH TXT",
                answer("id.server. 0 CH TXT \"conformance-0\"").not_authoritative(),
            ),
            (
                "Id.Server. CH TXT",
                answer("Id.Server. 0 CH TXT \"conformance-0\"").not_authoritative(),
            ),
            ("id.server. CH A", refused()),
            // The version.
            ("version.bind. CH TXT", refused()),
            ("authors.bind. CH TXT", refused()),
            ("id.server. IN TXT", refused()),
        ],
    );
}
