//! The requests of one connection, and what they hold together.

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

use crate::log::replaced;
use crate::server::connections::Place;
use crate::server::counters::Ended;
use crate::server::encrypted::request::{self, Asked, Problem};
use crate::server::framing::{MESSAGE, OUTBOX, QUERY};
use crate::server::tcp::{FIRST, LIFE, PATIENCE};
use crate::server::{Answerer, TCP_IDLE};
use crate::wire::{self, Transport};

/// Bodies of a connection that are read at a time. Those of the other requests wait in the windows of HTTP/2.
const BODIES: usize = 8;
/// Octets that all requests hold that are under way, over all connections. Beyond that a connection may have [`FEW`]: who
/// opens many requests and takes no replies must not take the memory of others.
const HELD: usize = 16 << 20;
/// Octets that a request holds beside its message.
const REQUEST: usize = 1024;
/// Requests that a connection may always have under way.
const FEW: usize = 8;

/// What the requests of a connection share.
pub(in crate::server::encrypted) struct Exchange {
    answerer: Arc<Answerer>,
    client: SocketAddr,
    place: Place,
    /// `--https-path`.
    path: Arc<str>,
    started: Instant,
    /// Octets that the requests of all connections hold.
    held: Arc<AtomicUsize>,
    bodies: Arc<Semaphore>,
    /// Who may make the next reply.
    turn: Mutex<()>,
    /// Replies were taken.
    taken: Notify,
    /// A request has come.
    has_asked: AtomicBool,
    /// Requests that are not answered, or whose replies are not taken.
    open: AtomicUsize,
    /// Octets of replies that are not taken.
    waiting: AtomicUsize,
    /// Milliseconds from the start to when the last request was done with.
    done_at: AtomicU64,
    /// Milliseconds from the start to when a reply was taken, or began to wait alone.
    moved_at: AtomicU64,
    /// Milliseconds from the start to when the client began not to take what is written; [`NOT_BLOCKED`]: it takes it.
    blocked_at: AtomicU64,
}

/// Later than any connection lasts.
const NOT_BLOCKED: u64 = u64::MAX;

/// A request from its arrival to when the client has taken the reply.
struct Underway {
    exchange: Arc<Exchange>,
    /// Octets that the request holds.
    held: usize,
    /// Octets of the reply.
    octets: usize,
}

/// A body that ends a request when it is dropped.
struct Reply {
    octets: Vec<u8>,
    _underway: Underway,
}

/// A message from a body, and the right to have read it.
struct Body {
    packet: Vec<u8>,
    _reading: OwnedSemaphorePermit,
}

/// A DNS message, and for how many seconds it may be kept.
struct Message {
    octets: Vec<u8>,
    max_age: Option<u32>,
}

// === impl Exchange ===

impl Exchange {
    pub(in crate::server::encrypted) fn new(
        answerer: Arc<Answerer>,
        client: SocketAddr,
        place: Place,
        path: Arc<str>,
        held: Arc<AtomicUsize>,
    ) -> Arc<Self> {
        Arc::new(Self {
            answerer,
            client,
            place,
            path,
            started: Instant::now(),
            held,
            bodies: Arc::new(Semaphore::new(BODIES)),
            turn: Mutex::default(),
            taken: Notify::new(),
            has_asked: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            done_at: AtomicU64::new(0),
            moved_at: AtomicU64::new(0),
            blocked_at: AtomicU64::new(NOT_BLOCKED),
        })
    }

    /// Waits until the connection is to make room for another.
    pub(super) async fn displaced(&self) {
        self.place.displaced().await;
    }

    /// Notes that something written waits for the client.
    pub(super) fn note_blocked(&self) {
        // Since it began.
        let now = self.now();
        let _ = self
            .blocked_at
            .compare_exchange(NOT_BLOCKED, now, Relaxed, Relaxed);
    }

    /// Notes that nothing written waits.
    pub(super) fn note_flushed(&self) {
        self.blocked_at.store(NOT_BLOCKED, Relaxed);
    }

    pub(super) fn count_ended(&self, how: Ended) {
        self.answerer.counters.count_ended(how);
    }

    /// Returns until when the connection may go on, and how it ends then. Time passes, and requests come, so that it is
    /// to be asked again.
    pub(super) fn deadline(&self) -> (Instant, Ended) {
        let at = |milliseconds| self.started + Duration::from_millis(milliseconds);
        let old = (self.started + LIFE, Ended::Old);
        let next = match self.blocked_at.load(Relaxed) {
            NOT_BLOCKED if self.waiting.load(Relaxed) > 0 => {
                (at(self.moved_at.load(Relaxed)) + PATIENCE, Ended::Slow)
            }
            NOT_BLOCKED if self.open.load(Relaxed) > 0 => old, // a body has a time limit of its own
            NOT_BLOCKED if self.has_asked.load(Relaxed) => {
                (at(self.done_at.load(Relaxed)) + TCP_IDLE, Ended::Idle)
            }
            NOT_BLOCKED => (self.started + FIRST, Ended::Idle),
            since => (at(since) + PATIENCE, Ended::Slow),
        };
        if next.0 < old.0 { next } else { old }
    }

