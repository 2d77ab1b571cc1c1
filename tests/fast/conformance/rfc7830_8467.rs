//! RFC 7830 (the padding option) and RFC 8467 (padding policy). The length of an encrypted message can reveal the
//! query. If a client pads, replies over encrypted transports are padded to a few lengths.

use support::encrypted::EncryptedServer;
use support::objects::members;
use support::query::{Packet, query};
use support::reply::Opt;
use support::reply::Reply;
use support::wire::Transport;

use crate::conformance::cases::decode;
use crate::conformance::servers::{serve_encrypted, serve_encrypted_objects};

/// Replies are padded to a multiple of this (RFC 8467 section 4.1).
const BLOCK: usize = 468;
const PADDING: u16 = 12;
/// The mark of a query that requests padding: an empty option.
const REQUEST: &str = "+ednsopt=12";

/// Queries of every kind, without the option.
const QUESTIONS: [&str; 12] = [
    "db.prod.global. A +edns",
    "db.prod.global. SRV +edns",
    "db.prod.global. SRV +do +nsid",
    "web.shop.global. AAAA +bufsize=512",
    "global. SOA +edns",
    "dns-version.global. TXT +edns",
    "db.prod.global. MX +edns",
    "nope.global. A +edns",
    "www.example. A +edns",
    "global. AXFR +edns",
    "global. OPT +edns",
    "db.prod.global. CH A +edns",
];

/// Sends a query over TLS, the transport that pads.
fn send(server: &EncryptedServer, question: &Packet) -> Vec<u8> {
    support::tls::ask(&mut server.tls(), &question.0).unwrap()
}

/// Returns the octets of the padding option, if there is one.
fn padding(message: &Reply) -> Option<&[u8]> {
    let options = message.opt.iter().flat_map(|opt| &opt.options);
    let mut padding = options.filter(|(code, _)| *code == PADDING);
    let first = padding.next()?;
    assert!(padding.next().is_none(), "two padding options");
    Some(&first.1)
}

/// Returns a message without its padding.
fn unpadded(mut message: Reply) -> Reply {
    if let Some(Opt { options, .. }) = &mut message.opt {
        options.retain(|(code, _)| *code != PADDING);
    }
    message.content()
}

/// The padding is always shorter than a block.
#[test]
fn r8467_s4_1_replies_are_padded_to_the_next_block() {
    let server =
        serve_encrypted_objects(members(&[1, 10, 20, 25, 26, 27, 28, 29, 30, 60, 90]), &[]);
    for count in [1, 10, 20, 25, 26, 27, 28, 29, 30, 60, 90] {
        let name = format!("s{count}.prod.global. A");
        let plain = query(&format!("{name} +edns"));
        let plain = support::tls::ask(&mut server.tls(), &plain.0).unwrap();
        let least = plain.len() + 4; // an empty option
        let reply = send(&server, &query(&format!("{name} {REQUEST}")));
        assert_eq!(reply.len(), least.next_multiple_of(BLOCK), "{count}");
    }
}

/// RFC 7830 section 3: the padding octets are 0x00.
#[test]
fn r7830_s3_padding_is_zeros_and_changes_nothing_else() {
    let server = serve_encrypted(&["answers.serverId=replica-1"]);
    for text in QUESTIONS {
        let plain = query(text);
        let padded = query(&format!("{text} {REQUEST}"));
        let without = decode(&send(&server, &plain));
        let with = send(&server, &padded);
        assert!(
            with.len().is_multiple_of(BLOCK),
            "{text}: {} octets",
            with.len()
        );
        let with = decode(&with);
        assert_eq!(padding(&without), None, "{text}");
        let zeros = padding(&with).unwrap_or_else(|| panic!("{text}: no padding"));
        assert!(zeros.iter().all(|octet| *octet == 0), "{text}");
        assert_eq!(unpadded(with), unpadded(without), "{text}");
    }
}

/// RFC 7830 section 3: the content and length of the client's padding are ignored.
#[test]
fn r7830_s3_any_padding_in_the_query_requests_padding() {
    let server = serve_encrypted(&[]);
    for option in [
        REQUEST.to_owned(),
        "+ednsopt=12:00".to_owned(),
        "+ednsopt=12:ffff".to_owned(),
        format!("+ednsopt=12:{}", "00".repeat(91)), // to 128 octets
        format!("+ednsopt=12:{}", "5a".repeat(3_000)),
        "+ednsopt=12 +ednsopt=12:00".to_owned(),
        "+nsid +ednsopt=12:00 +ednsopt=65001:00".to_owned(),
    ] {
        let reply = send(&server, &query(&format!("db.prod.global. A {option}")));
        assert!(reply.len().is_multiple_of(BLOCK), "{option}");
        assert_eq!(decode(&reply).answers.len(), 4);
    }
}

/// RFC 7830 section 4: a client that does not pad may not support padding.
#[test]
fn r7830_s4_reply_is_not_padded_if_the_query_is_not() {
    let server = serve_encrypted(&["answers.serverId=replica-1"]);
    for text in QUESTIONS
        .into_iter()
        .chain(["db.prod.global. A", "nope.global. A"])
    {
        let reply = send(&server, &query(text));
        assert_eq!(padding(&decode(&reply)), None, "{text}");
    }
}

/// RFC 7830 section 6: padding is useless without encryption.
#[test]
fn r7830_s6_cleartext_replies_are_not_padded() {
    let server = serve_encrypted(&["answers.serverId=replica-1"]);
    for text in QUESTIONS {
        let question = query(&format!("{text} {REQUEST}"));
        for over in [Transport::Udp, Transport::Tcp] {
            let reply = server.server.send(&question, over).unwrap();
            assert_eq!(padding(&decode(&reply)), None, "{text} over {over:?}");
        }
    }
}

/// Padding never exceeds the maximum message size, and never takes the place of a record that fits with the option.
#[test]
fn r7830_s4_padding_is_limited_to_the_maximum_message_size() {
    // The last block of the first reply exceeds the maximum. In the second, the option takes the place of one record.
    let (most, counts) = (4_092, [4_092, 4_093]);
    let server = serve_encrypted_objects(members(&counts), &[]);
    for count in counts {
        let name = format!("s{count}.prod.global. A");
        let plain = send(&server, &query(&format!("{name} +edns")));
        assert_eq!(decode(&plain).answers.len(), count);
        let reply = send(&server, &query(&format!("{name} {REQUEST}")));
        assert_eq!(decode(&reply).answers.len(), most, "{count}");
        assert!(padding(&decode(&reply)).is_some(), "{count}");
    }
}
