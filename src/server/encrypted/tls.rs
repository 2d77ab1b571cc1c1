//! DNS over TLS: the handshake, and then the same connection as over TCP.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
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
use crate::server::tcp::{Connection, READ_QUOTA, STOP_TIMEOUT, Stream};
use crate::wire::Transport;

/// A TCP connection below TLS that yields to other connections after [`READ_QUOTA`] octets. TLS reads on while records bring no
/// plaintext, such as new keys, so that a limit of the plaintext is not enough.
struct Paced<'s> {
    tcp: &'s mut TcpStream,
    /// Octets read since the task last yielded.
    read: usize,
}

impl Stream for TlsStream<Paced<'_>> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0.tcp
    }
}

impl AsyncRead for Paced<'_> {
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
        ready!(Pin::new(&mut *self.tcp).poll_read(cx, buf))?;
        self.read += buf.filled().len() - before;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Paced<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.tcp).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // the kernel has everything
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.tcp).poll_shutdown(cx)
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
) -> Result<TlsStream<Paced<'s>>, (EndReason, bool)> {
    let stopped = async {
        loaded.end.cancelled().await;
        sleep(STOP_TIMEOUT).await;
    };
    let handshake = TlsAcceptor::from(loaded.config.clone()).accept(Paced { tcp, read: 0 });
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

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Other connections of the same thread get their turn.
    #[tokio::test]
    async fn client_that_sends_without_pause_yields() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await;
        let (mut tcp, _) = listener.accept().await.unwrap();
        client
            .unwrap()
            .write_all(&[0; 3 * READ_QUOTA])
            .await
            .unwrap();
        let mut paced = Paced {
            tcp: &mut tcp,
            read: 0,
        };
        let mut buffer = [0; READ_QUOTA];
        for _ in 0..3 {
            paced.read_exact(&mut buffer).await.unwrap();
            assert!(paced.read(&mut buffer).now_or_never().is_none());
        }
    }
}
