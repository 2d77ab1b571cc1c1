//! The stream of a TCP connection. The connection shares its socket with its [`ConnectionPlace`], where the server looks whether it is idle.

use std::io::{self, ErrorKind, IoSlice, Read as _};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use super::connections::ConnectionPlace;

/// The stream of a connection, with its place.
pub(super) struct Socket {
    place: Arc<ConnectionPlace>,
    /// Number of octets after which it yields to other connections.
    quota: usize,
    /// Octets read since it last yielded.
    read: usize,
}

impl Socket {
    /// Makes the stream of a connection, which yields to other connections after `quota` octets.
    pub(super) fn new(place: Arc<ConnectionPlace>, quota: usize) -> Self {
        Self {
            place,
            quota,
            read: 0,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read >= self.quota {
            self.read = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let stream = &self.place.stream;
        loop {
            ready!(stream.poll_read_ready(cx))?;
            let room = buf.initialize_unfilled();
            let mut length = None;
            let read = stream.try_io(Interest::READABLE, || {
                let octets = (&*SockRef::from(stream)).read(room)?;
                length = Some(octets);
                // A short read has emptied the queue. As in tokio's own stream, the next one waits at once, without a call.
                if (1..room.len()).contains(&octets) {
                    return Err(ErrorKind::WouldBlock.into());
                }
                Ok(())
            });
            match (length, read) {
                (Some(length), _) => {
                    buf.advance(length);
                    self.read = self.read.saturating_add(length);
                    return Poll::Ready(Ok(()));
                }
                (None, Err(error)) if error.kind() != ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(error));
                }
                (None, _) => {} // nothing has arrived
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(octets)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = &self.place.stream;
        loop {
            ready!(stream.poll_write_ready(cx))?;
            match stream.try_write_vectored(octets) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // the kernel has everything
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&self.place.stream).shutdown(Shutdown::Write))
    }
}
