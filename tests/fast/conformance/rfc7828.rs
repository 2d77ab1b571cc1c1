//! RFC 7828: edns-tcp-keepalive.

use support::query::query;
use support::tls::ask;

use crate::conformance::cases::{check, decode, nxdomain, refused, west};
use crate::conformance::servers::{serve_encrypted, serve_sample};

/// 30 seconds, in units of 100 milliseconds (section 3.1).
const KEEPALIVE_30_S: &str = "KEEPALIVE 300";

#[test]
fn s3_2_keepalive_is_sent_over_tcp_only() {
    check(
        &serve_sample(),
        &[
            (
                "west.db.prod.global. A +keepalive",
                west().option_over_tcp(KEEPALIVE_30_S),
            ),
            ("west.db.prod.global. A +edns", west()),
            ("west.db.prod.global. A", west()),
            // Requested, nonexistent name.
            (
                "nope.global. A +keepalive",
                nxdomain().option_over_tcp(KEEPALIVE_30_S),
            ),
            (
                "www.example. A +keepalive",
                refused().option("EDE 20").option_over_tcp(KEEPALIVE_30_S),
            ),
        ],
    );
}

/// DNS runs directly over a TLS connection. QUIC has a timeout of its own.
#[test]
fn s3_2_keepalive_is_sent_over_tls() {
    let server = serve_encrypted(&[]);
    for (text, has_answer) in [
        ("west.db.prod.global. A", true),
        ("nope.global. A", false),
        ("www.example. A", false),
    ] {
        let question = query(&format!("{text} +keepalive"));
        let timeout = |reply: &[u8]| {
            let reply = decode(reply);
            assert_eq!(!reply.answers.is_empty(), has_answer, "{text}");
            assert!(reply.opt.is_some(), "{text}");
            reply.option(11)
        };
        let tls = ask(&mut server.tls(), &question.0).unwrap();
        assert_eq!(timeout(&tls), Some("012c".to_owned()), "{text}");
        let plain = ask(&mut server.tls(), &query(&format!("{text} +edns")).0);
        assert_eq!(timeout(&plain.unwrap()), None, "{text}");
    }
}
