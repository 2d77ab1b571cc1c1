//! Each query has the same records over UDP, TCP, TLS and QUIC: every owner name of the table in `support`, and every message
//! of the fuzz corpus, well-formed or not. The expected records are proved by `conformance`.

use std::fs;

use support::certificates::issue_valid;
use support::differences::assert_none;
use support::encrypted::{QUIC, serve};
use support::names::{FLAGS, cases, sample};
use support::objects::{local, objects};
use support::query::{hex, query};
use support::reply::{Record, Reply, sorted_texts};
use support::repository::repository;

use super::transports::{Replies, Transports};

/// Number of concurrent messages. QUIC allows a hundred streams on a connection.
const BATCH: usize = 50;
/// Options that depend on the transport: keepalive and padding.
const OF_TRANSPORT: [u16; 2] = [11, 12];

/// Returns the queries of the table, without EDNS and with it, and the messages of the corpus that get a reply.
fn messages() -> Vec<Vec<u8>> {
    let questions = cases();
    let questions = questions.iter().map(support::names::Case::question);
    let edns = ["", " +edns", " +do +nsid +bufsize=4096"];
    let of_table =
        questions.flat_map(|question| edns.map(|marks| query(&format!("{question}{marks}")).0));
    let corpus = fs::read_dir(repository("tests/fuzz/corpus/reply")).unwrap();
    let of_corpus = corpus.map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let is_query = |packet: &Vec<u8>| packet.len() >= 12 && packet[2] & 0x80 == 0;
    of_table.chain(of_corpus.filter(is_query)).collect()
}

#[test]
fn all_transports_return_the_same_reply() {
    let issued = issue_valid();
    let server = serve(sample(), &issued, &[&FLAGS[..], &[QUIC]].concat());
    let mut transports = Transports::connect(&server, &issued);
    let messages = messages();
    let mut differences = Vec::new();
    for batch in messages.chunks(BATCH) {
        for (asked, replies) in batch.iter().zip(transports.ask(batch)) {
            differences.extend(differences_of(asked, &replies));
        }
    }
    assert_none(&differences);
    assert!(messages.len() > 500, "{} messages", messages.len());
}

/// Returns descriptions of unexpected differences between replies.
fn differences_of(asked: &[u8], replies: &Replies) -> Vec<String> {
    let (tcp, udp) = (&replies.tcp, &replies.udp);
    let of_tcp = comparable_lines(tcp);
    let mut others = vec![("TLS", &replies.tls)];
    others.extend(replies.quic.iter().map(|reply| ("QUIC", reply)));
    if !is_shortened(udp, tcp) {
        others.push(("UDP", udp));
    }
    let mut differences = Vec::new();
    for (over, reply) in others {
        let lines = comparable_lines(reply);
        if lines != of_tcp {
            let packet = hex(asked);
            differences.push(format!(
                "{packet}\n over {over}\n  {lines:?}\n over TCP\n  {of_tcp:?}"
            ));
        }
    }
    let [of_tls, of_tcp] = [&replies.tls, tcp].map(|reply| Reply::read(reply).unwrap().option(11));
    if of_tls != of_tcp || replies.tls[..2] != tcp[..2] {
        differences.push(format!(
            "{}: keepalive {of_tls:?} over TLS, {of_tcp:?} over TCP",
            hex(asked)
        ));
    }
    differences
}

/// Returns whether a reply over UDP is the part of the TCP reply that fits (RFC 2181 section 9). Missing answers require TC;
/// missing additional records do not.
fn is_shortened(udp: &[u8], tcp: &[u8]) -> bool {
    let [udp, tcp] = [udp, tcp].map(|reply| Reply::read(reply).unwrap().content());
    let is_whole = udp.answers == tcp.answers && udp.authority == tcp.authority;
    let has_all =
        |of_tcp: &[Record], of_udp: &[Record]| of_udp.iter().all(|one| of_tcp.contains(one));
    udp.is_truncated() != is_whole
        && has_all(&tcp.answers, &udp.answers)
        && has_all(&tcp.additional, &udp.additional)
        && (udp.rcode, &udp.questions) == (tcp.rcode, &tcp.questions)
}

/// Formats a reply for comparison, without compression, order of records, identifier and options of the transport.
fn comparable_lines(reply: &[u8]) -> Vec<String> {
    let mut message = Reply::read(reply).unwrap().in_lower_case();
    if let Some(opt) = &mut message.opt {
        opt.options.retain(|(code, _)| !OF_TRANSPORT.contains(code));
    }
    let bits = u16::from_be_bytes([reply[2], reply[3]]);
    let mut lines = vec![
        format!("bits {bits:#06x}, {}", message.status()),
        format!("questions {:?}, OPT {:?}", message.questions, message.opt),
    ];
    for records in [&message.answers, &message.authority, &message.additional] {
        lines.push(format!("{:?}", sorted_texts(records)));
    }
    lines
}

/// An answer that exceeds every message: complete records that fit, TC, the OPT record, and the counter.
#[test]
fn too_large_answers_are_truncated_equally() {
    let huge = (0..5_000_u32).fold(local("prod", "huge").exported(), |huge, index| {
        let address = std::net::Ipv4Addr::from(0x0a60_1001 + index).to_string();
        huge.endpoint(None, &address, true)
    });
    let issued = issue_valid();
    let server = serve(objects().with(huge), &issued, &[QUIC]);
    let mut transports = Transports::connect(&server, &issued);
    for asked in ["huge.prod.global. A", "huge.prod.global. SRV"] {
        let replies = transports.ask(&[query(&format!("{asked} +edns")).0]);
        let Replies { tcp, tls, quic, .. } = &replies[0];
        // Over QUIC, compression is weaker, so fewer records fit, and there may be no room for OPT.
        for (reply, least) in [(tcp, 1_000), (tls, 1_000), (quic.as_ref().unwrap(), 500)] {
            let is_quic = least == 500;
            // hickory's encoder may leave octets of the record that does not fit.
            let longest_rest = if is_quic { 300 } else { 0 };
            let mut cut = (0..=longest_rest).map(|rest| &reply[..reply.len() - rest]);
            let reply = cut.find_map(|reply| Reply::read(reply).ok()).unwrap();
            assert!(reply.is_truncated(), "{asked}");
            assert!(reply.opt.is_some() || is_quic, "{asked}");
            assert!(reply.answers.len() > least, "{}", reply.answers.len());
        }
    }
    for proto in ["udp", "tcp", "tls", "quic"] {
        let metric = format!("global_dns_truncated_responses_total{{proto=\"{proto}\"}}");
        assert_eq!(server.metric(&metric), 2.0, "{proto}");
    }
}
