//! The response policy for every transport. It decides the reply to a query; [`write()`](super::write()) encodes it.

use std::ops::ControlFlow;
use std::time::Duration;

use strum::{IntoStaticStr, VariantArray};

use super::access::Access;
use super::query::{CLASS_ANY, CLASS_CH, CLASS_IN, Edns, Message, Query};
use super::rcode::Rcode;
use crate::table::Published;
use crate::zone::answer::answer_question;
use crate::zone::{
    Answer, AnswerContext, AnswerOrder, Data, Failure, Name, Record, RecordType, Walk, Zones,
};

/// Settings of the policy, fixed at start.
#[derive(Debug)]
pub struct ResponseSettings {
    /// The served zones.
    pub zones: Zones,
    /// `limits.allow`.
    pub access: Access,
    /// `answers.order`.
    pub order: AnswerOrder,
    /// `answers.udpMax`: maximum length of a reply over UDP, even if the client announces more (RFC 9715 section 3.1).
    pub udp_max: u16,
    /// `answers.serverId`: the answer to NSID (RFC 5001) and to `id.server` (RFC 4892).
    pub server_id: String,
}

/// The transport of a query. It determines the maximum length of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Transport {
    /// A datagram for each message.
    Udp,
    /// A stream with messages of up to 65,535 octets.
    Tcp,
    /// The same stream inside TLS (RFC 7858).
    Tls,
    /// A QUIC stream for each message of up to 65,535 octets (RFC 9250).
    Quic,
}

/// The circumstances of a query: everything besides the message that affects the reply.
#[derive(Clone, Copy, Debug)]
pub struct QueryContext {
    /// The transport.
    pub transport: Transport,
    /// Whether `limits.allow` includes the client.
    pub is_allowed: bool,
    /// Random number. It determines the order of rows.
    pub turn: u32,
}

/// A reply before it is encoded.
#[derive(Debug)]
pub struct Reply<'t> {
    /// Response code. Codes above 15 need EDNS.
    pub rcode: Rcode,
    /// The AA bit.
    pub authoritative: bool,
    /// The content of the sections.
    pub body: Body<'t>,
    /// SOA serial.
    pub serial: u32,
    /// The OPT record. It exists if and only if the client sent one (RFC 6891 section 6.1.1).
    pub edns: Option<ReplyEdns<'t>>,
    /// Maximum length in octets.
    pub limit: u16,
    /// Order of the rows.
    pub walk: Walk,
}

/// The content of the sections of a reply.
#[derive(Debug)]
pub enum Body<'t> {
    /// No records, only the response code.
    Empty,
    /// An answer for a name in a served zone.
    Answer(Answer<'t>),
    /// A text about this server in class CH.
    Chaos(&'t [u8]),
}

/// The OPT record of a reply.
#[derive(Clone, Copy, Debug)]
pub struct ReplyEdns<'t> {
    /// UDP payload size of this server.
    pub payload: u16,
    /// The client's DO bit (RFC 3225 section 3).
    pub dnssec_ok: bool,
    /// Identifier of this server, if the client requests it.
    pub nsid: Option<&'t [u8]>,
    /// Idle timeout of the TCP or TLS connection in tenths of a second, if the client requests it.
    pub keepalive: Option<u16>,
    /// The reply is padded to a multiple of [`PADDING_BLOCK`] octets.
    pub is_padded: bool,
    /// Extended DNS Error (RFC 8914).
    pub error: Option<ExtendedError<'t>>,
}

/// An Extended DNS Error (RFC 8914 section 4).
#[derive(Clone, Copy, Debug)]
pub enum ExtendedError<'t> {
    /// There is no table yet.
    NotReady,
    /// A name of a service fails. The reason is the EXTRA-TEXT.
    Failed(Failure<'t>),
    /// `limits.allow` excludes the client.
    Prohibited,
    /// The name is outside the served zones.
    NotAuthoritative,
    /// The class or a zone transfer is not supported.
    NotSupported,
}

/// Idle timeout of a TCP connection, which clients can request (RFC 7828). CoreDNS reuses a connection for 10 seconds, so this is longer.
pub const TCP_IDLE: Duration = Duration::from_secs(30);

/// Minimum payload size of a client over UDP (RFC 1035 section 4.2.1), and the maximum without EDNS.
const UDP_PLAIN: u16 = 512;

/// The length of a padded reply is a multiple of this number of octets (RFC 8467 section 4.1).
pub const PADDING_BLOCK: usize = 468;

/// The name of the question for the identity of this server, `id.server` (RFC 4892).
const IDENTITY: &[u8] = b"\x02id\x06server\x00";

/// A response code without records, and its extended error.
type ErrorReply<'t> = (Rcode, Option<ExtendedError<'t>>);

const NOT_SUPPORTED: ErrorReply<'_> = (Rcode::Refused, Some(ExtendedError::NotSupported));

