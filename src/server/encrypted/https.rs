//! DNS over HTTPS (RFC 8484). hyper implements HTTP/2 and HTTP/1.1, and `request` parses the requests.
//!
//! The limits are those of TCP. For a slow client, at most [`MAX_OUTBOX`](crate::server::framing::MAX_OUTBOX) octets of
//! replies are queued, and nothing is answered until they are sent. Bodies are no longer than queries. The octets of pending
//! requests count for the budget of all connections.

mod exchange;
mod response;

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::server::counters::EndReason;
use crate::server::framing::MAX_QUERY;
use crate::server::time_limits::{STOP_IDLE, STOP_TIMEOUT, TCP_IDLE};

pub(super) use exchange::Exchange;

/// Maximum number of concurrent streams of an HTTP/2 connection (RFC 9113 section 6.5.2 recommends at least 100).
const MAX_STREAMS: u32 = 100;
/// Maximum size of a request's head in octets. It is twice that of the longest query in a URI.
const MAX_HEAD: usize = 16 * 1024;
/// Interval between checks of the time limits.
const TICK: Duration = Duration::from_secs(1);

/// The phase of a connection.
#[derive(Clone, Copy)]
enum ConnectionPhase {
    /// The client may send requests.
    Open,
    /// The server began to stop at this time. Requests that the client has already sent are still answered.
    Stopping(Instant),
    /// The client may close the connection gracefully until this time. The reason is that of the end.
    Closing(Instant, EndReason),
}

/// Serves a connection until it ends, and counts the reason.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    exchange: Arc<Exchange>,
    stop: CancellationToken,
) {
    let service = {
        let exchange = exchange.clone();
        service_fn(move |request| exchange.clone().respond(request))
    };
    let builder = builder();
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut phase = ConnectionPhase::Open;
    let ended = loop {
        let now = Instant::now();
        let (until, why) = phase.deadline(&exchange);
        if now >= until {
            if phase.is_closing() || why == EndReason::Slow {
                break why;
            }
            connection.as_mut().graceful_shutdown();
            phase = ConnectionPhase::Closing(now + STOP_TIMEOUT, why);
            continue;
        }
        tokio::select! {
            biased; // received requests come first
            ended = connection.as_mut() => break phase.ended(ended),
            reason = exchange.must_end() => break reason,
            () = stop.cancelled(), if phase.is_open() => phase = ConnectionPhase::Stopping(Instant::now()),
            () = sleep_until(until.min(now + TICK)) => {}
        }
    };
    // Counted before the connection is closed here.
    exchange.end(ended);
}

// === impl ConnectionPhase ===

impl ConnectionPhase {
    /// Returns the end of the phase, and the reason why the connection ends then.
    fn deadline(self, exchange: &Exchange) -> (Instant, EndReason) {
        match self {
            Self::Open => exchange.deadline(),
            Self::Stopping(since) => (since + STOP_IDLE, EndReason::Stopped),
            Self::Closing(until, why) => (until, why),
        }
    }

    /// Returns whether neither side has begun to close.
    fn is_open(self) -> bool {
        matches!(self, Self::Open)
    }

    /// Returns whether the client was asked to close.
    fn is_closing(self) -> bool {
        matches!(self, Self::Closing(..))
    }

    /// Returns the reason why hyper has ended the connection.
    fn ended(self, outcome: Result<(), Box<dyn Error + Send + Sync>>) -> EndReason {
        match (self, outcome) {
            (Self::Closing(_, why), _) => why,
            (Self::Open | Self::Stopping(_), Ok(())) => EndReason::Done,
            (Self::Open | Self::Stopping(_), Err(error)) => {
                debug!(%error, "An HTTP connection failed");
                end_reason(&*error)
            }
        }
    }
}

/// Returns the HTTP implementation with its limits.
fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(TCP_IDLE)
        .max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD as u32)
        // Flow control leaves unread data at the client, except for 64 KiB of all requests together.
        .initial_stream_window_size(MAX_QUERY as u32)
        .initial_connection_window_size(u32::from(u16::MAX))
        .max_send_buf_size(MAX_QUERY);
    builder
}

/// Returns the reason for a failed connection: an error of the client, or a failure.
fn end_reason(error: &(dyn Error + Send + Sync + 'static)) -> EndReason {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            if error.is_timeout() {
                return EndReason::Idle;
            }
            if error.is_parse() {
                return EndReason::Misuse;
            }
        }
        // This side reported the error: invalid frames, or too many of them.
        if let Some(error) = error.downcast_ref::<h2::Error>()
            && error.is_library()
        {
            return EndReason::Misuse;
        }
        cause = error.source();
    }
    EndReason::Broken
}
