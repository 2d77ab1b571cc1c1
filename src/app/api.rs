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
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::cli::{Cluster, Replica, ReplicaError};

/// Maximum time for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of a response in octets. The table of 100,000 endpoints has 50 MB.
const MAX_BODY: usize = 256 << 20;
/// Maximum time until a found replica shows that it is alive. Others follow.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum wait for the reason of the node for the end of a stream.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);
/// What is escaped in the query of a URL (RFC 3986 section 3.4). Times and lists stay readable.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b',');

/// The API of a running server.
pub(super) struct Api {
    location: Location,
    /// The connection of the last request, if it is still open.
    connection: Option<HttpConnection>,
}

/// The way to reach the API.
enum Location {
    /// Directly.
    Url(Uri),
    /// Through the port-forward of an API server.
    Replica(Arc<Cluster>, Replica),
}

pub(super) type HttpConnection = SendRequest<Empty<Bytes>>;

/// A response that is not that of success.
#[derive(Debug, thiserror::Error)]
#[error("{what} returned {status}: {text}")]
struct FailedRequest {
    pub(super) what: String,
    pub(super) status: StatusCode,
    pub(super) text: String,
}

/// The media type to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accept {
    /// Any.
    Any,
    /// Server-sent events.
    EventStream,
}

// === impl Api ===

impl Api {
    /// Returns the API at a URL. Does not connect.
    pub(super) fn at(url: &Uri) -> Self {
        Self {
            location: Location::Url(url.clone()),
            connection: None,
        }
    }

    /// Connects to the API of a replica, and checks that it responds.
    pub(super) async fn of_replica(
        cluster: &Arc<Cluster>,
        replica: &Replica,
    ) -> Result<Self, ReplicaError> {
        let (stream, stream_error) = cluster.connect(replica).await?;
        let mut api = Self {
            location: Location::Replica(cluster.clone(), replica.clone()),
            connection: None,
        };
        let probe = async {
            let connection = open(TokioIo::new(stream)).await?;
            // Any response will do: it shows that the server is alive.
            let (connection, response) = api.exchange(connection, "/api/v1", Accept::Any).await?;
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

    /// Requests a document, and parses it.
    pub(super) async fn read<T: DeserializeOwned>(&mut self, path: &str) -> anyhow::Result<T> {
        let text = self.get(path).await?;
        let parsed = serde_json::from_str(&text);
        parsed.with_context(|| format!("cannot parse {}", self.describe(path)))
    }

    /// Requests a path, and returns the body of the response.
    pub(super) async fn get(&mut self, path: &str) -> anyhow::Result<String> {
        Ok(self.get_with_date(path).await?.0)
    }

    /// Requests a path, and returns the body of the response and the value of its header `Date`.
    pub(super) async fn get_with_date(
        &mut self,
        path: &str,
    ) -> anyhow::Result<(String, Option<String>)> {
        let what = self.describe(path);
        let (connection, response) = self.request(path, Accept::Any).await?;
        let date = response.headers().get(DATE);
        let date = date.and_then(|date| Some(date.to_str().ok()?.to_owned()));
        let text = text_of(response, &what).await?;
        self.connection = Some(connection);
        Ok((text, date))
    }

    /// Requests a path of events, and returns the body, which has no end, with its connection. Other requests use another
    /// connection.
    pub(super) async fn stream(
        &mut self,
        path: &str,
    ) -> anyhow::Result<(HttpConnection, Incoming)> {
        let what = self.describe(path);
        let (connection, response) = self.request(path, Accept::EventStream).await?;
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
        if accept == Accept::EventStream {
            request = request.header(ACCEPT, "text/event-stream");
        }
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

/// Returns a path of the API with a query. Parameters without a value are left out.
pub(super) fn with_query<const N: usize>(path: &str, query: [(&str, Option<String>); N]) -> String {
    let part = |(name, value): (&str, Option<String>)| {
        let value = value?;
        Some(format!("{name}={}", utf8_percent_encode(&value, ESCAPED)))
    };
    let parts: Vec<String> = query.into_iter().filter_map(part).collect();
    match parts.join("&").as_str() {
        "" => path.to_owned(),
        query => format!("{path}?{query}"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_has_the_given_parameters_and_escapes_their_values() {
        let given = |text: &str| Some(text.to_owned());
        for (query, expected) in [
            ([("name", None), ("at", None)], "/p"),
            (
                [("name", given("prod/db")), ("at", None)],
                "/p?name=prod%2Fdb",
            ),
            (
                [
                    ("name", given("a b&c=ü?")),
                    ("at", given("2026-11-24T03:12:00Z")),
                ],
                "/p?name=a%20b%26c%3D%C3%BC%3F&at=2026-11-24T03:12:00Z",
            ),
            ([("name", None), ("kind", given("a,b-c"))], "/p?kind=a,b-c"),
        ] {
            assert_eq!(with_query("/p", query), expected);
        }
    }
}
