//! The HTTP endpoints: `/livez`, `/readyz` and `/metrics` for the cluster, `/api/v1/…` with the views, and the status page; and the
//! client of the API, which the commands use.
//!
//! Readers must not delay probes and answers. The probes, the metrics and the API have a thread each. The API makes one page of a view at
//! a time, and has few connections.

mod client;
mod gate;
mod host;
mod liveness;
mod metrics;
mod page;
mod stream;

use std::future::pending;
use std::io;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Request, State as FromState};
use axum::http::StatusCode;
use axum::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tower_http::compression::CompressionLayer;
use tracing::debug;

pub use client::{Api, CloseReason, Connect, Unreachable, within};
pub use host::ApiHosts;
pub use liveness::Liveness;

use crate::server::platform::lower_priority;
use crate::server::{serve_http, thread};
use crate::view::{CELLS, Server, ViewError, ViewKind, document, names, problem_with_age};
use crate::wire::Access;

/// Maximum time for which `/readyz` waits for the first table. The kubelet waits for two seconds.
const FIRST_TABLE_WAIT: Duration = Duration::from_secs(1);

/// The state that the handlers share.
#[derive(Clone)]
pub struct HttpState {
    /// The server that is shown.
    pub server: Server,
    /// What the probes tell.
    pub probes: Probes,
    /// The runtime of the thread that renders the metrics, so that they delay no probe, and the API does not delay them.
    pub metrics_runtime: Handle,
}

/// What the probes tell.
#[derive(Clone, Default)]
pub struct Probes {
    /// What `/readyz` tells.
    pub readiness: watch::Sender<Readiness>,
    /// The loops that must make progress.
    pub liveness: Liveness,
}

/// Whether a Service should send queries to this server.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Readiness {
    /// There is no table yet, and the addresses of DNS are closed.
    #[default]
    Starting,
    /// The server answers. It stays ready if the API server is unreachable, because it continues to answer from the last table.
    Ready,
    /// The server still answers, and will end soon.
    Withdrawn,
}

/// The listeners of `listen.admin` and `listen.api`.
pub struct Listeners {
    /// Probes and metrics.
    pub admin: Vec<TcpListener>,
    /// The API and the page.
    pub api: Vec<TcpListener>,
    /// The hosts of `listen.apiHosts`.
    pub api_hosts: ApiHosts,
    /// Which addresses are one client.
    pub access: Access,
}

/// Serves a server on three threads: for the probes, the metrics and the API. `tasks` get a task for each, which ends with it.
///
/// # Errors
///
/// If the system has no thread.
pub fn start(
    server: &Server,
    probes: Probes,
    listeners: Listeners,
    tasks: &mut JoinSet<()>,
) -> io::Result<()> {
    let metrics_runtime = thread::runtime()?;
    let follow = probes.liveness.clone().follow();
    let state = HttpState {
        server: server.clone(),
        probes,
        metrics_runtime: metrics_runtime.handle().clone(),
    };
    let access = listeners.access;
    let serve_admin = serve_http(listeners.admin, admin_routes(state), access.clone());
    thread::run("probes", thread::runtime()?, tasks, || async {
        tokio::join!(follow, serve_admin);
    })?;
    thread::run("metrics", metrics_runtime, tasks, || async {
        lower_priority_of_thread();
        pending::<()>().await;
    })?;
    let routes = api_routes(server.clone(), listeners.api_hosts);
    let serve_api = serve_http(listeners.api, routes, access);
    thread::run("api", thread::runtime()?, tasks, || async {
        lower_priority_of_thread();
        serve_api.await;
        pending::<()>().await; // without a listener, the thread stays
    })
}

/// Lowers the priority of a thread that serves readers.
fn lower_priority_of_thread() {
    if let Err(error) = lower_priority() {
        debug!(%error, "Cannot lower the priority of a thread");
    }
}

// === Routes ===

/// Returns the routes of `listen.admin`.
pub fn admin_routes(state: HttpState) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(state)
}

