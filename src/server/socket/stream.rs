//! Reading from and writing to a connection. Written octets count for the budget. A client that sends without pause yields to
//! others. A flush reaches this stream when TLS has written everything.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::{READ_QUOTA, Socket};

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0.read.load(Relaxed) >= READ_QUOTA {
            self.note_yield();
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let stream = &self.0.stream;
        let filled = buf.filled().len();
        loop {
            ready!(stream.poll_read_ready(cx))?;
            // A read that does not fill the buffer has emptied the kernel's. As tokio's own streams do, it ends the
            // readiness. Otherwise another read would fail before each wait.
            let read = stream.try_io(Interest::READABLE, || match stream.try_read_buf(buf)? {
                1.. if buf.remaining() > 0 => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            });
            let length = buf.filled().len() - filled;
            self.0.read.fetch_add(length, Relaxed);
            match read {
                _ if length > 0 => return Poll::Ready(Ok(())),
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
        self.0.change(|account| account.note_flushed());
        Poll::Ready(Ok(())) // the kernel has everything
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&self.0.stream).shutdown(Shutdown::Write))
    }
}

impl Socket {
    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.stream.poll_write_ready(cx))?;
            match write(&self.0.stream) {
                Ok(length) => {
                    self.0.change(|account| account.note_written(length));
                    return Poll::Ready(Ok(length));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}
