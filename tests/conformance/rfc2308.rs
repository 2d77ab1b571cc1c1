//! RFC 2308 (with RFC 9077): negative answers.

use crate::support::{answer, case, check, nodata, nxdomain, refused, sample, serve};

#[test]
fn s2_1_nxdomain_carries_soa() {
    check(
        &sample(),
        &[
            case("an unknown service", "nope.prod.global. A", nxdomain()),
            case(
                "a known one",
                "cache.prod.global. A",
                answer("cache.prod.global. 5 IN A 10.96.40.1"),
            ),
            case("an unknown namespace", "db.nope.global. A", nxdomain()),
            case("an unknown cluster", "nope.db.prod.global. A", nxdomain()),
            case("an unknown host", "nope.east.db.prod.global. A", nxdomain()),
            case(
                "an unknown port",
                "_nope._tcp.db.prod.global. SRV",
                nxdomain(),
            ),
            case("an unknown short name", "nope.global. A", nxdomain()),
            case(
                "it is said for every type",
                "nope.prod.global. TXT",
                nxdomain(),
            ),
            case(
                "outside the zone nothing is known",
                "nope.prod.example. A",
                refused(),
            ),
        ],
    );
}

#[test]
fn s2_2_nodata_carries_soa() {
    check(
        &sample(),
        &[
            case(
                "an existing name without AAAA",
                "db.prod.global. AAAA",
                nodata(),
            ),
            case(
                "an existing name with AAAA",
                "six.shop.global. AAAA",
                answer("six.shop.global. 5 IN AAAA 2001:db8:60::1"),
            ),
            case("an existing name without A", "six.shop.global. A", nodata()),
            case(
                "one host of it without AAAA",
                "db-0.east.db.prod.global. AAAA",
                nodata(),
            ),
            case(
                "a port's name without A",
                "_sql._tcp.db.prod.global. A",
                nodata(),
            ),
            case("the apex without A", "global. A", nodata()),
        ],
    );
}

/// The TTL of the SOA record is the smaller one of its own and of MINIMUM; here they are equal, because CoreDNS looks
/// at the record's TTL only.
#[test]
fn s3_and_s5_the_negative_ttl_is_the_soa_minimum_and_the_soa_ttl() {
    const NINE: &str =
        "global. 9 IN SOA ns.dns.global. hostmaster.global. SERIAL 7200 1800 86400 9";
    check(
        &serve(&["--negative-ttl", "9"]),
        &[
            case(
                "NXDOMAIN",
                "nope.prod.global. A",
                nxdomain().authority(NINE),
            ),
            case("NODATA", "db.prod.global. AAAA", nodata().authority(NINE)),
            case("the SOA record itself", "global. SOA", answer(NINE)),
            case(
                "positive answers have their own TTL",
                "cache.prod.global. A",
                answer("cache.prod.global. 5 IN A 10.96.40.1"),
            ),
        ],
    );
}
