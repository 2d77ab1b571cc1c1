//! RFC 7830: the padding option; RFC 8467: how much of it. Lengths tell who watches what was asked for, so replies over
//! encrypted transports have one of few, for clients that pad.

use support::encrypted::Encrypted;
use support::https::{PATH, get, post};
use support::objects::members;
use support::query::{Packet, query};
use support::reply::Opt;
use support::reply::Reply;
use support::wire::Over;

use crate::cases::decode;
use crate::servers::{encrypted, encrypted_objects};

/// Replies are padded to a multiple of this (RFC 8467 section 4.1).
const BLOCK: usize = 468;
const PADDING: u16 = 12;
/// What asks for padding: the option, empty.
const ASKS: &str = "+ednsopt=12";

/// Questions of every kind, without the option.
const QUESTIONS: [&str; 13] = [
    "db.prod.global. A +edns",
    "db.prod.global. SRV +edns",
    "db.prod.global. SRV +do +nsid",
    "web.shop.global. AAAA +bufsize=512",
    "global. SOA +edns",
    "dns-version.global. TXT +edns",
    "db.prod.global. MX +edns",
    "nope.global. A +edns",
    "nope.global. A +cookie=0102030405060708",
    "www.example. A +edns",
    "global. AXFR +edns",
    "global. OPT +edns",
    "db.prod.global. CH A +edns",
];

