//! The requests of one connection, and their common limits.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::response::{body, cache_control, error_response, methods};
use crate::log::with_limited_panic_log;
use crate::server::answerer::Answerer;
use crate::server::connections::Slot;
use crate::server::counters::EndReason;
use crate::server::encrypted::request::{self, DnsRequest, RequestError};
use crate::server::framing::{MAX_MESSAGE, MAX_OUTBOX, MAX_QUERY};
use crate::server::socket::{Queued, Socket};
use crate::server::tcp::must_end;
use crate::server::time_limits::{
    FIRST_QUERY_TIMEOUT, MAX_LIFETIME, MESSAGE_TIMEOUT, TCP_IDLE, TimeLimit,
};
use crate::wire::{self, Transport};

/// Octets of a request besides its message.
const REQUEST_SIZE: usize = 1024;

/// The shared state of the requests of a connection.
pub(in crate::server::encrypted) struct Exchange {
    answerer: Arc<Answerer>,
    client: SocketAddr,
    slot: Slot,
    socket: Socket,
    /// `--https-path`.
    path: Arc<str>,
    started: Instant,
    /// Held by the request that makes the next reply. Without it, one sent reply would let all waiting requests make theirs.
    turn: tokio::sync::Mutex<()>,
    /// A permit for each octet that unsent replies may still use. A reply takes one before it is made, and then as many of the
    /// others as there are.
    room: Semaphore,
    progress: Mutex<Progress>,
}

/// The progress of a client, which determines its time limit.
struct Progress {
    /// Number of requests without a reply, or with an unsent reply.
    pending: usize,
    /// Number of unsent replies.
    unsent: usize,
    /// Time when a reply was sent last, or became the only unsent one.
    sent: Instant,
    /// Deadline of the next request.
    next_request: Instant,
}

/// A request from its arrival until its reply is sent.
struct PendingRequest {
    exchange: Arc<Exchange>,
    /// Octets in use by the request.
    held: usize,
    /// Permits of the reply, and its part of the budget.
    room: usize,
    queued: Option<Queued>,
}

/// The body of a reply. Dropping it ends the request.
struct HttpReply {
    octets: Vec<u8>,
    _request: PendingRequest,
}

/// A DNS message, and the number of seconds for which caches may store it.
struct ReadBody {
    octets: Vec<u8>,
    max_age: Option<u32>,
}

// === impl Exchange ===

impl Exchange {
    pub(in crate::server::encrypted) fn new(
        answerer: Arc<Answerer>,
        client: SocketAddr,
        slot: Slot,
        socket: Socket,
        path: Arc<str>,
    ) -> Arc<Self> {
        let started = Instant::now();
        Arc::new(Self {
            answerer,
            client,
            slot,
            socket,
            path,
            started,
            turn: tokio::sync::Mutex::default(),
            room: Semaphore::new(MAX_OUTBOX),
            progress: Mutex::new(Progress {
                pending: 0,
                unsent: 0,
                sent: started,
                next_request: started + FIRST_QUERY_TIMEOUT,
            }),
        })
    }

    /// Waits until the server must end the connection in favor of others.
    pub(super) async fn must_end(&self) -> EndReason {
        must_end(&self.slot, &self.socket).await
    }

    /// Counts the end of the connection, before the client sees it. If HTTP has ended it, the client may still be sending
    /// the rest of a request, and must see the response.
    pub(super) fn end(&self, how: EndReason) {
        self.answerer.counters.count_ended(how);
        let awaits_client = matches!(how, EndReason::Done | EndReason::Malformed);
        self.socket.clone().close(how, awaits_client);
    }

    /// Returns the current time limit. Requests change it.
    pub(super) fn time_limit(&self) -> TimeLimit {
        let old = (self.started + MAX_LIFETIME, EndReason::Old);
        let blocked = self.socket.blocked_since();
        let progress = self.progress.lock();
        let unsent = (progress.unsent > 0).then_some(progress.sent);
        let next = match blocked.or(unsent) {
            Some(since) => (since + MESSAGE_TIMEOUT, EndReason::Slow),
            None if progress.pending > 0 => old, // a body has a time limit of its own
            None => (progress.next_request, EndReason::Idle),
        };
        if next.0 < old.0 { next } else { old }
    }

    /// Answers a request.
    ///
    /// Each connection may have a hundred of these futures. The head is parsed at once, so that they stay small.
    pub(super) fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send + use<> {
        let (head, body) = request.into_parts();
        let is_head = head.method == Method::HEAD;
        let dns_request = request::read(&head, &self.path);
        let octets = match &dns_request {
            Ok(DnsRequest::Message(packet)) => packet.len(),
            Ok(DnsRequest::Body | DnsRequest::Methods) | Err(_) => 0,
        };
        let mut pending_request = PendingRequest::begin(self, REQUEST_SIZE + octets);
        async move {
            let packet = match dns_request {
                Ok(DnsRequest::Message(packet)) => Ok(packet),
                Ok(DnsRequest::Methods) => return Ok(methods()),
                // Few requests are reading a body, and this keeps the others small.
                Ok(DnsRequest::Body) => Box::pin(pending_request.read(body)).await,
                Err(error) => Err(error),
            };
            Ok(match packet {
                Ok(packet) => pending_request.answer(&packet, is_head).await,
                Err(error) => error_response(error, is_head),
            })
        }
    }

