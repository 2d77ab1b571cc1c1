//! Encodes a [`Reply`] to bytes. The writer makes no decisions except for truncation.
//!
//! Space for OPT is reserved first (RFC 6891 section 7). A record is written completely or not at all. The same holds
//! for an RRset of the additional section. TC is set if and only if the answer section is incomplete (RFC 2181 section
//! 9).
//!
//! Owner names are compressed to pointers into the question. The question is echoed unchanged, so owner names have its
//! case. SRV targets are not compressed and are in lower case (RFC 2782).
//!
//! The addresses of a name are written as one block instead of single records: for nine addresses, that takes a third of the time.

mod record;

use std::ops::ControlFlow;

use record::{ADDITIONAL, Message, QUESTION, RecordWriter};

use super::query::{CLASS_IN, HEADER, Query, Reject, option};
use super::respond::{Body, PADDING_BLOCK, Reply, ReplyEdns};
use crate::zone::{Answer, AnswerContext, Name, Record, RecordType, Section};

/// The result of writing a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Length in octets.
    pub length: usize,
    /// The answer section is incomplete, and TC is set.
    pub is_truncated: bool,
}

/// Writes the reply to the message `packet` into `out`. `query` is the parsed message. `out` has at least 512 octets.
pub fn write(
    reply: &Reply<'_>,
    query: &Result<Query, Reject>,
    packet: &[u8],
    out: &mut [u8],
) -> Written {
    let opt = reply.edns.as_ref().map_or(0, opt_length);
    let limit = usize::from(reply.limit).min(out.len());
    let mut message = Message::new(out, limit - opt);
    message.put_question(query, packet);
    let is_complete = match (&reply.body, query) {
        (Body::Empty, _) | (_, Err(_)) => true,
        (Body::Answer(_) | Body::Chaos(_), Ok(query)) => message.put_sections(reply, query),
    };
    message.limit = limit;
    if let Some(edns) = &reply.edns {
        message.put_opt(edns, reply);
    }
    message.finish(reply, packet, !is_complete)
}

/// Returns how many records of the answer section fit into a message of a length, with header, question and an OPT record without
/// options.
pub fn records_within(answer: &Answer<'_>, question: &Name, limit: usize) -> usize {
    let records = answer.records(AnswerContext::new(question, 0)).into_iter();
    let in_answer = records.filter(|record| record.section == Section::Answer);
    let mut room = limit.saturating_sub(HEADER + question.wire().len() + 4 + OPT);
    let fits = |record: &Record<'_>| {
        let mut out = [0; LONGEST_RECORD];
        let mut message = Message::new(&mut out, LONGEST_RECORD);
        RecordWriter::new(&mut message, question, CLASS_IN).put(record);
        let rest = room.checked_sub(message.length - HEADER);
        room = rest.unwrap_or_default();
        rest.is_some()
    };
    in_answer.take_while(fits).count()
}

/// Length of an OPT record without options.
const OPT: usize = 11;

/// Maximum length of a record with a header before it. A name or a text has at most 256 octets.
const LONGEST_RECORD: usize = 512;

// === impl Message ===

impl Message<'_> {
    /// Echoes the question, if there is one.
    fn put_question(&mut self, query: &Result<Query, Reject>, packet: &[u8]) {
        let question = match query {
            Ok(query) => query.question(),
            Err(Reject::With { question, .. }) => *question,
            Err(Reject::Drop) => 0,
        };
        if question > 0 && self.put(&packet[HEADER..HEADER + question]) {
            self.counts[QUESTION] = 1;
        }
    }

    /// Writes the records that fit. Returns `false` if the answer section is incomplete.
    fn put_sections(&mut self, reply: &Reply<'_>, query: &Query) -> bool {
        let mut is_complete = true;
        let mut writer = RecordWriter::new(self, &query.name, reply.class());
        let _ = reply.visit_records(&query.name, |record| {
            if writer.put(&record) {
                ControlFlow::Continue(())
            } else {
                is_complete = record.section != Section::Answer;
                ControlFlow::Break(())
            }
        });
        is_complete
    }

    fn put_opt(&mut self, edns: &ReplyEdns<'_>, reply: &Reply<'_>) {
        let padding = edns.is_padded.then(|| self.padding(edns));
        let length = opt_length(edns) - OPT + padding.unwrap_or(0);
        let [t1, t2] = RecordType::OPT.0.to_be_bytes();
        let [p1, p2] = edns.payload.to_be_bytes();
        let high = (reply.rcode.0 >> 4 & 0xff) as u8; // masked to eight bits
        let flags = if edns.dnssec_ok { 0x80 } else { 0 };
        let [l1, l2] = (length as u16).to_be_bytes(); // a few hundred octets, and less than a block of padding
        if !self.put(&[0, t1, t2, p1, p2, high, 0, flags, 0, l1, l2]) {
            return;
        }
        self.counts[ADDITIONAL] += 1;
        if let Some(nsid) = edns.nsid {
            self.put_option(option::NSID, nsid);
        }
        if let Some(tenths) = edns.keepalive {
            self.put_option(option::KEEPALIVE, &tenths.to_be_bytes());
        }
        if let Some(error) = edns.error {
            self.put_option(option::ERROR, &error.data());
        }
        if let Some(octets) = padding {
            self.put_option(option::PADDING, &[0; PADDING_BLOCK][..octets]);
        }
    }

    fn put_option(&mut self, code: u16, value: &[u8]) {
        let [c1, c2] = code.to_be_bytes();
        let [l1, l2] = (value.len() as u16).to_be_bytes(); // at most a block of padding
        let _ = self.put(&[c1, c2, l1, l2]) && self.put(value);
    }

    /// Returns the length of the padding, which is limited by the free space. Everything before OPT has been written.
    fn padding(&self, edns: &ReplyEdns<'_>) -> usize {
        let length = self.length + opt_length(edns);
        let missing = length.next_multiple_of(PADDING_BLOCK) - length;
        missing.min(self.limit - length)
    }

    /// Writes the header. It is last because it contains the counts.
    fn finish(self, reply: &Reply<'_>, packet: &[u8], is_truncated: bool) -> Written {
        let (opcode, rd) = (packet[2] & 0x78, packet[2] & 0x01);
        let aa = if reply.authoritative { 0x04 } else { 0 };
        let tc = if is_truncated { 0x02 } else { 0 };
        // RA, Z, AD and CD are clear (RFC 4035 section 3.1.6 on CD).
        let rcode = (reply.rcode.0 & 0x0f) as u8; // masked to four bits
        self.out[..4].copy_from_slice(&[packet[0], packet[1], 0x80 | opcode | aa | tc | rd, rcode]);
        for (at, count) in [4, 6, 8, 10].into_iter().zip(self.counts) {
            self.out[at..at + 2].copy_from_slice(&count.to_be_bytes());
        }
        Written {
            length: self.length,
            is_truncated,
        }
    }
}

/// Returns the length of an OPT record without the content of its padding.
fn opt_length(edns: &ReplyEdns<'_>) -> usize {
    let option = |length: Option<usize>| length.map_or(0, |length| 4 + length);
    OPT + option(edns.nsid.map(<[u8]>::len))
        + option(edns.keepalive.map(|_| 2))
        + option(edns.error.map(|error| error.data().len()))
        + option(edns.is_padded.then_some(0))
}

#[cfg(test)]
mod tests;
