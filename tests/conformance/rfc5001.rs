//! RFC 5001 (NSID), and RFC 4892 (`id.server`, `version.bind`): which server is this? Told only if the operator says so.

use crate::cases::{answer, case, check, nxdomain, refused};
use crate::servers::{sample, serve};

const WEST: &str = "west.db.prod.global. 5 IN A 10.96.20.1";
/// `conformance-0`
const NSID: &str = "NSID 636f6e666f726d616e63652d30";

#[test]
fn s2_2_nsid_comes_when_asked_for() {
    check(
        &serve(&["--server-id", "conformance-0"]),
        &[
            case(
                "asked",
                "west.db.prod.global. A +nsid",
                answer(WEST).option(NSID),
            ),
            case("not asked", "west.db.prod.global. A +edns", answer(WEST)),
            case("no EDNS", "west.db.prod.global. A", answer(WEST)),
            case(
                "asked, no such name",
                "nope.global. A +nsid",
                nxdomain().option(NSID),
            ),
            case(
                "asked, not ours",
                "www.example. A +nsid",
                refused().option(NSID).option("EDE 20"),
            ),
            case(
                "asked with a payload, which means nothing",
                "west.db.prod.global. A +nsid=abcd",
                answer(WEST).option(NSID),
            ),
        ],
    );
}

#[test]
fn s2_2_nsid_never_comes_without_a_server_id() {
    check(
        &sample(),
        &[
            case("asked", "west.db.prod.global. A +nsid", answer(WEST)),
            case("not asked", "west.db.prod.global. A +edns", answer(WEST)),
        ],
    );
}

#[test]
fn rfc4892_s3_1_chaos_names_answer_if_the_operator_says_so() {
    check(
        &serve(&["--server-id", "conformance-0", "--version-bind", "one"]),
        &[
            case(
                "id.server",
                "id.server. CH TXT",
                answer("id.server. 0 CH TXT \"conformance-0\"").not_authoritative(),
            ),
            case(
                "version.bind",
                "version.bind. CH TXT",
                answer("version.bind. 0 CH TXT \"one\"").not_authoritative(),
            ),
            case(
                "in mixed case",
                "Version.Bind. CH TXT",
                answer("Version.Bind. 0 CH TXT \"one\"").not_authoritative(),
            ),
            case("another type", "version.bind. CH A", refused()),
            case("another name", "authors.bind. CH TXT", refused()),
            case("class IN", "version.bind. IN TXT", refused()),
        ],
    );
    check(
        &sample(),
        &[
            case("not told", "version.bind. CH TXT", refused()),
            case("not told", "id.server. CH TXT", refused()),
            case(
                "not told, with the reason",
                "id.server. CH TXT +edns",
                refused().option("EDE 21"),
            ),
        ],
    );
}