/// Returns the routes of `listen.api`. They show every namespace. `Host` and `Origin` of a request must be of `hosts`.
pub fn api_routes(server: Server, hosts: ApiHosts) -> Router {
    let streams = Arc::new(Semaphore::new(stream::MAX_STREAMS));
    Router::new()
        .route("/api/v1/{view}", get(view))
        .with_state((server, streams))
        .merge(page::routes())
        .layer(CompressionLayer::new())
        .layer(from_fn_with_state(hosts, gate::check_request))
}

/// Answers `/livez`. A process that cannot answer queries, or that does not see changes any more, must be restarted. It
/// is alive while the API server is unreachable: the update loop then waits for events, which is progress.
async fn livez(FromState(state): FromState<HttpState>) -> (StatusCode, String) {
    match state.probes.liveness.problem() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(problem) => (StatusCode::SERVICE_UNAVAILABLE, problem + "\n"),
    }
}

/// Answers `/readyz`, with the problems of the server. A request waits for the first table, so that an ordinary start fails no probe.
async fn readyz(FromState(state): FromState<HttpState>) -> (StatusCode, String) {
    let mut readiness = state.probes.readiness.subscribe();
    let is_started = readiness.wait_for(|one| *one != Readiness::Starting);
    let _ = timeout(FIRST_TABLE_WAIT, is_started).await;
    let status = match *readiness.borrow() {
        Readiness::Ready => StatusCode::OK,
        Readiness::Starting | Readiness::Withdrawn => StatusCode::SERVICE_UNAVAILABLE,
    };
    let server = &state.server;
    let mut lines = Vec::new();
    if status == StatusCode::OK {
        lines.push("ok".to_owned());
    }
    for problem in server.problems(&server.reader.load()) {
        lines.push(problem_with_age(&problem, server.feeds.clock));
    }
    (status, lines.join("\n") + "\n")
}

async fn metrics(FromState(state): FromState<HttpState>) -> Response {
    const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    /// A rendering does not end with its connection, so that connections that are closed at once could begin any number of them.
    static RENDERING: Semaphore = Semaphore::const_new(1);
    let place = RENDERING.acquire().await;
    let runtime = state.metrics_runtime.clone();
    let render = async move {
        let _place = place;
        state.render()
    };
    let rendered = runtime.spawn(render).await;
    let text = rendered.map_err(anyhow::Error::from);
    match text.and_then(|text| Ok(text?)) {
        Ok(text) => ([(CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

// === The views ===

/// Answers a view: a document with cells or with objects, as the client accepts, or a stream of events.
async fn view(
    FromState((server, streams)): FromState<(Server, Arc<Semaphore>)>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    let Ok(view) = ViewKind::from_str(&name) else {
        let names = names::<ViewKind>().join(", ");
        let sentence = format!("there is no such view; the views are {names}\n");
        return (StatusCode::NOT_FOUND, sentence).into_response();
    };
    let filter = match view.filter(request.uri().query().unwrap_or_default()) {
        Ok(filter) => filter,
        Err(error) => return error.into_response(),
    };
    if view == ViewKind::Events && accepts(request.headers(), stream::MEDIA_TYPE) {
        return stream::respond(&streams, &server, filter, request);
    }
    match document(view, &server, &filter) {
        Ok(document) if accepts(request.headers(), CELLS) => {
            ([(CONTENT_TYPE, CELLS)], Json(document)).into_response()
        }
        Ok(document) => Json(document.into_items()).into_response(),
        Err(error) => error.into_response(),
    }
}

/// Returns whether a client names a media type. Spaces and case do not matter.
fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let values = headers.get_all(ACCEPT).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|one| one.replace(' ', "").eq_ignore_ascii_case(media_type))
}

impl IntoResponse for ViewError {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::NotKnown(_) => StatusCode::NOT_FOUND,
            Self::Gone => StatusCode::GONE,
            Self::NoTable => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, format!("{self}\n")).into_response()
    }
}

#[cfg(test)]
pub(crate) mod tests;
