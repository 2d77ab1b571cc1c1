//! RFC 8914: extended errors, where they help and where there is an OPT record to carry them.

use std::net::TcpListener;

use crate::cases::{
    SOA, answer, case, check, check_with_edns_and_without, nodata, nxdomain, refused, servfail,
};
use crate::servers::{sample, serve, serve_nothing_yet};

#[test]
fn s4_15_not_ready() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    check(
        &serve_nothing_yet(silent.local_addr().unwrap(), &[]),
        &[
            case(
                "a name",
                "db.prod.global. A +edns",
                servfail().option("EDE 14"),
            ),
            case("the same without EDNS", "db.prod.global. A", servfail()),
            case("the apex", "global. SOA +edns", servfail().option("EDE 14")),
            case("without EDNS", "global. SOA", servfail()),
            case(
                "no such name",
                "nope.global. A +edns",
                servfail().option("EDE 14"),
            ),
            case("another zone", "www.example.org. A", refused()),
            case(
                "the health probe of CoreDNS",
                ". NS +edns",
                refused().option("EDE 20"),
            ),
        ],
    );
    check(
        &sample(),
        &[case(
            "a server that is ready",
            "global. SOA +edns",
            answer(SOA),
        )],
    );
}

#[test]
fn s4_19_prohibited() {
    check(
        &serve(&["--allow", "192.0.2.0/24"]),
        &[
            case(
                "a name that exists",
                "db.prod.global. A +edns",
                refused().option("EDE 18"),
            ),
            case("the same without EDNS", "db.prod.global. A", refused()),
            case("a name of others", "www.example. A", refused()),
        ],
    );
}

#[test]
fn s4_21_not_authoritative() {
    check(
        &sample(),
        &[
            case(
                "a name of others",
                "www.example. A +edns",
                refused().option("EDE 20"),
            ),
            case("the root", ". NS +edns", refused().option("EDE 20")),
            case("the same without EDNS", "www.example. A", refused()),
            case("no such name of ours", "nope.global. A +edns", nxdomain()),
        ],
    );
}

#[test]
fn s4_22_not_supported() {
    let unsupported = || refused().option("EDE 21");
    check_with_edns_and_without(
        &sample(),
        &[
            ("global. CH SOA", unsupported()),
            ("db.prod.global. CH A", unsupported()),
            ("version.bind. CH TXT", unsupported()),
            ("db.prod.global. HS A", unsupported()),
            ("db.prod.global. NONE A", unsupported()),
            ("global. AXFR", unsupported()),
            ("db.prod.global. AXFR", unsupported()),
            ("global. IXFR", unsupported()),
            // A type that no name has.
            ("global. TYPE1000", nodata()),
        ],
    );
}
