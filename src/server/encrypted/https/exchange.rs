//! The requests of one connection, and their common limits.

use std::cell::RefCell;
use std::convert::Infallible;
use std::mem;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use tokio::sync::{Mutex, Notify};
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
use crate::server::time_limits::{FIRST_QUERY_TIMEOUT, MAX_LIFETIME, MESSAGE_TIMEOUT, TCP_IDLE};
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
    /// Held by the request that makes the next reply.
    turn: Mutex<()>,
    /// Signals that a reply was sent.
    reply_sent: Notify,
    /// Whether a request has arrived.
    has_request: AtomicBool,
    /// Number of requests without a reply, or with an unsent reply.
    pending: AtomicUsize,
    /// Octets of unsent replies.
    unsent: AtomicUsize,
    /// Replies that HTTP has taken, but that may not be sent.
    taken: parking_lot::Mutex<Vec<Queued>>,
    /// Whether the client has closed its side.
    is_closed: AtomicBool,
    /// Milliseconds from the start to the end of the last request.
    done_at: AtomicU64,
    /// Milliseconds from the start to the last progress: a reply was sent, or became the only unsent one.
    progress_at: AtomicU64,
    /// Milliseconds from the start to when writes became blocked, or [`NOT_BLOCKED`].
    blocked_at: AtomicU64,
}

/// Marks that writes are not blocked. It exceeds the maximum lifetime of a connection.
const NOT_BLOCKED: u64 = u64::MAX;

/// A request from its arrival until its reply is sent.
struct PendingRequest {
    exchange: Arc<Exchange>,
    /// Octets in use by the request.
    held: usize,
    /// Octets of the reply, and their part of the budget.
    octets: usize,
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
        Arc::new(Self {
            answerer,
            client,
            slot,
            socket,
            path,
            started: Instant::now(),
            turn: Mutex::default(),
            reply_sent: Notify::new(),
            has_request: AtomicBool::new(false),
            pending: AtomicUsize::new(0),
            unsent: AtomicUsize::new(0),
            taken: parking_lot::Mutex::default(),
            is_closed: AtomicBool::new(false),
            done_at: AtomicU64::new(0),
            progress_at: AtomicU64::new(0),
            blocked_at: AtomicU64::new(NOT_BLOCKED),
        })
    }

    /// Waits until the server must end the connection in favor of others.
    pub(super) async fn must_end(&self) -> EndReason {
        must_end(&self.slot, &self.socket).await
    }

    /// Records that writes are blocked, if they were not before.
    pub(super) fn note_blocked(&self) {
        let now = self.now();
        let _ = self
            .blocked_at
            .compare_exchange(NOT_BLOCKED, now, Relaxed, Relaxed);
    }

    /// Records that all written octets were sent.
    pub(super) fn note_flushed(&self) {
        self.blocked_at.store(NOT_BLOCKED, Relaxed);
        self.taken.lock().clear();
    }

    /// Records that the client has closed its side.
    pub(super) fn note_closed(&self) {
        self.is_closed.store(true, Relaxed);
    }

    /// Counts the end of the connection, before the client sees it. If HTTP has ended it, the client may still be sending
    /// the rest of a request, and must see the response.
    pub(super) fn end(&self, how: EndReason) {
        self.answerer.counters.count_ended(how);
        let is_by_http = matches!(how, EndReason::Done | EndReason::Misuse);
        let awaits_client = is_by_http && !self.is_closed.load(Relaxed);
        self.socket.clone().close(how, awaits_client);
    }

    /// Returns the current deadline of the connection, and the reason why it ends then. Requests change both.
    pub(super) fn deadline(&self) -> (Instant, EndReason) {
        let at = |milliseconds| self.started + Duration::from_millis(milliseconds);
        let old = (self.started + MAX_LIFETIME, EndReason::Old);
        let next = match self.blocked_at.load(Relaxed) {
            NOT_BLOCKED if self.unsent.load(Relaxed) > 0 => (
                at(self.progress_at.load(Relaxed)) + MESSAGE_TIMEOUT,
                EndReason::Slow,
            ),
            NOT_BLOCKED if self.pending.load(Relaxed) > 0 => old, // a body has a time limit of its own
            NOT_BLOCKED if self.has_request.load(Relaxed) => {
                (at(self.done_at.load(Relaxed)) + TCP_IDLE, EndReason::Idle)
            }
            NOT_BLOCKED => (self.started + FIRST_QUERY_TIMEOUT, EndReason::Idle),
            since => (at(since) + MESSAGE_TIMEOUT, EndReason::Slow),
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
        self.has_request.store(true, Relaxed);
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

    /// Waits until the unsent replies are below the limit. The caller holds the turn.
    async fn wait_for_room(&self) {
        loop {
            let mut reply_sent = pin!(self.reply_sent.notified());
            reply_sent.as_mut().enable(); // before the check, so that no signal is missed
            if self.unsent.load(Relaxed) < MAX_OUTBOX {
                return;
            }
            reply_sent.await;
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

    fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64 // at most an hour
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
        exchange.pending.fetch_add(1, Relaxed);
        let mut pending_request = Self {
            exchange,
            held: 0,
            octets: 0,
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
        exchange.wait_for_room().await;
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
        self.octets = octets;
        self.queued = Some(exchange.socket.queue(octets));
        if exchange.unsent.fetch_add(octets, Relaxed) == 0 {
            exchange.progress_at.store(exchange.now(), Relaxed);
        }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let exchange = &self.exchange;
        let (now, octets) = (exchange.now(), mem::take(&mut self.octets));
        if octets > 0 {
            exchange.progress_at.store(now, Relaxed);
            exchange.unsent.fetch_sub(octets, Relaxed);
            exchange.reply_sent.notify_waiters();
        }
        exchange.taken.lock().extend(self.queued.take());
        exchange.done_at.store(now, Relaxed);
        exchange.socket.release(self.held);
        exchange.pending.fetch_sub(1, Relaxed);
    }
}

impl AsRef<[u8]> for HttpReply {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

#[cfg(test)]
mod tests;
