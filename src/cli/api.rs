//! A client of the API of a server: a running one, over TCP or through the port-forward of an API server, or one in this process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use axum::body::{Body, to_bytes};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::header::{ACCEPT, HOST};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::cluster::{Cluster, ClusterError, Replica};
use super::print::{Output, harmless};
use crate::view::{CELLS, Document, Filter, MAX_LIMIT, Server, View, document};

/// Maximum time for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of a response in octets. A page of a thousand rows has one MB.
const MAX_BODY: usize = 64 << 20;
/// Maximum number of times that a list is begun again because its table is gone.
const MAX_BEGINNINGS: usize = 5;
/// Maximum wait for the reason of the node for the end of a stream.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);

/// The API of a server.
pub enum Api {
    /// An `http` URL.
    Url(Uri),
    /// A replica, through the port-forward of an API server.
    Replica(Arc<Cluster>, Replica),
    /// This process, which has made the server of objects. It needs the tasks of its source.
    InProcess(Box<Server>, JoinSet<()>),
}

/// A response that is not that of success.
#[derive(Debug, thiserror::Error)]
#[error("{what} returned {status}: {text}")]
struct FailedRequest {
    what: String,
    status: StatusCode,
    text: String,
}

// === impl Api ===

impl Api {
    /// Requests all pages of a view, or the first one if the filter has a limit. For the output as JSON, the document has objects;
    /// otherwise, cells.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or refuses the request.
    pub async fn document(
        &self,
        view: View,
        filter: &Filter,
        output: Output,
    ) -> anyhow::Result<Document> {
        let mut page = Filter {
            limit: filter.limit.or(view.is_list().then_some(MAX_LIMIT)),
            ..filter.clone()
        };
        let mut beginnings = 1;
        let mut all = self.page(view, &page, output).await?;
        while filter.limit.is_none() && all.next.is_some() {
            page.next = all.next.take();
            match self.page(view, &page, output).await {
                Ok(next) => all.append(next),
                Err(error)
                    if has_failed(&error, StatusCode::GONE) && beginnings < MAX_BEGINNINGS =>
                {
                    beginnings += 1;
                    page.next = None;
                    all = self.page(view, &page, output).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Requests all objects of a view, without those of the section `causes`, which groups the others.
    ///
    /// # Errors
    ///
    /// As [`document`](Self::document).
    pub async fn items(&self, view: View, filter: &Filter) -> anyhow::Result<Vec<Value>> {
        let document = self.document(view, filter, Output::Json).await?;
        let mut items = document.objects();
        items.retain(|one| one["section"] != "causes");
        Ok(items)
    }

    /// Requests the status of the server.
    ///
    /// # Errors
    ///
    /// As [`document`](Self::document).
    pub async fn status(&self) -> anyhow::Result<Value> {
        let items = self.items(View::Status, &Filter::default()).await?;
        let status = items.into_iter().next();
        status.context("the server returned no status")
    }

    /// Requests a page, and parses it.
    async fn page(&self, view: View, filter: &Filter, output: Output) -> anyhow::Result<Document> {
        if let Self::InProcess(server, _) = self {
            return Ok(document(view, server, filter)?);
        }
        let accept = match output {
            Output::Json => "application/json",
            Output::Text | Output::Wide | Output::Zone => CELLS,
        };
        let (what, response) = self.request(view, filter, accept).await?;
        let body = read(response.into_body()).await;
        let document = body.and_then(|body| Ok(serde_json::from_slice(&body)?));
        document.with_context(|| format!("cannot read {what}"))
    }

    /// Requests a stream of events, and returns the body, which has no end.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or refuses the request.
    pub async fn stream(&self, filter: &Filter) -> anyhow::Result<Body> {
        let (_, response) = self
            .request(View::Events, filter, "text/event-stream")
            .await?;
        Ok(response.into_body())
    }

    /// Sends a request on a new connection and waits for the head of the response, which is that of success. Returns it with its
    /// description.
    async fn request(
        &self,
        view: View,
        filter: &Filter,
        accept: &str,
    ) -> anyhow::Result<(String, Response<Body>)> {
        let path = path_of(view, filter);
        let what = match self {
            Self::Url(url) => format!("{}{path}", url.to_string().trim_end_matches('/')),
            Self::Replica(_, replica) => format!("{path} of {replica}"),
            Self::InProcess(..) => path.clone(),
        };
        let sent = timeout(RESPONSE_TIMEOUT, self.send(&path, accept)).await;
        let late = |_| anyhow!("no response within {} s", RESPONSE_TIMEOUT.as_secs());
        let response = match sent.map_err(late).flatten() {
            Err(error) if error.is::<ClusterError>() => return Err(error),
            sent => sent.with_context(|| format!("cannot request {what}"))?,
        };
        let status = response.status();
        if status.is_success() {
            return Ok((what, response));
        }
        let text = read(response.into_body()).await?;
        let text = harmless(String::from_utf8_lossy(&text).trim());
        bail!(FailedRequest { what, status, text })
    }

    /// Sends a request on a new connection.
    async fn send(&self, path: &str, accept: &str) -> anyhow::Result<Response<Body>> {
        match self {
            Self::Url(url) => {
                let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
                let stream = TcpStream::connect((host, url.port_u16().unwrap_or(80)));
                let target = format!("{}{path}", url.path().trim_end_matches('/'));
                let host = url.authority().map_or("", |host| host.as_str());
                request_on(stream.await?, &target, host, accept).await
            }
            Self::Replica(cluster, replica) => {
                let (stream, reason) = cluster.connect(replica).await?;
                // The API refuses the name of the pod.
                let sent = request_on(stream, path, "localhost", accept).await;
                let Err(error) = sent else { return sent };
                // The reason of the node may arrive after the end of the stream.
                match timeout(REASON_TIMEOUT, reason).await {
                    Ok(Some(reason)) => bail!("{}", reason.trim()),
                    _ => Err(error),
                }
            }
            Self::InProcess(..) => bail!("a server in this process has no connections"),
        }
    }
}

/// Sends a request on a stream, which the server closes after the response.
async fn request_on<S>(
    stream: S,
    target: &str,
    host: &str,
    accept: &str,
) -> anyhow::Result<Response<Body>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    // Its errors are those of the request.
    tokio::spawn(connection);
    let request = Request::get(target)
        .header(HOST, host)
        .header(ACCEPT, accept);
    let response = sender.send_request(request.body(Body::empty())?).await?;
    Ok(response.map(Body::new))
}

/// Returns the path and query of a view.
fn path_of(view: View, filter: &Filter) -> String {
    // A filter has only texts, numbers and times, so that it always is a query.
    let query = serde_urlencoded::to_string(filter).unwrap_or_default();
    let sign = if query.is_empty() { "" } else { "?" };
    format!("/api/v1/{}{sign}{query}", view.name())
}

/// Returns whether a request failed with a status: 410, because the table of a list is gone.
fn has_failed(error: &anyhow::Error, status: StatusCode) -> bool {
    let failed = error.downcast_ref::<FailedRequest>();
    failed.is_some_and(|failed| failed.status == status)
}

/// Reads the body of a response.
async fn read(body: Body) -> anyhow::Result<Bytes> {
    let read = timeout(RESPONSE_TIMEOUT, to_bytes(body, MAX_BODY)).await;
    Ok(read.context("the response did not end")??)
}
