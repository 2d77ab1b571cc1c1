//! Bytes → [`Query`]: strict, without allocation, in time linear in the length.
//!
//! Cheap checks come first: the counts are looked at before anything is read, so no header can make us work (the class
//! of CoreDNS CVE-2026-82399).

use super::Rcode;
use super::cookie::{ClientCookie, ServerCookie};
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
    /// The client asks which server this is (RFC 5001).
    pub wants_nsid: bool,
    /// The client asks how long its TCP connection may be idle (RFC 7828).
    pub wants_keepalive: bool,
    /// The client pads, and so wants a padded reply (RFC 7830 section 4).
    pub wants_padding: bool,
    /// The client's half of a cookie (RFC 7873).
    pub cookie: Option<ClientCookie>,
    /// The other half, which some server gave it, if it has the length of ours.
    pub server_cookie: Option<ServerCookie>,
}

/// Why a message is no query that can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// Never answered: shorter than a header, or a response (answering those makes loops).
    Drop,
    /// Answered with a code alone.
    With {
        /// The code.
        rcode: Rcode,
        /// Octets of the question, if it could be read; it is echoed.
        question: usize,
        /// The client's OPT record, if it could be read.
        edns: Option<Edns>,
    },
}

/// The Internet.
pub const CLASS_IN: u16 = 1;
/// Chaosnet: questions about the server itself.
pub const CLASS_CH: u16 = 3;
/// Any class; answered like [`CLASS_IN`].
pub const CLASS_ANY: u16 = 255;

/// Octets of a header.
pub const HEADER: usize = 12;

impl Query {
    /// Returns how many octets the question takes in the message.
    pub fn question(&self) -> usize {
        self.name.wire().len() + 4
    }
}

/// Parses a message.
///
/// # Errors
///
/// If it is no query that can be answered: what becomes of it instead.
pub fn parse(packet: &[u8]) -> Result<Query, Reject> {
    if packet.len() < HEADER || packet[2] & 0x80 != 0 {
        return Err(Reject::Drop);
    }
    let opcode = packet[2] >> 3 & 0x0f;
    let counts = [4, 6, 8, 10].map(|at| number(packet, at));
    if counts[0] != 1 {
        return Err(reject_questions(packet, opcode, counts));
    }
    let Some((name, rtype, class)) = question(packet) else {
        let rcode = match opcode {
            0 => Rcode::FORMERR,
            _ => Rcode::NOTIMP,
        };
        return Err(reject(rcode, 0, None));
    };
    let query = Query {
        name,
        rtype,
        class,
        edns: None,
    };
    let question = query.question();
    if opcode != 0 {
        return Err(reject(Rcode::NOTIMP, question, any_edns(packet, counts)));
    }
    match edns_of(packet, &query, counts) {
        Ok(edns) => Ok(Query { edns, ..query }),
        Err(Malformed(edns)) => Err(reject(Rcode::FORMERR, question, edns)),
    }
}

fn reject(rcode: Rcode, question: usize, edns: Option<Edns>) -> Reject {
    Reject::With {
        rcode,
        question,
        edns,
    }
}

/// Rejects a message with another number of questions than one.
fn reject_questions(packet: &[u8], opcode: u8, counts: [u16; 4]) -> Reject {
    let edns = any_edns(packet, counts);
    // Without a question but with a cookie, it requests a server cookie (RFC 7873 section 5.4).
    let requests_cookie = counts == [0, 0, 0, 1] && edns.is_some_and(|e| e.cookie.is_some());
    let rcode = match edns {
        _ if opcode != 0 => Rcode::NOTIMP,
        Some(edns) if edns.version > 0 => Rcode::BADVERS,
        _ if requests_cookie => Rcode::NOERROR,
        _ => Rcode::FORMERR,
    };
    reject(rcode, 0, edns)
}

/// Reads the OPT record of a query. OPT and TSIG are all that a query has below the question, and an SOA record in an IXFR
/// query (RFC 1995 section 3).
fn edns_of(packet: &[u8], query: &Query, counts: [u16; 4]) -> Result<Option<Edns>, Malformed> {
    let [_, answers, authorities, additionals] = counts;
    let is_ixfr = query.rtype == RecordType::IXFR;
    if answers != 0 || authorities > u16::from(is_ixfr) || additionals > 2 {
        return Err(Malformed(any_edns(packet, counts)));
    }
    let below = HEADER + query.question();
    edns_at(packet, below, authorities + additionals, authorities)
}

/// Looks for an OPT record in a message that is rejected anyway: its sender gets one back (RFC 6891 section 6.1.1).
fn any_edns(packet: &[u8], counts: [u16; 4]) -> Option<Edns> {
    let [questions, records @ ..] = counts;
    let mut at = HEADER;
    for _ in 0..questions {
        at = skip_name(packet, at)? + 4;
    }
    // Each record takes octets of the message, so a count cannot make us work.
    let count = records.into_iter().fold(0, u16::saturating_add);
    edns_at(packet, at, count, 0).unwrap_or_else(|Malformed(edns)| edns)
}

