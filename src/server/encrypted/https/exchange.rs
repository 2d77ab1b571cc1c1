//! The requests of one connection, and their common limits.

use std::cell::RefCell;
use std::mem;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::log::with_limited_panic_log;
use crate::server::connections::Slot;
use crate::server::counters::EndReason;
use crate::server::encrypted::request::{self, DnsRequest, Problem};
use crate::server::framing::{MAX_MESSAGE, MAX_OUTBOX, MAX_QUERY};
use crate::server::tcp::{FIRST_QUERY_TIMEOUT, MAX_LIFETIME, MESSAGE_TIMEOUT};
use crate::server::{Answerer, TCP_IDLE};
use crate::wire::{self, Transport};

/// Maximum number of bodies of a connection that are read at a time. Others wait in the windows of HTTP/2.
const MAX_BODIES: usize = 8;
/// Maximum number of octets in use by pending requests of all connections. Above it, each connection may still have
/// [`MIN_REQUESTS`]. A client with many requests and unread replies must not use the memory of others.
const MAX_HELD: usize = 16 << 20;
/// Octets of a request besides its message.
const REQUEST_SIZE: usize = 1024;
/// Number of pending requests that a connection may always have.
const MIN_REQUESTS: usize = 8;

/// The shared state of the requests of a connection.
pub(in crate::server::encrypted) struct Exchange {
    answerer: Arc<Answerer>,
    client: SocketAddr,
    slot: Slot,
    /// `--https-path`.
    path: Arc<str>,
    started: Instant,
    /// Octets in use by the requests of all connections.
    held: Arc<AtomicUsize>,
    bodies: Arc<Semaphore>,
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
    /// Octets of the reply.
    octets: usize,
}

/// The body of a reply. Dropping it ends the request.
struct Reply {
    octets: Vec<u8>,
    _request: PendingRequest,
}

/// A message from a body, with the permit for reading it.
struct Body {
    packet: Vec<u8>,
    _reading: OwnedSemaphorePermit,
}

/// A DNS message, and the number of seconds for which caches may store it.
struct Message {
    octets: Vec<u8>,
    max_age: Option<u32>,
}

// === impl Exchange ===

impl Exchange {
    pub(in crate::server::encrypted) fn new(
        answerer: Arc<Answerer>,
        client: SocketAddr,
        slot: Slot,
        path: Arc<str>,
        held: Arc<AtomicUsize>,
    ) -> Arc<Self> {
        Arc::new(Self {
            answerer,
            client,
            slot,
            path,
            started: Instant::now(),
            held,
            bodies: Arc::new(Semaphore::new(MAX_BODIES)),
            turn: Mutex::default(),
            reply_sent: Notify::new(),
            has_request: AtomicBool::new(false),
            pending: AtomicUsize::new(0),
            unsent: AtomicUsize::new(0),
            done_at: AtomicU64::new(0),
            progress_at: AtomicU64::new(0),
            blocked_at: AtomicU64::new(NOT_BLOCKED),
        })
    }

    /// Waits until another connection displaces this one.
    pub(super) async fn displaced(&self) {
        self.slot.displaced().await;
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
    }

