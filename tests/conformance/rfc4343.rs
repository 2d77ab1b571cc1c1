//! RFC 4343: upper and lower case.

use support::query::query;
use support::reply::sorted_texts;
use support::wire::Over;

use crate::cases::{answer, case, check, decode, nodata, nxdomain, refused};
use crate::servers::sample;

/// An owner name in an answer has the case of the question, which it points to.
#[test]
fn s3_names_match_whatever_their_case() {
    check(
        &sample(),
        &[
            case(
                "upper case",
                "WEST.DB.PROD.GLOBAL. A",
                answer("WEST.DB.PROD.GLOBAL. 5 IN A 10.96.20.1"),
            ),
            case(
                "lower case",
                "west.db.prod.global. A",
                answer("west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case(
                "both (0x20)",
                "wEsT.dB.pRoD.gLoBaL. A",
                answer("wEsT.dB.pRoD.gLoBaL. 5 IN A 10.96.20.1"),
            ),
            case(
                "a host",
                "DB-0.West.DB.Prod.Global. A",
                answer("DB-0.West.DB.Prod.Global. 5 IN A 10.96.20.1"),
            ),
            case(
                "by the numbers of the letters (section 2.1)",
                "\\087est.db.prod.global. A",
                answer("West.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case(
                "the name server",
                "NS.Dns.global. A",
                answer("NS.Dns.global. 5 IN A 192.0.2.53"),
            ),
            case("an empty non-terminal", "pROD.global. A", nodata()),
            case("another zone", "Www.EXAMPLE.org. A", refused()),
            case(
                "an unknown name in upper case",
                "NOPE.PROD.global. A",
                nxdomain(),
            ),
        ],
    );
}

/// Bit 0x20 tells letters apart, and nothing else.
#[test]
fn s3_only_ascii_letters_are_folded() {
    check(
        &sample(),
        &[
            case(
                "a hyphen",
                "db-0.west.db.prod.global. A",
                answer("db-0.west.db.prod.global. 5 IN A 10.96.20.1"),
            ),
            case(
                "a hyphen without the bit",
                "db\\0130.west.db.prod.global. A",
                nxdomain(),
            ),
            case(
                "a digit without the bit",
                "db-\\016.west.db.prod.global. A",
                nxdomain(),
            ),
            case(
                "a letter above 127 (a umlaut in Latin-1)",
                "\\228.prod.global. A",
                nxdomain(),
            ),
            case(
                "the underscore of a port with the bit",
                "\\127sql._tcp.db.prod.global. SRV",
                nxdomain(),
            ),
        ],
    );
}

#[test]
fn s4_targets_are_lower_case_whatever_the_question() {
    let server = sample();
    let question = query("_HTTP._Tcp.West.DB.Prod.Global. SRV");
    for over in [Over::Udp, Over::Tcp] {
        let reply = server.send(&question, over).unwrap();
        assert_eq!(
            reply[12..question.0.len()],
            question.0[12..],
            "the question comes back as it was"
        );
        let message = decode(&reply);
        let expected =
            "_HTTP._Tcp.West.DB.Prod.Global. 5 IN SRV 0 10 8080 db-0.west.db.prod.global.";
        assert_eq!(sorted_texts(&message.answers), [expected]);
        // The end of their owner name points into the question.
        let [address] = &message.additional[..] else {
            panic!("{message:?}")
        };
        assert_eq!(
            address.in_lower_case().text(),
            "db-0.west.db.prod.global. 5 IN A 10.96.20.1"
        );
    }
}
