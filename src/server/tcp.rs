//! TCP (RFC 7766): any number of queries on a connection, pipelined if the client likes, answered in order. DNS over TLS
//! (RFC 7858) is the same [`Connection`] over another [`Stream`].
//!
//! What has arrived is answered with one write, however many queries it holds. A connection holds a few kilobytes while
//! it waits; replies wait for a slow client up to [`OUTBOX`](super::framing::OUTBOX) octets, and no more is read until they
//! are taken.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, yield_now};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::accept::accept;
use super::connections::{Connections, Place};
use super::framing::{Framing, Pause};
use super::{Answerer, TCP_IDLE};
use crate::log::replaced;
use crate::server::counters::Ended;
use crate::wire::Transport;

/// How long a client may take for its first query: it opened the connection in order to ask, and soon.
pub(super) const FIRST: Duration = Duration::from_secs(15);
/// How long a client may take for the rest of a message that it began, and to take a reply.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How long a connection is kept at most: clients of ours open another when they like, and none can stay for ever.
pub(super) const LIFE: Duration = Duration::from_secs(3600);
/// Octets that are read from a client before other connections have their turn: some hundred queries, a quarter of a
/// millisecond. Behind a thousand clients that never pause, a query waits for a thousand turns. The runtime counts calls
/// instead, which would be half a million octets at once.
pub(super) const TURN: usize = 4 * 1024;
/// How long a connection may be idle once the server is to stop; after that it ends as soon as no query waits.
pub(super) const LEAVE: Duration = Duration::from_millis(100);
/// How long a client that never pauses can keep the server from stopping.
pub(super) const LONGEST_LEAVE: Duration = Duration::from_secs(2);

/// Serves connections until `stop`; those that are open then end after what their clients have
/// sent.
pub(super) async fn serve(
    listener: TcpListener,
    answerer: Arc<Answerer>,
    connections: Connections,
    stop: CancellationToken,
) {
    let serve = |stream, client, place| {
        let (answerer, stop) = (answerer.clone(), stop.clone());
        Connection::new(stream, Transport::Tcp, client, place, answerer, stop).serve()
    };
    let note_end = |ended| note_end(&answerer, Transport::Tcp, ended);
    accept(listener, connections, stop.clone(), serve, note_end).await;
}

/// Counts a connection whose task panicked, which ends it and no other.
pub(super) fn note_end(answerer: &Answerer, over: Transport, ended: Result<(), JoinError>) {
    if ended.is_err_and(|error| error.is_panic()) {
        answerer.counters.count_panic(over);
        answerer.counters.count_ended(Ended::Broken);
    }
}

/// What messages come through: a TCP connection, alone or with TLS on it.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {
    /// Returns the TCP connection.
    fn socket(&self) -> &TcpStream;
}

impl Stream for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

/// Why a connection ends.
enum End {
    /// As it should, or because of the client.
    Ended(Ended),
    /// It broke.
    Broken(io::Error),
}

/// What a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// The first query.
    First,
    /// Another query.
    Query,
    /// The rest of a message that has begun.
    Rest,
}

/// Until when a client may take its time.
struct Limit {
    /// When the connection began.
    started: Instant,
    awaited: Awaited,
    /// Since when that is awaited.
    since: Instant,
}

/// A connection that is being served.
pub(super) struct Connection<S> {
    stream: S,
    over: Transport,
    client: SocketAddr,
    place: Place,
    answerer: Arc<Answerer>,
    stop: CancellationToken,
    /// When the server began to stop.
    stopped: Option<Instant>,
    framing: Framing,
    /// Octets that were read in this turn.
    turn: usize,
}

// === impl Connection ===

