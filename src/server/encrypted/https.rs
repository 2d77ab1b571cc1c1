//! DNS over HTTPS (RFC 8484): hyper speaks HTTP/2 and HTTP/1.1; what a request asks for is read by `request`.
//!
//! Limits are those of TCP: replies wait for a slow client up to [`OUTBOX`](crate::server::framing::OUTBOX) octets, and no
//! more is answered until they are taken; bodies are as long as queries, and few are read at a time.

mod exchange;
mod watched;

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::server::TCP_IDLE;
use crate::server::counters::Ended;
use crate::server::framing::QUERY;
use crate::server::tcp::{LEAVE, LONGEST_LEAVE};

pub(super) use exchange::Exchange;
use watched::Watched;

/// Requests of an HTTP/2 connection at a time (RFC 9113 section 6.5.2 recommends no fewer).
const STREAMS: u32 = 100;
/// Octets of a request's head: the longest query in a URI fits twice.
const HEAD: usize = 16 * 1024;
/// How often a connection looks at its time limits.
const TICK: Duration = Duration::from_secs(1);

/// How far a connection is on the way to its end.
#[derive(Clone, Copy)]
enum Phase {
    /// The client may ask.
    Open,
    /// The server began to stop then: what the client has sent by now is answered still.
    Stopping(Instant),
    /// The client may go in good order until then, and why it is to go.
    Leaving(Instant, Ended),
}

/// Serves a connection to its end, and counts that.
pub(super) async fn serve(
    stream: TlsStream<TcpStream>,
    exchange: Arc<Exchange>,
    stop: CancellationToken,
) {
    let service = {
        let exchange = exchange.clone();
        service_fn(move |request| exchange.clone().respond(request))
    };
    let builder = builder();
    let stream = TokioIo::new(Watched::new(stream, exchange.clone()));
    let mut connection = pin!(builder.serve_connection(stream, service));
    let mut phase = Phase::Open;
    let ended = loop {
        let now = Instant::now();
        let (until, why) = phase.deadline(&exchange);
        if now >= until {
            if phase.is_leaving() || why == Ended::Slow {
                break why;
            }
            connection.as_mut().graceful_shutdown();
            phase = Phase::Leaving(now + LONGEST_LEAVE, why);
            continue;
        }
        tokio::select! {
            biased; // what has arrived is answered without a look at the rest
            ended = connection.as_mut() => break phase.ended(ended),
            () = exchange.displaced() => break Ended::Displaced,
            () = stop.cancelled(), if phase.is_open() => phase = Phase::Stopping(Instant::now()),
            () = sleep_until(until.min(now + TICK)) => {}
        }
    };
    // Before the connection is closed here.
    exchange.count_ended(ended);
}

// === impl Phase ===

impl Phase {
    /// Returns until when the phase lasts, and how the connection ends then.
    fn deadline(self, exchange: &Exchange) -> (Instant, Ended) {
        match self {
            Self::Open => exchange.deadline(),
            Self::Stopping(since) => (since + LEAVE, Ended::Stopped),
            Self::Leaving(until, why) => (until, why),
        }
    }

    /// Tells whether the server may go on, too.
    fn is_open(self) -> bool {
        matches!(self, Self::Open)
    }

    /// Tells whether the client was told to go.
    fn is_leaving(self) -> bool {
        matches!(self, Self::Leaving(..))
    }

    /// Returns how a connection ended that hyper is done with.
    fn ended(self, outcome: Result<(), Box<dyn Error + Send + Sync>>) -> Ended {
        match (self, outcome) {
            (Self::Leaving(_, why), _) => why,
            (Self::Open | Self::Stopping(_), Ok(())) => Ended::Done,
            (Self::Open | Self::Stopping(_), Err(error)) => {
                debug!(%error, "An HTTP connection broke");
                ended_by(&*error)
            }
        }
    }
}

/// Returns what speaks HTTP, with its limits.
fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(TCP_IDLE)
        .max_buf_size(HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD as u32)
        // What is not read yet waits at the client, but for 64 KiB of all requests together, as HTTP/2 has it.
        .initial_stream_window_size(QUERY as u32)
        .initial_connection_window_size(u32::from(u16::MAX))
        .max_send_buf_size(QUERY);
    builder
}

/// Says how a connection ended that broke: by what the client did, or by itself.
fn ended_by(error: &(dyn Error + Send + Sync + 'static)) -> Ended {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            if error.is_timeout() {
                return Ended::Idle;
            }
            if error.is_parse() {
                return Ended::Misuse;
            }
        }
        // We found fault with it: frames that break the rules, or too many of them.
        if let Some(error) = error.downcast_ref::<h2::Error>()
            && error.is_library()
        {
            return Ended::Misuse;
        }
        cause = error.source();
    }
    Ended::Broken
}
