//! HTTP connections of the admin and API listeners. They must always answer the kubelet.
//!
//! A connection carries one request. If there are too many connections, the oldest is closed, first one from the same
//! address. A probe takes milliseconds, so clients that hoard connections lose them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tracing::{debug, warn};

use super::accept::accept;
use super::connections::{Connections, Limits, Slot};

/// Maximum number of connections of a listener. Few clients use it: probes, scrapes and people.
const LIMITS: Limits = Limits {
    total: 32,
    per_address: 16,
};
/// Maximum time for the head of a request. Bodies are not used.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of the head in octets. It is many times that of a DNS name.
const MAX_HEAD: usize = 16 * 1024;
/// Maximum lifetime of a connection. Sending a large table over a slow line takes some of it.
const MAX_LIFETIME: Duration = Duration::from_secs(60);

/// The local address of a connection, as an extension of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddress(pub IpAddr);

/// Serves `routes` until the process ends. If descriptors are exhausted, a connection of `fallback` is closed.
pub(super) async fn serve(listener: TcpListener, routes: Router, fallback: Connections) {
    let connections = Connections::with_fallback(LIMITS, Arc::default(), Some(fallback));
    let serve = |stream, _, slot| serve_connection(stream, slot, routes.clone());
    let note_end = |ended: Result<(), _>| {
        if let Err(error) = ended {
            warn!(%error, "An HTTP connection ended with an error");
        }
    };
    accept(
        listener,
        connections,
        CancellationToken::new(),
        serve,
        note_end,
    )
    .await;
}

async fn serve_connection(stream: TcpStream, slot: Slot, routes: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .keep_alive(false);
    let local = stream
        .local_addr()
        .map(|local| LocalAddress(local.ip()))
        .ok();
    let routes = routes.map_request(move |mut request: Request<Incoming>| {
        if let Some(local) = local {
            request.extensions_mut().insert(local);
        }
        request
    });
    let served = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    tokio::select! {
        served = timeout(MAX_LIFETIME, served) => match served {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "An HTTP connection broke"),
            Err(_) => debug!("An HTTP connection took too long"),
        },
        () = slot.displaced() => {}
    }
}
