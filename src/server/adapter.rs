//! The one adapter to hickory-server: hands the raw bytes to *our* parser and policy, and the records back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use hickory_proto::op::{Edns, HeaderCounts, Metadata, ResponseCode};
use hickory_proto::rr::Record;
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder};
use hickory_server::net::runtime::Time;
use hickory_server::net::xfer::Protocol;
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::MessageResponseBuilder;

use crate::table::publish::Reader;
use crate::telemetry::Counters;
use crate::wire::respond::{ReplyEdns, UDP_MAX};
use crate::wire::{self, Query, Reject, Reply, Sections, Settings, Transport};

/// Answers what hickory-server hands over.
pub struct Adapter {
    settings: Arc<Settings>,
    reader: Reader,
    counters: Arc<Counters>,
    turn: AtomicU32,
}

impl Adapter {
    /// Makes an adapter.
    pub fn new(settings: Arc<Settings>, reader: Reader, counters: Arc<Counters>) -> Self {
        // Replicas that start together must not rotate in step.
        Self {
            settings,
            reader,
            counters,
            turn: AtomicU32::new(fastrand::u32(..)),
        }
    }

    /// Reads a message and makes its reply; `None`: nothing is sent.
    fn reply(&self, packet: &[u8], over: Transport) -> Option<Message> {
        let started = Instant::now();
        let query = wire::parse(packet);
        let rtype = query.as_ref().ok().map(|query| query.rtype);
        self.counters.count_request(over, rtype);
        let now = self.reader.load();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let Some(reply) = wire::respond(&self.settings, &now, &query, over, turn) else {
            self.counters.count_dropped();
            return None;
        };
        let sections = match &query {
            Ok(query) => sections(&reply, query, packet),
            Err(Reject::Drop | Reject::With(..)) => Sections::default(),
        };
        self.counters.count_response(reply.rcode, started.elapsed());
        Some(Message {
            code: ResponseCode::from(high_bits(&reply), low_bits(&reply)),
            authoritative: reply.authoritative,
            edns: reply
                .edns
                .map(|edns| opt(edns, reply.limit, high_bits(&reply))),
            sections,
        })
    }
}

/// A reply that no longer borrows the table.
struct Message {
    code: ResponseCode,
    authoritative: bool,
    edns: Option<Edns>,
    sections: Sections,
}

#[async_trait]
impl RequestHandler for Adapter {
    async fn handle_request<R: ResponseHandler, T: Time>(
        &self,
        request: &Request,
        mut handle: R,
    ) -> ResponseInfo {
        let is_datagram = request.protocol() == Protocol::Udp;
        let over = if is_datagram {
            Transport::Udp
        } else {
            Transport::Tcp
        };
        let mut metadata = Metadata::response_from_request(&request.metadata);
        let Some(message) = self.reply(request.as_slice(), over) else {
            return ended(metadata);
        };
        metadata.response_code = message.code;
        metadata.authoritative = message.authoritative;
        metadata.checking_disabled = false; // RFC 4035 section 3.1.6
        let builder = MessageResponseBuilder::new(&request.queries, message.edns.as_ref());
        let Sections {
            answers,
            soa,
            additionals,
        } = &message.sections;
        let response = builder.build(metadata, answers, &[], soa, additionals);
        match handle.send_response(response).await {
            Ok(info) => {
                if info.truncation {
                    self.counters.count_truncated();
                }
                info
            }
            Err(error) => {
                tracing::debug!(%error, "A reply could not be sent");
                ended(metadata)
            }
        }
    }
}

fn ended(metadata: Metadata) -> ResponseInfo {
    hickory_proto::op::Header {
        metadata,
        counts: HeaderCounts::default(),
    }
    .into()
}

/// Makes the records, with as many additional ones as surely fit: the additional section alone never sets TC (RFC 2181
/// section 9), but hickory sets it for any record that does not fit.
fn sections(reply: &Reply<'_>, query: &Query, packet: &[u8]) -> Sections {
    let mut sections = wire::records(reply, query);
    let opt = if reply.edns.is_some() { 64 } else { 0 };
    let fixed = packet.len().min(12 + 255 + 4) + opt;
    let written = sections
        .answers
        .iter()
        .chain(&sections.soa)
        .map(octets)
        .sum::<usize>();
    let mut room = usize::from(reply.limit).saturating_sub(fixed + written);
    let fits = |record: &&Record| {
        let fits = octets(record) <= room;
        room = if fits { room - octets(record) } else { 0 };
        fits
    };
    let fitting = sections.additionals.iter().take_while(fits).count();
    sections.additionals.truncate(fitting);
    sections
}

/// Octets of a record without compression.
fn octets(record: &Record) -> usize {
    let mut bytes = Vec::new();
    match record.emit(&mut BinEncoder::new(&mut bytes)) {
        Ok(()) => bytes.len(),
        Err(_) => usize::MAX / 2, // never fits, and hickory will say so
    }
}

/// Makes our OPT record. hickory takes its UDP payload size for the limit of this very reply.
fn opt(edns: ReplyEdns, limit: u16, rcode_high: u8) -> Edns {
    let mut opt = Edns::new();
    opt.set_max_payload(limit.min(UDP_MAX))
        .set_dnssec_ok(edns.dnssec_ok)
        .set_rcode_high(rcode_high);
    if let Some(error) = edns.error {
        const EDE: u16 = 15; // RFC 8914
        opt.options_mut().insert(EdnsOption::Unknown(
            EDE,
            error.code().to_be_bytes().to_vec(),
        ));
    }
    opt
}

fn low_bits(reply: &Reply<'_>) -> u8 {
    (reply.rcode.0 & 0x0f) as u8 // masked to four bits
}

fn high_bits(reply: &Reply<'_>) -> u8 {
    (reply.rcode.0 >> 4 & 0xff) as u8 // masked to eight bits
}
