//! RFC 7828: edns-tcp-keepalive.

use crate::support::{answer, case, check, nxdomain, refused, sample};

const WEST: &str = "west.db.prod.global. 5 IN A 10.96.20.1";
/// 30 seconds, in units of 100 milliseconds (section 3.1).
const HALF_A_MINUTE: &str = "KEEPALIVE 300";

#[test]
fn s3_2_the_timeout_is_told_over_tcp_and_never_over_udp() {
    check(
        &sample(),
        &[
            case(
                "asked",
                "west.db.prod.global. A +keepalive",
                answer(WEST).option_over_tcp(HALF_A_MINUTE),
            ),
            case("not asked", "west.db.prod.global. A +edns", answer(WEST)),
            case("no EDNS", "west.db.prod.global. A", answer(WEST)),
            case(
                "asked, no such name",
                "nope.global. A +keepalive",
                nxdomain().option_over_tcp(HALF_A_MINUTE),
            ),
            case(
                "asked, not ours",
                "www.example. A +keepalive",
                refused().option("EDE 20").option_over_tcp(HALF_A_MINUTE),
            ),
        ],
    );
}
