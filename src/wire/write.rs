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

use smallvec::SmallVec;

use record::{ADDITIONAL, ANSWER, QUESTION, RecordWriter, Unfinished};

use super::query::{CLASS_IN, HEADER, Message, Query, option, question_length};
use super::respond::{Body, ExtendedError, PADDING_BLOCK, Reply, ReplyEdns};
use crate::zone::{Answer, AnswerContext, MessageSection, Name, RecordType};

/// The result of writing a reply.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Length in octets.
    pub length: usize,
    /// The answer section is incomplete, and TC is set.
    pub is_truncated: bool,
}

/// Writes the reply to the message `packet`, which was parsed, into `out`. `out` has at least 512 octets.
pub fn write(reply: &Reply<'_>, parsed: &Message, packet: &[u8], out: &mut [u8]) -> Written {
    let limit = usize::from(reply.limit).min(out.len());
    let question = HEADER..HEADER + parsed.question;
    let question = packet.get(question).unwrap_or_default();
    let mut options = Options::new();
    let mut opt = 0;
    if let Some(edns) = &reply.edns {
        opt = OPT + if edns.is_padded { OPTION } else { 0 };
        let room = limit.saturating_sub(HEADER + question.len() + opt);
        put_options_within(*edns, room, &mut options);
        opt += options.len();
    }
    let mut message = Unfinished::new(out, limit - opt);
    if !question.is_empty() && message.put(question) {
        message.counts[QUESTION] = 1;
    }
    let is_complete = match (&reply.body, &parsed.query) {
        (Body::Empty, _) | (_, Err(_)) => true,
        (Body::Answer(_) | Body::Chaos(_), Ok(query)) => message.put_sections(reply, query),
    };
    message.limit = limit;
    if let Some(edns) = &reply.edns {
        message.put_opt(edns, options, reply);
    }
    message.finish(reply, packet, !is_complete)
}

/// Returns how many records of the answer section fit into a message of a length, with header, question and an OPT record without
/// options.
pub fn records_within(answer: &Answer<'_>, question: &Name, limit: usize) -> usize {
    let mut out = vec![0; limit];
    let mut message = Unfinished::new(&mut out, limit.saturating_sub(OPT));
    let _ = message.room(question_length(question));
    let mut writer = RecordWriter::new(&mut message, question, CLASS_IN);
    let _ = answer.visit_each(AnswerContext::new(question, 0), |record| {
        if record.section == MessageSection::Answer && writer.put(&record) {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(())
    });
    usize::from(message.counts[ANSWER])
}

/// Length of an OPT record without options.
const OPT: usize = 11;

/// Length of an option without its value.
const OPTION: usize = 4;

/// The options of an OPT record. Usually they have room here, with padding.
type Options = SmallVec<[u8; 640]>;

// === impl Unfinished ===

impl Unfinished<'_> {
    /// Writes the records that fit. Returns `false` if the answer section is incomplete.
    fn put_sections(&mut self, reply: &Reply<'_>, query: &Query) -> bool {
        let mut is_complete = true;
        let mut writer = RecordWriter::new(self, &query.name, reply.class());
        let _ = reply.visit_records(&query.name, |record| {
            if writer.put(&record) {
                return ControlFlow::Continue(());
            }
            is_complete = record.section != MessageSection::Answer;
            ControlFlow::Break(())
        });
        is_complete
    }

    /// Writes the OPT record. It is the last one. The padding is limited by the free space.
    fn put_opt(&mut self, edns: &ReplyEdns<'_>, mut options: Options, reply: &Reply<'_>) {
        if edns.is_padded {
            let length = self.length + OPT + options.len() + OPTION;
            let missing = length.next_multiple_of(PADDING_BLOCK) - length;
            let padding = &[0; PADDING_BLOCK][..missing.min(self.limit - length)];
            put_option(&mut options, option::PADDING, padding);
        }
        let [t1, t2] = RecordType::OPT.0.to_be_bytes();
        let [p1, p2] = edns.payload.to_be_bytes();
        let high = (reply.rcode as u16 >> 4) as u8; // at most 1
        let flags = if edns.dnssec_ok { 0x80 } else { 0 };
        let [l1, l2] = (options.len() as u16).to_be_bytes(); // a few hundred octets, and less than a block of padding
        if self.put(&[0, t1, t2, p1, p2, high, 0, flags, 0, l1, l2]) && self.put(&options) {
            self.counts[ADDITIONAL] += 1;
        }
    }

    /// Writes the header. It is last because it contains the counts.
    fn finish(self, reply: &Reply<'_>, packet: &[u8], is_truncated: bool) -> Written {
        let opcode = packet[2] & 0x78;
        let rd = packet[2] & 0x01;
        let aa = if reply.authoritative { 0x04 } else { 0 };
        let tc = if is_truncated { 0x02 } else { 0 };
        // RA, Z, AD and CD are clear (RFC 4035 section 3.1.6 on CD).
        let rcode = (reply.rcode as u16 & 0x0f) as u8; // masked to four bits
        self.out[..4].copy_from_slice(&[packet[0], packet[1], 0x80 | opcode | aa | tc | rd, rcode]);
        let counts = self.counts.map(u16::to_be_bytes);
        self.out[4..HEADER].copy_from_slice(counts.as_flattened());
        Written {
            length: self.length,
            is_truncated,
        }
    }
}

/// Encodes the options except padding in at most `room` octets. First the text of an error is left out, then the identifier of the
/// server: clients ignore a reply without its question.
fn put_options_within(mut edns: ReplyEdns<'_>, room: usize, to: &mut Options) {
    put_options(&edns, to);
    if to.len() > room && matches!(edns.error, Some(ExtendedError::Failed(_))) {
        edns.error = Some(ExtendedError::NotReady); // the same INFO-CODE, without a text
        put_options(&edns, to);
    }
    if to.len() > room {
        edns.nsid = None;
        put_options(&edns, to);
    }
}

/// Encodes the options except padding, in place of those before.
fn put_options(edns: &ReplyEdns<'_>, to: &mut Options) {
    to.clear();
    if let Some(nsid) = edns.nsid {
        put_option(to, option::NSID, nsid);
    }
    if let Some(tenths) = edns.keepalive {
        put_option(to, option::KEEPALIVE, &tenths.to_be_bytes());
    }
    if let Some(error) = edns.error {
        put_option(to, option::ERROR, &error.data());
    }
}

fn put_option(to: &mut Options, code: u16, value: &[u8]) {
    let length = value.len() as u16; // at most a block of padding
    to.extend_from_slice(&code.to_be_bytes());
    to.extend_from_slice(&length.to_be_bytes());
    to.extend_from_slice(value);
}

#[cfg(test)]
mod tests;
