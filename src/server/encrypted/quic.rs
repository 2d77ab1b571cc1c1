//! DNS over QUIC (RFC 9250), experimental: hickory-server does the transport. Messages go to *our* parser and policy, and
//! records come back, which hickory writes. Nothing is decided here.
//!
//! What hickory does on its own stays as it is: handshakes are done one after another, a connection carries a hundred
//! queries, and a message that cannot be read is answered before we see it.

use std::net::{SocketAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use hickory_proto::op::{Edns, Header, HeaderCounts, MessageType, Metadata, ResponseCode};
use hickory_proto::rr::Record;
use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};
use hickory_proto::serialize::binary::{BinDecoder, BinEncodable, BinEncoder};
use hickory_server::Server;
use hickory_server::net::NetError;
use hickory_server::net::runtime::Time;
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::{MessageResponseBuilder, Queries};
use rustls::ServerConfig;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::log::replaced;
use crate::server::{Answerer, TCP_IDLE};
use crate::wire::query::{HEADER, option};
use crate::wire::respond::ReplyEdns;
use crate::wire::{self, Query, Reject, Reply, Sections, Transport};

/// Answers what hickory-server hands over.
struct Adapter {
    answerer: Arc<Answerer>,
}

/// A reply that no longer borrows the table.
struct Message {
    rcode: ResponseCode,
    authoritative: bool,
    has_question: bool,
    edns: Option<Edns>,
    sections: Sections,
    is_truncated: bool,
}

/// Serves a socket until `stop`. Ending although nobody stopped it is for the caller to notice.
pub(super) async fn serve(
    socket: UdpSocket,
    config: Arc<ServerConfig>,
    answerer: Arc<Answerer>,
    stop: CancellationToken,
) {
    let mut server = Server::new(Adapter { answerer });
    if let Err(error) = register(&mut server, socket, config) {
        warn!(%error, "A QUIC listener could not start");
        return;
    }
    tokio::select! {
        ended = server.block_until_done() => {
            let error = ended.err().map(|error| error.to_string());
            warn!(error, "A QUIC listener ended");
        }
        () = stop.cancelled() => {
            if let Err(error) = server.shutdown_gracefully().await {
                warn!(%error, "A QUIC listener had ended in an error");
            }
        }
    }
}

fn register(
    server: &mut Server<Adapter>,
    socket: UdpSocket,
    config: Arc<ServerConfig>,
) -> Result<(), NetError> {
    let socket = tokio::net::UdpSocket::from_std(socket)?;
    server.register_quic_listener_and_tls_config(socket, TCP_IDLE, config)
}

impl Adapter {
    /// Makes the reply to a message; `None`: nothing is sent. The same steps as for UDP and TCP, another writer.
    fn reply(&self, packet: &[u8], client: SocketAddr) -> Option<Message> {
        let answerer = &self.answerer;
        // hickory would end the connection, and tell nobody.
        let made = catch_unwind(AssertUnwindSafe(|| replaced(|| self.make(packet, client))));
        made.unwrap_or_else(|_| {
            answerer.counters.count_panic(Transport::Quic);
            None
        })
    }

    fn make(&self, packet: &[u8], client: SocketAddr) -> Option<Message> {
        let started = Instant::now();
        let answerer = &self.answerer;
        let moment = answerer.moment(1);
        let quic = Transport::Quic;
        let message = answerer.reply(&moment, packet, quic, client, |reply, query| {
            let message = Message::of(reply, query);
            let is_truncated = message.is_truncated;
            (message, is_truncated)
        })?;
        answerer.counters.count_time(1, started.elapsed());
        Some(message)
    }
}