impl<S: Stream> Connection<S> {
    pub(super) fn new(
        stream: S,
        over: Transport,
        client: SocketAddr,
        place: Place,
        answerer: Arc<Answerer>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            stream,
            over,
            client,
            place,
            answerer,
            stop,
            stopped: None,
            framing: Framing::default(),
            turn: 0,
        }
    }

    /// Serves the connection to its end, and counts that.
    pub(super) async fn serve(mut self) {
        let Err(end) = self.converse().await;
        let ended = match end {
            End::Ended(ended) => ended,
            End::Broken(error) => {
                debug!(client = %self.client, %error, "A connection broke");
                Ended::Broken
            }
        };
        // Before the client sees it.
        self.answerer.counters.count_ended(ended);
        // TLS says that nothing is missing, if that can be said at once (RFC 8446 section 6.1).
        let _ = self.stream.shutdown().now_or_never();
    }

    /// Answers until the client is done, or takes too long.
    async fn converse(&mut self) -> Result<Infallible, End> {
        self.stream.socket().set_nodelay(true)?;
        let mut limit = Limit::new(Instant::now());
        loop {
            if self.turn >= TURN {
                self.turn = 0;
                yield_now().await;
            }
            self.receive(&limit).await?;
            let has_answered = self.answer_all().await?;
            self.framing.shrink();
            // Neither a message that comes octet by octet nor silence after one gets more time by it.
            let awaited = match self.framing.has_begun() {
                true => Awaited::Rest,
                false => Awaited::Query,
            };
            if has_answered || awaited != limit.awaited {
                limit.renew(awaited);
            }
        }
    }

    /// Waits for octets.
    async fn receive(&mut self, limit: &Limit) -> Result<(), End> {
        loop {
            let until = self.wait_until(limit.deadline())?;
            let reading = self.stream.read_buf(self.framing.room());
            tokio::select! {
                biased; // what has arrived is read without a look at the rest
                read = timeout_at(until, reading) => return match read {
                    Ok(read) => self.note_read(read),
                    Err(_) if self.stopped.is_some() => Err(Ended::Stopped.into()),
                    Err(_) => Err(limit.end().into()),
                },
                () = self.place.displaced() => return Err(Ended::Displaced.into()),
                // What the client has sent by now is answered still.
                () = self.stop.cancelled(), if self.stopped.is_none() => {
                    self.stopped = Some(Instant::now());
                }
            }
        }
    }

    /// Returns until when octets are awaited: `deadline`, or less if the server is to stop.
    fn wait_until(&self, deadline: Instant) -> Result<Instant, End> {
        match self.stopped {
            None => Ok(deadline),
            Some(at) if at.elapsed() > LONGEST_LEAVE => Err(Ended::Stopped.into()),
            // What TLS holds already is read even so.
            Some(at) if at.elapsed() > LEAVE && !self.has_octets() => Ok(Instant::now()),
            Some(_) => Ok(deadline.min(Instant::now() + LEAVE)),
        }
    }

    /// Notes how many octets were read. Without any, the client is done.
    fn note_read(&mut self, read: io::Result<usize>) -> Result<(), End> {
        match read {
            Ok(0) => Err(Ended::Done.into()),
            Ok(length) => {
                self.turn += length;
                Ok(())
            }
            // Many clients end TLS without a word. Lengths tell whether a message is missing.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Ended::Done.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Answers what has arrived whole; returns whether anything has.
    async fn answer_all(&mut self) -> Result<bool, End> {
        let mut has_answered = false;
        loop {
            let pause = replaced(|| self.answer_some());
            if !self.framing.replies().is_empty() {
                has_answered = true;
                self.write_replies().await?;
            }
            match pause {
                Pause::Full => {}
                Pause::Rest => return Ok(has_answered),
                Pause::Misuse => return Err(Ended::Misuse.into()),
            }
        }
    }

    /// Writes the replies that wait.
    async fn write_replies(&mut self) -> Result<(), End> {
        let writing = async {
            self.stream.write_all(self.framing.replies()).await?;
            self.stream.flush().await
        };
        tokio::select! {
            written = timeout(PATIENCE, writing) => match written {
                Ok(written) => written?,
                Err(_) => return Err(Ended::Slow.into()),
            },
            () = self.place.displaced() => return Err(Ended::Displaced.into()),
        }
        self.framing.forget_replies();
        Ok(())
    }

    /// Answers what has arrived whole, until the outbox is full.
    fn answer_some(&mut self) -> Pause {
        let started = Instant::now();
        let moment = self.answerer.moment(1);
        let (pause, count) = self.framing.answer(|packet, out| {
            self.answerer
                .answer(&moment, packet, self.over, self.client, out)
        });
        if count > 0 {
            self.answerer.counters.count_time(count, started.elapsed());
            self.place.note_query();
        }
        pause
    }

    /// Tells whether something waits, in the inbox or in the kernel. What tokio remembers of the socket may be older.
    fn has_octets(&self) -> bool {
        let mut octet = [std::mem::MaybeUninit::uninit()];
        let peeked = SockRef::from(self.stream.socket()).peek(&mut octet);
        self.framing.has_begun() || peeked.is_ok_and(|length| length > 0)
    }
}

// === impl End ===

impl From<Ended> for End {
    fn from(ended: Ended) -> Self {
        Self::Ended(ended)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

// === impl Limit ===

impl Limit {
    /// Limits the time for the first query of a connection.
    fn new(started: Instant) -> Self {
        Self {
            started,
            awaited: Awaited::First,
            since: started,
        }
    }

    /// Begins anew, with something else that is awaited.
    fn renew(&mut self, awaited: Awaited) {
        self.awaited = awaited;
        self.since = Instant::now();
    }

    /// Returns until when the client may take its time.
    fn deadline(&self) -> Instant {
        let patience = match self.awaited {
            Awaited::First => FIRST,
            Awaited::Query => TCP_IDLE,
            Awaited::Rest => PATIENCE,
        };
        (self.since + patience).min(self.started + LIFE)
    }

    /// Returns how the connection ends at the deadline.
    fn end(&self) -> Ended {
        match self.awaited {
            _ if self.started.elapsed() >= LIFE => Ended::Old,
            Awaited::First | Awaited::Query => Ended::Idle,
            Awaited::Rest => Ended::Slow,
        }
    }
}
