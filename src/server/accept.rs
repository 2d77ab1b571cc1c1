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
    let mut open = JoinSet::new();
    let spawn = |open: &mut JoinSet<()>, (stream, client): (TcpStream, SocketAddr)| {
        let place = connections.enter(client.ip());
        open.spawn(serve(stream, client, place));
    };
    let most = connections.total() + LEAVING;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(), if open.len() < most => accepted,
            Some(ended) = open.join_next() => {
                note_end(ended);
                continue;
            }
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok(accepted) => spawn(&mut open, accepted),
            Err(error) => {
                connections.note_failure(&error);
                // All else is about the one connection (accept(2)), which is nothing to rest for.
                if is_want(&error) {
                    connections.give_way();
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }
    // Who is in the kernel's queue already is served like the others, to their ends.
    while let Some(Ok(accepted)) = listener.accept().now_or_never() {
        spawn(&mut open, accepted);
    }
    drop(listener);
    while let Some(ended) = open.join_next().await {
        note_end(ended);
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
