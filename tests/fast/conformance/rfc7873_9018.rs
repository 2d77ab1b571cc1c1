//! RFC 7873 and RFC 9018: cookies are answered but not enforced.

use std::time::SystemTime;

use support::query::query;
use support::wire::Transport;

use crate::conformance::cases::{
    answer, badvers, case, check, decode, empty, formerr, nxdomain, raw, refused,
};
use crate::conformance::servers::serve_sample;

const WEST: &str = "west.db.prod.global. 5 IN A 10.96.20.1";
/// A client cookie.
const CLIENT: &str = "2464c4abcf10c957";
/// The option of the reply: the client cookie, and a server cookie of 16 octets (RFC 9018 section 4).
const BOTH: &str = "COOKIE 2464c4abcf10c957 and 16 octets";

#[test]
fn rfc7873_s5_2_1_reply_has_a_cookie_only_if_the_query_has_one() {
    check(
        &serve_sample(),
        &[
            case("with EDNS", "west.db.prod.global. A +edns", answer(WEST)),
            case("without EDNS", "west.db.prod.global. A", answer(WEST)),
            case(
                "with a cookie",
                &format!("west.db.prod.global. A +cookie={CLIENT}"),
                answer(WEST).option(BOTH),
            ),
        ],
    );
}

/// A client cookie has 8 octets, a server cookie 8 to 32.
#[test]
fn rfc7873_s5_2_2_malformed_cookie_gets_formerr() {
    let of = |length: usize| format!("west.db.prod.global. A +cookie={}", "ab".repeat(length));
    let good = || answer(WEST).option("COOKIE abababababababab and 16 octets");
    check(
        &serve_sample(),
        &[
            case("0 octets", "west.db.prod.global. A +ednsopt=10", formerr()),
            case("1 octet", &of(1), formerr()),
            case("7 octets", &of(7), formerr()),
            case("8 octets: a client cookie", &of(8), good()),
            case("9 octets", &of(9), formerr()),
            case("15 octets", &of(15), formerr()),
            case("16 octets: the shortest server cookie", &of(16), good()),
            case("40 octets: the longest", &of(40), good()),
            case("41 octets", &of(41), formerr()),
        ],
    );
}

#[test]
fn rfc7873_s5_2_3_client_cookie_gets_a_server_cookie_with_any_answer() {
    let with = |question: &str| format!("{question} +cookie={CLIENT}");
    check(
        &serve_sample(),
        &[
            case(
                "data",
                &with("west.db.prod.global. A"),
                answer(WEST).option(BOTH),
            ),
            case(
                "nonexistent name",
                &with("nope.global. A"),
                nxdomain().option(BOTH),
            ),
            case(
                "name outside the zone",
                &with("www.example. A"),
                refused().option(BOTH).option("EDE 20"),
            ),
            case(
                "unknown EDNS version: options are not read (as in BIND)",
                &with("global. SOA +edns=1"),
                badvers(),
            ),
        ],
    );
}

/// CoreDNS forwards the cookies of its clients from its own address, so a wrong cookie is not evidence of spoofing.
#[test]
fn rfc7873_s5_2_4_wrong_server_cookie_is_ignored() {
    let with = |server: &str| format!("west.db.prod.global. A +cookie={CLIENT}{server}");
    check(
        &serve_sample(),
        &[
            case(
                "invented",
                &with("0102030405060708"),
                answer(WEST).option(BOTH),
            ),
            case(
                "valid format, wrong hash",
                &with("010000005cf79f110000000000000000"),
                answer(WEST).option(BOTH),
            ),
            case(
                "unknown version",
                &with("02000000000000000000000000000000"),
                answer(WEST).option(BOTH),
            ),
        ],
    );
}

#[test]
fn rfc7873_s5_2_only_the_first_cookie_is_used() {
    const OTHER: &str = "abababababababab";
    check(
        &serve_sample(),
        &[
            case(
                "one",
                &format!("west.db.prod.global. A +cookie={CLIENT}"),
                answer(WEST).option(BOTH),
            ),
            case(
                "two",
                &format!("west.db.prod.global. A +cookie={CLIENT} +cookie={OTHER}"),
                answer(WEST).option(BOTH),
            ),
            case(
                "the second one malformed",
                &format!("west.db.prod.global. A +cookie={CLIENT} +cookie=ab"),
                answer(WEST).option(BOTH),
            ),
        ],
    );
}

#[test]
fn rfc7873_s5_2_5_correct_server_cookie_is_accepted() {
    let server = serve_sample();
    for over in [Transport::Udp, Transport::Tcp] {
        let first = server
            .send(&query(&format!("global. SOA +cookie={CLIENT}")), over)
            .unwrap();
        let cookie = decode(&first).option(10).unwrap();
        let second = server
            .send(&query(&format!("global. SOA +cookie={cookie}")), over)
            .unwrap();
        let message = decode(&second);
        assert_eq!((message.rcode, message.answers.len()), (0, 1));
        assert!(message.option(10).unwrap().starts_with(CLIENT));
    }
}

#[test]
fn rfc7873_s5_4_query_without_question_gets_a_cookie() {
    let with = |opt: &str| format!("1234 0000 0000 0000 0000 0001 | {opt}");
    check(
        &serve_sample(),
        &[
            raw(
                "no question, a client cookie",
                &with("00 0029 04d0 00000000 000c 000a 0008 2464c4abcf10c957"),
                empty().with_opt().option(BOTH),
            ),
            raw(
                "no question, both cookies",
                &with("00 0029 04d0 00000000 0014 000a 0010 2464c4abcf10c957 0102030405060708"),
                empty().with_opt().option(BOTH),
            ),
            raw(
                "no question, no cookie",
                &with("00 0029 04d0 00000000 0000"),
                formerr().with_opt(),
            ),
            raw(
                "no question, a malformed cookie",
                &with("00 0029 04d0 00000000 0005 000a 0001 24"),
                formerr().with_opt(),
            ),
            raw(
                "no question, no EDNS",
                "1234 0000 0000 0000 0000 0000",
                formerr(),
            ),
        ],
    );
}

/// The cookie holds version 1, three reserved octets, the time and a hash.
#[test]
fn rfc9018_s4_server_cookie_has_the_standard_format() {
    let server = serve_sample();
    let now = || {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs()
    };
    let before = now();
    let reply = server
        .send(
            &query(&format!("global. SOA +cookie={CLIENT}")),
            Transport::Udp,
        )
        .unwrap();
    let cookie = decode(&reply).option(10).unwrap();
    assert_eq!(cookie.len(), 2 * 24);
    assert_eq!(cookie[16..24], *"01000000");
    let time = u64::from_str_radix(&cookie[24..32], 16).unwrap();
    assert!((before..=now()).contains(&time));

    // Another client gets another server cookie.
    let reply = server
        .send(
            &query("global. SOA +cookie=abababababababab"),
            Transport::Udp,
        )
        .unwrap();
    let other = decode(&reply).option(10).unwrap();
    assert_ne!(cookie[32..], other[32..]);
}