    /// Answers a request, or refuses it, so that the client may send it again (RFC 9113 section 8.7).
    ///
    /// A hundred of these may wait on each connection: the head is read at once, and what the rest needs is little.
    pub(super) fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Full<Bytes>>, h2::Error>> + Send + use<> {
        self.has_asked.store(true, Relaxed);
        let (head, body) = request.into_parts();
        let is_head = head.method == Method::HEAD;
        let asked = request::read(&head.method, &head.uri, &head.headers, &self.path);
        let held = match &asked {
            Ok(Asked::Message(packet)) => packet.len(),
            Ok(Asked::Body) => body.size_hint().exact().map_or(QUERY, |size| size as usize),
            Ok(Asked::Methods) | Err(_) => 0,
        };
        let underway = Underway::begin(self.clone(), REQUEST + held.min(QUERY));
        let has_body = underway.is_some() && matches!(asked, Ok(Asked::Body));
        let body = has_body.then(|| Box::pin(self.read(body)));
        async move {
            let Some(underway) = underway else {
                return Err(h2::Reason::REFUSED_STREAM.into());
            };
            let answered = match (asked, body) {
                (Ok(Asked::Methods), _) => Ok(methods()),
                (Ok(Asked::Message(packet)), _) => Ok(underway.answer(&packet, is_head).await),
                (_, Some(body)) => match body.await {
                    Ok(body) => Ok(underway.answer(&body.packet, is_head).await),
                    Err(problem) => Err(problem),
                },
                (Ok(Asked::Body), None) => Err(request::FAILURE), // it is there
                (Err(problem), _) => Err(problem),
            };
            Ok(answered.unwrap_or_else(|problem| problem_response(problem, is_head)))
        }
    }

    /// Reads the message in a body.
    async fn read(self: Arc<Self>, body: Incoming) -> Result<Body, Problem> {
        // What says that it is too long need not come.
        if body.size_hint().lower() > QUERY as u64 {
            return Err(request::LONG_BODY);
        }
        let Ok(reading) = self.bodies.clone().acquire_owned().await else {
            return Err(request::FAILURE); // nobody closes it
        };
        let read = timeout(PATIENCE, collect(body)).await;
        let packet = read.unwrap_or(Err(request::SLOW_BODY))?;
        Ok(Body {
            packet,
            _reading: reading,
        })
    }

    /// Waits until few enough replies wait. Who waits has the turn.
    async fn wait_for_room(&self) {
        loop {
            let mut taken = pin!(self.taken.notified());
            taken.as_mut().enable(); // before the look
            if self.waiting.load(Relaxed) < OUTBOX {
                return;
            }
            taken.await;
        }
    }

    fn answer(&self, packet: &[u8]) -> Result<Message, Problem> {
        // hyper would end the stream, and tell nobody.
        let made = catch_unwind(AssertUnwindSafe(|| replaced(|| self.make(packet))));
        let made = made.map_err(|_| {
            self.answerer.counters.count_panic(Transport::Https);
            request::FAILURE
        })?;
        made.ok_or(request::NO_QUERY)
    }

    fn make(&self, packet: &[u8]) -> Option<Message> {
        thread_local! {
            /// Room for the longest message.
            static ROOM: RefCell<Box<[u8]>> = RefCell::new(vec![0; MESSAGE].into_boxed_slice());
        }
        let started = std::time::Instant::now();
        let moment = self.answerer.moment(1);
        let https = Transport::Https;
        let (answerer, client) = (&self.answerer, self.client);
        let message = answerer.reply(&moment, packet, https, client, |reply, query| {
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
        self.place.note_query();
        Some(message)
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64 // an hour at most
    }
}

/// Collects a body, which is no longer than any query.
async fn collect(mut body: Incoming) -> Result<Vec<u8>, Problem> {
    let mut octets = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return Err(request::BROKEN_BODY);
        };
        // Trailers say nothing about a DNS message.
        let Ok(mut data) = frame.into_data() else {
            continue;
        };
        if octets.len() + data.remaining() > QUERY {
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

/// Makes a body, or none: a response to HEAD has the length of what it leaves out.
fn body(octets: impl Into<Bytes>, is_head: bool) -> Full<Bytes> {
    match is_head {
        true => Full::default(),
        false => Full::new(octets.into()),
    }
}

impl Message {
    fn into_response(self, underway: Underway, is_head: bool) -> Response<Full<Bytes>> {
        let length = self.octets.len();
        let reply = Reply {
            octets: self.octets,
            _underway: underway,
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

/// Says how long HTTP caches may keep a reply (RFC 8484 section 5.1).
fn cache_control(max_age: Option<u32>) -> HeaderValue {
    let no_store = HeaderValue::from_static("no-store");
    let Some(seconds) = max_age else {
        return no_store;
    };
    HeaderValue::try_from(format!("max-age={seconds}")).unwrap_or(no_store)
}

// === impl Underway ===

impl Underway {
    /// Notes that a request has come that holds so much; none, if that is too much.
    fn begin(exchange: Arc<Exchange>, held: usize) -> Option<Self> {
        let open = exchange.open.fetch_add(1, Relaxed);
        let by_all = exchange.held.fetch_add(held, Relaxed);
        let underway = Self {
            exchange,
            held,
            octets: 0,
        };
        (open < FEW || by_all < HELD).then_some(underway)
    }

    /// Answers a message, when few enough replies wait.
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

    /// Notes that a reply of so many octets waits.
    fn hold(&mut self, octets: usize) {
        self.octets = octets;
        let exchange = &self.exchange;
        if exchange.waiting.fetch_add(octets, Relaxed) == 0 {
            exchange.moved_at.store(exchange.now(), Relaxed);
        }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        let exchange = &self.exchange;
        let (now, octets) = (exchange.now(), mem::take(&mut self.octets));
        if octets > 0 {
            exchange.moved_at.store(now, Relaxed);
            exchange.waiting.fetch_sub(octets, Relaxed);
            exchange.taken.notify_waiters();
        }
        exchange.done_at.store(now, Relaxed);
        exchange.held.fetch_sub(self.held, Relaxed);
        exchange.open.fetch_sub(1, Relaxed);
    }
}

impl AsRef<[u8]> for Reply {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}
