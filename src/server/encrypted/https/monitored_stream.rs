//! A stream that records since when writes are blocked. HTTP/1.1 copies replies, so dropping a reply does not mean that
//! the client has received it. The stream also makes a client that sends without pause yield to others.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Exchange;
use crate::server::tcp::READ_QUOTA;

/// The stream of an HTTP connection.
pub(super) struct MonitoredStream<S> {
    stream: S,
    exchange: Arc<Exchange>,
    /// Octets read since the task last yielded.
    read: usize,
}

// === impl MonitoredStream ===

impl<S: AsyncWrite + Unpin> MonitoredStream<S> {
    pub(super) fn new(stream: S, exchange: Arc<Exchange>) -> Self {
        Self {
            stream,
            exchange,
            read: 0,
        }
    }

    fn note<T>(&self, polled: Poll<T>) -> Poll<T> {
        if polled.is_pending() {
            self.exchange.note_blocked();
        }
        polled
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MonitoredStream<S> {
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
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let length = buf.filled().len() - before;
        if read.is_pending() {
            self.read = 0;
        } else if length == 0 {
            self.exchange.note_closed();
        }
        self.read += length;
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MonitoredStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        // Octets that TLS has accepted may not have been sent. Only a flush proves it.
        if flushed.is_ready() {
            self.exchange.note_flushed();
        }
        self.note(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
