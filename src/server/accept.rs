//! Accepts TCP connections for every listener. It enforces the limit of connections and continues after failures.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::FutureExt as _;
use nix::errno::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::connections::{Connections, Slot};

/// Maximum number of replaced connections that are still closing. No more connections are accepted until some of them
/// have ended, so that a flood of connections cannot use more descriptors.
const MAX_CLOSING: usize = 16;
/// Pause after a failed accept if descriptors or memory are exhausted.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until `stop` and serves each with `serve`. Then it waits for the open connections. `note_end` is
/// called at the end of each connection.
pub(super) async fn accept<F>(
    listener: TcpListener,
    connections: Connections,
    stop: CancellationToken,
    serve: impl Fn(TcpStream, SocketAddr, Slot) -> F,
    note_end: impl Fn(Result<(), JoinError>),
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut open = JoinSet::new();
    let spawn = |open: &mut JoinSet<()>, (stream, client): (TcpStream, SocketAddr)| {
        let slot = connections.register(client.ip());
        open.spawn(serve(stream, client, slot));
    };
    let max_open = connections.total() + MAX_CLOSING;
    loop {
        tokio::select! {
            accepted = listener.accept(), if open.len() < max_open => match accepted {
                Ok(accepted) => spawn(&mut open, accepted),
                Err(error) => note_failure(&connections, &error).await,
            },
            Some(ended) = open.join_next() => note_end(ended),
            () = stop.cancelled() => break,
        }
    }
    // Connections in the kernel's queue are served, too.
    while let Some(Ok(accepted)) = listener.accept().now_or_never() {
        spawn(&mut open, accepted);
    }
    drop(listener);
    while let Some(ended) = open.join_next().await {
        note_end(ended);
    }
}

/// Counts a failed accept, and pauses if descriptors or memory are exhausted. Other errors concern a single connection
/// (accept(2)) and need no pause.
async fn note_failure(connections: &Connections, error: &io::Error) {
    connections.note_failure(error);
    if is_exhaustion(error) {
        connections.free_descriptor();
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Returns whether the system is out of descriptors or memory. Closing another connection then helps.
fn is_exhaustion(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exhaustion_replaces_connections() {
        let is_exhaustion = |errno: Errno| is_exhaustion(&io::Error::from(errno));
        for errno in [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM] {
            assert!(is_exhaustion(errno), "{errno}");
        }
        for errno in [
            Errno::ECONNABORTED,
            Errno::ENETDOWN,
            Errno::EPROTO,
            Errno::ENOPROTOOPT,
            Errno::EHOSTDOWN,
            Errno::ENONET,
            Errno::EHOSTUNREACH,
            Errno::EOPNOTSUPP,
            Errno::ENETUNREACH,
            Errno::EPERM,
            Errno::EINTR,
        ] {
            assert!(!is_exhaustion(errno), "{errno}");
        }
    }
}
