//! DNS over QUIC (RFC 9250), experimental. hickory-server implements the transport. Messages go to the parser and
//! policy of [`wire`](crate::wire). hickory decodes the reply and encodes it again. This module makes no DNS decisions.
//!
//! Some behavior of hickory cannot be changed. It performs handshakes one after another, answers at most 100 queries on
//! a connection, and answers unreadable messages itself. It does not tell when a client has received a reply: only the
//! memory of replies that QUIC has not taken is limited.

use std::future::pending;
use std::net::{SocketAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use hickory_proto::op::{Edns, Header, HeaderCounts, Message, MessageType, Metadata, ResponseCode};
use hickory_proto::rr::Record;
use hickory_proto::serialize::binary::{BinDecoder, BinEncodable, BinEncoder};
use hickory_server::Server;
use hickory_server::net::NetError;
use hickory_server::net::runtime::Time;
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::{MessageResponseBuilder, Queries};
use rustls::ServerConfig;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::client_ca::ClientCa;
use crate::log::with_limited_panic_log;
use crate::server::answerer::Answerer;
use crate::server::framing::MAX_MESSAGE;
use crate::server::time_limits::{MESSAGE_TIMEOUT, TCP_IDLE};
use crate::wire::Transport;
use crate::wire::query::HEADER;

/// The budget of all replies.
pub(super) const DEFAULT_BUDGET: usize = 64 << 20;
/// Octets of the longest record: SOA, with three names of 255 octets.
const LONGEST: usize = 3 * 255 + 10 + 20;
/// Octets of the longest question.
const LONGEST_QUESTION: usize = 255 + 4;

/// A listener.
pub(super) struct QuicListener {
    pub(super) socket: UdpSocket,
    pub(super) config: Arc<ServerConfig>,
    pub(super) answerer: Arc<Answerer>,
    /// The memory of replies, one permit for each octet. All listeners share it.
    pub(super) memory: Arc<Semaphore>,
    pub(super) client_ca: Option<Arc<ClientCa>>,
    pub(super) stop: CancellationToken,
}

/// Answers the requests of hickory-server.
#[derive(Clone)]
struct Adapter {
    answerer: Arc<Answerer>,
    memory: Arc<Semaphore>,
}

/// A reply that does not borrow the table.
struct QuicReply {
    rcode: ResponseCode,
    authoritative: bool,
    has_question: bool,
    edns: Option<Edns>,
    answers: Vec<Record>,
    soa: Vec<Record>,
    additionals: Vec<Record>,
    is_truncated: bool,
}

/// Returns the memory of replies over QUIC: a quarter of the budget of the other transports. It is enough for ten of the
/// longest replies with the default memory limit, and for one of them with the minimum.
pub(super) fn memory(budget: usize) -> Arc<Semaphore> {
    let octets = (budget / 4).min(Semaphore::MAX_PERMITS);
    Arc::new(Semaphore::new(octets))
}

// === impl QuicListener ===

impl QuicListener {
    /// Serves until `stop`. The caller must check whether it ended earlier.
    ///
    /// hickory cannot end one connection. If a certificate authority is removed, all end, and another server continues on the
    /// same socket. Until the clients have been told, for a few round trips, both servers receive from it. A client that
    /// connects meanwhile may have to repeat its first packet.
    pub(super) async fn serve(self) {
        let adapter = Adapter {
            answerer: self.answerer.clone(),
            memory: self.memory.clone(),
        };
        loop {
            // Before the first handshake, so that no change is missed.
            let trust = self.client_ca.as_ref().map(|client_ca| client_ca.trust());
            let distrusted = async {
                match trust {
                    Some(trust) => trust.cancelled_owned().await,
                    None => pending().await,
                }
            };
            let mut server = Server::new(adapter.clone());
            if let Err(error) = self.register(&mut server) {
                warn!(%error, "Failed to start a QUIC listener");
                return;
            }
            let is_stopping = tokio::select! {
                ended = server.block_until_done() => {
                    let error = ended.err().map(|error| error.to_string());
                    warn!(error, "A QUIC listener ended unexpectedly");
                    return;
                }
                () = self.stop.cancelled() => true,
                () = distrusted => false,
            };
            if let Err(error) = server.shutdown_gracefully().await {
                warn!(%error, "A QUIC listener ended with an error");
            }
            if is_stopping {
                return;
            }
        }
    }

    fn register(&self, server: &mut Server<Adapter>) -> Result<(), NetError> {
        let socket = tokio::net::UdpSocket::from_std(self.socket.try_clone()?)?;
        server.register_quic_listener_and_tls_config(socket, TCP_IDLE, self.config.clone())
    }
}

// === impl Adapter ===

impl Adapter {
    /// Makes the reply to a message. `None` means that no reply is sent. Only the encoder differs from UDP and TCP.
    fn reply(&self, packet: &[u8], client: SocketAddr) -> Option<QuicReply> {
        let answerer = &self.answerer;
        // Otherwise, hickory would end the connection silently.
        let made = catch_unwind(AssertUnwindSafe(|| {
            with_limited_panic_log(|| self.make(packet, client))
        }));
        made.unwrap_or_else(|_| {
            answerer.counters.count_panic(Transport::Quic);
            None
        })
    }

    fn make(&self, packet: &[u8], client: SocketAddr) -> Option<QuicReply> {
        let started = Instant::now();
        let answerer = &self.answerer;
        let batch = answerer.batch_context(1);
        let mut out = vec![0; MAX_MESSAGE];
        let length = answerer.answer(&batch, packet, Transport::Quic, client, &mut out)?;
        // A reply of this server can be decoded.
        let message = QuicReply::of(Message::from_vec(&out[..length]).ok()?);
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
        // A message that must not be answered gets no reply, and hickory resets the stream.
        let Some(message) = self.reply(request.as_slice(), request.src()) else {
            return unsent(metadata);
        };
        // Held until the reply is sent.
        let octets = u32::try_from(message.memory()).unwrap_or(u32::MAX);
        let Ok(_memory) = self.memory.try_acquire_many(octets) else {
            debug!("Too many replies over QUIC wait for their clients; a query is not answered");
            return unsent(metadata);
        };
        message.set_header(&mut metadata);
        // Reading zero queries cannot fail.
        let none = Queries::read(&mut BinDecoder::new(&[]), 0);
        let queries = match &none {
            Ok(none) if !message.has_question => none,
            _ => &request.queries,
        };
        let builder = MessageResponseBuilder::new(queries, message.edns.as_ref());
        let (answers, additionals) = (&message.answers, &message.additionals);
        let response = builder.build(metadata, answers, &[], &message.soa, additionals);
        // A client without flow control credit (RFC 9000 section 4) delays this.
        match timeout(MESSAGE_TIMEOUT, handle.send_response(response)).await {
            Ok(Ok(sent)) => sent,
            Ok(Err(error)) => {
                debug!(%error, "Failed to send a reply");
                unsent(metadata)
            }
            Err(_) => {
                debug!("A client did not receive a reply in time");
                unsent(metadata)
            }
        }
    }
}

/// Returns the response fields that come from the request. RA, AD and CD are clear.
fn response_metadata(request: &Request) -> Metadata {
    let asked = &request.metadata;
    let mut metadata = Metadata::new(asked.id, MessageType::Response, asked.op_code);
    metadata.recursion_desired = asked.recursion_desired;
    metadata
}

/// Returns the information for hickory about a reply that was not sent.
fn unsent(metadata: Metadata) -> ResponseInfo {
    let counts = HeaderCounts::default();
    Header { metadata, counts }.into()
}

// === impl QuicReply ===

impl QuicReply {
    fn of(message: Message) -> Self {
        let mut reply = Self {
            rcode: message.metadata.response_code,
            authoritative: message.metadata.authoritative,
            has_question: !message.queries.is_empty(),
            edns: message.edns,
            answers: message.answers,
            soa: message.authorities,
            additionals: message.additionals,
            is_truncated: message.metadata.truncation,
        };
        reply.truncate(MAX_MESSAGE - HEADER - LONGEST_QUESTION);
        reply
    }

    /// Returns the estimated memory of the message: its records and their encoding.
    fn memory(&self) -> usize {
        let records = [&self.answers, &self.soa, &self.additionals];
        let records = records.into_iter().flatten();
        // A long owner name is outside of the record, and so is the name in its data.
        let octets = |record: &Record| size_of::<Record>() + 2 * record.name.len();
        let encoded = (records.clone().count() + 1) * LONGEST;
        records.map(octets).sum::<usize>() + encoded.min(MAX_MESSAGE)
    }

    /// Sets the response code and the flags in the header of a response.
    fn set_header(&self, metadata: &mut Metadata) {
        metadata.response_code = self.rcode;
        metadata.authoritative = self.authoritative;
        metadata.truncation = self.is_truncated;
    }

    /// Truncates the message to `room` octets with the rules of [`write()`](crate::wire::write()): OPT first, whole records, whole
    /// RRsets of the additional section, TC if and only if the answer section is incomplete. hickory itself would drop
    /// OPT, and would also set TC for an additional record.
    fn truncate(&mut self, mut room: usize) {
        let Self {
            answers,
            soa,
            additionals,
            ..
        } = self;
        if (answers.len() + soa.len() + additionals.len() + 1) * LONGEST <= room {
            return;
        }
        let opt = self.edns.as_ref().map(|edns| octets(&Record::from(edns)));
        room = room.saturating_sub(opt.unwrap_or(0));
        self.is_truncated |= keep_fitting(answers, &mut room, |_, _| false);
        if self.is_truncated {
            additionals.clear();
        }
        keep_fitting(soa, &mut room, |_, _| false);
        keep_fitting(additionals, &mut room, is_one_rrset);
    }
}

/// Keeps the records before the first that does not fit. Records that are `together` are kept or removed as a whole.
/// Returns whether any were removed.
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
    let fitting: usize = records
        .chunk_by(together)
        .take_while(fits)
        .map(<[Record]>::len)
        .sum();
    let is_truncated = fitting < records.len();
    records.truncate(fitting);
    is_truncated
}

