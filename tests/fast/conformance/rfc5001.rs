//! RFC 5001 (NSID) and RFC 4892 (`id.server`): identification of the server.

use crate::conformance::cases::{answer, case, check, nxdomain, refused};
use crate::conformance::servers::serve;

const WEST: &str = "west.db.prod.global. 5 IN A 10.96.20.1";
/// `conformance-0`
const NSID: &str = "NSID 636f6e666f726d616e63652d30";

#[test]
fn s2_2_nsid_is_sent_if_requested() {
    check(
        &serve(&["answers.serverId=conformance-0"]),
        &[
            case(
                "requested",
                "west.db.prod.global. A +nsid",
                answer(WEST).option(NSID),
            ),
            case(
                "not requested",
                "west.db.prod.global. A +edns",
                answer(WEST),
            ),
            case("without EDNS", "west.db.prod.global. A", answer(WEST)),
            case(
                "requested, nonexistent name",
                "nope.global. A +nsid",
                nxdomain().option(NSID),
            ),
            case(
                "requested, name outside the zone",
                "www.example. A +nsid",
                refused().option(NSID).option("EDE 20"),
            ),
            case(
                "requested with a payload, which is ignored",
                "west.db.prod.global. A +nsid=abcd",
                answer(WEST).option(NSID),
            ),
        ],
    );
}

#[test]
fn rfc4892_s3_1_only_the_chaos_name_of_the_server_is_answered() {
    check(
        &serve(&["answers.serverId=conformance-0"]),
        &[
            case(
                "id.server",
                "id.server. CH TXT",
                answer("id.server. 0 CH TXT \"conformance-0\"").not_authoritative(),
            ),
            case(
                "mixed case",
                "Id.Server. CH TXT",
                answer("Id.Server. 0 CH TXT \"conformance-0\"").not_authoritative(),
            ),
            case("another type", "id.server. CH A", refused()),
            case("the version", "version.bind. CH TXT", refused()),
            case("another name", "authors.bind. CH TXT", refused()),
            case("class IN", "id.server. IN TXT", refused()),
        ],
    );
}