/// Asks over each encrypted transport that pads.
fn ask(server: &Encrypted, question: &Packet) -> [(&'static str, Vec<u8>); 3] {
    let tls = support::tls::ask(&mut server.tls(), &question.0).unwrap();
    let by_post = server.http2().send(&post(PATH), &question.0).unwrap();
    let by_get = server.http1().send(&get(PATH, &question.0), &[]).unwrap();
    [
        ("TLS", tls),
        ("POST", by_post.message()),
        ("GET", by_get.message()),
    ]
}

/// The octets of the padding option, if there is one.
fn padding(message: &Reply) -> Option<&[u8]> {
    let options = message.opt.iter().flat_map(|opt| &opt.options);
    let mut padding = options.filter(|(code, _)| *code == PADDING);
    let first = padding.next()?;
    assert!(padding.next().is_none(), "two padding options");
    Some(&first.1)
}

/// A message without its padding, and without what differs from one second to the next.
fn unpadded(mut message: Reply) -> Reply {
    if let Some(Opt { options, .. }) = &mut message.opt {
        options.retain(|(code, _)| *code != PADDING);
        for (_, cookie) in options.iter_mut().filter(|(code, _)| *code == 10) {
            cookie.truncate(8); // the client's half
        }
    }
    message.content()
}

#[test]
fn r8467_s4_1_replies_are_padded_to_blocks_of_468_octets() {
    let server = encrypted(&["--order=stable", "--server-id=replica-1"]);
    for text in QUESTIONS {
        let question = query(&format!("{text} {ASKS}"));
        for (over, reply) in ask(&server, &question) {
            assert!(
                !reply.is_empty() && reply.len().is_multiple_of(BLOCK),
                "{text} over {over}: {} octets",
                reply.len()
            );
        }
    }
}

/// No more than it takes: the padding is always shorter than a block.
#[test]
fn r8467_s4_1_replies_are_padded_to_the_next_block() {
    let server = encrypted_objects(members(&[1, 10, 20, 25, 26, 27, 28, 29, 30, 60, 90]), &[]);
    for count in [1, 10, 20, 25, 26, 27, 28, 29, 30, 60, 90] {
        let name = format!("s{count}.prod.global. A");
        let plain = query(&format!("{name} +edns"));
        let plain = support::tls::ask(&mut server.tls(), &plain.0).unwrap();
        let least = plain.len() + 4; // the option without octets
        for (over, reply) in ask(&server, &query(&format!("{name} {ASKS}"))) {
            let wanted = least.next_multiple_of(BLOCK);
            assert_eq!(reply.len(), wanted, "{count} over {over}");
        }
    }
}

/// RFC 7830 section 3: octets of 0x00.
#[test]
fn r7830_s3_the_padding_is_zeros_and_the_rest_is_the_same() {
    let server = encrypted(&["--order=stable", "--server-id=replica-1"]);
    for text in QUESTIONS {
        let plain = query(text);
        let padded = query(&format!("{text} {ASKS}"));
        for ((over, without), (_, with)) in ask(&server, &plain).iter().zip(ask(&server, &padded)) {
            let (without, with) = (decode(without), decode(&with));
            assert_eq!(padding(&without), None, "{text} over {over}");
            let zeros = padding(&with).unwrap_or_else(|| panic!("{text} over {over}: no padding"));
            assert!(zeros.iter().all(|octet| *octet == 0), "{text}");
            assert_eq!(unpadded(with), unpadded(without), "{text} over {over}");
        }
    }
}

/// RFC 7830 section 3: what a client pads with, and how much, does not matter.
#[test]
fn r7830_s3_any_padding_asks_for_padding() {
    let server = encrypted(&[]);
    for option in [
        ASKS.to_owned(),
        "+ednsopt=12:00".to_owned(),
        "+ednsopt=12:ffff".to_owned(),
        format!("+ednsopt=12:{}", "00".repeat(91)), // to 128 octets
        format!("+ednsopt=12:{}", "5a".repeat(3_000)),
        "+ednsopt=12 +ednsopt=12:00".to_owned(),
        "+nsid +ednsopt=12:00 +ednsopt=65001:00".to_owned(),
    ] {
        for (over, reply) in ask(&server, &query(&format!("db.prod.global. A {option}"))) {
            assert!(reply.len().is_multiple_of(BLOCK), "{option} over {over}");
            assert_eq!(decode(&reply).answers.len(), 4);
        }
    }
}

/// RFC 7830 section 4: who does not pad may not take it.
#[test]
fn r7830_s4_nobody_is_padded_who_does_not_pad() {
    let server = encrypted(&["--server-id=replica-1"]);
    for text in QUESTIONS
        .into_iter()
        .chain(["db.prod.global. A", "nope.global. A"])
    {
        for (over, reply) in ask(&server, &query(text)) {
            assert_eq!(padding(&decode(&reply)), None, "{text} over {over}");
        }
    }
}

/// RFC 7830 section 6: it hides nothing where all can be read.
#[test]
fn r7830_s6_nothing_is_padded_in_cleartext() {
    let server = encrypted(&["--server-id=replica-1"]);
    for text in QUESTIONS {
        let question = query(&format!("{text} {ASKS}"));
        for over in [Over::Udp, Over::Tcp] {
            let reply = server.server.send(&question, over).unwrap();
            assert_eq!(padding(&decode(&reply)), None, "{text} over {over:?}");
        }
    }
}

/// Padding never makes a message longer than one can be, and never costs a record that fits with the option.
#[test]
fn r7830_s4_a_long_reply_is_padded_as_far_as_messages_go() {
    const LONGEST: usize = 65_535;
    // Replies of about 140 blocks, which is the most that a message holds.
    let counts = [
        4_060, 4_085, 4_088, 4_089, 4_090, 4_091, 4_092, 4_093, 4_094,
    ];
    let server = encrypted_objects(members(&counts), &["--order=stable"]);
    let (mut whole, mut others) = (0, 0);
    for count in counts {
        let name = format!("s{count}.prod.global. A");
        let plain = query(&format!("{name} +edns"));
        let plain = support::tls::ask(&mut server.tls(), &plain.0).unwrap();
        let least = plain.len() + 4;
        let plain = decode(&plain).answers;
        for (over, reply) in ask(&server, &query(&format!("{name} {ASKS}"))) {
            let (length, answer) = (reply.len(), decode(&reply).answers);
            assert!(length <= LONGEST, "{count} over {over}");
            match least.next_multiple_of(BLOCK) {
                blocks if blocks <= LONGEST => {
                    whole += 1;
                    assert_eq!(length, blocks, "{count} over {over}");
                }
                _ => others += 1,
            }
            match least <= LONGEST {
                true => assert_eq!(answer, plain, "{count} over {over}"),
                false => assert!(plain.starts_with(&answer), "{count} over {over}"),
            }
        }
    }
    assert!(whole > 0 && others > 0, "{whole} and {others}");
}
