//! UDP: at most one datagram out for each datagram in. Each worker is a thread. It allocates memory only when it starts. For a
//! query, it takes no lock and logs nothing. It uses blocking calls, because the thread has no other work.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::answerer::Answerer;
use super::counters::{Counters, count};
use super::platform::{self, RETRY_PAUSE};
use crate::clock::unix_seconds;
use crate::heartbeat::Heartbeat;
use crate::wire::Transport;

/// Timeout of a receive call, and so the longest time until a worker notices the stop signal.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(100);
/// Pause before a worker restarts after a panic. It is short, so that datagrams that cause one delay others little, and keeps a
/// core free if each attempt panics.
const RESTART_PAUSE: Duration = Duration::from_millis(1);
/// Maximum time for answering queued queries when the server stops. A queue of 4 MiB takes a tenth of it.
const MAX_DRAIN: Duration = Duration::from_secs(1);

/// Returns the work of a worker thread at a socket that is bound to `address`. It answers until `stop`, and then answers the
/// datagrams that are still queued.
///
/// # Errors
///
/// If the system cannot make the calls of the socket block.
pub(super) fn worker(
    socket: UdpSocket,
    address: SocketAddr,
    answerer: Answerer,
    heartbeat: Heartbeat,
    stop: CancellationToken,
) -> io::Result<impl FnOnce() + Send + 'static> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(RECEIVE_TIMEOUT))?;
    Ok(move || {
        contain_panics(&answerer.counters, || {
            let exchange = platform::exchange(&socket, address, &answerer);
            run(exchange, &socket, &answerer, &heartbeat, &stop);
        });
    })
}

/// Makes a UDP socket refuse datagrams: it is connected to itself. Queued ones remain.
pub(super) fn refuse(socket: &UdpSocket) -> io::Result<()> {
    socket.connect(socket.local_addr()?)
}

/// Runs a worker. If it panics, the panic is counted, and another worker continues; the batch is lost. A panic can leave only the
/// worker's own state inconsistent, and that is dropped. Workers share only the counters and the immutable table.
fn contain_panics(counters: &Counters, run: impl Fn()) {
    while catch_unwind(AssertUnwindSafe(&run)).is_err() {
        count(&counters.panics[Transport::Udp as usize]);
        thread::sleep(RESTART_PAUSE);
    }
}

/// Answers the queries at a socket until `stop`, and then those that are still queued. `exchange` answers at least one.
fn run(
    mut exchange: impl FnMut() -> io::Result<()>,
    socket: &UdpSocket,
    answerer: &Answerer,
    heartbeat: &Heartbeat,
    stop: &CancellationToken,
) {
    let mut end = None;
    // The end holds even if clients keep sending or memory is exhausted.
    while end.is_none_or(|end| Instant::now() < end) {
        match exchange() {
            // The queue is empty.
            Err(error) if error.kind() == ErrorKind::WouldBlock && end.is_some() => return,
            Err(error)
                if ![ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) =>
            {
                // Linux reports failures of earlier replies here, while the socket itself works. Or memory is exhausted.
                if answerer.shared.receive_failures.is_due(unix_seconds()) {
                    warn!(%error, "Receiving over UDP failed");
                }
                thread::sleep(RETRY_PAUSE);
            }
            // A worker that only fails to receive makes no progress.
            _ => heartbeat.beat(),
        }
        if end.is_none() && stop.is_cancelled() {
            // New datagrams would be lost after the last call. Replies still leave from the address that received the query.
            if let Err(error) = refuse(socket).and_then(|()| socket.set_nonblocking(true)) {
                debug!(%error, "Cannot reject new datagrams on the UDP socket");
            }
            end = Some(Instant::now() + MAX_DRAIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn worker_that_panics_is_counted_and_continues() {
        let (counters, runs) = (Counters::default(), AtomicU32::new(0));
        contain_panics(&counters, || {
            assert!(runs.fetch_add(1, Relaxed) == 3, "an injected panic");
        });
        assert_eq!(runs.load(Relaxed), 4);
        assert_eq!(counters.panics[0].load(Relaxed), 3);
    }
}
