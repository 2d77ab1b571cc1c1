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

/// Maximum number of displaced connections that are still closing. No more connections are accepted until some of them
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
    let served = ListenerConnections {
        open: JoinSet::new(),
        connections,
        serve,
        note_end,
    };
    served.accept(listener, stop).await;
}

/// The connections of a listener.
struct ListenerConnections<S, N> {
    open: JoinSet<()>,
    connections: Connections,
    serve: S,
    note_end: N,
}

// === impl ListenerConnections ===

impl<S, N, F> ListenerConnections<S, N>
where
    S: Fn(TcpStream, SocketAddr, Slot) -> F,
    N: Fn(Result<(), JoinError>),
    F: Future<Output = ()> + Send + 'static,
{
    /// Accepts connections until `stop`, and waits until all have ended.
    async fn accept(mut self, listener: TcpListener, stop: CancellationToken) {
        let max_open = self.connections.total() + MAX_CLOSING;
        loop {
            tokio::select! {
                accepted = listener.accept(), if self.open.len() < max_open => match accepted {
                    Ok(accepted) => self.spawn(accepted),
                    Err(error) => self.note_failure(&error).await,
                },
                Some(ended) = self.open.join_next() => (self.note_end)(ended),
                () = stop.cancelled() => break,
            }
        }
        // Connections in the kernel's queue are served, too.
        while let Some(Ok(accepted)) = listener.accept().now_or_never() {
            self.spawn(accepted);
        }
        drop(listener);
        while let Some(ended) = self.open.join_next().await {
            (self.note_end)(ended);
        }
    }

    /// Starts serving a connection.
    fn spawn(&mut self, (stream, client): (TcpStream, SocketAddr)) {
        let slot = self.connections.register(client.ip());
        self.open.spawn((self.serve)(stream, client, slot));
    }

    /// Counts a failed accept, and pauses if descriptors or memory are exhausted. Other errors concern a single
    /// connection (accept(2)) and need no pause.
    async fn note_failure(&self, error: &io::Error) {
        self.connections.note_failure(error);
        if is_exhaustion(error) {
            self.connections.free_descriptor();
            tokio::time::sleep(RETRY_PAUSE).await;
        }
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
    fn only_exhaustion_displaces_connections() {
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
