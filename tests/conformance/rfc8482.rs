//! RFC 8482: ANY gets one RRset.

use crate::support::{SOA, answer, case, check, nodata, nxdomain, refused, sample};

#[test]
fn s4_1_one_rrset_is_enough() {
    check(
        &sample(),
        &[
            case(
                "a name with A and SRV",
                "west.db.prod.global. ANY",
                answer("west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case(
                "a name with A, AAAA and SRV",
                "web.shop.global. ANY",
                answer("web.shop.global. 5 IN A 10.96.30.1"),
            ),
            case(
                "a name with AAAA and SRV",
                "six.shop.global. ANY",
                answer("six.shop.global. 5 IN AAAA 2001:db8:60::1"),
            ),
            case(
                "a name with SRV",
                "_http._tcp.west.db.prod.global. ANY",
                answer(
                    "_http._tcp.west.db.prod.global. 5 IN SRV 0 10 8080 db-0.west.db.prod.global.",
                )
                .additional("db-0.west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case("the apex", "global. ANY", answer(SOA)),
            case(
                "the name server",
                "ns.dns.global. ANY",
                answer("ns.dns.global. 5 IN A 192.0.2.53"),
            ),
            case(
                "the version",
                "dns-version.global. ANY",
                answer("dns-version.global. 5 IN TXT \"1.1.0\""),
            ),
            case("an empty non-terminal", "prod.global. ANY", nodata()),
            case("no such name", "nope.prod.global. ANY", nxdomain()),
            case("not ours", "www.example. ANY", refused()),
        ],
    );
}
