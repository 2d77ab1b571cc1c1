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
use crate::server::time_limits::{STOP_IDLE, STOP_TIMEOUT, TCP_IDLE, TimeLimit};

pub(super) use exchange::Exchange;

/// Maximum number of concurrent streams of an HTTP/2 connection (RFC 9113 section 6.5.2 recommends at least 100).
const MAX_STREAMS: u32 = 100;
/// Maximum size of a request's head in octets. It is twice that of the longest query in a URI.
const MAX_HEAD: usize = 16 * 1024;
/// Interval between checks of the time limits.
const TICK: Duration = Duration::from_secs(1);

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
    // Requests that the client has already sent are still answered when the server stops.
    let mut stopping: Option<TimeLimit> = None;
    // The client may close the connection gracefully.
    let mut closing: Option<TimeLimit> = None;
    let ended = loop {
        let now = Instant::now();
        let limit = closing.or(stopping);
        let (until, reason) = limit.unwrap_or_else(|| exchange.time_limit());
        if now >= until {
            if closing.is_some() || reason == EndReason::Slow {
                break reason;
            }
            connection.as_mut().graceful_shutdown();
            closing = Some((now + STOP_TIMEOUT, reason));
            continue;
        }
        tokio::select! {
            biased; // received requests come first
            ended = connection.as_mut() => break match (closing, ended) {
                (Some((_, reason)), _) => reason,
                (None, Ok(())) => EndReason::Done,
                (None, Err(error)) => {
                    debug!(%error, "An HTTP connection failed");
                    end_reason(&*error)
                }
            },
            reason = exchange.must_end() => break reason,
            () = stop.cancelled(), if limit.is_none() => {
                stopping = Some((Instant::now() + STOP_IDLE, EndReason::Stopped));
            }
            () = sleep_until(until.min(now + TICK)) => {}
        }
    };
    // Counted before the connection is closed here.
    exchange.end(ended);
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
                return EndReason::Malformed;
            }
        }
        // This side reported the error: invalid frames, or too many of them.
        if let Some(error) = error.downcast_ref::<h2::Error>()
            && error.is_library()
        {
            return EndReason::Malformed;
        }
        cause = error.source();
    }
    EndReason::Broken
}
