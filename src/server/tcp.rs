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
use std::time::Duration;

use futures::FutureExt as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::answerer::Answerer;
use super::counters::EndReason;
use super::framing::{Framing, Pause};
use super::socket::{READ_QUOTA, Socket};
use super::time_limits::{
    MAX_LIFETIME, MESSAGE_TIMEOUT, STOP_IDLE, STOP_TIMEOUT, TCP_IDLE, TimeLimit,
};
use crate::wire::Transport;

/// A stream of messages over a TCP connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin {
    /// Returns the TCP connection.
    fn socket(&self) -> &Socket;
}

impl Stream for Socket {
    fn socket(&self) -> &Socket {
        self
    }
}

/// An open connection.
pub(super) struct Connection<S> {
    stream: S,
    transport: Transport,
    client: SocketAddr,
    answerer: Arc<Answerer>,
    stop: CancellationToken,
    /// Cancelled when another connection replaces this one.
    replaced: CancellationToken,
    /// Since when the connection ends as soon as no query is unanswered, and why.
    ending: Option<TimeLimit>,
    framing: Framing,
    /// Octets of messages read since the task last yielded. TLS decrypts up to 16 KiB at once, of which the socket knows
    /// nothing.
    octets_read: usize,
}

// === impl Connection ===

impl<S: Stream> Connection<S> {
    pub(super) fn new(
        stream: S,
        transport: Transport,
        client: SocketAddr,
        answerer: Arc<Answerer>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            replaced: stream.socket().place.replaced(),
            stream,
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
        let has_unsent = self.stream.socket().has_unsent();
        // TLS announces the end, if that is possible without waiting (RFC 8446 section 6.1).
        let _ = self.stream.shutdown().now_or_never();
        if has_unsent || ended == EndReason::Malformed {
            self.stream.socket().close(ended).await;
        }
    }

    /// Answers queries until the client closes the connection or a time limit expires.
    async fn run(&mut self) -> Result<Infallible, EndReason> {
        if let Err(error) = self.stream.socket().stream.set_nodelay(true) {
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
    async fn receive(&mut self, limit: TimeLimit) -> Result<(), EndReason> {
        loop {
            let (until, reason) = self.next_limit(limit)?;
            let reading = self.stream.read_buf(self.framing.room());
            let ending = tokio::select! {
                biased; // a client that never pauses must not hide the end
                () = self.replaced.cancelled(), if self.ending.is_none() => EndReason::Replaced,
                () = self.stop.cancelled(), if self.ending.is_none() => EndReason::Stopped,
                read = timeout_at(until, reading) => {
                    return self.note_read(read.map_err(|_| reason)?);
                }
            };
            self.ending = Some((Instant::now(), ending));
        }
    }

    /// Returns the limit of the next read: the given one, or an earlier one if the connection must end.
    fn next_limit(&self, given: TimeLimit) -> Result<TimeLimit, EndReason> {
        let Some((since, reason)) = self.ending else {
            return Ok(given);
        };
        let (limit, pause) = match reason {
            // Another client has its place.
            EndReason::Replaced => (STOP_IDLE, Duration::ZERO),
            _ => (STOP_TIMEOUT, STOP_IDLE),
        };
        match since.elapsed() > limit {
            true => Err(reason),
            false => Ok((given.0.min(Instant::now() + pause), reason)),
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
            () = self.replaced.cancelled() => return Err(EndReason::Replaced),
        }
        self.framing.clear_replies();
        Ok(())
    }

    /// Answers complete messages until the outbox is full.
    fn answer_some(&mut self) -> Pause {
        let started = Instant::now();
        let batch = self.answerer.batch_context();
        let (pause, count) = self.framing.answer(|packet, out| {
            self.answerer
                .answer(&batch, packet, self.transport, self.client, out)
        });
        if count > 0 {
            self.answerer.counters.count_time(count, started.elapsed());
            self.stream.socket().place.note_query();
        }
        pause
    }
}
