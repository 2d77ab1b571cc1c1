//! RFC 6891 (EDNS) and RFC 3225 (the DO bit); RFC 9715 (message sizes).

use support::objects::members;
use support::query::query;
use support::wire::Transport;

use crate::conformance::cases::{
    SOA, answer, badvers, case, check, decode, formerr, nodata, notimp, nxdomain, raw, refused,
};
use crate::conformance::servers::{serve, serve_objects, serve_sample};

const WEST: &str = "west.db.prod.global. 5 IN A 10.96.20.1";

#[test]
fn rfc3225_s3_do_bit_is_copied() {
    check(
        &serve_sample(),
        &[
            case("set", "west.db.prod.global. A +do", answer(WEST)),
            case("clear", "west.db.prod.global. A +edns", answer(WEST)),
            case("set, NXDOMAIN", "nope.global. A +do", nxdomain()),
            case("set, unsigned zone", "global. DNSKEY +do", nodata()),
            case(
                "set, name outside the zone",
                "www.example. A +do",
                refused().option("EDE 20"),
            ),
            case("set, unknown version", "global. SOA +do +edns=1", badvers()),
        ],
    );
}

#[test]
fn rfc6891_s6_1_1_reply_has_opt_only_if_the_query_has_opt() {
    check(
        &serve_sample(),
        &[
            case(
                "data with EDNS",
                "west.db.prod.global. A +edns",
                answer(WEST),
            ),
            case("data without EDNS", "west.db.prod.global. A", answer(WEST)),
            case("NODATA with EDNS", "db.prod.global. AAAA +edns", nodata()),
            case("NODATA without EDNS", "db.prod.global. AAAA", nodata()),
            case("NXDOMAIN with EDNS", "nope.global. A +edns", nxdomain()),
            case(
                "REFUSED with EDNS",
                "www.example. A +edns",
                refused().option("EDE 20"),
            ),
            case("REFUSED without EDNS", "www.example. A", refused()),
            case(
                "NOTIMP for a query type, with EDNS",
                "global. MAILB +edns",
                notimp(),
            ),
            case(
                "NOTIMP for a query type, without EDNS",
                "global. MAILB",
                notimp(),
            ),
            case(
                "NOTIMP for an opcode, with EDNS",
                "global. SOA +opcode=2 +edns",
                notimp(),
            ),
            case(
                "NOTIMP for an opcode, without EDNS",
                "global. SOA +opcode=2",
                notimp(),
            ),
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
            raw(
                "one",
                &with("0001", OPT),
                answer(SOA).with_question().with_opt(),
            ),
            raw(
                "two",
                &with("0002", &[OPT; 2].join(" ")),
                formerr().with_question().with_opt(),
            ),
            raw(
                "one, followed by a TSIG record",
                &with("0002", &format!("{OPT} {TSIG}")),
                answer(SOA).with_question().with_opt(),
            ),
            raw(
                "one, after another record",
                &with(
                    "0002",
                    &format!("<a.> 0001 0001 00000005 0004 c0000201 {OPT}"),
                ),
                answer(SOA).with_question().with_opt(),
            ),
            raw(
                "counted, but missing",
                &with("0001", ""),
                formerr().with_question(),
            ),
        ],
    );
}

