//! TCP (RFC 7766): any number of queries on a connection, pipelined if the client likes, answered in order.
//!
//! What has arrived is answered with one write, however many queries it holds. A connection holds a few kilobytes while
//! it waits; replies wait for a slow client up to [`OUTBOX`](super::framing::OUTBOX) octets, and no more is read until they
//! are taken.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinError;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::accept::accept;
use super::connections::{Connections, Place};
use super::framing::{Framing, Pause};
use super::{Answerer, TCP_IDLE};
use crate::telemetry::{Ended, replaced};
use crate::wire::Transport;

/// How long a client may take for its first query: it opened the connection in order to ask, and soon.
const FIRST: Duration = Duration::from_secs(15);
/// How long a client may take for the rest of a message that it began, and to take a reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a connection is kept at most: clients of ours open another when they like, and none can stay for ever.
const LIFE: Duration = Duration::from_secs(3600);
/// How long a connection may be idle once the server is to stop; after that it ends as soon as no query waits.
const LEAVE: Duration = Duration::from_millis(100);
/// How long a client that never pauses can keep the server from stopping.
const LONGEST_LEAVE: Duration = Duration::from_secs(2);

/// Serves connections until `stop`; those that are open then end after what their clients have
/// sent.
pub(super) async fn serve(
    listener: TcpListener,
    answerer: Arc<Answerer>,
    connections: Connections,
    stop: CancellationToken,
) {
    let serve = |stream, client, place| {
        let connection = Connection {
            place,
            answerer: answerer.clone(),
            stop: stop.clone(),
            framing: Framing::default(),
            stopped: None,
            stream,
            client,
        };
        connection.serve()
    };
    let note_end = |ended| note_end(&answerer, ended);
    accept(listener, connections, stop.clone(), serve, note_end).await;
}

/// Counts a connection whose task panicked, which ends it and no other.
fn note_end(answerer: &Answerer, ended: Result<(), JoinError>) {
    if ended.is_err_and(|error| error.is_panic()) {
        answerer.counters.count_panic(Transport::Tcp);
        answerer.counters.count_ended(Ended::Broken);
    }
}

/// A connection that is being served.
struct Connection {
    stream: TcpStream,
    client: SocketAddr,
    place: Place,
    answerer: Arc<Answerer>,
    stop: CancellationToken,
    /// When the server began to stop.
    stopped: Option<Instant>,
    framing: Framing,
}

// === impl Connection ===

impl Connection {
    async fn serve(mut self) {
        let ended = match self.converse().await {
            Ok(ended) => ended,
            Err(error) => {
                debug!(client = %self.client, %error, "A connection broke");
                Ended::Broken
            }
        };
        self.answerer.counters.count_ended(ended);
    }

    /// Answers until the client is done, or takes too long.
    async fn converse(&mut self) -> io::Result<Ended> {
        self.stream.set_nodelay(true)?;
        let started = Instant::now();
        let (mut since, mut patience, mut too_long) = (started, FIRST, Ended::Idle);
        loop {
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
                    let writing = self.stream.write_all(self.framing.replies());
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
            match self.stream.try_read_buf(self.framing.room()) {
                Ok(0) => return Ok(Some(Ended::Done)),
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let until = match self.stopped {
                None => deadline,
                Some(at) if at.elapsed() > LONGEST_LEAVE => return Ok(Some(Ended::Stopped)),
                Some(at) if at.elapsed() > LEAVE && !self.has_octets() => {
                    return Ok(Some(Ended::Stopped));
                }
                Some(_) => deadline.min(Instant::now() + LEAVE),
            };
            tokio::select! {
                ready = timeout_at(until, self.stream.readable()) => match ready {
                    Ok(ready) => ready?,
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
                .answer(&moment, packet, Transport::Tcp, self.client, out)
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
        let peeked = SockRef::from(&self.stream).peek(&mut octet);
        self.framing.has_begun() || peeked.is_ok_and(|length| length > 0)
    }
}
