//! RFC 7873 and RFC 9018: cookies are answered and never enforced.

use std::time::SystemTime;

use support::query::query;
use support::wire::Over;

use crate::cases::{answer, badvers, case, check, decode, empty, formerr, nxdomain, raw, refused};
use crate::servers::sample;

const WEST: &str = "west.db.prod.global. 5 IN A 10.96.20.1";
/// The client's half of a cookie, and what comes back: it, and a server cookie of 16 octets (RFC 9018 section 4).
const CLIENT: &str = "2464c4abcf10c957";
const BOTH: &str = "COOKIE 2464c4abcf10c957 and 16 octets";

#[test]
fn rfc7873_s5_2_1_without_a_cookie_there_is_none() {
    check(
        &sample(),
        &[
            case("with EDNS", "west.db.prod.global. A +edns", answer(WEST)),
            case("without EDNS", "west.db.prod.global. A", answer(WEST)),
            case(
                "with one",
                &format!("west.db.prod.global. A +cookie={CLIENT}"),
                answer(WEST).option(BOTH),
            ),
        ],
    );
}

/// A client cookie has 8 octets, a server cookie 8 to 32.
#[test]
fn rfc7873_s5_2_2_a_malformed_cookie_is_a_format_error() {
    let of = |length: usize| format!("west.db.prod.global. A +cookie={}", "ab".repeat(length));
    let good = || answer(WEST).option("COOKIE abababababababab and 16 octets");
    check(
        &sample(),
        &[
            case("no octet", "west.db.prod.global. A +ednsopt=10", formerr()),
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
fn rfc7873_s5_2_3_a_client_cookie_gets_a_server_cookie_whatever_the_answer() {
    let with = |question: &str| format!("{question} +cookie={CLIENT}");
    check(
        &sample(),
        &[
            case(
                "data",
                &with("west.db.prod.global. A"),
                answer(WEST).option(BOTH),
            ),
            case(
                "no such name",
                &with("nope.global. A"),
                nxdomain().option(BOTH),
            ),
            case(
                "not ours",
                &with("www.example. A"),
                refused().option(BOTH).option("EDE 20"),
            ),
            case(
                "a version that nobody knows, whose options nobody can read (as BIND has it)",
                &with("global. SOA +edns=1"),
                badvers(),
            ),
        ],
    );
}

/// CoreDNS forwards its clients' cookies under its own address, so a wrong one says nothing about the client.
#[test]
fn rfc7873_s5_2_4_a_wrong_server_cookie_counts_as_none() {
    let with = |server: &str| format!("west.db.prod.global. A +cookie={CLIENT}{server}");
    check(
        &sample(),
        &[
            case(
                "invented",
                &with("0102030405060708"),
                answer(WEST).option(BOTH),
            ),
            case(
                "of our form, with another hash",
                &with("010000005cf79f110000000000000000"),
                answer(WEST).option(BOTH),
            ),
            case(
                "of a version to come",
                &with("02000000000000000000000000000000"),
                answer(WEST).option(BOTH),
            ),
        ],
    );
}

#[test]
fn rfc7873_s5_2_only_the_first_cookie_counts() {
    const OTHER: &str = "abababababababab";
    check(
        &sample(),
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
fn rfc7873_s5_2_5_the_right_server_cookie_gets_an_answer() {
    let server = sample();
    for over in [Over::Udp, Over::Tcp] {
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
fn rfc7873_s5_4_a_cookie_alone_may_be_asked_for() {
    let with = |opt: &str| format!("1234 0000 0000 0000 0000 0001 | {opt}");
    check(
        &sample(),
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

/// Version 1, three reserved octets, the time, a hash.
#[test]
fn rfc9018_s4_the_form_of_a_server_cookie() {
    let server = sample();
    let now = || {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs()
    };
    let before = now();
    let reply = server
        .send(&query(&format!("global. SOA +cookie={CLIENT}")), Over::Udp)
        .unwrap();
    let cookie = decode(&reply).option(10).unwrap();
    assert_eq!(cookie.len(), 2 * 24);
    assert_eq!(cookie[16..24], *"01000000");
    let time = u64::from_str_radix(&cookie[24..32], 16).unwrap();
    assert!((before..=now()).contains(&time));

    // Another client has another one.
    let reply = server
        .send(&query("global. SOA +cookie=abababababababab"), Over::Udp)
        .unwrap();
    let other = decode(&reply).option(10).unwrap();
    assert_ne!(cookie[32..], other[32..]);
}