#[async_trait]
impl RequestHandler for Adapter {
    async fn handle_request<R: ResponseHandler, T: Time>(
        &self,
        request: &Request,
        mut handle: R,
    ) -> ResponseInfo {
        let mut metadata = response_metadata(request);
        // Nothing is sent for what must not be answered: hickory resets the stream.
        let Some(message) = self.reply(request.as_slice(), request.src()) else {
            return unsent(metadata);
        };
        message.describe(&mut metadata);
        // Nothing, which can always be read.
        let none = Queries::read(&mut BinDecoder::new(&[]), 0);
        let queries = match &none {
            Ok(none) if !message.has_question => none,
            _ => &request.queries,
        };
        let Sections {
            answers,
            soa,
            additionals,
        } = &message.sections;
        let builder = MessageResponseBuilder::new(queries, message.edns.as_ref());
        let response = builder.build(metadata, answers, &[], soa, additionals);
        let sent = handle.send_response(response).await;
        sent.unwrap_or_else(|error| {
            debug!(%error, "A reply could not be sent");
            unsent(metadata)
        })
    }
}

/// Returns what a response has of its request; RA, AD and CD are clear.
fn response_metadata(request: &Request) -> Metadata {
    let asked = &request.metadata;
    let mut metadata = Metadata::new(asked.id, MessageType::Response, asked.op_code);
    metadata.recursion_desired = asked.recursion_desired;
    metadata
}

/// What hickory is told of a reply that was not sent.
fn unsent(metadata: Metadata) -> ResponseInfo {
    let counts = HeaderCounts::default();
    Header { metadata, counts }.into()
}

// === impl Message ===

impl Message {
    fn of(reply: &Reply<'_>, query: &Result<Query, Reject>) -> Self {
        let (question, sections) = match query {
            Ok(query) => (query.question(), wire::records(reply, query)),
            Err(Reject::With { question, .. }) => (*question, Sections::default()),
            Err(Reject::Drop) => (0, Sections::default()),
        };
        // Masked to eight and to four bits.
        let (high, low) = (
            (reply.rcode.0 >> 4 & 0xff) as u8,
            (reply.rcode.0 & 0x0f) as u8,
        );
        let mut message = Self {
            rcode: ResponseCode::from(high, low),
            authoritative: reply.authoritative,
            has_question: question > 0,
            edns: reply.edns.as_ref().map(opt),
            sections,
            is_truncated: false,
        };
        message.cut(usize::from(reply.limit).saturating_sub(HEADER + question));
        message
    }

    /// Notes in the header of a response what kind of reply this is.
    fn describe(&self, metadata: &mut Metadata) {
        metadata.response_code = self.rcode;
        metadata.authoritative = self.authoritative;
        metadata.truncation = self.is_truncated;
    }

    /// Leaves out what may not fit, as our own writer does: OPT first, whole records, whole RRsets of the additional
    /// section, TC if and only if the answer section is incomplete. Left to itself, hickory loses OPT, and sets TC for an
    /// additional record, too.
    fn cut(&mut self, mut room: usize) {
        // No record of ours takes more than an SOA record's three names of 255 octets, and some.
        const LONGEST: usize = 3 * 255 + 10 + 20;
        let Sections {
            answers,
            soa,
            additionals,
        } = &mut self.sections;
        if (answers.len() + soa.len() + additionals.len() + 1) * LONGEST <= room {
            return;
        }
        let opt = self.edns.as_ref().map(|edns| octets(&Record::from(edns)));
        room = room.saturating_sub(opt.unwrap_or(0));
        self.is_truncated = keep_fitting(answers, &mut room, |_, _| false);
        if self.is_truncated {
            additionals.clear();
        }
        keep_fitting(soa, &mut room, |_, _| false);
        keep_fitting(additionals, &mut room, is_one_rrset);
    }
}

/// Keeps the records that fit, up to the first that does not: those that are `together` whole or not at all. Returns
/// whether some are lost.
fn keep_fitting(
    records: &mut Vec<Record>,
    room: &mut usize,
    together: impl FnMut(&Record, &Record) -> bool,
) -> bool {
    let fits = |part: &&[Record]| {
        let mut octets = part.iter().map(octets);
        let rest = octets.try_fold(*room, usize::checked_sub);
        *room = rest.unwrap_or(*room);
        rest.is_some()
    };
    let fitting = records.chunk_by(together).take_while(fits);
    let fitting: usize = fitting.map(<[Record]>::len).sum();
    let is_cut = fitting < records.len();
    records.truncate(fitting);
    is_cut
}

