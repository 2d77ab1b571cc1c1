//! TCP (RFC 7766): any number of queries on a connection, pipelined or not, answered in order. DNS over TLS (RFC 7858)
//! uses the same [`Connection`] with another stream.
//!
//! All received queries are answered with one write. An idle connection uses a few kilobytes. For a slow client, at
//! most [`MAX_OUTBOX`](super::framing::MAX_OUTBOX) octets of replies are queued, and nothing is read until they are
//! sent.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use futures::FutureExt as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::{JoinError, yield_now};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::accept::accept;
use super::answerer::Answerer;
use super::connections::{Connections, OpenConnection};
use super::framing::{Framing, Pause};
use super::opening::Opened;
use super::socket::{READ_QUOTA, Socket};
use super::time_limits::{
    MAX_LIFETIME, MESSAGE_TIMEOUT, STOP_IDLE, STOP_TIMEOUT, TCP_IDLE, TimeLimit,
};
use crate::server::counters::EndReason;
use crate::wire::Transport;

/// Serves connections from the time at which the socket is open until `stop`. Open connections then end after the received
/// queries are answered.
pub(super) async fn serve(
    opened: Opened,
    answerer: Arc<Answerer>,
    connections: Connections,
    stop: CancellationToken,
) {
    let serve = |socket: Socket, client| {
        let (answerer, stop) = (answerer.clone(), stop.clone());
        let shared = socket.shared().clone();
        Connection::new(socket, shared, Transport::Tcp, client, answerer, stop).serve()
    };
    let note_end = |ended| note_end(&answerer, Transport::Tcp, ended);
    if let Ok(Ok(listener)) = opened.await.map(TcpListener::from_std) {
        accept(listener, connections, stop.clone(), serve, note_end).await;
    }
}

/// Counts a connection that ended because its task panicked.
pub(super) fn note_end(answerer: &Answerer, transport: Transport, ended: Result<(), JoinError>) {
    if ended.is_err_and(|error| error.is_panic()) {
        answerer.counters.panics[transport as usize].fetch_add(1, Relaxed);
        answerer.counters.count_ended(EndReason::Broken);
    }
}

/// An open connection.
pub(super) struct Connection<S> {
    stream: S,
    transport: Transport,
    client: SocketAddr,
    /// The TCP connection.
    shared: Arc<OpenConnection>,
    answerer: Arc<Answerer>,
    stop: CancellationToken,
    /// Since when the connection ends as soon as no query is unanswered, and why.
    ending: Option<TimeLimit>,
    framing: Framing,
    /// Octets of messages read since the task last yielded. TLS decrypts up to 16 KiB at once, of which the socket knows
    /// nothing.
    octets_read: usize,
}

