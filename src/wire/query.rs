//! Parses bytes to a [`Message`]: strictly, without allocation, in time linear in the length.
//!
//! Cheap checks come first. The counts are checked before any record is read, so a header cannot cause work (the class
//! of CoreDNS CVE-2026-82399).

use super::rcode::Rcode;
use crate::zone::{Name, RecordType};

/// A message that gets a reply.
#[derive(Debug)]
pub struct Message {
    /// Length of the question, which is echoed. It is 0 if the question cannot be read.
    pub question: usize,
    /// The client's OPT record, if it can be read.
    pub edns: Option<Edns>,
    /// The query, or the response code of a reply without records, if the message is not a valid query.
    pub query: Result<Query, Rcode>,
}

/// A question.
#[derive(Debug)]
pub struct Query {
    /// QNAME in lower case.
    pub name: Name,
    /// QTYPE.
    pub rtype: RecordType,
    /// QCLASS.
    pub class: u16,
}

/// The client's OPT record (RFC 6891 section 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edns {
    /// UDP payload size of the client.
    pub payload: u16,
    /// EDNS version.
    pub version: u8,
    /// The DO bit, copied to the reply (RFC 3225 section 3).
    pub dnssec_ok: bool,
    /// The client requests the server's identifier (RFC 5001).
    pub wants_nsid: bool,
    /// The client requests the idle timeout of its TCP connection (RFC 7828).
    pub wants_keepalive: bool,
    /// The client sent padding, so the reply is padded (RFC 7830 section 4).
    pub wants_padding: bool,
}

/// The Internet.
pub const CLASS_IN: u16 = 1;
/// Chaosnet: questions about the server itself.
pub const CLASS_CH: u16 = 3;
/// Any class. It is answered like [`CLASS_IN`].
pub const CLASS_ANY: u16 = 255;

/// Octets of a header.
pub const HEADER: usize = 12;

/// Returns the length of the question for a name, in octets.
pub fn question_length(name: &Name) -> usize {
    name.wire().len() + 4
}

/// Parses a message. Returns `None` if it is shorter than a header, or a response: it gets no reply, because answering responses can
/// cause loops.
pub fn parse(packet: &[u8]) -> Option<Message> {
    let header = packet.first_chunk::<HEADER>();
    let header = header.filter(|header| header[2] & 0x80 == 0)?;
    let opcode = header[2] >> 3 & 0x0f;
    let counts = [4, 6, 8, 10].map(|at| u16::from_be_bytes([header[at], header[at + 1]]));
    let [questions, answers, authorities, additionals] = counts;
    let rcode = match opcode {
        0 => Rcode::FormErr,
        _ => Rcode::NotImp,
    };
    if questions != 1 {
        let edns = find_edns(packet, counts);
        let is_newer = opcode == 0 && edns.is_some_and(|edns| edns.version > 0);
        return reject(if is_newer { Rcode::BadVers } else { rcode }, 0, edns);
    }
    let Some(name) = Name::read(&packet[HEADER..]) else {
        return reject(rcode, 0, None);
    };
    let question = question_length(&name);
    let end = HEADER + question;
    let Some([.., t1, t2, c1, c2]) = packet.get(..end) else {
        return reject(rcode, 0, None);
    };
    if opcode != 0 {
        return reject(Rcode::NotImp, question, find_edns(packet, counts));
    }
    let rtype = RecordType(u16::from_be_bytes([*t1, *t2]));
    // A query has at most OPT and TSIG. An IXFR query also has a SOA record (RFC 1995 section 3).
    let is_ixfr = rtype == RecordType::IXFR;
    if answers != 0 || authorities > u16::from(is_ixfr) || additionals > 2 {
        return reject(Rcode::FormErr, question, find_edns(packet, counts));
    }
    let edns = match read_edns(packet, end, authorities + additionals, authorities) {
        Ok(edns) => edns,
        Err(Malformed(edns)) => return reject(Rcode::FormErr, question, edns),
    };
    // A name is long. It is moved once; a `match` with a guard would move it again.
    Some(Message {
        question,
        edns,
        query: Ok(Query {
            name,
            rtype,
            class: u16::from_be_bytes([*c1, *c2]),
        }),
    })
}

fn reject(rcode: Rcode, question: usize, edns: Option<Edns>) -> Option<Message> {
    Some(Message {
        question,
        edns,
        query: Err(rcode),
    })
}

