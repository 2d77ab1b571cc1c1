//! A client of the API of a running server, over TCP or through the port-forward of an API server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use http::header::{ACCEPT, DATE, HOST};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::cluster::{Cluster, Replica, ReplicaError};
use crate::model::Timestamp;
use crate::view::{CELLS, Document, Filter, MAX_LIMIT, View};

/// Maximum time for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of a response in octets. A page of a thousand rows has one MB.
const MAX_BODY: usize = 64 << 20;
/// Maximum number of times that a list is begun again because its table is gone.
const MAX_BEGINNINGS: usize = 5;
/// Maximum time until a found replica shows that it is alive. Others follow.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum wait for the reason of the node for the end of a stream.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);
/// The API of a running server.
pub struct Api {
    location: Location,
    /// The connection of the last request, if it is still open.
    connection: Option<HttpConnection>,
    /// The time of the server in the last response.
    date: Option<Timestamp>,
}

/// The way to reach the API.
enum Location {
    /// Directly.
    Url(Uri),
    /// Through the port-forward of an API server.
    Replica(Arc<Cluster>, Replica),
}

type HttpConnection = SendRequest<Empty<Bytes>>;

/// A response that is not that of success.
#[derive(Debug, thiserror::Error)]
#[error("{what} returned {status}: {text}")]
struct FailedRequest {
    what: String,
    status: StatusCode,
    text: String,
}

/// The media type to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accept {
    /// Objects.
    Items,
    /// Cells.
    Cells,
    /// Server-sent events.
    EventStream,
}

// === impl Api ===

impl Api {
    /// Returns the API at a URL. Does not connect.
    pub fn at(url: &Uri) -> Self {
        Self {
            location: Location::Url(url.clone()),
            connection: None,
            date: None,
        }
    }

    /// Connects to the API of a replica, and checks that it responds.
    ///
    /// # Errors
    ///
    /// If the port cannot be forwarded, or nothing responds.
    pub async fn of_replica(
        cluster: &Arc<Cluster>,
        replica: &Replica,
    ) -> Result<Self, ReplicaError> {
        let (stream, stream_error) = cluster.connect(replica).await?;
        let mut api = Self {
            location: Location::Replica(cluster.clone(), replica.clone()),
            connection: None,
            date: None,
        };
        let probe = async {
            let connection = open(TokioIo::new(stream)).await?;
            // Any response will do: it shows that the server is alive.
            let (connection, response) = api
                .exchange(connection, "/api/v1/status", Accept::Items)
                .await?;
            response.into_body().collect().await?;
            anyhow::Ok(connection)
        };
        let reason = match timeout(PROBE_TIMEOUT, probe).await {
            Ok(Ok(connection)) => {
                api.connection = Some(connection);
                return Ok(api);
            }
            // The reason of the node may arrive after the end of the stream.
            Ok(Err(error)) => match timeout(REASON_TIMEOUT, stream_error).await {
                Ok(Some(reason)) => reason.trim().to_owned(),
                Ok(None) | Err(_) => format!("{error:#}"),
            },
            Err(_) => format!("no response within {} s", PROBE_TIMEOUT.as_secs()),
        };
        Err(ReplicaError::Failed {
            action: format!("query {replica}"),
            url: cluster.address(),
            reason,
        })
    }

    /// Requests all pages of a view with cells, or the first one if the filter has a limit.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or refuses the request.
    pub async fn document(&mut self, view: View, filter: &Filter) -> anyhow::Result<Document> {
        self.pages(view, filter, Accept::Cells).await
    }

    /// Requests all pages of a view with objects, or the first one if the filter has a limit.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or refuses the request.
    pub async fn items(&mut self, view: View, filter: &Filter) -> anyhow::Result<Document> {
        self.pages(view, filter, Accept::Items).await
    }

