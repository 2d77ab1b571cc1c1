//! RFC 7828: edns-tcp-keepalive.

use support::https::{PATH, get, post};
use support::query::query;
use support::tls::ask;

use crate::cases::{answer, case, check, decode, nxdomain, refused};
use crate::servers::{encrypted, sample};

const WEST: &str = "west.db.prod.global. 5 IN A 10.96.20.1";
/// 30 seconds, in units of 100 milliseconds (section 3.1).
const HALF_A_MINUTE: &str = "KEEPALIVE 300";

#[test]
fn s3_2_the_timeout_is_told_over_tcp_and_never_over_udp() {
    check(
        &sample(),
        &[
            case(
                "asked",
                "west.db.prod.global. A +keepalive",
                answer(WEST).option_over_tcp(HALF_A_MINUTE),
            ),
            case("not asked", "west.db.prod.global. A +edns", answer(WEST)),
            case("no EDNS", "west.db.prod.global. A", answer(WEST)),
            case(
                "asked, no such name",
                "nope.global. A +keepalive",
                nxdomain().option_over_tcp(HALF_A_MINUTE),
            ),
            case(
                "asked, not ours",
                "www.example. A +keepalive",
                refused().option("EDE 20").option_over_tcp(HALF_A_MINUTE),
            ),
        ],
    );
}

/// A connection of TLS carries DNS itself; how long one of HTTP or QUIC lasts is their own matter.
#[test]
fn s3_2_the_timeout_is_told_over_tls_and_not_over_https() {
    let server = encrypted(&[]);
    for (text, has_answer) in [
        ("west.db.prod.global. A", true),
        ("nope.global. A", false),
        ("www.example. A", false),
    ] {
        let question = query(&format!("{text} +keepalive"));
        let told = |reply: &[u8]| {
            let reply = decode(reply);
            assert_eq!(!reply.answers.is_empty(), has_answer, "{text}");
            assert!(reply.opt.is_some(), "{text}");
            reply.option(11)
        };
        let tls = ask(&mut server.tls(), &question.0).unwrap();
        assert_eq!(told(&tls), Some("012c".to_owned()), "{text}");
        let by_post = server.http2().send(&post(PATH), &question.0).unwrap();
        assert_eq!(told(&by_post.message()), None, "{text}");
        let by_get = server.http1().send(&get(PATH, &question.0), &[]).unwrap();
        assert_eq!(told(&by_get.message()), None, "{text}");
        let plain = ask(&mut server.tls(), &query(&format!("{text} +edns")).0);
        assert_eq!(told(&plain.unwrap()), None, "{text}");
    }
}
