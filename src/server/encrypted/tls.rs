//! DNS over TLS: the handshake, and then the same connection as over TCP.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::debug;

use super::certificate::Loaded;
use crate::server::answerer::Answerer;
use crate::server::close::{MESSAGE_TIMEOUT, close, discard_unsent};
use crate::server::connections::Place;
use crate::server::counters::EndReason;
use crate::server::framing::MAX_OUTBOX;
use crate::server::tcp::{Connection, STOP_TIMEOUT, Stream};
use crate::wire::Transport;

impl Stream for TlsStream<&mut TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// Serves a connection until it ends, and counts the reason. If something else is loaded, it ends as if the server stopped:
/// queries that the client has already sent are still answered.
pub(super) async fn serve(
    mut tcp: TcpStream,
    place: Arc<Place>,
    client: SocketAddr,
    loaded: Arc<Loaded>,
    answerer: Arc<Answerer>,
) {
    match handshake(&mut tcp, &place, &loaded).await {
        Ok(stream) => {
            let end = loaded.end.clone();
            let connection = Connection::new(stream, place, Transport::Tls, client, answerer, end);
            connection.serve().await;
        }
        Err((reason, has_alert)) => {
            answerer.counters.count_ended(reason);
            match has_alert {
                // The client may have sent its first query, and must see the alert.
                true => close(&tcp, reason, &place.replaced).await,
                false => discard_unsent(&tcp),
            }
        }
    }
}

/// Performs the handshake on an accepted connection. On failure, returns the reason, and whether TLS has sent an alert.
async fn handshake<'s>(
    tcp: &'s mut TcpStream,
    place: &Place,
    loaded: &Loaded,
) -> Result<TlsStream<&'s mut TcpStream>, (EndReason, bool)> {
    let stopped = async {
        loaded.end.cancelled().await;
        sleep(STOP_TIMEOUT).await;
    };
    let handshake = TlsAcceptor::from(loaded.config.clone()).accept(tcp);
    let done = tokio::select! {
        done = timeout(MESSAGE_TIMEOUT, handshake) => done,
        () = place.replaced.cancelled() => return Err((EndReason::Replaced, false)),
        () = stopped => return Err((EndReason::Stopped, false)),
    };
    let mut stream = done
        .map_err(|_| (EndReason::Handshake, false))?
        .map_err(|error| {
            debug!(%error, "A TLS handshake failed");
            (EndReason::Handshake, true)
        })?;
    // Limits the encrypted octets for a slow client. By default, TLS buffers 64 KiB in addition to the replies.
    stream.get_mut().1.set_buffer_limit(Some(MAX_OUTBOX));
    Ok(stream)
}
