//! HTTP/1.1 connections to the API of a server.

use futures::future::BoxFuture;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// The sender of the requests of a connection.
pub(super) type HttpConnection = SendRequest<Empty<Bytes>>;

/// Resolves to the reason for the end of a stream, if the node of a port-forward sends one.
pub(super) type StreamError = BoxFuture<'static, Option<String>>;

/// Starts HTTP on a stream.
pub(super) async fn open<S>(stream: S) -> anyhow::Result<HttpConnection>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // Its errors are those of the requests.
    tokio::spawn(async move { _ = connection.await });
    Ok(sender)
}
