//! TCP (RFC 7766): any number of queries on a connection, pipelined if the client likes, answered in order. DNS over TLS
//! (RFC 7858) is the same [`Connection`] over another [`Stream`].
//!
//! What has arrived is answered with one write, however many queries it holds. A connection holds a few kilobytes while
//! it waits; replies wait for a slow client up to [`OUTBOX`](super::framing::OUTBOX) octets, and no more is read until they
//! are taken.

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
        let ended = match self.converse().await {
            Ok(ended) => ended,
            Err(error) => {
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
    async fn converse(&mut self) -> io::Result<Ended> {
        self.stream.socket().set_nodelay(true)?;
        let started = Instant::now();
        let (mut since, mut patience, mut too_long) = (started, FIRST, Ended::Idle);
        loop {
            if self.turn >= TURN {
                self.turn = 0;
                yield_now().await;
            }
            let deadline = (since + patience).min(started + LIFE);
            match self.receive(deadline).await? {
                None => {}
                Some(Ended::Idle) if started.elapsed() >= LIFE => return Ok(Ended::Old),
                Some(Ended::Idle) => return Ok(too_long),
                Some(ended) => return Ok(ended),
            }
            let had_begun = too_long == Ended::Slow;
            let mut has_answered = false;
            let pause = loop {
                let pause = replaced(|| self.answer_some());
                if !self.framing.replies().is_empty() {
                    has_answered = true;
                    let writing = async {
                        self.stream.write_all(self.framing.replies()).await?;
                        self.stream.flush().await
                    };
                    tokio::select! {
                        written = timeout(PATIENCE, writing) => match written {
                            Ok(written) => written?,
                            Err(_) => return Ok(Ended::Slow),
                        },
                        () = self.place.displaced() => return Ok(Ended::Displaced),
                    }
                    self.framing.forget_replies();
                }
                if pause != Pause::Full {
                    break pause;
                }
            };
            if pause == Pause::Misuse {
                return Ok(Ended::Misuse);
            }
            self.framing.shrink();
            // Neither a message that comes octet by octet nor silence after one gets more time by it.
            let has_begun = self.framing.has_begun();
            if has_answered || has_begun != had_begun {
                since = Instant::now();
                (patience, too_long) = match has_begun {
                    true => (PATIENCE, Ended::Slow),
                    false => (TCP_IDLE, Ended::Idle),
                };
            }
        }
    }

    /// Waits for octets. Otherwise says why the connection ends; by [`Ended::Idle`], that it is `deadline`.
    async fn receive(&mut self, deadline: Instant) -> io::Result<Option<Ended>> {
        loop {
            let until = match self.stopped {
                None => deadline,
                Some(at) if at.elapsed() > LONGEST_LEAVE => return Ok(Some(Ended::Stopped)),
                // What TLS holds already is read even so.
                Some(at) if at.elapsed() > LEAVE && !self.has_octets() => Instant::now(),
                Some(_) => deadline.min(Instant::now() + LEAVE),
            };
            let reading = self.stream.read_buf(self.framing.room());
            tokio::select! {
                biased; // what has arrived is read without a look at the rest
                read = timeout_at(until, reading) => match read {
                    Ok(Ok(0)) => return Ok(Some(Ended::Done)),
                    Ok(Ok(length)) => {
                        self.turn += length;
                        return Ok(None);
                    }
                    // Many clients end TLS without a word. Lengths tell whether a message is missing.
                    Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        return Ok(Some(Ended::Done));
                    }
                    Ok(Err(error)) => return Err(error),
                    Err(_) if self.stopped.is_some() => return Ok(Some(Ended::Stopped)),
                    Err(_) => return Ok(Some(Ended::Idle)),
                },
                () = self.place.displaced() => return Ok(Some(Ended::Displaced)),
                // What the client has sent by now is answered still.
                () = self.stop.cancelled(), if self.stopped.is_none() => {
                    self.stopped = Some(Instant::now());
                }
            }
        }
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
