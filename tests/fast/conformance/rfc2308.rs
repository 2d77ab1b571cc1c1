//! RFC 2308 (with RFC 9077): negative answers.

use crate::conformance::cases::{answer, check, nodata, nxdomain, soa};
use crate::conformance::servers::serve;

/// Resolvers use the smaller of the SOA record's TTL and MINIMUM. Both are equal, because CoreDNS reads only the TTL.
#[test]
fn s3_and_s5_negative_ttl_is_the_soa_minimum_and_the_soa_ttl() {
    check(
        &serve(&["ttl=9"]),
        &[
            ("nope.prod.global. A", nxdomain()),
            ("db.prod.global. AAAA", nodata()),
            ("global. SOA", soa()),
            // Positive answers have a TTL of their own.
            (
                "cache.prod.global. A",
                answer("cache.prod.global. 9 IN A 10.96.40.1"),
            ),
        ],
    );
}
