//! DNS over TLS: the handshake, and then the same connection as over TCP.

use std::sync::Arc;

use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::certificate::Loaded;
use crate::server::answerer::Answerer;
use crate::server::close::{close, discard_unsent};
use crate::server::connections::{ConnectionPlace, MESSAGE_TIMEOUT};
use crate::server::counters::EndReason;
use crate::server::framing::MAX_OUTBOX;
use crate::server::socket::Socket;
use crate::server::tcp::{Connection, READ_QUOTA};
use crate::wire::Transport;

/// Serves a connection until it ends, and counts the reason. If something else is loaded, it ends as if the server stopped:
/// queries that the client has already sent are still answered.
pub(super) async fn serve(
    place: Arc<ConnectionPlace>,
    loaded: Arc<Loaded>,
    answerer: Arc<Answerer>,
) {
    // TLS reads on while records bring no plaintext, such as new keys, so that a limit of the plaintext is not enough.
    let socket = Socket::new(place.clone(), READ_QUOTA);
    let handshake = TlsAcceptor::from(loaded.config.clone()).accept(socket);
    // The stop of the server does not shorten it: the client has been accepted.
    let done = tokio::select! {
        done = timeout(MESSAGE_TIMEOUT, handshake) => done.map_err(|_| EndReason::Handshake),
        () = place.replaced.cancelled() => Err(EndReason::Replaced),
    };
    match done {
        Ok(Ok(mut stream)) => {
            // Limits the encrypted octets for a slow client. By default, TLS buffers 64 KiB in addition to the replies.
            stream.get_mut().1.set_buffer_limit(Some(MAX_OUTBOX));
            Connection::new(stream, place, Transport::Tls, answerer, loaded.end.clone())
                .serve()
                .await;
        }
        Ok(Err(error)) => {
            debug!(%error, "A TLS handshake failed");
            answerer.counters.count_ended(EndReason::Handshake);
            // TLS has sent an alert. The client may have sent its first query, and must see the alert.
            close(&place, EndReason::Handshake).await;
        }
        Err(reason) => {
            answerer.counters.count_ended(reason);
            discard_unsent(&place.stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::server::tests::connect;

    /// Other connections of the same thread get their turn.
    #[tokio::test]
    async fn client_that_sends_without_pause_yields() {
        let (place, mut client) = connect().await;
        client.write_all(&[0; 3 * READ_QUOTA]).await.unwrap();
        let mut paced = Socket::new(place, READ_QUOTA);
        let mut buffer = [0; READ_QUOTA];
        for _ in 0..3 {
            paced.read_exact(&mut buffer).await.unwrap();
            assert!(paced.read(&mut buffer).now_or_never().is_none());
        }
    }
}
