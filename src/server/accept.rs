//! Accepts TCP connections for every listener, and continues after failures.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connections::{ConnectionPlace, Connections};

/// Accepts connections until `stop` and serves each with `serve`. Then it accepts those in the kernel's queue, and waits for
/// the open connections.
pub(super) async fn accept<F>(
    listener: TcpListener,
    connections: Arc<Connections>,
    stop: CancellationToken,
    serve: impl Fn(Arc<ConnectionPlace>) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut open = JoinSet::new();
    let spawn = |open: &mut JoinSet<()>, (stream, client): (TcpStream, SocketAddr)| {
        open.spawn(serve(connections.add(stream, client)));
    };
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.has_room(open.len()) => match accepted {
                Ok(accepted) => spawn(&mut open, accepted),
                Err(error) => connections.note_failure(&error).await,
            },
            Some(ended) = open.join_next() => connections.note_end(ended),
            () = connections.lifted.cancelled(), if !connections.has_room(open.len()) => {}
            () = stop.cancelled() => break,
        }
    }
    // tokio's own call looks like an empty queue when the task should yield: after 128 connections.
    if let Ok(listener) = listener.into_std() {
        loop {
            match accept_queued(&listener) {
                Ok(accepted) => spawn(&mut open, accepted),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => connections.note_failure(&error).await,
            }
        }
    }
    while let Some(ended) = open.join_next().await {
        connections.note_end(ended);
    }
}

/// Accepts a connection in the kernel's queue.
fn accept_queued(listener: &std::net::TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, client) = listener.accept()?;
    stream.set_nonblocking(true)?;
    Ok((TcpStream::from_std(stream)?, client))
}
