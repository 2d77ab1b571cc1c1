//! RFC 9460: SVCB and HTTPS, which browsers and curl ask for before anything else.

use crate::support::{answer, case, check, nodata, nxdomain, sample};

#[test]
fn s2_no_name_has_svcb_or_https() {
    check(
        &sample(),
        &[
            case("HTTPS", "web.shop.global. HTTPS", nodata()),
            case("SVCB", "web.shop.global. SVCB", nodata()),
            case(
                "A, which is asked for beside it",
                "web.shop.global. A",
                answer("web.shop.global. 5 IN A 10.96.30.1"),
            ),
            case("HTTPS, no such name", "nope.shop.global. HTTPS", nxdomain()),
        ],
    );
}

/// The prefix of section 2.3: `_8443._https`.
#[test]
fn s2_3_no_name_has_a_port_prefix() {
    check(
        &sample(),
        &[
            case(
                "HTTPS at another port",
                "_8443._https.web.shop.global. HTTPS",
                nxdomain(),
            ),
            case("above it", "_https.web.shop.global. HTTPS", nxdomain()),
            case(
                "SVCB for DNS (RFC 9461)",
                "_dns.web.shop.global. SVCB",
                nxdomain(),
            ),
            case(
                "a prefix that there is",
                "_https._tcp.web.shop.global. HTTPS",
                nodata(),
            ),
        ],
    );
}