fn number(packet: &[u8], at: usize) -> u16 {
    let octet = |at: usize| packet.get(at).copied().unwrap_or_default();
    u16::from_be_bytes([octet(at), octet(at + 1)])
}

fn question(packet: &[u8]) -> Option<(Name, RecordType, u16)> {
    let name = Name::read(&packet[HEADER..])?;
    let at = HEADER + name.wire().len();
    (packet.len() >= at + 4).then(|| (name, RecordType(number(packet, at)), number(packet, at + 2)))
}

/// A record or an option that makes no sense; with what could be read of the client's OPT record, whose sender gets
/// one back even so.
struct Malformed(Option<Edns>);

/// Reads the records from `at` on, of which the first `authorities` are no additional ones, for an OPT record.
fn edns_at(
    packet: &[u8],
    mut at: usize,
    count: u16,
    authorities: u16,
) -> Result<Option<Edns>, Malformed> {
    let mut edns = None;
    for index in 0..count {
        let record = Record::read(packet, at).ok_or(Malformed(edns))?;
        at = record.end;
        if record.rtype != RecordType::OPT {
            continue;
        }
        let found = Edns::of(&record);
        if index < authorities || !record.is_root || edns.is_some() {
            return Err(Malformed(Some(found)));
        }
        let options = &packet[record.data..record.end];
        edns = Some(found.with_options(options).ok_or(Malformed(Some(found)))?);
    }
    Ok(edns)
}

impl Edns {
    /// Reads the fixed fields.
    fn of(record: &Record) -> Self {
        let [_, version, flags, _] = record.ttl;
        Self {
            payload: record.class,
            version,
            dnssec_ok: flags & 0x80 != 0,
            wants_nsid: false,
            wants_keepalive: false,
            wants_padding: false,
            cookie: None,
            server_cookie: None,
        }
    }

    /// Reads the options, which fill the record exactly (RFC 6891 section 6.1.2); `None` if they do not.
    fn with_options(mut self, mut data: &[u8]) -> Option<Self> {
        if self.version > 0 {
            return Some(self); // what another version's options look like is not known
        }
        while let [c1, c2, l1, l2, rest @ ..] = data {
            let (value, after) =
                rest.split_at_checked(usize::from(u16::from_be_bytes([*l1, *l2])))?;
            data = after;
            match u16::from_be_bytes([*c1, *c2]) {
                option::NSID => self.wants_nsid = true,
                option::KEEPALIVE => self.wants_keepalive = true,
                option::PADDING => self.wants_padding = true,
                // Only the first cookie counts (RFC 7873 section 5.2).
                option::COOKIE if self.cookie.is_none() => {
                    let (client, server) = cookie(value)?;
                    self.cookie = Some(client);
                    self.server_cookie = server.try_into().ok();
                }
                _ => {} // unknown options are ignored (RFC 6891 section 6.1.2)
            }
        }
        data.is_empty().then_some(self)
    }
}

/// Takes a cookie apart: 8 octets of the client's, alone or with 8 to 32 of a server's (RFC 7873 section 5.2.2).
fn cookie(value: &[u8]) -> Option<(ClientCookie, &[u8])> {
    let (client, server) = value.split_first_chunk()?;
    matches!(server.len(), 0 | 8..=32).then_some((*client, server))
}

/// Codes of EDNS options.
pub mod option {
    /// Name server identifier (RFC 5001).
    pub const NSID: u16 = 3;
    /// Cookie (RFC 7873).
    pub const COOKIE: u16 = 10;
    /// Idle timeout of a TCP connection (RFC 7828).
    pub const KEEPALIVE: u16 = 11;
    /// Padding (RFC 7830).
    pub const PADDING: u16 = 12;
    /// Extended DNS Error (RFC 8914).
    pub const ERROR: u16 = 15;
}

/// A record below the question: where it ends, and its fixed fields.
struct Record {
    is_root: bool,
    rtype: RecordType,
    class: u16,
    ttl: [u8; 4],
    data: usize,
    end: usize,
}

impl Record {
    fn read(packet: &[u8], at: usize) -> Option<Self> {
        let fixed = skip_name(packet, at)?;
        let fields: &[u8; 10] = packet.get(fixed..fixed + 10)?.try_into().ok()?;
        let &[t1, t2, c1, c2, a, b, c, d, l1, l2] = fields;
        let data = fixed + 10;
        let end = data + usize::from(u16::from_be_bytes([l1, l2]));
        Some(Self {
            is_root: fixed == at + 1,
            rtype: RecordType(u16::from_be_bytes([t1, t2])),
            class: u16::from_be_bytes([c1, c2]),
            ttl: [a, b, c, d],
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
            0 if at - start < 255 => return Some(at + 1), // RFC 1035 section 2.3.4
            0xc0.. => return Some(at + 2),
            length @ 1..0x40 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests;
