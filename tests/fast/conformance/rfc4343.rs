//! RFC 4343: case insensitivity.

use support::query::query;
use support::reply::sorted_texts;
use support::wire::Transport;

use crate::conformance::cases::{answer, check, decode, nodata, nxdomain, refused, west};
use crate::conformance::servers::serve_sample;

/// An owner name in an answer is a pointer to the question, so it has the same case.
#[test]
fn s3_names_match_in_any_case() {
    check(
        &serve_sample(),
        &[
            (
                "WEST.DB.PROD.GLOBAL. A",
                answer("WEST.DB.PROD.GLOBAL. 5 IN A 10.96.20.1"),
            ),
            ("west.db.prod.global. A", west()),
            (
                "wEsT.dB.pRoD.gLoBaL. A",
                answer("wEsT.dB.pRoD.gLoBaL. 5 IN A 10.96.20.1"),
            ),
            (
                "DB-0.West.DB.Prod.Global. A",
                answer("DB-0.West.DB.Prod.Global. 5 IN A 10.96.20.1"),
            ),
            // A letter as a decimal escape (section 2.1).
            (
                "\\087est.db.prod.global. A",
                answer("West.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            // The name server.
            (
                "NS.Dns.global. A",
                answer("NS.Dns.global. 5 IN A 192.0.2.53"),
            ),
            // An empty non-terminal.
            ("pROD.global. A", nodata()),
            ("Www.EXAMPLE.org. A", refused()),
            ("NOPE.PROD.global. A", nxdomain()),
        ],
    );
}

/// Bit 0x20 is ignored in letters, and significant in all other octets.
#[test]
fn s3_only_ascii_letters_are_folded() {
    check(
        &serve_sample(),
        &[
            (
                "db-0.west.db.prod.global. A",
                answer("db-0.west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            // A hyphen with bit 0x20 clear.
            ("db\\0130.west.db.prod.global. A", nxdomain()),
            // A digit with bit 0x20 clear.
            ("db-\\016.west.db.prod.global. A", nxdomain()),
            // A letter above 127 (ä in Latin-1).
            ("\\228.prod.global. A", nxdomain()),
            // The underscore of a port with bit 0x20 set.
            ("\\127sql._tcp.db.prod.global. SRV", nxdomain()),
        ],
    );
}

#[test]
fn s4_srv_targets_are_lower_case_for_any_question() {
    let server = serve_sample();
    let question = query("_HTTP._Tcp.West.DB.Prod.Global. SRV");
    for over in [Transport::Udp, Transport::Tcp] {
        let reply = server.send(&question, over).unwrap();
        assert_eq!(
            reply[12..question.0.len()],
            question.0[12..],
            "the question must be copied unchanged"
        );
        let message = decode(&reply);
        let expected =
            "_HTTP._Tcp.West.DB.Prod.Global. 5 IN SRV 0 10 8080 db-0.west.db.prod.global.";
        assert_eq!(sorted_texts(&message.answers), [expected]);
        // The end of the owner name is a pointer into the question.
        let [address] = &message.additional[..] else {
            panic!("{message:?}")
        };
        assert_eq!(
            address.in_lower_case().text(),
            "db-0.west.db.prod.global. 5 IN A 10.96.20.1"
        );
    }
}
