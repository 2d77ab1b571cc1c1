//! The response policy, once for every transport: what becomes of a query, before anything is written.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::time::Duration;

use super::Rcode;
use super::access::Access;
use super::cookie::Cookie;
use super::query::{CLASS_ANY, CLASS_CH, CLASS_IN, Edns, Query, Reject};
use crate::table::Published;
use crate::zone::answer::answer_question;
use crate::zone::order::mix;
use crate::zone::{Answer, AnswerContext, Data, Name, Order, Record, RecordType, Zones};

/// What the policy depends on, fixed at start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The zones that are served.
    pub zones: Zones,
    /// `--allow` and `--trusted`.
    pub access: Access,
    /// `--order`.
    pub order: Order,
    /// `--udp-max`: octets that a reply over UDP takes at most, whatever the client says (RFC 9715 section 3.1).
    pub udp_max: u16,
    /// `--server-id`: the answer to NSID (RFC 5001) and to `id.server` (RFC 4892).
    pub server_id: Option<String>,
    /// `--version-bind`: the answer to `version.bind`.
    pub version_bind: Option<String>,
    /// How long a TCP connection may be idle, for who asks (RFC 7828).
    pub tcp_idle: Duration,
}

/// How a query arrived: decides how long the reply may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One datagram.
    Udp,
    /// A stream with messages of up to 65,535 octets.
    Tcp,
    /// The same inside TLS (RFC 7858).
    Tls,
    /// An HTTP exchange for each message of up to 65,535 octets (RFC 8484).
    Https,
    /// A QUIC stream for each message of up to 65,535 octets (RFC 9250).
    Quic,
}

/// Where and when a query arrived: what the policy looks at besides the message.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The transport.
    pub over: Transport,
    /// The client's address, for `--allow`.
    pub client: IpAddr,
    /// Whether the client is asking too fast.
    pub rate_limit: RateLimit,
    /// Counts queries, for the order of rows.
    pub turn: u32,
    /// The cookie for this client, if it sent one.
    pub cookie: Option<Cookie>,
}

/// Whether a source is asking faster than it may over UDP, where it may be somebody else who is asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateLimit {
    /// It is not, or is not limited.
    Within,
    /// It is, and is told to come by TCP.
    Slip,
    /// It is, and gets nothing.
    Drop,
}

/// What is sent back.
#[derive(Clone, Debug)]
pub struct Reply<'t> {
    /// Response code; above 15 it needs EDNS.
    pub rcode: Rcode,
    /// The AA bit.
    pub authoritative: bool,
    /// What the sections are made from.
    pub body: Body<'t>,
    /// SOA serial.
    pub serial: u32,
    /// Our OPT record; there is one iff the client sent one (RFC 6891 section 6.1.1).
    pub edns: Option<ReplyEdns<'t>>,
    /// Octets that the reply may take.
    pub limit: u16,
    /// Order of the rows.
    pub order: Order,
    /// Decides which row is first: a number without a pattern.
    pub turn: u32,
}

/// What the sections of a reply are made from.
#[derive(Clone, Debug)]
pub enum Body<'t> {
    /// Nothing: the reply is a code alone.
    Code,
    /// Nothing, and TC: the client is to ask over TCP.
    ByTcp,
    /// An answer about a name in a zone of ours.
    Answer(Answer<'t>),
    /// A text about this server, in class CH.
    Chaos(&'t [u8]),
}

/// The OPT record of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyEdns<'t> {
    /// Octets that we take over UDP.
    pub payload: u16,
    /// The client's DO bit (RFC 3225 section 3).
    pub dnssec_ok: bool,
    /// Which server this is, for who asks.
    pub nsid: Option<&'t [u8]>,
    /// The client's cookie with ours.
    pub cookie: Option<Cookie>,
    /// How long the TCP or TLS connection may be idle, in tenths of a second, for who asks.
    pub keepalive: Option<u16>,
    /// The reply is filled up to a multiple of [`PADDING_BLOCK`] octets.
    pub is_padded: bool,
    /// Extended DNS Error, where it helps (RFC 8914).
    pub error: Option<ExtendedError>,
}

/// Extended DNS Errors that we give (RFC 8914 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtendedError {
    /// 14: there is no table yet.
    NotReady,
    /// 18: the client may not ask.
    Prohibited,
    /// 20: outside our zones.
    NotAuthoritative,
    /// 21: a class or a transfer.
    NotSupported,
    /// 24: the table is too old. Not 3, Stale Answer, which says that there is an answer.
    InvalidData,
}

/// What a client takes over UDP at least (RFC 1035 section 4.2.1), and without EDNS at most.
const UDP_PLAIN: u16 = 512;

