//! RFC 6891 (EDNS) and RFC 3225 (the DO bit); RFC 9715 on sizes.

use support::objects::members;
use support::query::query;
use support::wire::Over;

use crate::cases::{
    SOA, answer, badvers, case, check, decode, formerr, nodata, notimp, nxdomain, raw, refused,
};
use crate::servers::{sample, serve, serve_objects};

const WEST: &str = "west.db.prod.global. 5 IN A 10.96.20.1";

#[test]
fn rfc3225_s3_do_is_copied() {
    check(
        &sample(),
        &[
            case("set", "west.db.prod.global. A +do", answer(WEST)),
            case("clear", "west.db.prod.global. A +edns", answer(WEST)),
            case("set, no such name", "nope.global. A +do", nxdomain()),
            case(
                "set, and the zone is not signed",
                "global. DNSKEY +do",
                nodata(),
            ),
            case(
                "set, not ours",
                "www.example. A +do",
                refused().option("EDE 20"),
            ),
            case(
                "set, a version that nobody knows",
                "global. SOA +do +edns=1",
                badvers(),
            ),
        ],
    );
}

#[test]
fn rfc6891_s6_1_1_opt_answers_opt_and_nothing_else_does() {
    check(
        &sample(),
        &[
            case("data with", "west.db.prod.global. A +edns", answer(WEST)),
            case("data without", "west.db.prod.global. A", answer(WEST)),
            case("NODATA with", "db.prod.global. AAAA +edns", nodata()),
            case("NODATA without", "db.prod.global. AAAA", nodata()),
            case("NXDOMAIN with", "nope.global. A +edns", nxdomain()),
            case(
                "REFUSED with",
                "www.example. A +edns",
                refused().option("EDE 20"),
            ),
            case("REFUSED without", "www.example. A", refused()),
            case("NOTIMP with, a query type", "global. MAILB +edns", notimp()),
            case("NOTIMP without, a query type", "global. MAILB", notimp()),
            case(
                "NOTIMP with, an opcode",
                "global. SOA +opcode=2 +edns",
                notimp(),
            ),
            case(
                "NOTIMP without, an opcode",
                "global. SOA +opcode=2",
                notimp(),
            ),
            case("FORMERR with", "global. SOA +cookie=00", formerr()),
        ],
    );
}

#[test]
fn rfc6891_s6_1_1_there_is_one_opt_record() {
    const OPT: &str = "00 0029 04d0 00000000 0000";
    const TSIG: &str =
        "<key.> 00fa 00ff 00000000 001a 08'hmac-md5'00 000000000000 012c 0000 1234 0000 0000";
    let with = |count: &str, rest: &str| {
        format!("1234 0000 0001 0000 0000 {count} <global.> 0006 0001 | {rest}")
    };
    check(
        &sample(),
        &[
            raw("one", &with("0001", OPT), answer(SOA).echoing().with_opt()),
            raw(
                "two",
                &with("0002", &[OPT; 2].join(" ")),
                formerr().echoing().with_opt(),
            ),
            raw(
                "one, and a signature behind it",
                &with("0002", &format!("{OPT} {TSIG}")),
                answer(SOA).echoing().with_opt(),
            ),
            raw(
                "another record before it",
                &with(
                    "0002",
                    &format!("<a.> 0001 0001 00000005 0004 c0000201 {OPT}"),
                ),
                answer(SOA).echoing().with_opt(),
            ),
            raw(
                "promised, but not there",
                &with("0001", ""),
                formerr().echoing(),
            ),
        ],
    );
}

#[test]
fn rfc6891_s6_1_2_the_wire_format() {
    let with = |rest: &str| format!("1234 0000 0001 0000 0000 0001 <global.> 0006 0001 | {rest}");
    check(
        &sample(),
        &[
            raw(
                "well-formed",
                &with("00 0029 04d0 00000000 0000"),
                answer(SOA).echoing().with_opt(),
            ),
            raw(
                "its name is not the root",
                &with("<a.> 0029 04d0 00000000 0000"),
                formerr().echoing().with_opt(),
            ),
            raw(
                "an option that fills it",
                &with("00 0029 04d0 00000000 0006 ffff 0002 abcd"),
                answer(SOA).echoing().with_opt(),
            ),
            raw(
                "an option that is longer than it",
                &with("00 0029 04d0 00000000 0006 ffff 0003 abcd"),
                formerr().echoing().with_opt(),
            ),
            raw(
                "half an option",
                &with("00 0029 04d0 00000000 0003 ffff 00"),
                formerr().echoing().with_opt(),
            ),
            raw(
                "it is longer than the message",
                &with("00 0029 04d0 00000000 0006 ffff 0002 ab"),
                formerr().echoing(),
            ),
        ],
    );
}