    /// Requests pages, and joins them. Begins again if the table of the first page is gone.
    async fn pages(
        &mut self,
        view: View,
        filter: &Filter,
        accept: Accept,
    ) -> anyhow::Result<Document> {
        let limit = filter.limit.or_else(|| view.is_list().then_some(MAX_LIMIT));
        let first = Filter {
            limit,
            ..filter.clone()
        };
        let mut beginnings = 0;
        'begin: loop {
            beginnings += 1;
            let mut all = self.page(view, &first, accept).await?;
            while let Some(place) = all.next.clone().filter(|_| filter.limit.is_none()) {
                let filter = Filter {
                    next: Some(place),
                    ..first.clone()
                };
                match self.page(view, &filter, accept).await {
                    Ok(page) => all.append(page),
                    Err(error) if is_gone(&error) && beginnings < MAX_BEGINNINGS => continue 'begin,
                    Err(error) => return Err(error),
                }
            }
            return Ok(all);
        }
    }

    /// Requests a page, and parses it.
    async fn page(
        &mut self,
        view: View,
        filter: &Filter,
        accept: Accept,
    ) -> anyhow::Result<Document> {
        let path = path_of(view, filter);
        let what = self.describe(&path);
        let (connection, response) = self.request(&path, accept).await?;
        self.date = date_of(&response);
        let text = text_of(response, &what).await?;
        self.connection = Some(connection);
        serde_json::from_str(&text).with_context(|| format!("cannot parse {what}"))
    }

    /// Returns whether a request failed because the server does not know its time.
    pub fn is_unknown_time(error: &anyhow::Error) -> bool {
        let failed = error.downcast_ref::<FailedRequest>();
        failed.is_some_and(|failed| failed.status == StatusCode::NOT_FOUND)
    }

    /// Returns the time of the server in the last response.
    pub fn date(&self) -> Option<Timestamp> {
        self.date
    }

    /// Requests a stream of events, and returns the body, which has no end, with its connection. Other requests use another
    /// connection.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or refuses the request.
    pub async fn stream(
        &mut self,
        filter: &Filter,
    ) -> anyhow::Result<(SendRequest<Empty<Bytes>>, Incoming)> {
        let path = path_of(View::Events, filter);
        let what = self.describe(&path);
        let (connection, response) = self.request(&path, Accept::EventStream).await?;
        if !response.status().is_success() {
            text_of(response, &what).await?;
            bail!("{what} did not return events");
        }
        Ok((connection, response.into_body()))
    }

    /// Sends a request and waits for the head of the response.
    async fn request(
        &mut self,
        path: &str,
        accept: Accept,
    ) -> anyhow::Result<(HttpConnection, Response<Incoming>)> {
        let what = self.describe(path);
        // A server closes an idle connection at any time, so a failure on one does not count.
        if let Some(open) = self.connection.take()
            && let Ok(Ok(done)) = timeout(RESPONSE_TIMEOUT, self.exchange(open, path, accept)).await
        {
            return Ok(done);
        }
        let exchange = async {
            let connection = self.connect().await?;
            self.exchange(connection, path, accept).await
        };
        let seconds = RESPONSE_TIMEOUT.as_secs();
        let done = timeout(RESPONSE_TIMEOUT, exchange)
            .await
            .map_err(|_| anyhow!("no response from {what} within {seconds} s"))?;
        done.with_context(|| format!("cannot request {what}"))
    }

    /// Opens a connection.
    async fn connect(&self) -> anyhow::Result<HttpConnection> {
        match &self.location {
            Location::Url(url) => {
                if url.scheme_str() != Some("http") {
                    bail!(
                        "only http:// is supported; kubectl port-forward provides such an address"
                    );
                }
                let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
                let port = url.port_u16().unwrap_or(80);
                open(TokioIo::new(TcpStream::connect((host, port)).await?)).await
            }
            Location::Replica(cluster, replica) => {
                let (stream, _) = cluster.connect(replica).await?;
                open(TokioIo::new(stream)).await
            }
        }
    }

    /// Sends a request over a connection and waits for the head of the response.
    async fn exchange(
        &self,
        mut connection: HttpConnection,
        path: &str,
        accept: Accept,
    ) -> anyhow::Result<(HttpConnection, Response<Incoming>)> {
        let (prefix, host) = match &self.location {
            Location::Url(url) => (
                url.path().trim_end_matches('/'),
                url.authority().map_or("localhost", |host| host.as_str()),
            ),
            // The API refuses the name of the pod.
            Location::Replica(..) => ("", "localhost"),
        };
        let mut request = Request::get(format!("{prefix}{path}")).header(HOST, host);
        request = request.header(
            ACCEPT,
            match accept {
                Accept::Items => "application/json",
                Accept::Cells => CELLS,
                Accept::EventStream => "text/event-stream",
            },
        );
        connection.ready().await?;
        let response = connection.send_request(request.body(Empty::new())?).await?;
        Ok((connection, response))
    }

    /// Returns a path of the API for messages.
    fn describe(&self, path: &str) -> String {
        match &self.location {
            Location::Url(url) => format!("{}{path}", url.to_string().trim_end_matches('/')),
            Location::Replica(_, replica) => format!("{path} of {replica}"),
        }
    }
}

/// Returns the path and query of a view.
fn path_of(view: View, filter: &Filter) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(filter.to_query());
    let query = query.finish();
    let sign = if query.is_empty() { "" } else { "?" };
    format!("/api/v1/{}{sign}{query}", view.name())
}

/// Returns whether the table of a list is gone.
fn is_gone(error: &anyhow::Error) -> bool {
    let failed = error.downcast_ref::<FailedRequest>();
    failed.is_some_and(|failed| failed.status == StatusCode::GONE)
}

fn date_of(response: &Response<Incoming>) -> Option<Timestamp> {
    let date = response.headers().get(DATE)?;
    Timestamp::from_http_date(date.to_str().ok()?)
}

/// Starts HTTP/1.1 on a stream.
async fn open<S: Read + Write + Send + Unpin + 'static>(
    stream: S,
) -> anyhow::Result<HttpConnection> {
    let (sender, connection) = handshake(stream).await?;
    // Its errors are those of the requests.
    tokio::spawn(async move { _ = connection.await });
    Ok(sender)
}

/// Reads the body of a response. Fails if the status is not that of success.
async fn text_of(response: Response<Incoming>, what: &str) -> anyhow::Result<String> {
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_BODY);
    let body = timeout(RESPONSE_TIMEOUT, body.collect())
        .await
        .map_err(|_| anyhow!("the response of {what} did not end"))?
        .map_err(|error| anyhow!("cannot read the response of {what}: {error}"))?;
    let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    if status.is_success() {
        Ok(text)
    } else {
        Err(FailedRequest {
            what: what.to_owned(),
            status,
            text: text.trim().to_owned(),
        }
        .into())
    }
}
