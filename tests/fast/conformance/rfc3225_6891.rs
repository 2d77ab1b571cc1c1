//! RFC 6891 (EDNS) and RFC 3225 (the DO bit); RFC 9715 (message sizes).

use support::objects::members;
use support::query::query;
use support::wire::Transport;

use crate::conformance::cases::{
    answer, badvers, check, decode, formerr, nodata, notimp, nxdomain, refused, soa, west,
};
use crate::conformance::servers::{serve, serve_objects, serve_sample};

#[test]
fn rfc3225_s3_do_bit_is_copied() {
    check(
        &serve_sample(),
        &[
            ("west.db.prod.global. A +do", west()),
            ("west.db.prod.global. A +edns", west()),
            ("nope.global. A +do", nxdomain()),
            // Set, unsigned zone.
            ("global. DNSKEY +do", nodata()),
            ("www.example. A +do", refused().option("EDE 20")),
            // Set, unknown version.
            ("global. SOA +do +edns=1", badvers()),
        ],
    );
}

#[test]
fn rfc6891_s6_1_1_reply_has_opt_only_if_the_query_has_opt() {
    check(
        &serve_sample(),
        &[
            ("west.db.prod.global. A +edns", west()),
            // Data without EDNS.
            ("west.db.prod.global. A", west()),
            ("db.prod.global. AAAA +edns", nodata()),
            // NODATA without EDNS.
            ("db.prod.global. AAAA", nodata()),
            ("nope.global. A +edns", nxdomain()),
            ("www.example. A +edns", refused().option("EDE 20")),
            // REFUSED without EDNS.
            ("www.example. A", refused()),
            ("global. MAILB +edns", notimp()),
            // NOTIMP for a query type, without EDNS.
            ("global. MAILB", notimp()),
            // NOTIMP for an opcode, with EDNS.
            ("global. SOA +opcode=2 +edns", notimp()),
            // NOTIMP for an opcode, without EDNS.
            ("global. SOA +opcode=2", notimp()),
        ],
    );
}

#[test]
fn rfc6891_s6_1_1_more_than_one_opt_record_gets_formerr() {
    const OPT: &str = "00 0029 04d0 00000000 0000";
    const TSIG: &str =
        "<key.> 00fa 00ff 00000000 001a 08'hmac-md5'00 000000000000 012c 0000 1234 0000 0000";
    let with = |count: &str, rest: &str| {
        format!("1234 0000 0001 0000 0000 {count} <global.> 0006 0001 | {rest}")
    };
    check(
        &serve_sample(),
        &[
            // One.
            (&with("0001", OPT), soa().with_question().with_opt()),
            // Two.
            (
                &with("0002", &[OPT; 2].join(" ")),
                formerr().with_question().with_opt(),
            ),
            // One, followed by a TSIG record.
            (
                &with("0002", &format!("{OPT} {TSIG}")),
                soa().with_question().with_opt(),
            ),
            // One, after another record.
            (
                &with(
                    "0002",
                    &format!("<a.> 0001 0001 00000005 0004 c0000201 {OPT}"),
                ),
                soa().with_question().with_opt(),
            ),
            // Counted, but missing.
            (&with("0001", ""), formerr().with_question()),
        ],
    );
}

#[test]
fn rfc6891_s6_1_2_malformed_opt_record_gets_formerr() {
    let with = |rest: &str| format!("1234 0000 0001 0000 0000 0001 <global.> 0006 0001 | {rest}");
    check(
        &serve_sample(),
        &[
            // Well-formed.
            (
                &with("00 0029 04d0 00000000 0000"),
                soa().with_question().with_opt(),
            ),
            // Owner name other than the root.
            (
                &with("<a.> 0029 04d0 00000000 0000"),
                formerr().with_question().with_opt(),
            ),
            // An option that fills the record.
            (
                &with("00 0029 04d0 00000000 0006 ffff 0002 abcd"),
                soa().with_question().with_opt(),
            ),
            // An option longer than the record.
            (
                &with("00 0029 04d0 00000000 0006 ffff 0003 abcd"),
                formerr().with_question().with_opt(),
            ),
            // An incomplete option.
            (
                &with("00 0029 04d0 00000000 0003 ffff 00"),
                formerr().with_question().with_opt(),
            ),
            // A record longer than the message.
            (
                &with("00 0029 04d0 00000000 0006 ffff 0002 ab"),
                formerr().with_question(),
            ),
        ],
    );
}