fn is_one_rrset(one: &Record, other: &Record) -> bool {
    one.name == other.name && one.record_type() == other.record_type()
}

/// Octets of a record that is written without compression: the most that it takes. hickory compresses some.
fn octets(record: &Record) -> usize {
    let mut bytes = Vec::new();
    match record.emit(&mut BinEncoder::new(&mut bytes)) {
        Ok(()) => bytes.len(),
        Err(_) => usize::MAX, // never fits
    }
}

/// Makes our OPT record. The high bits of the response code are hickory's business.
fn opt(edns: &ReplyEdns<'_>) -> Edns {
    let mut opt = Edns::new();
    opt.set_max_payload(edns.payload)
        .set_dnssec_ok(edns.dnssec_ok);
    let options = [
        (option::NSID, edns.nsid.map(<[u8]>::to_vec)),
        (option::COOKIE, edns.cookie.map(|cookie| cookie.to_vec())),
        (
            option::KEEPALIVE,
            edns.keepalive.map(|tenths| tenths.to_be_bytes().to_vec()),
        ),
        (
            option::ERROR,
            edns.error.map(|error| error.code().to_be_bytes().to_vec()),
        ),
    ];
    for (code, value) in options {
        let value = value.map(|value| EdnsOption::Unknown(code, value));
        let value = value.map(|value| (EdnsCode::from(code), value));
        opt.options_mut().options.extend(value);
    }
    opt
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::IpAddr;

    use hickory_proto::rr::{Name, RData};

    use super::*;

    fn address(owner: &str, ip: &str) -> Record {
        let data = match ip.parse().unwrap() {
            IpAddr::V4(ip) => RData::A(ip.into()),
            IpAddr::V6(ip) => RData::AAAA(ip.into()),
        };
        Record::from_rdata(Name::from_ascii(owner).unwrap(), 5, data)
    }

    #[test]
    fn an_rrset_of_the_additional_section_is_whole_or_absent() {
        let additionals = || {
            vec![
                address("a.test.", "192.0.2.1"),
                address("a.test.", "192.0.2.2"),
                address("a.test.", "2001:db8::1"),
                address("a.test.", "2001:db8::2"),
                address("b.test.", "2001:db8::3"),
                address("c.test.", "192.0.2.3"),
                address("c.test.", "192.0.2.4"),
            ]
        };
        let answers = || vec![address("x.test.", "192.0.2.9")];
        let count = |records: &[Record]| {
            let mut counts: BTreeMap<_, usize> = BTreeMap::new();
            for record in records {
                let rrset = (record.name.to_string(), record.record_type());
                *counts.entry(rrset).or_default() += 1;
            }
            counts
        };
        let whole = count(&additionals());
        let mut seen = std::collections::BTreeSet::new();
        for room in 0..400 {
            let mut message = Message {
                rcode: ResponseCode::NoError,
                authoritative: true,
                has_question: true,
                edns: None,
                sections: Sections {
                    answers: answers(),
                    soa: Vec::new(),
                    additionals: additionals(),
                },
                is_truncated: false,
            };
            message.cut(room);
            let Sections {
                answers: kept,
                additionals,
                ..
            } = &message.sections;
            assert_eq!(message.is_truncated, kept.is_empty(), "{room}");
            let rrsets = count(additionals);
            assert!(!message.is_truncated || rrsets.is_empty(), "{room}");
            for (rrset, count) in &rrsets {
                assert_eq!(whole[rrset], *count, "{rrset:?} of {room} octets");
            }
            seen.insert(rrsets.len());
        }
        assert_eq!(seen, (0..=4).collect());
    }
}
