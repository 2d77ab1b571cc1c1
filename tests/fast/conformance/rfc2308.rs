//! RFC 2308 (with RFC 9077): negative answers.

use crate::conformance::cases::{answer, case, check, nodata, nxdomain};
use crate::conformance::servers::serve;

/// Resolvers use the smaller of the SOA record's TTL and MINIMUM. Both are equal, because CoreDNS reads only the TTL.
#[test]
fn s3_and_s5_negative_ttl_is_the_soa_minimum_and_the_soa_ttl() {
    const SOA: &str = "global. 5 IN SOA ns.dns.global. hostmaster.global. SERIAL 7200 1800 86400 5";
    check(
        &serve(&["ttl=9"]),
        &[
            case("NXDOMAIN", "nope.prod.global. A", nxdomain().authority(SOA)),
            case("NODATA", "db.prod.global. AAAA", nodata().authority(SOA)),
            case("the SOA record itself", "global. SOA", answer(SOA)),
            case(
                "positive answers have a TTL of their own",
                "cache.prod.global. A",
                answer("cache.prod.global. 9 IN A 10.96.40.1"),
            ),
        ],
    );
}
