//! The response policy, once for every transport: what becomes of a query, before anything is written.

use super::Rcode;
use super::query::{CLASS_ANY, CLASS_IN, Edns, Query, Reject};
use crate::table::Published;
use crate::zone::answer::answer_question;
use crate::zone::{Answer, RecordType, Zones};

/// What the policy depends on, fixed at start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The zones that are served.
    pub zones: Zones,
    /// `--order`.
    pub order: Order,
}

/// The order of rows in an answer. The set is always complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each answer starts with the next row.
    Rotate,
    /// Each answer has an order of its own.
    Shuffle,
    /// Rows of this cluster first, both parts rotated.
    LocalFirst,
    /// As in the table: by cluster and hostname.
    Stable,
}

/// How a query arrived: decides how long the reply may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One datagram.
    Udp,
    /// A stream with messages of up to 65,535 octets.
    Tcp,
}

/// What is sent back.
#[derive(Clone, Debug)]
pub struct Reply<'t> {
    /// Response code; above 15 it needs EDNS.
    pub rcode: Rcode,
    /// The AA bit.
    pub authoritative: bool,
    /// The sections; `None` for a reply that is a code alone.
    pub answer: Option<Answer<'t>>,
    /// SOA serial.
    pub serial: u32,
    /// Our OPT record; there is one iff the client sent one (RFC 6891 section 6.1.1).
    pub edns: Option<ReplyEdns>,
    /// Octets that the reply may take.
    pub limit: u16,
    /// Order of the rows.
    pub order: Order,
    /// Counts replies, for [`Order::Rotate`] and the like.
    pub turn: u32,
}

/// The OPT record of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyEdns {
    /// The client's DO bit (RFC 3225 section 3).
    pub dnssec_ok: bool,
    /// Extended DNS Error, where it helps (RFC 8914).
    pub error: Option<ExtendedError>,
}

/// Extended DNS Errors that we give (RFC 8914 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtendedError {
    /// 14: there is no table yet.
    NotReady,
    /// 20: outside our zones.
    NotAuthoritative,
    /// 21: a class or a transfer.
    NotSupported,
}

/// The most that a reply over UDP takes: what passes without fragmentation (RFC 9715 section 3.1).
pub const UDP_MAX: u16 = 1232;
/// What a client without EDNS takes over UDP (RFC 1035 section 4.2.1).
const UDP_PLAIN: u16 = 512;

/// Applies the policy. `None`: nothing is sent.
pub fn respond<'t>(
    settings: &'t Settings,
    now: &'t Published,
    query: &Result<Query, Reject>,
    over: Transport,
    turn: u32,
) -> Option<Reply<'t>> {
    let query = match query {
        Ok(query) => query,
        Err(Reject::Drop) => return None,
        Err(Reject::With(rcode, edns)) => {
            return Some(bare(settings, *rcode, *edns, over));
        }
    };
    let refuse = |rcode, error| {
        let mut reply = bare(settings, rcode, query.edns, over);
        reply.edns = reply.edns.map(|edns| ReplyEdns { error, ..edns });
        Some(reply)
    };
    if query.edns.is_some_and(|edns| edns.version > 0) {
        return refuse(Rcode::BADVERS, None); // RFC 6891 section 6.1.3
    }
    if query.class != CLASS_IN && query.class != CLASS_ANY {
        return refuse(Rcode::REFUSED, Some(ExtendedError::NotSupported));
    }
    match query.rtype {
        RecordType::AXFR | RecordType::IXFR => {
            return refuse(Rcode::REFUSED, Some(ExtendedError::NotSupported));
        }
        // The other meta types (RFC 6895 section 3.1), OPT among them, are no questions.
        RecordType::OPT | RecordType(249..=254) => return refuse(Rcode::NOTIMP, None),
        _ => {}
    }
    let answer = answer_question(
        &settings.zones,
        now.table.as_ref(),
        &query.name,
        query.rtype,
    );
    let (rcode, error) = match answer {
        Answer::Data(..)
        | Answer::Soa(_)
        | Answer::Ns(_)
        | Answer::Address(..)
        | Answer::Text(_)
        | Answer::NoData(_) => (Rcode::NOERROR, None),
        Answer::NxDomain(_) => (Rcode::NXDOMAIN, None),
        Answer::Refused => return refuse(Rcode::REFUSED, Some(ExtendedError::NotAuthoritative)),
        Answer::NotReady => return refuse(Rcode::SERVFAIL, Some(ExtendedError::NotReady)),
    };
    let mut reply = bare(settings, rcode, query.edns, over);
    reply.authoritative = true;
    reply.answer = Some(answer);
    reply.serial = now.serial;
    reply.turn = turn;
    reply.edns = reply.edns.map(|edns| ReplyEdns { error, ..edns });
    Some(reply)
}

/// Makes a reply that is a code alone.
fn bare<'t>(settings: &Settings, rcode: Rcode, edns: Option<Edns>, over: Transport) -> Reply<'t> {
    let payload = edns.map_or(UDP_PLAIN, |edns| edns.payload.clamp(UDP_PLAIN, UDP_MAX));
    Reply {
        rcode,
        authoritative: false,
        answer: None,
        serial: 0,
        edns: edns.map(|edns| ReplyEdns {
            dnssec_ok: edns.dnssec_ok,
            error: None,
        }),
        limit: match over {
            Transport::Udp => payload,
            Transport::Tcp => u16::MAX,
        },
        order: settings.order,
        turn: 0,
    }
}

// === impl ExtendedError ===

impl ExtendedError {
    /// Returns the INFO-CODE.
    pub fn code(self) -> u16 {
        match self {
            Self::NotReady => 14,
            Self::NotAuthoritative => 20,
            Self::NotSupported => 21,
        }
    }
}
