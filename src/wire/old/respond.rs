use crate::wire::respond::{Settings, Transport, Arrival, RateLimit, Reply, Body, ReplyEdns, ExtendedError};
use crate::wire::Rcode;
use crate::zone::order::mix;
use crate::wire::query::{CLASS_ANY, CLASS_CH, CLASS_IN, Edns, Query, Reject};
use crate::table::Published;
use crate::zone::answer::answer_question;
use crate::zone::{Answer, RecordType, Zones};
/// What a client takes over UDP at least (RFC 1035 section 4.2.1), and without EDNS at most.
const UDP_PLAIN: u16 = 512;


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
    if arrival.rate_limit == RateLimit::Drop {
        return None;
    }
    if !settings.access.is_allowed(arrival.client) {
        let error = Some(ExtendedError::Prohibited);
        return Some(small(settings, Rcode::REFUSED, error, edns, arrival));
    }
    let query = match query {
        Ok(query) if arrival.rate_limit == RateLimit::Slip => {
            return Some(Reply {
                body: Body::ByTcp,
                ..small(settings, Rcode::NOERROR, None, query.edns.as_ref(), arrival)
            });
        }
        Ok(query) => query,
        // By TCP it would be as wrong.
        Err(_) if arrival.rate_limit == RateLimit::Slip => return None,
        Err(Reject::Drop) => return None,
        Err(Reject::With { rcode, .. }) => return Some(code(settings, *rcode, edns, arrival)),
    };
    let reply = |rcode, error| {
        let mut reply = code(settings, rcode, query.edns.as_ref(), arrival);
        reply.edns = reply.edns.map(|edns| ReplyEdns { error, ..edns });
        reply
    };
    if query.edns.is_some_and(|edns| edns.version > 0) {
        return Some(reply(Rcode::BADVERS, None)); // RFC 6891 section 6.1.3
    }
    match query.class {
        CLASS_IN | CLASS_ANY => {}
        CLASS_CH => match chaos(settings, query) {
            Some(text) => {
                return Some(Reply {
                    body: Body::Chaos(text),
                    ..reply(Rcode::NOERROR, None)
                });
            }
            None => return Some(reply(Rcode::REFUSED, Some(ExtendedError::NotSupported))),
        },
        _ => return Some(reply(Rcode::REFUSED, Some(ExtendedError::NotSupported))),
    }
    match query.rtype {
        RecordType::AXFR | RecordType::IXFR => {
            return Some(reply(Rcode::REFUSED, Some(ExtendedError::NotSupported)));
        }
        // The other meta types (RFC 6895 section 3.1), OPT among them, are no questions.
        RecordType::OPT | RecordType(249..=254) => return Some(reply(Rcode::NOTIMP, None)),
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
        Answer::Refused => {
            return Some(reply(Rcode::REFUSED, Some(ExtendedError::NotAuthoritative)));
        }
        Answer::NotReady => return Some(reply(Rcode::SERVFAIL, Some(ExtendedError::NotReady))),
        Answer::Expired => {
            return Some(reply(Rcode::SERVFAIL, Some(ExtendedError::InvalidData)));
        }
    };
    // An answer for any class cannot speak for all of them (RFC 1035 section 6.2).
    let body = Body::Answer(answer);
    Some(Reply {
        authoritative: query.class == CLASS_IN,
        body,
        serial: now.serial,
        ..reply(rcode, None)
    })
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

