//! What holds of a stream of messages over TCP or inside TLS, however it is cut.

use global_dns::server::framing::{Framing, MESSAGE, OUTBOX, PREFIX, Pause, QUERY};
use global_dns::wire::Transport;
use support::wire::frame;

use super::choices::Choices;
use super::memory::holds_at_most;
use super::messages::{question_of, reply_into};

/// What became of a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub sent: Vec<u8>,
    pub is_closed: bool,
    /// How often replies had to be written before more could be answered.
    pub times_full: usize,
    /// Octets that are sent inside TLS, where replies are padded for who asks.
    pub padded: usize,
}

/// What the target cuts: at most so much, because it is cut in single octets, too.
const LONGEST: usize = 16 * 1024;
/// Octets of the longest record of TLS (RFC 8446 section 5.1).
const RECORD: usize = 16 * 1024;

/// Makes a stream out of choices and cuts it in several ways.
pub fn check(octets: &[u8]) -> Outcome {
    let choices = &mut Choices::new(octets);
    let steps = [choices.octet(), choices.octet(), choices.octet()].map(usize::from);
    let stream = stream(choices);
    let cuts: [&[usize]; 6] = [
        &[stream.len().max(1)],
        &[1],
        &[1, 2, 4096],
        &steps,
        // Records, of which a part is read when there is no room for all of it; empty ones, too.
        &[RECORD],
        &[steps[0] * 64, 0, steps[1]],
    ];
    let [mut over_tcp, over_tls] = [Transport::Tcp, Transport::Tls].map(|over| {
        let expected = expected(&stream, over);
        for cut in cuts {
            let found = converse(&stream, cut, over);
            assert_eq!(
                (&found.sent, found.is_closed),
                (&expected.sent, expected.is_closed),
                "cut after {cut:?}, {over:?}"
            );
        }
        converse(&stream, cuts[0], over)
    });
    assert_eq!(over_tcp.is_closed, over_tls.is_closed);
    over_tcp.padded = over_tls.sent.len();
    over_tcp
}

/// Makes messages with their lengths, most of which are questions.
fn stream(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut stream = Vec::new();
    while !choices.is_used_up() && stream.len() < LONGEST {
        match choices.octet() % 10 {
            0..=3 => stream.extend(frame(&question_of(choices))),
            // One question many times, pipelined.
            4 => {
                let question = question_of(choices);
                (0..choices.octet()).for_each(|_| stream.extend(frame(&question)));
            }
            5 => {
                let length = usize::from(choices.octet());
                stream.extend(frame(choices.take(length)));
            }
            // A length, and nothing that belongs to it.
            6 => stream.extend(choices.number().to_be_bytes()),
            7 => {
                let mut response = question_of(choices);
                response[2] |= 0x80;
                stream.extend(frame(&response));
            }
            // About as long as a query may be.
            8 => {
                let mut long = question_of(choices);
                long.resize(QUERY - 8 + usize::from(choices.octet() % 16), 0);
                stream.extend(frame(&long));
            }
            _ => {
                let length = usize::from(choices.octet());
                stream.extend(choices.take(length));
            }
        }
    }
    stream
}

/// What is to be sent back: one reply to each message in order, until one is none of a client's.
fn expected(mut stream: &[u8], over: Transport) -> Outcome {
    let (mut sent, mut out) = (Vec::new(), vec![0; MESSAGE]);
    let mut is_closed = false;
    while let Some((length, rest)) = stream.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length));
        is_closed = length > QUERY;
        if is_closed || rest.len() < length {
            break;
        }
        let (message, rest) = rest.split_at(length);
        let is_query = message.len() >= 12 && message[2] & 0x80 == 0;
        let written = reply_into(message, over, &mut out);
        assert_eq!(written.is_some(), is_query);
        is_closed = !is_query;
        let Some(length) = written else { break };
        assert_eq!(out[..2], message[..2], "the ID");
        sent.extend(frame(&out[..length]));
        stream = rest;
    }
    Outcome {
        sent,
        is_closed,
        times_full: 0,
        padded: 0,
    }
}

/// Sends a stream in pieces, as the connection's task takes them from the kernel, or out of records of TLS.
fn converse(stream: &[u8], cut: &[usize], over: Transport) -> Outcome {
    // The reply on top of a full outbox; a vector that grows has room for twice what is in it.
    const MOST: usize = PREFIX + QUERY + 2 * (OUTBOX + PREFIX + MESSAGE);
    let mut framing = Framing::default();
    let mut outcome = Outcome {
        sent: Vec::new(),
        is_closed: false,
        times_full: 0,
        padded: 0,
    };
    let (mut rest, mut pieces) = (stream, cut.iter().cycle());
    // What is left of a piece; the lengths may all be zero.
    let mut piece = 0;
    while !rest.is_empty() && !outcome.is_closed {
        let room = framing.room();
        let free = room.capacity() - room.len();
        assert!(free > 0, "there is always room for the rest of a query");
        if piece == 0 {
            piece = (*pieces.next().unwrap()).max(1);
        }
        let (arrived, later) = rest.split_at(piece.min(free).min(rest.len()));
        piece -= arrived.len();
        room.extend_from_slice(arrived);
        assert!(room.capacity() <= PREFIX + QUERY, "one query is held");
        rest = later;
        loop {
            // The room for one message is made once for a thread.
            let held = (2 * MOST) as u64;
            let (pause, _) = holds_at_most(held, "answering", || {
                framing.answer(|message, out| reply_into(message, over, out))
            });
            assert!(framing.held() <= MOST, "{} octets are held", framing.held());
            outcome.sent.extend_from_slice(framing.replies());
            framing.forget_replies();
            match pause {
                Pause::Full => outcome.times_full += 1,
                Pause::Rest => break,
                Pause::Misuse => {
                    outcome.is_closed = true;
                    break;
                }
            }
        }
        framing.shrink();
        assert!(framing.held() <= PREFIX + 2 * QUERY, "of who waits");
    }
    outcome
}
