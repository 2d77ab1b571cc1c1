//! DNS over TLS: the handshake, and then the same connection as over TCP.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::debug;

use super::certificate::{Certificate, Loaded};
use crate::server::accept::accept;
use crate::server::answerer::Answerer;
use crate::server::connections::Connections;
use crate::server::counters::EndReason;
use crate::server::framing::MAX_OUTBOX;
use crate::server::opening::Opened;
use crate::server::socket::Socket;
use crate::server::tcp::{Connection, note_end};
use crate::server::time_limits::{MESSAGE_TIMEOUT, STOP_TIMEOUT};
use crate::wire::Transport;

/// Serves connections from the time at which the socket is open until the server stops.
pub(super) async fn serve(
    opened: Opened,
    certificate: Arc<Certificate>,
    answerer: Arc<Answerer>,
    connections: Connections,
) {
    let serve =
        |socket, client| serve_connection(socket, client, certificate.loaded(), answerer.clone());
    let note_end = |ended| note_end(&answerer, Transport::Tls, ended);
    let stop = certificate.stop.clone();
    if let Ok(Ok(listener)) = opened.await.map(TcpListener::from_std) {
        accept(listener, connections, stop, serve, note_end).await;
    }
}

/// Serves a connection until it ends, and counts the reason. If something else is loaded, it ends as if the server stopped:
/// queries that the client has already sent are still answered.
async fn serve_connection(
    socket: Socket,
    client: SocketAddr,
    loaded: Arc<Loaded>,
    answerer: Arc<Answerer>,
) {
    let shared = socket.shared().clone();
    match handshake(socket, &loaded).await {
        Ok(stream) => {
            let end = loaded.end.clone();
            let connection = Connection::new(stream, shared, Transport::Tls, client, answerer, end);
            connection.serve().await;
        }
        Err((ended, socket)) => {
            answerer.counters.count_ended(ended);
            // The client may have sent its first query, and must see the alert.
            match socket {
                Some(_) => shared.close(ended).await,
                None => shared.discard_unsent(),
            }
        }
    }
}

/// Performs the handshake on an accepted connection. On failure, returns the reason why the connection ends, and the connection
/// if it is not closed yet.
async fn handshake(
    socket: Socket,
    loaded: &Loaded,
) -> Result<TlsStream<Socket>, (EndReason, Option<Socket>)> {
    let shared = socket.shared().clone();
    if shared.stream.set_nodelay(true).is_err() {
        return Err((EndReason::Broken, None));
    }
    let stopped = async {
        loaded.end.cancelled().await;
        sleep(STOP_TIMEOUT).await;
    };
    let acceptor = TlsAcceptor::from(loaded.config.clone());
    let handshake = acceptor.accept(socket).into_fallible();
    let done = tokio::select! {
        done = timeout(MESSAGE_TIMEOUT, handshake) => done,
        () = shared.replaced() => return Err((EndReason::Replaced, None)),
        () = stopped => return Err((EndReason::Stopped, None)),
    };
    match done.map_err(|_| (EndReason::Handshake, None))? {
        Ok(mut stream) => {
            // Limits the encrypted octets for a slow client. By default, TLS buffers 64 KiB in addition to the replies.
            stream.get_mut().1.set_buffer_limit(Some(MAX_OUTBOX));
            Ok(stream)
        }
        Err((error, socket)) => {
            debug!(%error, "A TLS handshake failed");
            Err((EndReason::Handshake, Some(socket)))
        }
    }
}