/// Applies the policy.
pub fn respond<'t>(
    settings: &'t ResponseSettings,
    published: &'t Published,
    message: &Message,
    context: &QueryContext,
) -> Reply<'t> {
    let Message { edns, query, .. } = message;
    let selected = match query {
        _ if !context.is_allowed => Err((Rcode::Refused, Some(ExtendedError::Prohibited))),
        Err(rcode) => Err((*rcode, None)),
        Ok(_) if edns.is_some_and(|edns| edns.version > 0) => Err((Rcode::BadVers, None)), // RFC 6891 section 6.1.3
        Ok(query) => select_body(settings, published, query),
    };
    // The server has data of one class, so an answer for any class is not authoritative (RFC 1035 section 6.2).
    let is_of_class = matches!(query, Ok(query) if query.class == CLASS_IN);
    let authoritative = is_of_class && selected.is_ok();
    let (rcode, body, error) = match selected {
        Ok((rcode, body)) => (rcode, body, None),
        Err((rcode, error)) => (rcode, Body::Empty, error),
    };
    let payload = edns.map_or(UDP_PLAIN, |edns| {
        edns.payload.max(UDP_PLAIN).min(settings.udp_max)
    });
    let edns = edns.map(|edns| reply_edns(settings, edns, error, context));
    Reply {
        rcode,
        authoritative,
        body,
        serial: published.serial,
        edns,
        limit: match context.transport {
            Transport::Udp => payload,
            Transport::Tcp | Transport::Tls | Transport::Quic => u16::MAX,
        },
        walk: Walk {
            order: settings.order,
            turn: context.turn,
        },
    }
}

fn select_body<'t>(
    settings: &'t ResponseSettings,
    published: &'t Published,
    query: &Query,
) -> Result<(Rcode, Body<'t>), ErrorReply<'t>> {
    match (query.class, query.rtype) {
        (CLASS_IN | CLASS_ANY, RecordType::AXFR | RecordType::IXFR) => return Err(NOT_SUPPORTED),
        // The other meta types (RFC 6895 section 3.1), including OPT, are not valid in a question.
        (CLASS_IN | CLASS_ANY, RecordType::OPT | RecordType(249..=254)) => {
            return Err((Rcode::NotImp, None));
        }
        (CLASS_IN | CLASS_ANY, _) => {}
        (CLASS_CH, RecordType::TXT | RecordType::ANY) if query.name.wire() == IDENTITY => {
            let text = settings.server_id.as_bytes();
            return Ok((Rcode::NoError, Body::Chaos(text)));
        }
        _ => return Err(NOT_SUPPORTED),
    }
    let answer = answer_question(&settings.zones, published, &query.name, query.rtype);
    let rcode = match answer {
        Answer::NxDomain(_) => Rcode::NxDomain,
        Answer::Refused => return Err((Rcode::Refused, Some(ExtendedError::NotAuthoritative))),
        Answer::NotReady => return Err((Rcode::ServFail, Some(ExtendedError::NotReady))),
        Answer::Failed(why) => return Err((Rcode::ServFail, Some(ExtendedError::Failed(why)))),
        _ => Rcode::NoError,
    };
    Ok((rcode, Body::Answer(answer)))
}

/// Makes the OPT record of a reply. The reply to a client that is not allowed is hardly longer than the query, because the source
/// address may be forged.
fn reply_edns<'t>(
    settings: &'t ResponseSettings,
    edns: Edns,
    error: Option<ExtendedError<'t>>,
    context: &QueryContext,
) -> ReplyEdns<'t> {
    let has_idle_time =
        context.is_allowed && matches!(context.transport, Transport::Tcp | Transport::Tls);
    let tenths = 10 * TCP_IDLE.as_secs() as u16; // 300
    ReplyEdns {
        payload: settings.udp_max,
        dnssec_ok: edns.dnssec_ok,
        nsid: (edns.wants_nsid && context.is_allowed).then_some(settings.server_id.as_bytes()),
        keepalive: (edns.wants_keepalive && has_idle_time).then_some(tenths),
        // Without encryption, padding hides nothing (RFC 7830 section 6). Over QUIC, hickory encodes the reply.
        is_padded: edns.wants_padding && context.transport == Transport::Tls,
        error,
    }
}

// === impl Reply ===

impl Reply<'_> {
    /// Visits all records except OPT, section by section, until `visit` breaks.
    pub fn visit_records<'a>(
        &'a self,
        question: &'a Name,
        mut visit: impl FnMut(Record<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let context = AnswerContext {
            question,
            serial: self.serial,
            walk: self.walk,
        };
        match &self.body {
            Body::Empty => ControlFlow::Continue(()),
            Body::Chaos(text) => visit(Record::answer(question, 0, Data::Txt(text))),
            Body::Answer(answer) => answer.visit_records(context, visit),
        }
    }

    /// Returns the class of the records.
    pub fn class(&self) -> u16 {
        match self.body {
            Body::Empty | Body::Answer(_) => CLASS_IN,
            Body::Chaos(_) => CLASS_CH,
        }
    }
}

// === impl ExtendedError ===

impl ExtendedError<'_> {
    /// Returns the data of the option: INFO-CODE and EXTRA-TEXT.
    pub fn data(self) -> Vec<u8> {
        let (code, text): (u16, _) = match self {
            Self::NotReady => (14, String::new()),
            Self::Failed(failure) => (14, failure.to_string()),
            Self::Prohibited => (18, String::new()),
            Self::NotAuthoritative => (20, String::new()),
            Self::NotSupported => (21, String::new()),
        };
        [&code.to_be_bytes(), text.as_bytes()].concat()
    }
}