fn is_one_rrset(one: &Record, other: &Record) -> bool {
    one.name == other.name && one.record_type() == other.record_type()
}

/// Returns the length of a record without compression. That is its maximum, because hickory compresses some records.
fn octets(record: &Record) -> usize {
    let mut bytes = Vec::new();
    match record.emit(&mut BinEncoder::new(&mut bytes)) {
        Ok(()) => bytes.len(),
        Err(_) => usize::MAX, // never fits
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::IpAddr;

    use hickory_proto::rr::{Name, RData};
    use hickory_server::net::runtime::TokioTime;
    use hickory_server::net::xfer::Protocol;
    use hickory_server::zone_handler::MessageResponse;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;
    const MIN_BUDGET: usize = 8 << 20;
    use crate::server::tests::answerers;

    /// A client that tells when a reply is sent to it, and reads nothing.
    #[derive(Clone)]
    struct SlowReader(UnboundedSender<()>);

    #[async_trait]
    impl ResponseHandler for SlowReader {
        async fn send_response<'a>(
            &mut self,
            _: MessageResponse<
                '_,
                'a,
                impl Iterator<Item = &'a Record> + Send + 'a,
                impl Iterator<Item = &'a Record> + Send + 'a,
                impl Iterator<Item = &'a Record> + Send + 'a,
                impl Iterator<Item = &'a Record> + Send + 'a,
            >,
        ) -> Result<ResponseInfo, NetError> {
            self.0.send(()).unwrap();
            pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn replies_that_are_not_received_use_limited_memory_and_time() {
        let query = crate::testing::support::query::query("global. SOA").0;
        let client = SocketAddr::from(([127, 0, 0, 1], 53));
        let request = || Request::from_bytes(query.clone(), client, Protocol::Quic).unwrap();
        let new = |octets| Adapter {
            answerer: Arc::new(answerers().create()),
            memory: memory(4 * octets),
        };
        // Enough for two replies.
        let octets = new(0).reply(&query, client).unwrap().memory();
        let adapter = Arc::new(new(2 * octets + octets / 2));
        let (sender, mut sent) = unbounded_channel();
        let ask = || {
            let (adapter, request, handle) =
                (adapter.clone(), request(), SlowReader(sender.clone()));
            tokio::spawn(async move {
                let asked = adapter.handle_request::<_, TokioTime>(&request, handle);
                asked.await;
            })
        };
        let started = tokio::time::Instant::now();
        let [one, other] = [ask(), ask()];
        sent.recv().await.unwrap();
        sent.recv().await.unwrap();
        ask().await.unwrap();
        assert!(sent.is_empty(), "a third reply");
        assert_eq!(started.elapsed().as_secs(), 0);
        one.await.unwrap();
        other.await.unwrap();
        assert_eq!(started.elapsed().as_secs(), MESSAGE_TIMEOUT.as_secs());
        let later = ask();
        sent.recv().await.unwrap();
        later.abort();
    }

    fn address(owner: &str, ip: &str) -> Record {
        let data = match ip.parse().unwrap() {
            IpAddr::V4(ip) => RData::A(ip.into()),
            IpAddr::V6(ip) => RData::AAAA(ip.into()),
        };
        Record::from_rdata(Name::from_ascii(owner).unwrap(), 5, data)
    }

    #[test]
    fn longest_reply_fits_the_smallest_memory() {
        // The most records of type A that fit a message.
        let answers = vec![address("many.production.global.", "192.0.2.1"); 4093];
        let message = QuicReply {
            rcode: ResponseCode::NoError,
            authoritative: true,
            has_question: true,
            edns: None,
            answers,
            soa: Vec::new(),
            additionals: Vec::new(),
            is_truncated: false,
        };
        let replies = |budget| memory(budget).available_permits() / message.memory();
        assert!(replies(MIN_BUDGET) >= 1, "{}", message.memory());
        assert!(replies(DEFAULT_BUDGET) >= 10, "{}", message.memory());
    }

    #[test]
    fn rrset_of_the_additional_section_is_complete_or_absent() {
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
            let mut message = QuicReply {
                rcode: ResponseCode::NoError,
                authoritative: true,
                has_question: true,
                edns: None,
                answers: answers(),
                soa: Vec::new(),
                additionals: additionals(),
                is_truncated: false,
            };
            message.truncate(room);
            assert_eq!(message.is_truncated, message.answers.is_empty(), "{room}");
            let rrsets = count(&message.additionals);
            assert!(!message.is_truncated || rrsets.is_empty(), "{room}");
            for (rrset, count) in &rrsets {
                assert_eq!(whole[rrset], *count, "{rrset:?} of {room} octets");
            }
            seen.insert(rrsets.len());
        }
        assert_eq!(seen, (0..=4).collect());
    }
}
