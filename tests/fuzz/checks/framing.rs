//! Checks of a stream of messages over TCP or TLS in pieces of any size.

use global_dns::server::framing::{
    Framing, LENGTH_PREFIX, MAX_MESSAGE, MAX_OUTBOX, MAX_QUERY, Pause,
};
use global_dns::wire::Transport;
use support::wire::frame;

use super::choices::Choices;
use super::memory::holds_at_most;
use super::messages::{question_from, reply_into};

/// The result of a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub sent: Vec<u8>,
    pub is_closed: bool,
    /// Number of times that the outbox was full.
    pub times_full: usize,
    /// Octets sent over TLS, where replies are padded if the query requests it.
    pub padded: usize,
}

/// Maximum length of a stream. It is limited because one of the cuts is into single octets.
const MAX_STREAM: usize = 16 * 1024;
/// Maximum octets of a TLS record (RFC 8446 section 5.1).
const RECORD: usize = 16 * 1024;

/// Builds a stream from choices, and cuts it in several ways.
pub fn check(octets: &[u8]) -> Outcome {
    let choices = &mut Choices::new(octets);
    let steps = [choices.octet(), choices.octet(), choices.octet()].map(usize::from);
    let stream = stream(choices);
    let cuts: [&[usize]; 6] = [
        &[stream.len().max(1)],
        &[1],
        &[1, 2, 4096],
        &steps,
        // Records that are read in parts if the room is too small; also empty ones.
        &[RECORD],
        &[steps[0] * 64, 0, steps[1]],
    ];
    let [mut over_tcp, over_tls] = [Transport::Tcp, Transport::Tls].map(|over| {
        let expected = expected(&stream, over);
        for cut in cuts {
            let actual = simulate(&stream, cut, over);
            assert_eq!(
                (&actual.sent, actual.is_closed),
                (&expected.sent, expected.is_closed),
                "cut after {cut:?}, {over:?}"
            );
        }
        simulate(&stream, cuts[0], over)
    });
    assert_eq!(over_tcp.is_closed, over_tls.is_closed);
    over_tcp.padded = over_tls.sent.len();
    over_tcp
}

/// Builds messages with length prefixes. Most are queries.
fn stream(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut stream = Vec::new();
    while !choices.is_exhausted() && stream.len() < MAX_STREAM {
        match choices.octet() % 10 {
            0..=3 => stream.extend(frame(&question_from(choices))),
            // One query many times, pipelined.
            4 => {
                let question = question_from(choices);
                (0..choices.octet()).for_each(|_| stream.extend(frame(&question)));
            }
            5 => {
                let length = usize::from(choices.octet());
                stream.extend(frame(choices.take(length)));
            }
            // A length without its message.
            6 => stream.extend(choices.number().to_be_bytes()),
            7 => {
                let mut response = question_from(choices);
                response[2] |= 0x80;
                stream.extend(frame(&response));
            }
            // A length close to the maximum.
            8 => {
                let mut long = question_from(choices);
                long.resize(MAX_QUERY - 8 + usize::from(choices.octet() % 16), 0);
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

/// Returns the expected result: one reply for each query in order, until a message is not a query.
fn expected(mut stream: &[u8], over: Transport) -> Outcome {
    let (mut sent, mut out) = (Vec::new(), vec![0; MAX_MESSAGE]);
    let mut is_closed = false;
    while let Some((length, rest)) = stream.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length));
        is_closed = length > MAX_QUERY;
        if is_closed || rest.len() < length {
            break;
        }
        let (message, rest) = rest.split_at(length);
        let is_query = message.len() >= 12 && message[2] & 0x80 == 0;
        let written = reply_into(message, over, &mut out);
        assert_eq!(written.is_some(), is_query);
        is_closed = !is_query;
        let Some(length) = written else { break };
        assert_eq!(out[..2], message[..2], "the identifier differs");
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

/// Passes a stream in pieces, as a connection task receives them from the kernel or from TLS records.
fn simulate(stream: &[u8], cut: &[usize], over: Transport) -> Outcome {
    // A reply on top of a full outbox. A growing vector may have twice the capacity that it needs.
    const MAX_MEMORY: usize = 2 * (MAX_OUTBOX + LENGTH_PREFIX + MAX_MESSAGE);
    let mut framing = Framing::default();
    let mut outcome = Outcome {
        sent: Vec::new(),
        is_closed: false,
        times_full: 0,
        padded: 0,
    };
    let (mut rest, mut pieces) = (stream, cut.iter().cycle());
    // The rest of the current piece. All lengths may be zero.
    let mut piece = 0;
    while !rest.is_empty() && !outcome.is_closed {
        let room = framing.room();
        let free = room.capacity() - room.len();
        assert!(free > 0, "there is no room for the rest of a query");
        if piece == 0 {
            piece = (*pieces.next().unwrap()).max(1);
        }
        let (arrived, later) = rest.split_at(piece.min(free).min(rest.len()));
        piece -= arrived.len();
        room.extend_from_slice(arrived);
        assert!(
            room.capacity() <= LENGTH_PREFIX + MAX_QUERY,
            "the room is larger than one query"
        );
        rest = later;
        loop {
            // A buffer for one message is allocated once per thread.
            let limit = (2 * MAX_MEMORY) as u64;
            let (pause, _) = holds_at_most(limit, "answering", || {
                framing.answer(|message, out| reply_into(message, over, out))
            });
            let memory = framing.outbox.capacity();
            assert!(memory <= MAX_MEMORY, "the outbox holds {memory} octets");
            outcome.sent.append(&mut framing.outbox);
            match pause {
                Pause::OutboxFull => outcome.times_full += 1,
                Pause::Incomplete => break,
                Pause::Malformed => {
                    outcome.is_closed = true;
                    break;
                }
            }
        }
        framing.shrink();
        assert!(
            framing.outbox.capacity() <= MAX_QUERY,
            "an idle connection holds too much memory"
        );
    }
    outcome
}
