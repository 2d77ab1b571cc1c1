//! The TCP connection of a client: reading, writing, and the end.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::connections::Place;
use super::counters::EndReason;
use super::platform;
use super::time_limits::MESSAGE_TIMEOUT;

/// Number of octets that are read from a client before the task yields to other connections: about a hundred queries,
/// or a quarter of a millisecond. With a thousand clients that never pause, a query waits for a thousand of these. The
/// runtime's own budget counts calls, which would allow half a million octets at once.
pub(super) const READ_QUOTA: usize = 4 * 1024;

/// Maximum number of octets that are read and discarded of a client whose connection has ended.
const MAX_DISCARDED: usize = 1 << 20;
/// Interval between two checks of whether a client has received the last replies.
const LINGER_TICK: Duration = Duration::from_millis(50);

/// A TCP connection, with its place among the open ones.
pub(super) struct Socket {
    pub(super) stream: TcpStream,
    pub(super) place: Place,
    /// Octets read since the task last yielded.
    read: usize,
}

// === impl Socket ===

impl Socket {
    pub(super) fn new(stream: TcpStream, place: Place) -> Self {
        Self {
            stream,
            place,
            read: 0,
        }
    }

    /// Returns whether the kernel has octets that the client has not received.
    pub(super) fn has_unsent(&self) -> bool {
        platform::has_unsent(&self.stream)
    }

    /// Makes the kernel forget unsent octets when the connection is closed. It would keep them for minutes.
    pub(super) fn discard_unsent(&self) {
        if self.has_unsent() {
            let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        }
    }

    /// Closes the connection. A client that reads has a few seconds to receive the last replies; otherwise the kernel forgets
    /// them, which it would keep for minutes. After an error, the client may still be sending. A socket that is closed with
    /// unread octets resets the connection, and the client would see that instead of the last reply.
    pub(super) async fn close(&self, reason: EndReason) {
        let is_error = matches!(reason, EndReason::Malformed | EndReason::Handshake);
        if !matches!(reason, EndReason::Slow | EndReason::Replaced)
            && (is_error || self.has_unsent())
        {
            tokio::select! {
                _ = timeout(MESSAGE_TIMEOUT, self.linger(is_error)) => {}
                () = self.place.replaced().cancelled_owned() => {}
            }
        }
        self.discard_unsent();
    }

    /// Waits until the client has received everything and, if `awaits_client` is set, has closed the connection.
    async fn linger(&self, awaits_client: bool) {
        let _ = SockRef::from(&self.stream).shutdown(Shutdown::Write);
        let mut left = MAX_DISCARDED;
        let mut is_open = true;
        while self.has_unsent() || (awaits_client && is_open) {
            tokio::select! {
                read = self.discard(), if is_open => match read {
                    Ok(length) if length > 0 && length < left => left -= length,
                    Ok(0) => is_open = false,
                    Ok(_) | Err(_) => return,
                },
                () = sleep(LINGER_TICK) => {}
            }
        }
    }

    /// Reads and discards octets.
    async fn discard(&self) -> io::Result<usize> {
        loop {
            self.stream.readable().await?;
            match self.stream.try_read(&mut [0; 4096]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

impl AsyncRead for Socket {
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
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.read += buf.filled().len() - before;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // the kernel has everything
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use futures::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;
    use crate::server::connections::Connections;
    use crate::wire::Transport;

    const PART: usize = 8 * 1024;

    /// Returns a connection with its client, which has a small buffer.
    async fn connect() -> (Socket, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let client = TcpSocket::new_v4().unwrap();
        client.set_recv_buffer_size(1).unwrap();
        let client = client.connect(listener.local_addr().unwrap()).await;
        let (stream, address) = listener.accept().await.unwrap();
        let connections = Connections::new(2, Transport::Tcp, Arc::default());
        (
            Socket::new(stream, connections.add(address.ip())),
            client.unwrap(),
        )
    }

    /// Other connections of the same thread get their turn.
    #[tokio::test]
    async fn client_that_sends_without_pause_yields() {
        let (mut socket, mut client) = connect().await;
        client.write_all(&[0; 3 * READ_QUOTA]).await.unwrap();
        let mut buffer = [0; READ_QUOTA];
        for _ in 0..3 {
            socket.read_exact(&mut buffer).await.unwrap();
            assert!(socket.read(&mut buffer).now_or_never().is_none());
        }
    }

    /// Otherwise, the kernel keeps the octets for minutes.
    #[tokio::test(start_paused = true)]
    async fn kernel_forgets_replies_of_a_slow_client() {
        for (reason, seconds) in [
            (EndReason::Slow, 0),
            (EndReason::Replaced, 0),
            (EndReason::Done, 5),
        ] {
            let (mut socket, mut client) = connect().await;
            socket.write_all(&[0; 4 * PART]).await.unwrap();
            let started = tokio::time::Instant::now();
            socket.close(reason).await;
            assert_eq!(started.elapsed().as_secs(), seconds);
            drop(socket);
            let error = client.read_to_end(&mut Vec::new()).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
    }

    #[tokio::test]
    async fn client_receives_the_last_reply_after_an_error() {
        let (mut socket, mut client) = connect().await;
        client.write_all(&[0; PART]).await.unwrap(); // never read
        socket.write_all(&[1; PART]).await.unwrap();
        let closing = tokio::spawn(async move { socket.close(EndReason::Malformed).await });
        client.write_all(&[0; PART]).await.unwrap();
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).await.unwrap();
        assert_eq!(reply, [1; PART]);
        drop(client); // a client that closes its side ends the wait
        closing.await.unwrap();
    }
}