/// Padded replies take a multiple of so many octets (RFC 8467 section 4.1).
pub const PADDING_BLOCK: usize = 468;

/// A code without records, and the extended error that goes with it.
type Refusal = (Rcode, Option<ExtendedError>);

const NOT_SUPPORTED: Refusal = (Rcode::REFUSED, Some(ExtendedError::NotSupported));

/// Applies the policy. `None`: nothing is sent.
pub fn respond<'t>(
    settings: &'t Settings,
    now: &'t Published,
    query: &Result<Query, Reject>,
    arrival: &Arrival,
) -> Option<Reply<'t>> {
    let edns = match query {
        Ok(query) => query.edns.as_ref(),
        Err(Reject::Drop) => return None,
        Err(Reject::With { edns, .. }) => edns.as_ref(),
    };
    let small = |rcode, error| small(settings, rcode, error, edns, arrival);
    match (arrival.rate_limit, query) {
        (RateLimit::Drop, _) => None,
        _ if !settings.access.is_allowed(arrival.client) => {
            Some(small(Rcode::REFUSED, Some(ExtendedError::Prohibited)))
        }
        (RateLimit::Slip, Ok(_)) => Some(Reply {
            body: Body::ByTcp,
            ..small(Rcode::NOERROR, None)
        }),
        // By TCP it would be as wrong.
        (RateLimit::Slip, Err(_)) | (_, Err(Reject::Drop)) => None,
        (RateLimit::Within, Err(Reject::With { rcode, .. })) => {
            Some(code(settings, *rcode, edns, arrival))
        }
        (RateLimit::Within, Ok(query)) => Some(reply_to(settings, now, query, arrival)),
    }
}

/// Replies to a query that could be read, of a client that may ask.
fn reply_to<'t>(
    settings: &'t Settings,
    now: &'t Published,
    query: &Query,
    arrival: &Arrival,
) -> Reply<'t> {
    let code = |rcode| code(settings, rcode, query.edns.as_ref(), arrival);
    match body_of(settings, now, query) {
        Ok((rcode, body)) => Reply {
            // An answer for any class cannot speak for all of them (RFC 1035 section 6.2).
            authoritative: query.class == CLASS_IN,
            body,
            serial: now.serial,
            ..code(rcode)
        },
        Err((rcode, error)) => {
            let mut reply = code(rcode);
            reply.edns = reply.edns.map(|edns| ReplyEdns { error, ..edns });
            reply
        }
    }
}

fn body_of<'t>(
    settings: &'t Settings,
    now: &'t Published,
    query: &Query,
) -> Result<(Rcode, Body<'t>), Refusal> {
    if query.edns.is_some_and(|edns| edns.version > 0) {
        return Err((Rcode::BADVERS, None)); // RFC 6891 section 6.1.3
    }
    match query.class {
        CLASS_IN | CLASS_ANY => answer_to(settings, now, query),
        CLASS_CH => match chaos(settings, query) {
            Some(text) => Ok((Rcode::NOERROR, Body::Chaos(text))),
            None => Err(NOT_SUPPORTED),
        },
        _ => Err(NOT_SUPPORTED),
    }
}

fn answer_to<'t>(
    settings: &'t Settings,
    now: &'t Published,
    query: &Query,
) -> Result<(Rcode, Body<'t>), Refusal> {
    match query.rtype {
        RecordType::AXFR | RecordType::IXFR => return Err(NOT_SUPPORTED),
        // The other meta types (RFC 6895 section 3.1), OPT among them, are no questions.
        RecordType::OPT | RecordType(249..=254) => return Err((Rcode::NOTIMP, None)),
        _ => {}
    }
    let answer = answer_question(&settings.zones, now, &query.name, query.rtype);
    let rcode = match answer {
        Answer::Data(..)
        | Answer::Soa(_)
        | Answer::Ns(_)
        | Answer::Address(..)
        | Answer::Text(_)
        | Answer::Pointers(..)
        | Answer::NoData(_) => Rcode::NOERROR,
        Answer::NxDomain(_) => Rcode::NXDOMAIN,
        Answer::Refused => return Err((Rcode::REFUSED, Some(ExtendedError::NotAuthoritative))),
        Answer::NotReady => return Err((Rcode::SERVFAIL, Some(ExtendedError::NotReady))),
        Answer::Expired => return Err((Rcode::SERVFAIL, Some(ExtendedError::InvalidData))),
    };
    Ok((rcode, Body::Answer(answer)))
}

