//! HTTP connections of the admin and API listeners. They must always answer the kubelet.
//!
//! A connection carries one request. If there are too many connections, one of the client that has most is closed, first one without a
//! request. A probe takes milliseconds, so clients that hoard connections lose them. Streams of events may be closed in
//! this way, too: their clients connect again.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use futures::future::join_all;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::Layer as _;
use tracing::debug;

use super::accept::accept;
use super::connections::{ConnectionPlace, Connections};
use super::socket::Socket;
use crate::wire::{Access, Transport};

/// Maximum number of connections of a listener. Few clients use it: probes, scrapes and people.
const MAX_CONNECTIONS: usize = 32;
/// Maximum time for the head of a request. Bodies are not used.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of the head in octets. It is many times that of a DNS name.
const MAX_HEAD: usize = 16 * 1024;
/// Size of the send buffer of a connection in octets; the kernel uses twice as much memory. Without a limit, it buffers
/// megabytes for a client that does not read.
const SEND_BUFFER: usize = 64 * 1024;
/// Maximum time for which a client may receive nothing of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The local address of a connection, as an extension of each request.
#[derive(Clone, Copy, Debug)]
pub struct LocalAddress(pub IpAddr);

/// Serves `routes` until the process ends, on the runtime of this thread, to which the listeners are moved. `access` tells which
/// addresses are one client.
pub async fn serve_http(listeners: Vec<TcpListener>, routes: Router, access: Access) {
    let serve = async |listener| {
        let listener = TcpListener::into_std(listener)
            .and_then(TcpListener::from_std)
            .expect("a runtime takes the listener of another one");
        // Nobody reads these counters: the metrics are those of DNS.
        let counters = Arc::default();
        let connections =
            Connections::new(MAX_CONNECTIONS, access.clone(), Transport::Tcp, counters);
        let serve = |place| serve_connection(place, routes.clone());
        accept(
            listener,
            Arc::new(connections),
            CancellationToken::new(),
            serve,
        )
        .await;
    };
    join_all(listeners.into_iter().map(serve)).await;
}

async fn serve_connection(place: Arc<ConnectionPlace>, routes: Router) {
    let Ok(local) = place.stream.local_addr() else {
        return; // the client is gone
    };
    let socket = SockRef::from(&place.stream);
    if let Err(error) = socket.set_send_buffer_size(SEND_BUFFER) {
        debug!(%error, "Cannot limit the send buffer of an HTTP connection");
    }
    // A response that does not end is not kept for a client that does not read it: the kernel ends the connection.
    #[cfg(target_os = "linux")]
    if let Err(error) = socket.set_tcp_user_timeout(Some(WRITE_TIMEOUT)) {
        debug!(%error, "Cannot limit the time of a blocked write");
    }
    let routes = Extension(LocalAddress(local.ip())).layer(routes);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .keep_alive(false);
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(|request| {
        place.note_query();
        routes.call(request)
    });
    let stream = TokioIo::new(Socket::new(place.clone(), usize::MAX));
    tokio::select! {
        served = http.serve_connection(stream, service) => {
            if let Err(error) = served {
                debug!(%error, "An HTTP connection broke");
            }
        }
        () = place.replaced.cancelled() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    use axum::Extension;
    use axum::body::{Body, Bytes};
    use axum::routing::get;
    use futures::stream;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::time::sleep;

    /// Serves `/flood`, which sends as fast as the client reads.
    fn routes() -> Router {
        let flood = || stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from(vec![0; 64 * 1024])));
        Router::new()
            .route(
                "/",
                get(async |Extension(LocalAddress(own))| own.to_string()),
            )
            .route("/flood", get(async move || Body::from_stream(flood())))
    }

    async fn request(path: &str) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve_http(vec![listener], routes(), Access::for_all(&[])));
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// Reads until the connection ends, for at most `limit`. Returns whether it ended.
    async fn ends_within(stream: &mut TcpStream, limit: Duration) -> bool {
        let mut octets = vec![0; 1024 * 1024];
        let end = async {
            // A connection that is cut may end with a reset.
            while stream.read(&mut octets).await.is_ok_and(|count| count > 0) {}
        };
        tokio::time::timeout(limit, end).await.is_ok()
    }

    #[tokio::test]
    async fn requests_have_their_local_address() {
        let mut text = String::new();
        let mut stream = request("/").await;
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.ends_with("\r\n\r\n127.0.0.1"), "{text}");
    }

    /// The kernel measures this time.
    #[tokio::test]
    async fn client_that_does_not_read_is_dropped() {
        let mut stream = request("/flood").await;
        // The kernel's buffers are full after some megabytes. The client reads nothing until the server gives up.
        sleep(WRITE_TIMEOUT + Duration::from_secs(2)).await;
        assert!(ends_within(&mut stream, WRITE_TIMEOUT / 2).await);
    }
}
