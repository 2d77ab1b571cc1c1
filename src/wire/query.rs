//! Bytes → [`Query`]: strict, without allocation, in time linear in the length.
//!
//! Cheap checks come first: the counts are looked at before anything is read, so no header can make us work (the class
//! of CoreDNS CVE-2026-82399).

use super::Rcode;
use crate::zone::{Name, RecordType};

/// A question, with what matters of the message around it.
#[derive(Clone, Debug)]
pub struct Query {
    /// The owner name asked for, lower case.
    pub name: Name,
    /// QTYPE.
    pub rtype: RecordType,
    /// QCLASS.
    pub class: u16,
    /// What the client says about itself by EDNS, if anything.
    pub edns: Option<Edns>,
}

/// The client's OPT record (RFC 6891 section 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// Octets that the client can take over UDP.
    pub payload: u16,
    /// EDNS version.
    pub version: u8,
    /// The DO bit, copied to the reply (RFC 3225 section 3).
    pub dnssec_ok: bool,
}

/// Why a message is no query that can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// Never answered: shorter than a header, or a response (answering those makes loops).
    Drop,
    /// Answered with this code alone; `edns` if the client sent an OPT record that could be read.
    With(Rcode, Option<Edns>),
}

/// The Internet.
pub const CLASS_IN: u16 = 1;
/// Any class; answered like [`CLASS_IN`].
pub const CLASS_ANY: u16 = 255;

const HEADER: usize = 12;

/// Parses a message.
///
/// # Errors
///
/// If it is no query that can be answered: what becomes of it instead.
pub fn parse(packet: &[u8]) -> Result<Query, Reject> {
    let number = |at: usize| -> u16 {
        let octet = |at: usize| u16::from(packet.get(at).copied().unwrap_or_default());
        octet(at) << 8 | octet(at + 1)
    };
    if packet.len() < HEADER || packet[2] & 0x80 != 0 {
        return Err(Reject::Drop);
    }
    let malformed = Reject::With(Rcode::FORMERR, None);
    if packet[2] >> 3 & 0x0f != 0 {
        return Err(Reject::With(Rcode::NOTIMP, None));
    }
    let [questions, answers, authorities, additionals] = [4, 6, 8, 10].map(number);
    // OPT and TSIG are all that a query has below the question. IXFR brings an SOA record (RFC 1995 section 3).
    if questions != 1 || answers != 0 || authorities > 1 || additionals > 2 {
        return Err(malformed);
    }
    let name = Name::read(&packet[HEADER..]).ok_or(malformed)?;
    let at = HEADER + name.wire().len();
    if packet.len() < at + 4 {
        return Err(malformed);
    }
    let (rtype, class) = (RecordType(number(at)), number(at + 2));
    if authorities != 0 && rtype != RecordType::IXFR {
        return Err(malformed);
    }
    let mut at = at + 4;
    let mut edns = None;
    for index in 0..authorities + additionals {
        let record = Record::read(packet, at).ok_or(malformed)?;
        at = record.end;
        if record.rtype != RecordType::OPT {
            continue;
        }
        let is_misplaced = index < authorities || !record.is_root || edns.is_some();
        if is_misplaced || !has_whole_options(&packet[record.data..record.end]) {
            return Err(malformed);
        }
        edns = Some(Edns {
            payload: record.class,
            version: (record.ttl >> 16 & 0xff) as u8, // masked to eight bits
            dnssec_ok: record.ttl & 0x8000 != 0,
        });
    }
    Ok(Query {
        name,
        rtype,
        class,
        edns,
    })
}

/// A record below the question: where it ends, and its fixed fields.
struct Record {
    is_root: bool,
    rtype: RecordType,
    class: u16,
    ttl: u32,
    data: usize,
    end: usize,
}

impl Record {
    fn read(packet: &[u8], at: usize) -> Option<Self> {
        let fixed = skip_name(packet, at)?;
        let fields: &[u8; 10] = packet.get(fixed..fixed + 10)?.try_into().ok()?;
        let [t1, t2, c1, c2, ttl @ .., l1, l2] = fields;
        let &[a, b, c, d] = ttl;
        let data = fixed + 10;
        let end = data + usize::from(u16::from_be_bytes([*l1, *l2]));
        Some(Self {
            is_root: fixed == at + 1,
            rtype: RecordType(u16::from_be_bytes([*t1, *t2])),
            class: u16::from_be_bytes([*c1, *c2]),
            ttl: u32::from_be_bytes([a, b, c, d]),
            data,
            end: Some(end).filter(|end| *end <= packet.len())?,
        })
    }
}

/// Returns where the name at `at` ends. A compression pointer ends it; where it points does not matter.
fn skip_name(packet: &[u8], mut at: usize) -> Option<usize> {
    let start = at;
    loop {
        match *packet.get(at)? {
            0 => return Some(at + 1),
            pointer if pointer & 0xc0 == 0xc0 => return Some(at + 2),
            length if length & 0xc0 == 0 && at - start < 255 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
}

/// Tells whether the options of an OPT record fill it exactly (RFC 6891 section 6.1.2).
fn has_whole_options(mut data: &[u8]) -> bool {
    while let [_, _, l1, l2, rest @ ..] = data {
        match rest.get(usize::from(u16::from_be_bytes([*l1, *l2]))..) {
            Some(after) => data = after,
            None => return false,
        }
    }
    data.is_empty()
}

#[cfg(test)]
mod tests;