/// Returns what is told about this server, if the operator wants it told (RFC 4892).
fn chaos<'t>(settings: &'t Settings, query: &Query) -> Option<&'t [u8]> {
    let text = match query.name.wire() {
        b"\x02id\x06server\x00" => settings.server_id.as_ref(),
        b"\x07version\x04bind\x00" => settings.version_bind.as_ref(),
        _ => None,
    };
    let is_asked = matches!(query.rtype, RecordType::TXT | RecordType::ANY);
    text.filter(|_| is_asked).map(String::as_bytes)
}

/// Makes a reply that is a code alone and hardly longer than the query, for who may not be the one who asked.
fn small<'t>(
    settings: &'t Settings,
    rcode: Rcode,
    error: Option<ExtendedError>,
    edns: Option<&Edns>,
    arrival: &Arrival,
) -> Reply<'t> {
    let mut reply = code(settings, rcode, edns, arrival);
    reply.edns = reply.edns.map(|edns| ReplyEdns {
        nsid: None,
        keepalive: None,
        error,
        ..edns
    });
    reply
}

/// Makes a reply that is a code alone.
fn code<'t>(
    settings: &'t Settings,
    rcode: Rcode,
    edns: Option<&Edns>,
    arrival: &Arrival,
) -> Reply<'t> {
    let payload = edns.map_or(UDP_PLAIN, |edns| {
        edns.payload.max(UDP_PLAIN).min(settings.udp_max)
    });
    Reply {
        rcode,
        authoritative: false,
        body: Body::Code,
        serial: 0,
        edns: edns.map(|edns| reply_edns(settings, edns, arrival)),
        limit: match arrival.over {
            Transport::Udp => payload,
            Transport::Tcp | Transport::Tls | Transport::Https | Transport::Quic => u16::MAX,
        },
        order: settings.order,
        turn: mix(arrival.turn),
    }
}

fn reply_edns<'t>(settings: &'t Settings, edns: &Edns, arrival: &Arrival) -> ReplyEdns<'t> {
    // How long an HTTP connection may be idle is a matter of HTTP.
    let has_idle_time = matches!(arrival.over, Transport::Tcp | Transport::Tls);
    // Where everybody can read the message, padding hides nothing (RFC 7830 section 6). Over QUIC hickory encodes.
    let can_pad = matches!(arrival.over, Transport::Tls | Transport::Https);
    let tenths = u16::try_from(settings.tcp_idle.as_millis() / 100).unwrap_or(u16::MAX);
    ReplyEdns {
        payload: settings.udp_max,
        dnssec_ok: edns.dnssec_ok,
        nsid: settings
            .server_id
            .as_ref()
            .filter(|_| edns.wants_nsid)
            .map(String::as_bytes),
        cookie: edns.cookie.and(arrival.cookie),
        keepalive: (edns.wants_keepalive && has_idle_time).then_some(tenths),
        is_padded: edns.wants_padding && can_pad,
        error: None,
    }
}

// === impl Reply ===

impl Reply<'_> {
    /// Visits the records, all but OPT, section by section, until `visit` breaks.
    pub fn visit_records<'a>(
        &'a self,
        question: &'a Name,
        mut visit: impl FnMut(Record<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let context = AnswerContext {
            question,
            serial: self.serial,
            order: self.order,
            turn: self.turn,
        };
        match &self.body {
            Body::Code | Body::ByTcp => ControlFlow::Continue(()),
            Body::Chaos(text) => visit(Record::answer(question, 0, Data::Txt(text))),
            Body::Answer(answer) => answer.visit_records(context, visit),
        }
    }

    /// Returns the class of the records.
    pub fn class(&self) -> u16 {
        match &self.body {
            Body::Code | Body::ByTcp | Body::Answer(_) => CLASS_IN,
            Body::Chaos(_) => CLASS_CH,
        }
    }

    /// Returns for how many seconds the reply may be kept: the TTL of its answer section, which is one RRset; without
    /// one, that of its SOA record (RFC 8484 section 5.1). `None`: nothing says so.
    pub fn max_age(&self, query: &Query) -> Option<u32> {
        let mut first = None;
        let _ = self.visit_records(&query.name, |record| {
            first = Some(record.ttl);
            ControlFlow::Break(())
        });
        first.filter(|_| matches!(self.body, Body::Answer(_)))
    }
}

// === impl ExtendedError ===

impl ExtendedError {
    /// Returns the INFO-CODE.
    pub fn code(self) -> u16 {
        match self {
            Self::NotReady => 14,
            Self::Prohibited => 18,
            Self::NotAuthoritative => 20,
            Self::NotSupported => 21,
            Self::InvalidData => 24,
        }
    }
}
