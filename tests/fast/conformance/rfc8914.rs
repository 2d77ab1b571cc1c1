//! RFC 8914: extended DNS errors, which need an OPT record.

use crate::conformance::cases::{check, check_with_edns_and_without, nodata, nxdomain, refused};
use crate::conformance::servers::{serve, serve_sample};

#[test]
fn s4_19_prohibited_client_gets_prohibited() {
    check(
        &serve(&["limits.allow=[192.0.2.0/24]"]),
        &[
            // A name that exists.
            ("db.prod.global. A +edns", refused().option("EDE 18")),
            // The same without EDNS.
            ("db.prod.global. A", refused()),
            ("www.example. A", refused()),
        ],
    );
}

#[test]
fn s4_21_name_outside_the_zone_gets_not_authoritative() {
    check(
        &serve_sample(),
        &[
            ("www.example. A +edns", refused().option("EDE 20")),
            (". NS +edns", refused().option("EDE 20")),
            // The same without EDNS.
            ("www.example. A", refused()),
            // A nonexistent name in the zone.
            ("nope.global. A +edns", nxdomain()),
        ],
    );
}

#[test]
fn s4_22_unsupported_query_gets_not_supported() {
    let unsupported = || refused().option("EDE 21");
    check_with_edns_and_without(
        &serve_sample(),
        &[
            ("global. CH SOA", unsupported()),
            ("db.prod.global. CH A", unsupported()),
            ("version.bind. CH TXT", unsupported()),
            ("db.prod.global. HS A", unsupported()),
            ("db.prod.global. NONE A", unsupported()),
            ("global. AXFR", unsupported()),
            ("db.prod.global. AXFR", unsupported()),
            ("global. IXFR", unsupported()),
            ("global. TYPE1000", nodata()),
        ],
    );
}
