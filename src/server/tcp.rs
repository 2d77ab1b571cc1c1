//! TCP (RFC 7766): any number of queries on a connection, pipelined or not, answered in order. DNS over TLS (RFC 7858)
//! uses the same [`Connection`] with another stream.
//!
//! All received queries are answered with one write. An idle connection uses a few kilobytes. For a slow client, at
//! most [`MAX_OUTBOX`](super::framing::MAX_OUTBOX) octets of replies are queued, and nothing is read until they are
//! sent.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::answerer::Answerer;
use super::close::close;
use super::connections::{ConnectionPlace, MESSAGE_TIMEOUT};
use super::counters::EndReason;
use super::framing::{Framing, Pause};
use super::platform::has_unsent;
use crate::wire::{TCP_IDLE, Transport};

/// Idle timeout of a connection while the server stops. Then the connection ends as soon as no query is pending.
const STOP_IDLE: Duration = Duration::from_millis(100);
/// Maximum time for which a client that never pauses can delay the stop of the server.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// Number of octets that are read from a client before the task yields to other connections: about a hundred queries,
/// or a quarter of a millisecond. With a thousand clients that never pause, a query waits for a thousand of these. The
/// runtime's own budget counts calls, which would allow half a million octets at once.
pub(super) const READ_QUOTA: usize = 4 * 1024;

/// A time and the reason for which a connection ends then.
#[derive(Clone, Copy)]
struct TimeLimit {
    until: Instant,
    reason: EndReason,
}

/// That a connection must end.
struct Ending {
    since: Instant,
    reason: EndReason,
}

/// An open connection.
pub(super) struct Connection<S> {
    stream: S,
    place: Arc<ConnectionPlace>,
    transport: Transport,
    answerer: Arc<Answerer>,
    stop: CancellationToken,
    /// Since when the connection ends as soon as no query is unanswered, and why.
    ending: Option<Ending>,
    framing: Framing,
}

// === impl Connection ===

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) fn new(
        stream: S,
        place: Arc<ConnectionPlace>,
        transport: Transport,
        answerer: Arc<Answerer>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            stream,
            place,
            transport,
            answerer,
            stop,
            ending: None,
            framing: Framing::default(),
        }
    }

    /// Serves the connection until it ends, and counts the reason.
    pub(super) async fn serve(mut self) {
        let Err(ended) = self.run().await;
        // Counted before the client sees the end.
        self.answerer.counters.count_ended(ended);
        // The announcement of the end below is not a reply that somebody must wait for.
        let has_unsent = has_unsent(&self.place.stream);
        // TLS announces the end, if that is possible without waiting (RFC 8446 section 6.1).
        let _ = self.stream.shutdown().now_or_never();
        if has_unsent || ended == EndReason::Malformed {
            close(&self.place, ended).await;
        }
    }

    /// Answers queries until the client closes the connection or a time limit expires.
    async fn run(&mut self) -> Result<Infallible, EndReason> {
        let mut limit = TimeLimit {
            until: Instant::now() + TCP_IDLE,
            reason: EndReason::Idle,
        };
        let mut read = 0;
        loop {
            if read >= READ_QUOTA {
                read = 0;
                yield_now().await;
            }
            read += self.receive(limit).await?;
            let has_answered = self.answer_all().await?;
            self.framing.shrink();
            // Neither a message that arrives octet by octet nor silence after one extends the limit.
            let (patience, reason) = if self.framing.has_unanswered() {
                (MESSAGE_TIMEOUT, EndReason::Slow)
            } else {
                (TCP_IDLE, EndReason::Idle)
            };
            if has_answered || reason != limit.reason {
                let until = Instant::now() + patience;
                limit = TimeLimit { until, reason };
            }
        }
    }

    /// Waits for octets, and returns how many came. If the connection must end, queries that the client has already sent are still
    /// answered.
    async fn receive(&mut self, limit: TimeLimit) -> Result<usize, EndReason> {
        loop {
            let TimeLimit { until, reason } = self.next_limit(limit)?;
            let reading = self.stream.read_buf(self.framing.room());
            let ending = tokio::select! {
                biased; // a client that never pauses must not hide the end
                () = self.place.replaced.cancelled(), if self.ending.is_none() => EndReason::Replaced,
                () = self.stop.cancelled(), if self.ending.is_none() => EndReason::Stopped,
                read = timeout_at(until, reading) => return match read.map_err(|_| reason)? {
                    Ok(0) => Err(EndReason::Done),
                    Ok(length) => Ok(length),
                    // Many clients close TLS without close_notify. The length prefixes reveal a truncated message.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(EndReason::Done),
                    Err(error) => Err(self.broken(&error)),
                },
            };
            self.ending = Some(Ending {
                since: Instant::now(),
                reason: ending,
            });
        }
    }

    /// Returns the limit of the next read: the given one, or an earlier one if the connection must end.
    fn next_limit(&self, given: TimeLimit) -> Result<TimeLimit, EndReason> {
        let Some(Ending { since, reason }) = self.ending else {
            return Ok(given);
        };
        let (limit, pause) = match reason {
            // Another client has its place.
            EndReason::Replaced => (STOP_IDLE, Duration::ZERO),
            // The client may just have connected.
            _ if !self.place.has_query() => (STOP_TIMEOUT, STOP_TIMEOUT),
            _ => (STOP_TIMEOUT, STOP_IDLE),
        };
        let now = Instant::now();
        if now > since + limit {
            return Err(reason);
        }
        let until = given.until.min(now + pause).min(since + limit);
        Ok(TimeLimit { until, reason })
    }

    /// Logs why the connection failed.
    fn broken(&self, error: &io::Error) -> EndReason {
        debug!(client = %self.place.peer, %error, "A connection failed");
        EndReason::Broken
    }

    /// Answers all complete messages. Returns whether there was one.
    async fn answer_all(&mut self) -> Result<bool, EndReason> {
        let mut has_answered = false;
        loop {
            let pause = self.answer_some();
            if !self.framing.outbox.is_empty() {
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
            self.stream.write_all(&self.framing.outbox).await?;
            self.stream.flush().await
        };
        tokio::select! {
            biased; // what the kernel takes at once is written even if the connection must end
            written = timeout(MESSAGE_TIMEOUT, writing) => match written {
                Ok(written) => written.map_err(|error| self.broken(&error))?,
                Err(_) => return Err(EndReason::Slow),
            },
            () = self.place.replaced.cancelled() => return Err(EndReason::Replaced),
        }
        self.framing.outbox.clear();
        Ok(())
    }

    /// Answers complete messages until the outbox is full.
    fn answer_some(&mut self) -> Pause {
        let started = Instant::now();
        let batch = self.answerer.batch_context();
        let (pause, count) = self.framing.answer(|packet, out| {
            self.answerer
                .answer(&batch, packet, self.transport, self.place.peer, out)
        });
        if count > 0 {
            self.answerer.counters.count_time(count, started.elapsed());
            self.place.note_query();
        }
        pause
    }
}