/// Searches a rejected message for an OPT record, because the reply then needs one, too (RFC 6891 section 6.1.1).
fn find_edns(packet: &[u8], counts: [u16; 4]) -> Option<Edns> {
    let [questions, records @ ..] = counts;
    let mut at = HEADER;
    for _ in 0..questions {
        at = skip_name(packet, at)? + 4;
    }
    // Each record takes octets of the message, so a large count alone cannot cause work.
    let count = records.into_iter().fold(0, u16::saturating_add);
    read_edns(packet, at, count, 0).unwrap_or_else(|Malformed(edns)| edns)
}

/// A malformed record or option, with the readable part of the client's OPT record. The reply needs an OPT record, too.
struct Malformed(Option<Edns>);

/// Reads `count` records from `at` on and returns the OPT record. The first `authorities` of them are in the authority
/// section.
fn read_edns(
    packet: &[u8],
    mut at: usize,
    count: u16,
    authorities: u16,
) -> Result<Option<Edns>, Malformed> {
    let mut edns = None;
    for index in 0..count {
        let record = QueryRecord::read(packet, at).ok_or(Malformed(edns))?;
        at = record.end;
        if record.rtype != RecordType::OPT {
            continue;
        }
        let opt = Edns::from_record(&record);
        if index < authorities || !record.is_root || edns.is_some() {
            return Err(Malformed(Some(opt)));
        }
        edns = Some(opt.with_options(record.data).ok_or(Malformed(Some(opt)))?);
    }
    Ok(edns)
}

impl Edns {
    /// Reads the fixed fields.
    fn from_record(record: &QueryRecord<'_>) -> Self {
        let [_, version, flags, _] = record.ttl;
        Self {
            payload: record.class,
            version,
            dnssec_ok: flags & 0x80 != 0,
            ..Self::default()
        }
    }

    /// Reads the options. Returns `None` if they do not fill the record exactly (RFC 6891 section 6.1.2).
    fn with_options(mut self, mut data: &[u8]) -> Option<Self> {
        if self.version > 0 {
            return Some(self); // the format of the options of another version is unknown
        }
        while let [c1, c2, l1, l2, rest @ ..] = data {
            let (_, after) = rest.split_at_checked(usize::from(u16::from_be_bytes([*l1, *l2])))?;
            data = after;
            match u16::from_be_bytes([*c1, *c2]) {
                option::NSID => self.wants_nsid = true,
                option::KEEPALIVE => self.wants_keepalive = true,
                option::PADDING => self.wants_padding = true,
                // Unknown options, such as cookies, are ignored (RFC 6891 section 6.1.2).
                _ => {}
            }
        }
        data.is_empty().then_some(self)
    }
}

/// Codes of EDNS options.
pub mod option {
    /// Name server identifier (RFC 5001).
    pub const NSID: u16 = 3;
    /// Idle timeout of a TCP connection (RFC 7828).
    pub const KEEPALIVE: u16 = 11;
    /// Padding (RFC 7830).
    pub const PADDING: u16 = 12;
    /// Extended DNS Error (RFC 8914).
    pub const ERROR: u16 = 15;
}

/// A record below the question.
struct QueryRecord<'p> {
    is_root: bool,
    rtype: RecordType,
    class: u16,
    ttl: [u8; 4],
    data: &'p [u8],
    /// The position after it.
    end: usize,
}

impl<'p> QueryRecord<'p> {
    fn read(packet: &'p [u8], at: usize) -> Option<Self> {
        let fixed = skip_name(packet, at)?;
        let (fields, rest) = packet.get(fixed..)?.split_first_chunk::<10>()?;
        let &[t1, t2, c1, c2, a, b, c, d, l1, l2] = fields;
        let data = rest.get(..usize::from(u16::from_be_bytes([l1, l2])))?;
        Some(Self {
            is_root: fixed == at + 1,
            rtype: RecordType(u16::from_be_bytes([t1, t2])),
            class: u16::from_be_bytes([c1, c2]),
            ttl: [a, b, c, d],
            data,
            end: fixed + fields.len() + data.len(),
        })
    }
}

/// Returns the position after the name at `at`. A compression pointer ends the name and is not followed.
fn skip_name(packet: &[u8], mut at: usize) -> Option<usize> {
    let start = at;
    loop {
        match *packet.get(at)? {
            0 if at - start < 255 => return Some(at + 1), // RFC 1035 section 2.3.4
            0xc0.. => return Some(at + 2),
            length @ 1..0x40 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests;