#[test]
fn rfc6891_s6_1_2_unknown_options_are_ignored() {
    check(
        &serve_sample(),
        &[
            ("west.db.prod.global. A +ednsopt=65001:abcd", west()),
            ("west.db.prod.global. A +ednsopt=100", west()),
            // Client subnet, not echoed (RFC 7871).
            ("west.db.prod.global. A +ednsopt=8:00011800c00002", west()),
            // Padding (RFC 7830).
            ("west.db.prod.global. A +ednsopt=12:00000000", west()),
            // EXPIRE (RFC 7314).
            ("global. SOA +ednsopt=9", soa()),
            // An extended error in a query (RFC 8914).
            ("west.db.prod.global. A +ednsopt=15:0014", west()),
        ],
    );
}

#[test]
fn rfc6891_s6_1_3_versions_above_0_get_badvers() {
    check(
        &serve_sample(),
        &[
            ("global. SOA +edns", soa()),
            ("global. SOA +edns=1", badvers()),
            ("global. SOA +edns=255", badvers()),
            // Version 1, nonexistent name.
            ("nope.global. A +edns=1", badvers()),
            ("www.example. A +edns=1", badvers()),
            ("www.example. A +edns=255 +do", badvers()),
        ],
    );
}

#[test]
fn rfc6891_s6_1_4_unknown_flags_are_ignored_and_not_copied() {
    check(
        &serve_sample(),
        &[
            ("global. SOA +ednsflags=0x0040", soa()),
            ("global. SOA +ednsflags=0x7fff", soa()),
            ("global. SOA +ednsflags=0xffff +do", soa()),
        ],
    );
}

/// OPT has 11 octets, the header 12, the question 21 or 22, each address 16.
#[test]
fn rfc6891_s6_2_udp_replies_fit_the_payload_size_of_the_client() {
    let all = |count: usize| {
        let line = |n| {
            format!(
                "s{count}.prod.global. 5 IN A 10.96.{}.{}\n",
                n / 250,
                n % 250
            )
        };
        (1..=count).map(line).collect::<String>()
    };
    let server = serve_objects(members(&[29, 30, 74, 75, 300]), &[]);
    let truncated = |count, fits| answer(&all(count)).truncated_to(fits);
    check(
        &server,
        &[
            // 512, at the limit.
            ("s29.prod.global. A +bufsize=512", answer(&all(29))),
            // 512, one record above the limit.
            ("s30.prod.global. A +bufsize=512", truncated(30, 29)),
            // 511 counts as 512 (section 6.2.3).
            ("s29.prod.global. A +bufsize=511", answer(&all(29))),
            // 0 counts as 512.
            ("s30.prod.global. A +bufsize=0", truncated(30, 29)),
            // 1232, at the limit.
            ("s74.prod.global. A +bufsize=1232", answer(&all(74))),
            // 1232, one record above the limit.
            ("s75.prod.global. A +bufsize=1232", truncated(75, 74)),
            // 4096: the server sends 1232 at most (RFC 9715 section 3.1).
            ("s75.prod.global. A +bufsize=4096", truncated(75, 74)),
            ("s300.prod.global. A +bufsize=65535", truncated(300, 74)),
            // 1227, one record above the limit.
            ("s74.prod.global. A +bufsize=1227", truncated(74, 73)),
            ("s30.prod.global. A", truncated(30, 29)),
        ],
    );
}

#[test]
fn rfc6891_s6_2_4_payload_size_is_the_value_of_the_flag() {
    check(
        &serve(&["answers.udpMax=4096"]),
        &[
            ("west.db.prod.global. A +bufsize=512", west().payload(4096)),
            ("west.db.prod.global. A", west()),
        ],
    );
}

/// The query has every supported option.
#[test]
fn rfc6891_s7_a_truncated_reply_keeps_its_opt_record() {
    let server = serve_objects(members(&[300]), &["answers.serverId=conformance-0"]);
    const OPTIONS: &str = "+do +nsid +keepalive";
    for rtype in ["A", "SRV"] {
        for size in [512, 1232, 4096] {
            let question = query(&format!(
                "s300.prod.global. {rtype} +bufsize={size} {OPTIONS}"
            ));
            let reply = server.send(&question, Transport::Udp).unwrap();
            let message = decode(&reply);
            assert!(reply[2] & 0x02 != 0, "TC must be set");
            assert!(reply.len() <= size.min(1232));
            assert!(!message.answers.is_empty());
            let opt = message.opt.unwrap();
            assert_eq!((opt.flags, opt.options.len()), (0x8000, 1));
        }
    }
}