// === impl Connection ===

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) fn new(
        stream: S,
        shared: Arc<OpenConnection>,
        transport: Transport,
        client: SocketAddr,
        answerer: Arc<Answerer>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            stream,
            shared,
            transport,
            client,
            answerer,
            stop,
            ending: None,
            framing: Framing::default(),
            octets_read: 0,
        }
    }

    /// Serves the connection until it ends, and counts the reason.
    pub(super) async fn serve(mut self) {
        let Err(ended) = self.run().await;
        // Counted before the client sees the end.
        self.answerer.counters.count_ended(ended);
        // The announcement of the end below is not a reply that somebody must wait for.
        let has_unsent = self.shared.has_unsent();
        // TLS announces the end, if that is possible without waiting (RFC 8446 section 6.1).
        let _ = self.stream.shutdown().now_or_never();
        if has_unsent || ended == EndReason::Malformed {
            self.shared.close(ended).await;
        }
    }

    /// Answers queries until the client closes the connection or a time limit expires.
    async fn run(&mut self) -> Result<Infallible, EndReason> {
        if let Err(error) = self.shared.stream.set_nodelay(true) {
            return Err(self.broken(&error));
        }
        let started = Instant::now();
        let old = (started + MAX_LIFETIME, EndReason::Old);
        let mut next = (started + TCP_IDLE, EndReason::Idle);
        loop {
            if self.octets_read >= READ_QUOTA {
                self.octets_read = 0;
                yield_now().await;
            }
            self.receive(if next.0 < old.0 { next } else { old })
                .await?;
            let has_answered = self.answer_all().await?;
            self.framing.shrink();
            // Neither a message that arrives octet by octet nor silence after one extends the limit.
            let (patience, reason) = if self.framing.has_unanswered() {
                (MESSAGE_TIMEOUT, EndReason::Slow)
            } else {
                (TCP_IDLE, EndReason::Idle)
            };
            if has_answered || reason != next.1 {
                next = (Instant::now() + patience, reason);
            }
        }
    }

    /// Waits for octets. If the connection must end, queries that the client has already sent are still answered.
    async fn receive(&mut self, (deadline, reason): TimeLimit) -> Result<(), EndReason> {
        loop {
            let until = self.wait_until(deadline)?;
            let reading = self.stream.read_buf(self.framing.room());
            let ending = tokio::select! {
                biased; // a client that never pauses must not hide the end
                () = self.shared.replaced(), if self.ending.is_none() => EndReason::Replaced,
                () = self.stop.cancelled(), if self.ending.is_none() => EndReason::Stopped,
                read = timeout_at(until, reading) => return match read {
                    Ok(read) => self.note_read(read),
                    Err(_) => Err(self.ending.map_or(reason, |(_, reason)| reason)),
                },
            };
            self.ending = Some((Instant::now(), ending));
        }
    }

    /// Returns the deadline of the next read: `deadline`, or an earlier time if the connection must end.
    fn wait_until(&self, deadline: Instant) -> Result<Instant, EndReason> {
        let Some((since, reason)) = self.ending else {
            return Ok(deadline);
        };
        let (limit, is_waiting) = match reason {
            // Another client has its place.
            EndReason::Replaced => (STOP_IDLE, false),
            // Octets that TLS has already received are still read.
            _ => (
                STOP_TIMEOUT,
                since.elapsed() <= STOP_IDLE || self.has_octets(),
            ),
        };
        match since.elapsed() > limit {
            true => Err(reason),
            false if is_waiting => Ok(deadline.min(Instant::now() + STOP_IDLE)),
            false => Ok(Instant::now()),
        }
    }

    /// Adds to the number of octets read. 0 means that the client has closed the connection.
    fn note_read(&mut self, read: io::Result<usize>) -> Result<(), EndReason> {
        match read {
            Ok(0) => Err(EndReason::Done),
            Ok(length) => {
                self.octets_read += length;
                Ok(())
            }
            // Many clients close TLS without close_notify. The length prefixes reveal a truncated message.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(EndReason::Done),
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// Logs why the connection failed.
    fn broken(&self, error: &io::Error) -> EndReason {
        debug!(client = %self.client, %error, "A connection failed");
        EndReason::Broken
    }

    /// Answers all complete messages. Returns whether there was one.
    async fn answer_all(&mut self) -> Result<bool, EndReason> {
        let mut has_answered = false;
        loop {
            let pause = self.answer_some();
            if !self.framing.replies().is_empty() {
                has_answered = true;
                self.write_replies().await?;
            }
            match pause {
                Pause::OutboxFull => {}
                Pause::Incomplete => return Ok(has_answered),
                Pause::Malformed => return Err(EndReason::Malformed),
            }
        }
    }

    /// Writes the queued replies.
    async fn write_replies(&mut self) -> Result<(), EndReason> {
        let shared = self.shared.clone();
        shared.note_writing(true);
        let writing = async {
            self.stream.write_all(self.framing.replies()).await?;
            self.stream.flush().await
        };
        tokio::select! {
            biased; // what the kernel takes at once is written even if the connection must end
            written = timeout(MESSAGE_TIMEOUT, writing) => match written {
                Ok(written) => written.map_err(|error| self.broken(&error))?,
                Err(_) => return Err(EndReason::Slow),
            },
            () = shared.replaced() => return Err(EndReason::Replaced),
        }
        shared.note_writing(false);
        self.framing.clear_replies();
        Ok(())
    }

    /// Answers complete messages until the outbox is full.
    fn answer_some(&mut self) -> Pause {
        let started = Instant::now();
        let batch = self.answerer.batch_context(1);
        let (pause, count) = self.framing.answer(|packet, out| {
            self.answerer
                .answer(&batch, packet, self.transport, self.client, out)
        });
        if count > 0 {
            self.answerer.counters.count_time(count, started.elapsed());
            self.shared.note_query();
        }
        pause
    }

    /// Returns whether the inbox or the kernel has octets.
    fn has_octets(&self) -> bool {
        self.framing.has_unanswered() || self.shared.has_octets()
    }
}
