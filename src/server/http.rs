//! HTTP connections of the admin and API listeners, which must answer the kubelet whoever else comes.
//!
//! A connection carries one request. Where there are too many, the oldest makes room, of the same address first: a probe
//! needs its place for milliseconds, and whoever hoards connections loses them.

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
use super::connections::{Connections, Limits, Place};

/// Connections of a listener: probes, scrapes and people are few.
const LIMITS: Limits = Limits {
    total: 32,
    per_address: 16,
};
/// How long a client may take for the head of its request. We need no body.
const HEAD: Duration = Duration::from_secs(5);
/// Octets of the head at most: the names that are asked for fit many times.
const MOST: usize = 16 * 1024;
/// How long a connection lasts at most: a large table over a slow line takes some of it.
const LIFE: Duration = Duration::from_secs(60);

/// The address that a client connected to. Requests have it as an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddress(pub IpAddr);

/// Serves `routes` for good. Where descriptors are wanted, one of `lender` makes room.
pub(super) async fn serve(listener: TcpListener, routes: Router, lender: Connections) {
    let connections = Connections::with_lender(LIMITS, Arc::default(), Some(lender));
    let serve = |stream, _, place| converse(stream, place, routes.clone());
    let note_end = |ended: Result<(), _>| {
        if let Err(error) = ended {
            warn!(%error, "An HTTP connection ended in an error");
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

async fn converse(stream: TcpStream, place: Place, routes: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(MOST)
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
        served = timeout(LIFE, served) => match served {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "An HTTP connection broke"),
            Err(_) => debug!("An HTTP connection took too long"),
        },
        () = place.displaced() => {}
    }
}