#[test]
fn rfc6891_s6_1_2_unknown_options_are_ignored() {
    check(
        &sample(),
        &[
            case(
                "an unknown option",
                "west.db.prod.global. A +ednsopt=65001:abcd",
                answer(WEST),
            ),
            case(
                "an empty one",
                "west.db.prod.global. A +ednsopt=100",
                answer(WEST),
            ),
            case(
                "client subnet, which is not echoed (RFC 7871)",
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
fn rfc6891_s6_1_3_versions() {
    check(
        &sample(),
        &[
            case("version 0", "global. SOA +edns", answer(SOA)),
            case("version 1", "global. SOA +edns=1", badvers()),
            case("version 255", "global. SOA +edns=255", badvers()),
            case(
                "version 1, no such name",
                "nope.global. A +edns=1",
                badvers(),
            ),
            case("version 1, not ours", "www.example. A +edns=1", badvers()),
            case(
                "version 255, not ours, with DO",
                "www.example. A +edns=255 +do",
                badvers(),
            ),
        ],
    );
}

#[test]
fn rfc6891_s6_1_4_unknown_flags_are_ignored_and_not_copied() {
    check(
        &sample(),
        &[
            case("one of them", "global. SOA +ednsflags=0x0040", answer(SOA)),
            case("all of them", "global. SOA +ednsflags=0x7fff", answer(SOA)),
            case(
                "all of them and DO",
                "global. SOA +ednsflags=0xffff +do",
                answer(SOA),
            ),
        ],
    );
}

/// 11 octets for OPT, 12 for the header, 21 or 22 for the question, 16 for each address.
#[test]
fn rfc6891_s6_2_the_size_that_the_client_takes() {
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
    let cut = |count, fits| answer(&all(count)).truncated_to(fits);
    check(
        &server,
        &[
            case(
                "as much as 512 hold",
                "s29.prod.global. A +bufsize=512",
                answer(&all(29)),
            ),
            case("one more", "s30.prod.global. A +bufsize=512", cut(30, 29)),
            case(
                "less than 512 counts as 512 (section 6.2.3)",
                "s29.prod.global. A +bufsize=511",
                answer(&all(29)),
            ),
            case(
                "so does nothing",
                "s30.prod.global. A +bufsize=0",
                cut(30, 29),
            ),
            case(
                "as much as 1232 hold",
                "s74.prod.global. A +bufsize=1232",
                answer(&all(74)),
            ),
            case(
                "one more than 1232 hold",
                "s75.prod.global. A +bufsize=1232",
                cut(75, 74),
            ),
            case(
                "more than we send (RFC 9715 section 3.1)",
                "s75.prod.global. A +bufsize=4096",
                cut(75, 74),
            ),
            case(
                "much more",
                "s300.prod.global. A +bufsize=65535",
                cut(300, 74),
            ),
            case(
                "between the two",
                "s74.prod.global. A +bufsize=1227",
                cut(74, 73),
            ),
            case("without EDNS", "s30.prod.global. A", cut(30, 29)),
        ],
    );
}

#[test]
fn rfc6891_s6_2_4_we_take_what_we_say() {
    check(
        &serve(&["--udp-max", "4096"]),
        &[
            case(
                "as configured",
                "west.db.prod.global. A +bufsize=512",
                answer(WEST).payload(4096),
            ),
            case(
                "without EDNS nothing is said",
                "west.db.prod.global. A",
                answer(WEST),
            ),
        ],
    );
}

/// With every option that there is.
#[test]
fn rfc6891_s7_a_truncated_reply_keeps_its_opt_record() {
    let server = serve_objects(members(&[300]), &["--server-id", "conformance-0"]);
    const OPTIONS: &str = "+do +nsid +cookie=2464c4abcf10c957 +keepalive";
    for rtype in ["A", "SRV"] {
        for size in [512, 1232, 4096] {
            let question = query(&format!(
                "s300.prod.global. {rtype} +bufsize={size} {OPTIONS}"
            ));
            let reply = server.send(&question, Over::Udp).unwrap();
            let message = decode(&reply);
            assert!(reply[2] & 0x02 != 0, "TC");
            assert!(reply.len() <= size.min(1232));
            assert!(!message.answers.is_empty());
            let opt = message.opt.unwrap();
            assert_eq!((opt.flags, opt.options.len()), (0x8000, 2));
        }
    }
}