    fn answer(&self, packet: &[u8]) -> Result<ReadBody, RequestError> {
        // Otherwise, hyper would end the stream silently.
        let made = catch_unwind(AssertUnwindSafe(|| {
            with_limited_panic_log(|| self.make(packet))
        }))
        .map_err(|_| {
            self.answerer.counters.count_panic(Transport::Https);
            RequestError::Failure
        })?;
        made.ok_or(RequestError::NoQuery)
    }

    fn make(&self, packet: &[u8]) -> Option<ReadBody> {
        thread_local! {
            /// Buffer for a message.
            static ROOM: RefCell<Box<[u8]>> = RefCell::new(vec![0; MAX_MESSAGE].into_boxed_slice());
        }
        let started = std::time::Instant::now();
        let batch = self.answerer.batch_context(1);
        let https = Transport::Https;
        let (answerer, client) = (&self.answerer, self.client);
        let message = answerer.reply(&batch, packet, https, client, |reply, query| {
            ROOM.with_borrow_mut(|room| {
                let written = wire::write(reply, query, packet, room);
                let message = ReadBody {
                    octets: room[..written.length].to_vec(),
                    max_age: query.as_ref().ok().and_then(|query| reply.max_age(query)),
                };
                (message, written.is_truncated)
            })
        })?;
        self.answerer.counters.count_time(1, started.elapsed());
        self.slot.note_query();
        Some(message)
    }
}

// === impl ReadBody ===

impl ReadBody {
    fn into_response(
        self,
        pending_request: PendingRequest,
        is_head: bool,
    ) -> Response<Full<Bytes>> {
        let length = self.octets.len();
        let reply = HttpReply {
            octets: self.octets,
            _request: pending_request,
        };
        let mut response = Response::new(body(Bytes::from_owner(reply), is_head));
        let headers = response.headers_mut();
        let media_type = HeaderValue::from_static(request::MEDIA_TYPE);
        headers.insert(CONTENT_TYPE, media_type);
        headers.insert(CONTENT_LENGTH, length.into());
        headers.insert(CACHE_CONTROL, cache_control(self.max_age));
        response
    }
}

// === impl PendingRequest ===

impl PendingRequest {
    /// Registers a request that uses `octets`.
    fn begin(exchange: Arc<Exchange>, octets: usize) -> Self {
        exchange.progress.lock().pending += 1;
        let mut pending_request = Self {
            exchange,
            held: 0,
            room: 0,
            queued: None,
        };
        pending_request.hold(octets);
        pending_request
    }

    /// Adds octets in use.
    fn hold(&mut self, octets: usize) {
        self.held += octets;
        self.exchange.socket.hold(octets);
    }

    /// Reads the message in a body. It must not be longer than a query.
    async fn read(&mut self, body: Incoming) -> Result<Vec<u8>, RequestError> {
        // The announced length is too long, so the body is not read.
        if body.size_hint().lower() > MAX_QUERY as u64 {
            return Err(RequestError::LongBody);
        }
        let read = timeout(MESSAGE_TIMEOUT, self.collect(body)).await;
        read.unwrap_or(Err(RequestError::SlowBody))
    }

    /// Copies the body: a part of it may keep a whole read of the connection in memory.
    async fn collect(&mut self, mut body: Incoming) -> Result<Vec<u8>, RequestError> {
        let mut octets = Vec::new();
        while let Some(frame) = body.frame().await {
            // Trailers are ignored.
            let Ok(data) = frame.map_err(|_| RequestError::BrokenBody)?.into_data() else {
                continue;
            };
            if octets.len() + data.len() > MAX_QUERY {
                return Err(RequestError::LongBody);
            }
            self.hold(data.len());
            octets.reserve_exact(data.len());
            octets.extend_from_slice(&data);
        }
        Ok(octets)
    }

    /// Answers a message when the unsent replies are below the limit.
    async fn answer(mut self, packet: &[u8], is_head: bool) -> Response<Full<Bytes>> {
        let exchange = self.exchange.clone();
        let _turn = exchange.turn.lock().await;
        if let Ok(room) = exchange.room.acquire().await {
            room.forget();
            self.room = 1;
        }
        match exchange.answer(packet) {
            Ok(message) => {
                self.queue(message.octets.len());
                message.into_response(self, is_head)
            }
            Err(error) => error_response(error, is_head),
        }
    }

    /// Records an unsent reply of this many octets.
    fn queue(&mut self, octets: usize) {
        let exchange = &self.exchange;
        self.room += exchange.room.forget_permits(octets.saturating_sub(1));
        self.queued = Some(exchange.socket.queue(octets));
        let mut progress = exchange.progress.lock();
        if progress.unsent == 0 {
            progress.sent = Instant::now();
        }
        progress.unsent += 1;
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let exchange = &self.exchange;
        exchange.room.add_permits(self.room);
        exchange.socket.release(self.held);
        let now = Instant::now();
        let mut progress = exchange.progress.lock();
        if self.queued.is_some() {
            progress.unsent -= 1;
            progress.sent = now;
        }
        progress.pending -= 1;
        progress.next_request = now + TCP_IDLE;
    }
}

impl AsRef<[u8]> for HttpReply {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

#[cfg(test)]
mod tests;
