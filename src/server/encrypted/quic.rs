//! DNS over QUIC (RFC 9250), experimental. hickory-server implements the transport. Messages go to the parser and
//! policy of [`wire`](crate::wire). hickory decodes the reply and encodes it again. This module makes no DNS decisions.
//!
//! Some behavior of hickory cannot be changed. It performs handshakes one after another, answers at most 100 queries on
//! a connection, answers unreadable messages itself, compresses names less, so that fewer records fit a reply, and limits neither
//! connections nor the memory of replies.

use std::net::{SocketAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hickory_proto::ProtoError;
use hickory_proto::op::{Header, HeaderCounts, Message, emit_message_parts};
use hickory_proto::rr::Record;
use hickory_proto::serialize::binary::{BinDecoder, BinEncodable as _, BinEncoder};
use hickory_server::Server;
use hickory_server::net::NetError;
use hickory_server::net::runtime::Time;
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::{MessageResponseBuilder, Queries};
use rustls::ServerConfig;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::certificate::{Certificate, Loaded};
use crate::server::answerer::Answerer;
use crate::server::connections::MESSAGE_TIMEOUT;
use crate::server::counters::count;
use crate::server::framing::MAX_MESSAGE;
use crate::wire::{TCP_IDLE, Transport};

/// Maximum length of a reply that fits in any case. A compressed record has at least 16 octets, and with a name of 255 octets instead
/// of a pointer less than 17 times as many.
const ALWAYS_FITS: usize = MAX_MESSAGE / 32;

/// Answers the requests of hickory-server.
struct Adapter(Arc<Answerer>);

/// Serves until the server stops. The caller must check whether it ended earlier.
///
/// hickory cannot change the configuration of connections. After a load, all end, and another server continues on the same
/// socket. Until the clients have been told, for a few round trips, both servers receive from it. A client that
/// connects meanwhile may have to repeat its first packet.
pub(super) async fn serve(
    socket: UdpSocket,
    certificate: Arc<Certificate>,
    answerer: Arc<Answerer>,
) {
    while !certificate.stop.is_cancelled() {
        let loaded = certificate.loaded();
        let mut server = Server::new(Adapter(answerer.clone()));
        if let Err(error) = register(&mut server, &socket, &loaded) {
            warn!(%error, "Failed to start a QUIC listener");
            return;
        }
        tokio::select! {
            ended = server.block_until_done() => {
                let error = ended.err().map(|error| error.to_string());
                warn!(error, "A QUIC listener ended unexpectedly");
                return;
            }
            () = loaded.end.cancelled() => {}
        }
        if let Err(error) = server.shutdown_gracefully().await {
            warn!(%error, "A QUIC listener ended with an error");
        }
    }
}

fn register(
    server: &mut Server<Adapter>,
    socket: &UdpSocket,
    loaded: &Loaded,
) -> Result<(), NetError> {
    let mut config = ServerConfig::clone(&loaded.config);
    config.alpn_protocols = vec![b"doq".to_vec()];
    let socket = tokio::net::UdpSocket::from_std(socket.try_clone()?)?;
    server.register_quic_listener_and_tls_config(socket, TCP_IDLE, Arc::new(config))
}

// === impl Adapter ===

impl Adapter {
    /// Makes the reply to a message. `None` means that no reply is sent. Only the encoder differs from UDP and TCP.
    fn reply(&self, packet: &[u8], client: SocketAddr) -> Option<Message> {
        let started = Instant::now();
        let answer = || {
            let mut out = vec![0; MAX_MESSAGE];
            let batch = self.0.batch_context();
            let length = self
                .0
                .answer(&batch, packet, Transport::Quic, client, &mut out)?;
            let mut reply = Message::from_vec(&out[..length]).ok()?; // a reply of this server can be decoded
            if length > ALWAYS_FITS && fit(&mut reply).ok()? {
                count(&self.0.counters.truncated[Transport::Quic as usize]);
            }
            Some(reply)
        };
        // hickory would end the connection silently.
        let reply = catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| {
            count(&self.0.counters.panics[Transport::Quic as usize]);
            None
        })?;
        self.0.counters.count_time(1, started.elapsed());
        Some(reply)
    }

    /// Answers a request. hickory gets what was sent, for its statistics.
    async fn respond(&self, request: &Request, mut handle: impl ResponseHandler) -> ResponseInfo {
        let metadata = request.metadata;
        let counts = HeaderCounts::default();
        let unsent = || Header { metadata, counts }.into();
        // A message that must not be answered gets no reply, and hickory resets the stream.
        let Some(reply) = self.reply(request.as_slice(), request.src()) else {
            return unsent();
        };
        // Reading zero queries cannot fail.
        let none = Queries::read(&mut BinDecoder::new(&[]), 0);
        let queries = match &none {
            Ok(none) if reply.queries.is_empty() => none,
            _ => &request.queries,
        };
        let response = MessageResponseBuilder::new(queries, reply.edns.as_ref()).build(
            reply.metadata,
            &reply.answers,
            &[],
            &reply.authorities,
            &reply.additionals,
        );
        // A client without flow control credit (RFC 9000 section 4) delays this.
        match timeout(MESSAGE_TIMEOUT, handle.send_response(response)).await {
            Ok(Ok(sent)) => return sent,
            Ok(Err(error)) => debug!(%error, "Failed to send a reply"),
            Err(_) => debug!("A client did not receive a reply in time"),
        }
        unsent()
    }
}

/// Removes the records that do not fit the message of hickory. It would leave a part of the first one behind the end. Returns whether
/// that truncates an answer that was complete, as [`wire`](crate::wire::write()) does.
fn fit(reply: &mut Message) -> Result<bool, ProtoError> {
    let opt = match &reply.edns {
        Some(edns) => Record::from(edns).to_bytes()?.len(),
        None => 0,
    };
    let mut octets = Vec::new();
    let mut encoder = BinEncoder::new(&mut octets);
    encoder.set_max_size((MAX_MESSAGE - opt) as u16);
    let Header { counts, .. } = emit_message_parts(
        &reply.metadata,
        &mut reply.queries.iter(),
        &mut reply.answers.iter(),
        &mut reply.authorities.iter(),
        &mut reply.additionals.iter(),
        None,
        None,
        &mut encoder,
    )?;
    let is_cut = usize::from(counts.answers) < reply.answers.len();
    let was_complete = !reply.metadata.truncation;
    reply.answers.truncate(counts.answers.into());
    reply.metadata.truncation |= is_cut;
    // An RRset of the additional section is complete or absent (RFC 2181 section 9). Without all of them, clients ask for what they need.
    if is_cut || usize::from(counts.additionals) < reply.additionals.len() {
        reply.additionals.clear();
    }
    Ok(is_cut && was_complete)
}

/// The trait has the form that the macro of `async-trait` gives to an async function.
impl RequestHandler for Adapter {
    fn handle_request<'adapter, 'request, 'both, R, T>(
        &'adapter self,
        request: &'request Request,
        handle: R,
    ) -> BoxFuture<'both, ResponseInfo>
    where
        'adapter: 'both,
        'request: 'both,
        R: ResponseHandler + 'both,
        T: Time + 'both,
    {
        self.respond(request, handle).boxed()
    }
}
