//! A client of the API of a server: a running one, over TCP or through the port-forward of an API server, or one in this process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use futures::FutureExt as _;
use futures::future::ready;
use http::header::{ACCEPT, HOST};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::cluster::{Cluster, ClusterError, Replica};
use super::connection::{HttpConnection, StreamError, open};
use super::print::Output;
use crate::view::{CELLS, Document, Filter, MAX_LIMIT, Server, View, ViewError, document};

/// Maximum time for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of a response in octets. A page of a thousand rows has one MB.
const MAX_BODY: usize = 64 << 20;
/// Maximum number of times that a list is begun again because its table is gone.
const MAX_BEGINNINGS: usize = 5;
/// Maximum wait for the reason of the node for the end of a stream.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);

/// The API of a server, by the place of the server.
pub enum Api {
    /// An `http` URL.
    Url(Uri),
    /// A replica, through the port-forward of an API server.
    Replica(Arc<Cluster>, Replica),
    /// This process, which has made it of objects. It needs the tasks of its source.
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
        let first = Filter {
            limit: filter.limit.or(view.is_list().then_some(MAX_LIMIT)),
            ..filter.clone()
        };
        let mut beginnings = 1;
        let mut all = self.page(view, &first, output).await?;
        while let Some(next) = all.next.clone().filter(|_| filter.limit.is_none()) {
            let filter = Filter {
                next: Some(next),
                ..first.clone()
            };
            match self.page(view, &filter, output).await {
                Ok(page) => all.append(page),
                Err(error) if is_gone(&error) && beginnings < MAX_BEGINNINGS => {
                    beginnings += 1;
                    all = self.page(view, &first, output).await?;
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
        let path = path_of(view, filter);
        let (_connection, response) = self.request(&path, accept).await?;
        let what = self.describe(&path);
        let text = text_of(response, &what).await?;
        serde_json::from_str(&text).with_context(|| format!("cannot parse {what}"))
    }

    /// Requests a stream of events, and returns the body, which has no end, with its connection.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or refuses the request.
    pub async fn stream(&self, filter: &Filter) -> anyhow::Result<(HttpConnection, Incoming)> {
        let path = path_of(View::Events, filter);
        let (connection, response) = self.request(&path, "text/event-stream").await?;
        Ok((connection, response.into_body()))
    }

    /// Sends a request and waits for the head of the response, which is that of success. A server closes the connection after each response.
    async fn request(
        &self,
        path: &str,
        accept: &str,
    ) -> anyhow::Result<(HttpConnection, Response<Incoming>)> {
        let (prefix, host) = match self {
            Self::Url(url) => (
                url.path().trim_end_matches('/'),
                url.authority().map_or("localhost", |host| host.as_str()),
            ),
            // The API refuses the name of the pod.
            Self::Replica(..) | Self::InProcess(..) => ("", "localhost"),
        };
        let request = Request::get(format!("{prefix}{path}"))
            .header(HOST, host)
            .header(ACCEPT, accept)
            .body(Empty::new())?;
        let late = |_| anyhow!("no response within {} s", RESPONSE_TIMEOUT.as_secs());
        let sent = timeout(RESPONSE_TIMEOUT, self.send(request)).await;
        let (connection, response) = match sent.map_err(late).flatten() {
            Err(error) if error.is::<ClusterError>() => return Err(error),
            sent => sent.with_context(|| format!("cannot request {}", self.describe(path)))?,
        };
        if response.status().is_success() {
            return Ok((connection, response));
        }
        let (what, status) = (self.describe(path), response.status());
        let text = text_of(response, &what).await?.trim().to_owned();
        bail!(FailedRequest { what, status, text })
    }

    /// Sends a request on a new connection.
    async fn send(
        &self,
        request: Request<Empty<Bytes>>,
    ) -> anyhow::Result<(HttpConnection, Response<Incoming>)> {
        let (mut connection, reason) = self.connect().await?;
        let error = match connection.send_request(request).await {
            Ok(response) => return Ok((connection, response)),
            Err(error) => error,
        };
        // The reason of the node may arrive after the end of the stream.
        let reason = timeout(REASON_TIMEOUT, reason).await.ok().flatten();
        Err(reason.map_or_else(|| error.into(), |reason| anyhow!(reason.trim().to_owned())))
    }

    /// Opens a connection.
    async fn connect(&self) -> anyhow::Result<(HttpConnection, StreamError)> {
        match self {
            Self::Url(url) => {
                let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
                let port = url.port_u16().unwrap_or(80);
                let stream = TcpStream::connect((host, port)).await?;
                Ok((open(stream).await?, ready(None).boxed()))
            }
            Self::Replica(cluster, replica) => cluster.connect(replica).await,
            Self::InProcess(..) => bail!("a server in this process has no connections"),
        }
    }

    /// Returns a path of the API for messages.
    fn describe(&self, path: &str) -> String {
        match self {
            Self::Url(url) => format!("{}{path}", url.to_string().trim_end_matches('/')),
            Self::Replica(_, replica) => format!("{path} of {replica}"),
            Self::InProcess(..) => path.to_owned(),
        }
    }
}

/// Returns the path and query of a view.
fn path_of(view: View, filter: &Filter) -> String {
    // A filter has only texts, numbers and times, so that it always is a query.
    let query = serde_urlencoded::to_string(filter).unwrap_or_default();
    let sign = if query.is_empty() { "" } else { "?" };
    format!("/api/v1/{}{sign}{query}", view.name())
}

/// Returns whether the table of a list is gone.
fn is_gone(error: &anyhow::Error) -> bool {
    has_status(error, StatusCode::GONE) || error.downcast_ref() == Some(&ViewError::Gone)
}

/// Returns whether a request failed because the server does not know its time.
pub fn is_unknown_time(error: &anyhow::Error) -> bool {
    has_status(error, StatusCode::NOT_FOUND)
}

fn has_status(error: &anyhow::Error, status: StatusCode) -> bool {
    let failed = error.downcast_ref::<FailedRequest>();
    failed.is_some_and(|failed| failed.status == status)
}

/// Reads the body of a response.
async fn text_of(response: Response<Incoming>, what: &str) -> anyhow::Result<String> {
    let body = Limited::new(response.into_body(), MAX_BODY);
    let body = timeout(RESPONSE_TIMEOUT, body.collect())
        .await
        .map_err(|_| anyhow!("the response of {what} did not end"))?
        .map_err(|error| anyhow!("cannot read the response of {what}: {error}"))?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}
