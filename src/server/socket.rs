//! The TCP connection of a client: reading, writing, and the end.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::connections::{Connections, OpenConnection};

/// Number of octets that are read from a client before the task yields to other connections: about a hundred queries,
/// or a quarter of a millisecond. With a thousand clients that never pause, a query waits for a thousand of these. The
/// runtime's own budget counts calls, which would allow half a million octets at once.
pub(super) const READ_QUOTA: usize = 4 * 1024;

/// A TCP connection. Dropping it closes the connection, and removes it from the open ones.
pub(super) struct Socket {
    connections: Connections,
    shared: Arc<OpenConnection>,
    /// Octets read since the task last yielded.
    read: usize,
}

// === impl Socket ===

impl Socket {
    pub(super) fn new(connections: Connections, shared: Arc<OpenConnection>) -> Self {
        Self {
            connections,
            shared,
            read: 0,
        }
    }

    /// Returns what the connection shares with the choice of one to close.
    pub(super) fn shared(&self) -> &Arc<OpenConnection> {
        &self.shared
    }

    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.shared.stream.poll_write_ready(cx))?;
            match write(&self.shared.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.connections.remove(&self.shared);
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
        let filled = buf.filled().len();
        loop {
            let stream = &self.shared.stream;
            ready!(stream.poll_read_ready(cx))?;
            // A read that does not fill the buffer has emptied the kernel's. As tokio's own streams do, it ends the
            // readiness. Otherwise another read would fail before each wait.
            let read = stream.try_io(Interest::READABLE, || match stream.try_read_buf(buf)? {
                1.. if buf.remaining() > 0 => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            });
            let length = buf.filled().len() - filled;
            match read {
                _ if length > 0 => {
                    self.read += length;
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |stream| stream.try_write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |stream| stream.try_write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // the kernel has everything
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&self.shared.stream).shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;
    use crate::server::counters::EndReason;

    const PART: usize = 8 * 1024;

    /// Returns a connection with its client, which has a small buffer.
    async fn connect() -> (Socket, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let client = TcpSocket::new_v4().unwrap();
        client.set_recv_buffer_size(1).unwrap();
        let client = client.connect(listener.local_addr().unwrap()).await;
        let (stream, address) = listener.accept().await.unwrap();
        let connections = Connections::new(2, Arc::default());
        let shared = connections.add(stream, address.ip());
        (Socket::new(connections, shared), client.unwrap())
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
    #[tokio::test]
    async fn kernel_forgets_replies_of_a_slow_client() {
        for reason in [EndReason::Slow, EndReason::Replaced] {
            let (mut socket, mut client) = connect().await;
            socket.write_all(&[0; PART]).await.unwrap();
            socket.shared.close(reason).await;
            drop(socket);
            let error = client.read_to_end(&mut Vec::new()).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
    }

    /// Otherwise, another read would fail before each wait for octets.
    #[tokio::test]
    async fn read_that_does_not_fill_its_buffer_ends_the_readiness() {
        let (mut socket, mut client) = connect().await;
        let mut buffer = [0; 2];
        client.write_all(&[0; 3]).await.unwrap();
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 2);
        assert!(socket.shared.stream.readable().now_or_never().is_some());
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 1);
        assert!(socket.shared.stream.readable().now_or_never().is_none());
        client.write_all(&[0]).await.unwrap();
        drop(client);
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 1);
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn client_receives_the_last_reply_after_an_error() {
        let (mut socket, mut client) = connect().await;
        client.write_all(&[0; PART]).await.unwrap(); // never read
        socket.write_all(&[1; PART]).await.unwrap();
        let shared = socket.shared.clone();
        let closing = tokio::spawn(async move { shared.close(EndReason::Malformed).await });
        let _socket = socket;
        client.write_all(&[0; PART]).await.unwrap();
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).await.unwrap();
        assert_eq!(reply, [1; PART]);
        drop(client); // a client that closes its side ends the wait
        closing.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reads_nothing_delays_the_end_by_five_seconds() {
        let (mut socket, mut client) = connect().await;
        socket.write_all(&[0; 4 * PART]).await.unwrap();
        let started = tokio::time::Instant::now();
        socket.shared.close(EndReason::Done).await;
        assert!((5..6).contains(&started.elapsed().as_secs()));
        drop(socket);
        let error = client.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
}
