//! DNS over TLS: the handshake, and then the same connection as over TCP.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
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

/// A TCP connection below TLS that yields to other connections after [`READ_QUOTA`] octets. TLS reads on while records bring no
/// plaintext, such as new keys, so that a limit of the plaintext is not enough.
struct Paced {
    tcp: Socket,
    /// Octets read since the task last yielded.
    read: usize,
}

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read >= READ_QUOTA {
            self.read = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.tcp).poll_read(cx, buf))?;
        self.read += buf.filled().len() - before;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Paced {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

/// Serves a connection until it ends, and counts the reason. If something else is loaded, it ends as if the server stopped:
/// queries that the client has already sent are still answered.
pub(super) async fn serve(
    place: Arc<ConnectionPlace>,
    loaded: Arc<Loaded>,
    answerer: Arc<Answerer>,
) {
    match handshake(&place, &loaded).await {
        Ok(stream) => {
            Connection::new(stream, place, Transport::Tls, answerer, loaded.end.clone())
                .serve()
                .await;
        }
        Err(failure) => {
            answerer.counters.count_ended(failure.reason);
            if failure.has_alert {
                // The client may have sent its first query, and must see the alert.
                close(&place, failure.reason).await;
            } else {
                discard_unsent(&place.stream);
            }
        }
    }
}

/// Why there is no TLS connection.
struct HandshakeFailure {
    reason: EndReason,
    /// Whether TLS has sent an alert.
    has_alert: bool,
}

/// Performs the handshake on an accepted connection. The stop of the server does not shorten it: the client has been accepted.
async fn handshake(
    place: &Arc<ConnectionPlace>,
    loaded: &Loaded,
) -> Result<TlsStream<Paced>, HandshakeFailure> {
    let failed = |reason, has_alert| HandshakeFailure { reason, has_alert };
    let paced = Paced {
        tcp: Socket(place.clone()),
        read: 0,
    };
    let handshake = TlsAcceptor::from(loaded.config.clone()).accept(paced);
    let done = tokio::select! {
        done = timeout(MESSAGE_TIMEOUT, handshake) => done,
        () = place.replaced.cancelled() => return Err(failed(EndReason::Replaced, false)),
    };
    let mut stream = done
        .map_err(|_| failed(EndReason::Handshake, false))?
        .map_err(|error| {
            debug!(%error, "A TLS handshake failed");
            failed(EndReason::Handshake, true)
        })?;
    // Limits the encrypted octets for a slow client. By default, TLS buffers 64 KiB in addition to the replies.
    stream.get_mut().1.set_buffer_limit(Some(MAX_OUTBOX));
    Ok(stream)
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
        let mut paced = Paced {
            tcp: Socket(place),
            read: 0,
        };
        let mut buffer = [0; READ_QUOTA];
        for _ in 0..3 {
            paced.read_exact(&mut buffer).await.unwrap();
            assert!(paced.read(&mut buffer).now_or_never().is_none());
        }
    }
}
