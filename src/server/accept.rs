//! Accepting TCP connections, for every listener alike: no more than are allowed, and on through every failure.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::FutureExt as _;
use nix::errno::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::connections::{Connections, Place};

/// Connections that may still be about to make room: no more are accepted until some of them have, so that a flood of
/// connections takes no more descriptors than that.
const LEAVING: usize = 16;
/// How long accepting rests when there is nothing to accept with.
const REST: Duration = Duration::from_millis(50);

/// Has each connection served by `serve` until `stop`, and then waits for the ends of those that are open. `note_end`
/// is told of each end.
pub(super) async fn accept<F>(
    listener: TcpListener,
    connections: Connections,
    stop: CancellationToken,
    serve: impl Fn(TcpStream, SocketAddr, Place) -> F,
    note_end: impl Fn(Result<(), JoinError>),
) where
    F: Future<Output = ()> + Send + 'static,
{
    let served = Served {
        open: JoinSet::new(),
        connections,
        serve,
        note_end,
    };
    served.accept(listener, stop).await;
}

/// The connections of a listener.
struct Served<S, N> {
    open: JoinSet<()>,
    connections: Connections,
    serve: S,
    note_end: N,
}

// === impl Served ===

impl<S, N, F> Served<S, N>
where
    S: Fn(TcpStream, SocketAddr, Place) -> F,
    N: Fn(Result<(), JoinError>),
    F: Future<Output = ()> + Send + 'static,
{
    /// Accepts connections until `stop`, and waits for their ends.
    async fn accept(mut self, listener: TcpListener, stop: CancellationToken) {
        let most = self.connections.total() + LEAVING;
        loop {
            tokio::select! {
                accepted = listener.accept(), if self.open.len() < most => match accepted {
                    Ok(accepted) => self.spawn(accepted),
                    Err(error) => self.note_failure(&error).await,
                },
                Some(ended) = self.open.join_next() => (self.note_end)(ended),
                () = stop.cancelled() => break,
            }
        }
        // Who is in the kernel's queue already is served like the others, to their ends.
        while let Some(Ok(accepted)) = listener.accept().now_or_never() {
            self.spawn(accepted);
        }
        drop(listener);
        while let Some(ended) = self.open.join_next().await {
            (self.note_end)(ended);
        }
    }

    /// Has a connection served.
    fn spawn(&mut self, (stream, client): (TcpStream, SocketAddr)) {
        let place = self.connections.enter(client.ip());
        self.open.spawn((self.serve)(stream, client, place));
    }

    /// Notes that a connection could not be accepted, and rests if there is nothing to accept with. All else is about the
    /// one connection (accept(2)), which is nothing to rest for.
    async fn note_failure(&self, error: &io::Error) {
        self.connections.note_failure(error);
        if is_want(error) {
            self.connections.give_way();
            tokio::time::sleep(REST).await;
        }
    }
}

/// Returns whether the system lacks descriptors or memory, which an end of another connection gives back.
fn is_want(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_want_of_descriptors_or_memory_makes_others_give_way() {
        let is_want = |errno: Errno| is_want(&io::Error::from(errno));
        for errno in [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM] {
            assert!(is_want(errno), "{errno}");
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
            assert!(!is_want(errno), "{errno}");
        }
    }
}