    pub(super) fn count_ended(&self, how: EndReason) {
        self.answerer.counters.count_ended(how);
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

    /// Answers a request. If memory is short, it refuses the stream, so that the client may retry (RFC 9113 section
    /// 8.7).
    ///
    /// Each connection may have a hundred of these futures. The head is parsed at once, so that they stay small.
    pub(super) fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Full<Bytes>>, h2::Error>> + Send + use<> {
        self.has_request.store(true, Relaxed);
        let (head, body) = request.into_parts();
        let is_head = head.method == Method::HEAD;
        let dns_request = request::read(&head.method, &head.uri, &head.headers, &self.path);
        let held = match &dns_request {
            Ok(DnsRequest::Message(packet)) => packet.len(),
            Ok(DnsRequest::Body) => body
                .size_hint()
                .exact()
                .map_or(MAX_QUERY, |size| size as usize),
            Ok(DnsRequest::Methods) | Err(_) => 0,
        };
        let pending_request =
            PendingRequest::begin(self.clone(), REQUEST_SIZE + held.min(MAX_QUERY));
        let has_body = pending_request.is_some() && matches!(dns_request, Ok(DnsRequest::Body));
        let body = has_body.then(|| Box::pin(self.read(body)));
        async move {
            let Some(pending_request) = pending_request else {
                return Err(h2::Reason::REFUSED_STREAM.into());
            };
            let answered = match (dns_request, body) {
                (Ok(DnsRequest::Methods), _) => Ok(methods()),
                (Ok(DnsRequest::Message(packet)), _) => {
                    Ok(pending_request.answer(&packet, is_head).await)
                }
                (_, Some(body)) => match body.await {
                    Ok(body) => Ok(pending_request.answer(&body.packet, is_head).await),
                    Err(problem) => Err(problem),
                },
                (Ok(DnsRequest::Body), None) => Err(request::FAILURE), // unreachable: there is a body
                (Err(problem), _) => Err(problem),
            };
            Ok(answered.unwrap_or_else(|problem| problem_response(problem, is_head)))
        }
    }

    /// Reads the message in a body.
    async fn read(self: Arc<Self>, body: Incoming) -> Result<Body, Problem> {
        // The announced length is too long, so the body is not read.
        if body.size_hint().lower() > MAX_QUERY as u64 {
            return Err(request::LONG_BODY);
        }
        let Ok(reading) = self.bodies.clone().acquire_owned().await else {
            return Err(request::FAILURE); // unreachable: the semaphore is never closed
        };
        let read = timeout(MESSAGE_TIMEOUT, collect(body)).await;
        let packet = read.unwrap_or(Err(request::SLOW_BODY))?;
        Ok(Body {
            packet,
            _reading: reading,
        })
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

    fn answer(&self, packet: &[u8]) -> Result<Message, Problem> {
        // Otherwise, hyper would end the stream silently.
        let made = catch_unwind(AssertUnwindSafe(|| {
            with_limited_panic_log(|| self.make(packet))
        }));
        let made = made.map_err(|_| {
            self.answerer.counters.count_panic(Transport::Https);
            request::FAILURE
        })?;
        made.ok_or(request::NO_QUERY)
    }

    fn make(&self, packet: &[u8]) -> Option<Message> {
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
                let message = Message {
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

/// Collects a body. It must not be longer than a query.
async fn collect(mut body: Incoming) -> Result<Vec<u8>, Problem> {
    let mut octets = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return Err(request::BROKEN_BODY);
        };
        // Trailers are ignored.
        let Ok(mut data) = frame.into_data() else {
            continue;
        };
        if octets.len() + data.remaining() > MAX_QUERY {
            return Err(request::LONG_BODY);
        }
        octets.reserve_exact(data.remaining());
        while data.has_remaining() {
            let length = data.chunk().len();
            octets.extend_from_slice(data.chunk());
            data.advance(length);
        }
    }
    Ok(octets)
}

// === Responses ===

fn methods() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let allow = HeaderValue::from_static(request::METHODS);
    response.headers_mut().insert(ALLOW, allow);
    response
}

fn problem_response(problem: Problem, is_head: bool) -> Response<Full<Bytes>> {
    let text = format!("{}\n", problem.reason);
    let length = text.len();
    let mut response = Response::new(body(text, is_head));
    *response.status_mut() = problem.status;
    let headers = response.headers_mut();
    let media_type = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(CONTENT_LENGTH, length.into());
    if problem.status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static(request::METHODS));
    }
    response
}

/// Returns a body. For HEAD it is empty, but the response still has the length of the omitted body.
fn body(octets: impl Into<Bytes>, is_head: bool) -> Full<Bytes> {
    match is_head {
        true => Full::default(),
        false => Full::new(octets.into()),
    }
}

impl Message {
    fn into_response(
        self,
        pending_request: PendingRequest,
        is_head: bool,
    ) -> Response<Full<Bytes>> {
        let length = self.octets.len();
        let reply = Reply {
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

/// Returns the `cache-control` of a reply (RFC 8484 section 5.1).
fn cache_control(max_age: Option<u32>) -> HeaderValue {
    let no_store = HeaderValue::from_static("no-store");
    let Some(seconds) = max_age else {
        return no_store;
    };
    HeaderValue::try_from(format!("max-age={seconds}")).unwrap_or(no_store)
}

// === impl PendingRequest ===

impl PendingRequest {
    /// Registers a request that uses `held` octets. Returns `None` if the limit is exceeded.
    fn begin(exchange: Arc<Exchange>, held: usize) -> Option<Self> {
        let pending = exchange.pending.fetch_add(1, Relaxed);
        let held_by_all = exchange.held.fetch_add(held, Relaxed);
        let pending_request = Self {
            exchange,
            held,
            octets: 0,
        };
        (pending < MIN_REQUESTS || held_by_all < MAX_HELD).then_some(pending_request)
    }

    /// Answers a message when the unsent replies are below the limit.
    async fn answer(mut self, packet: &[u8], is_head: bool) -> Response<Full<Bytes>> {
        let exchange = self.exchange.clone();
        let _turn = exchange.turn.lock().await;
        exchange.wait_for_room().await;
        match exchange.answer(packet) {
            Ok(message) => {
                self.hold(message.octets.len());
                message.into_response(self, is_head)
            }
            Err(problem) => problem_response(problem, is_head),
        }
    }

    /// Records an unsent reply of this many octets.
    fn hold(&mut self, octets: usize) {
        self.octets = octets;
        let exchange = &self.exchange;
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
        exchange.done_at.store(now, Relaxed);
        exchange.held.fetch_sub(self.held, Relaxed);
        exchange.pending.fetch_sub(1, Relaxed);
    }
}

impl AsRef<[u8]> for Reply {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}