#[test]
fn rfc6891_s6_1_2_malformed_opt_record_gets_formerr() {
    let with = |rest: &str| format!("1234 0000 0001 0000 0000 0001 <global.> 0006 0001 | {rest}");
    check(
        &serve_sample(),
        &[
            raw(
                "well-formed",
                &with("00 0029 04d0 00000000 0000"),
                answer(SOA).with_question().with_opt(),
            ),
            raw(
                "owner name other than the root",
                &with("<a.> 0029 04d0 00000000 0000"),
                formerr().with_question().with_opt(),
            ),
            raw(
                "an option that fills the record",
                &with("00 0029 04d0 00000000 0006 ffff 0002 abcd"),
                answer(SOA).with_question().with_opt(),
            ),
            raw(
                "an option longer than the record",
                &with("00 0029 04d0 00000000 0006 ffff 0003 abcd"),
                formerr().with_question().with_opt(),
            ),
            raw(
                "an incomplete option",
                &with("00 0029 04d0 00000000 0003 ffff 00"),
                formerr().with_question().with_opt(),
            ),
            raw(
                "a record longer than the message",
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
            case(
                "an unknown option",
                "west.db.prod.global. A +ednsopt=65001:abcd",
                answer(WEST),
            ),
            case(
                "an empty option",
                "west.db.prod.global. A +ednsopt=100",
                answer(WEST),
            ),
            case(
                "client subnet, not echoed (RFC 7871)",
                "west.db.prod.global. A +ednsopt=8:00011800c00002",
                answer(WEST),
            ),
            case(
                "padding (RFC 7830)",
                "west.db.prod.global. A +ednsopt=12:00000000",
                answer(WEST),
            ),
            case("EXPIRE (RFC 7314)", "global. SOA +ednsopt=9", answer(SOA)),
            case(
                "an extended error in a query (RFC 8914)",
                "west.db.prod.global. A +ednsopt=15:0014",
                answer(WEST),
            ),
        ],
    );
}

#[test]
fn rfc6891_s6_1_3_versions_above_0_get_badvers() {
    check(
        &serve_sample(),
        &[
            case("version 0", "global. SOA +edns", answer(SOA)),
            case("version 1", "global. SOA +edns=1", badvers()),
            case("version 255", "global. SOA +edns=255", badvers()),
            case(
                "version 1, nonexistent name",
                "nope.global. A +edns=1",
                badvers(),
            ),
            case(
                "version 1, name outside the zone",
                "www.example. A +edns=1",
                badvers(),
            ),
            case(
                "version 255, name outside the zone, with DO",
                "www.example. A +edns=255 +do",
                badvers(),
            ),
        ],
    );
}

#[test]
fn rfc6891_s6_1_4_unknown_flags_are_ignored_and_not_copied() {
    check(
        &serve_sample(),
        &[
            case(
                "one unknown flag",
                "global. SOA +ednsflags=0x0040",
                answer(SOA),
            ),
            case(
                "all unknown flags",
                "global. SOA +ednsflags=0x7fff",
                answer(SOA),
            ),
            case(
                "all unknown flags and DO",
                "global. SOA +ednsflags=0xffff +do",
                answer(SOA),
            ),
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
            case(
                "512, at the limit",
                "s29.prod.global. A +bufsize=512",
                answer(&all(29)),
            ),
            case(
                "512, one record above the limit",
                "s30.prod.global. A +bufsize=512",
                truncated(30, 29),
            ),
            case(
                "511 counts as 512 (section 6.2.3)",
                "s29.prod.global. A +bufsize=511",
                answer(&all(29)),
            ),
            case(
                "0 counts as 512",
                "s30.prod.global. A +bufsize=0",
                truncated(30, 29),
            ),
            case(
                "1232, at the limit",
                "s74.prod.global. A +bufsize=1232",
                answer(&all(74)),
            ),
            case(
                "1232, one record above the limit",
                "s75.prod.global. A +bufsize=1232",
                truncated(75, 74),
            ),
            case(
                "4096: the server sends 1232 at most (RFC 9715 section 3.1)",
                "s75.prod.global. A +bufsize=4096",
                truncated(75, 74),
            ),
            case(
                "65535",
                "s300.prod.global. A +bufsize=65535",
                truncated(300, 74),
            ),
            case(
                "1227, one record above the limit",
                "s74.prod.global. A +bufsize=1227",
                truncated(74, 73),
            ),
            case("without EDNS", "s30.prod.global. A", truncated(30, 29)),
        ],
    );
}

#[test]
fn rfc6891_s6_2_4_payload_size_is_the_value_of_the_flag() {
    check(
        &serve(&["answers.udpMax=4096"]),
        &[
            case(
                "with EDNS",
                "west.db.prod.global. A +bufsize=512",
                answer(WEST).payload(4096),
            ),
            case("without EDNS", "west.db.prod.global. A", answer(WEST)),
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
