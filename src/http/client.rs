//! A client of the API of a server: a running one, over TCP or through a port-forward, or one in this process.

use std::time::Duration;
use std::{fmt, io};

use anyhow::{Context as _, anyhow, bail};
use axum::body::{Body, Bytes, to_bytes};
use futures::future::{BoxFuture, ready};
use futures::{Stream, TryStreamExt as _};
use hyper::client::conn::http1::handshake;
use hyper::header::{ACCEPT, HOST};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};
use tokio_util::io::StreamReader;

use super::stream;
use crate::log::error_chain;
use crate::model::Line;
use crate::view::{CELLS, Document, Filter, MAX_LIMIT, Server, ViewError, ViewKind, document};

/// Maximum time for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of a response in octets. A page of a thousand rows has one MB.
const MAX_BODY: usize = 64 << 20;
/// Maximum number of octets of one line of a stream. A server that sends more is not one of ours.
const MAX_LINE: usize = 1 << 20;
/// Maximum number of times that a list is begun again because its table is gone.
const MAX_BEGINNINGS: usize = 5;
/// Maximum wait for the reason for the end of a connection.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);

/// The API of a server.
pub enum Api {
    /// An `http` URL.
    Url(Uri),
    /// A replica, through a port-forward.
    Replica(Box<dyn Connect>),
    /// This process, which has made the server of objects. It needs the tasks of its source.
    InProcess(Box<Server>, JoinSet<()>),
}

/// Connects to a replica. Its text is the name of the replica.
pub trait Connect: fmt::Display + Send + Sync {
    /// Opens a connection to the API. Returns it, and what resolves to the reason for its end, if somebody tells it.
    ///
    /// # Errors
    ///
    /// If the replica cannot be reached.
    fn connect(&self) -> BoxFuture<'_, Result<(DuplexStream, CloseReason), Unreachable>>;
}

/// Resolves to the reason for the end of a connection.
pub type CloseReason = BoxFuture<'static, Option<String>>;

/// Why a cluster, or a replica in it, cannot be asked: a sentence.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unreachable(pub String);

impl From<anyhow::Error> for Unreachable {
    fn from(error: anyhow::Error) -> Self {
        Self(error_chain(error.as_ref()))
    }
}

// === impl Api ===

impl fmt::Display for Api {
    /// Writes the name of the server.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => url.fmt(f),
            Self::Replica(replica) => replica.fmt(f),
            Self::InProcess(..) => f.write_str("this process"),
        }
    }
}

impl Api {
    /// Requests all pages of a view, or the first one if the filter has a limit. The document has objects or cells.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or refuses the request.
    pub async fn document(
        &self,
        view: ViewKind,
        filter: &Filter,
        has_objects: bool,
    ) -> anyhow::Result<Document> {
        let mut page = Filter {
            limit: filter.limit.or(view.is_list().then_some(MAX_LIMIT)),
            ..filter.clone()
        };
        let mut beginnings = 1;
        let mut all = self.page(view, &page, has_objects).await?;
        while filter.limit.is_none() && all.next.is_some() {
            page.next = all.next.take();
            match self.page(view, &page, has_objects).await {
                Ok(next) => all.append(next),
                Err(error)
                    if matches!(error.downcast_ref(), Some(ViewError::Gone))
                        && beginnings < MAX_BEGINNINGS =>
                {
                    beginnings += 1;
                    page.next = None;
                    all = self.page(view, &page, has_objects).await?;
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
    pub async fn items(&self, view: ViewKind, filter: &Filter) -> anyhow::Result<Vec<Value>> {
        let mut items = self.document(view, filter, true).await?.objects();
        items.retain(|one| one["section"] != "causes");
        Ok(items)
    }

    /// Requests the status of the server.
    ///
    /// # Errors
    ///
    /// As [`document`](Self::document).
    pub async fn status(&self) -> anyhow::Result<Value> {
        let status = self
            .items(ViewKind::Status, &Filter::default())
            .await?
            .into_iter()
            .next();
        status.context("the server returned no status")
    }

    /// Requests a page, and parses it.
    async fn page(
        &self,
        view: ViewKind,
        filter: &Filter,
        has_objects: bool,
    ) -> anyhow::Result<Document> {
        if let Self::InProcess(server, _) = self {
            return Ok(document(view, server, filter)?);
        }
        let accept = if has_objects {
            "application/json"
        } else {
            CELLS
        };
        let (what, response) = self.request(view, filter, accept).await?;
        let body = read(response.into_body()).await;
        body.and_then(|body| Ok(serde_json::from_slice(&body)?))
            .with_context(|| format!("cannot read {what}"))
    }

    /// Requests a stream of events. Returns its messages, which have no end: the type and the data of each (WHATWG HTML, section
    /// 9.2).
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or refuses the request.
    pub async fn stream(
        &self,
        filter: &Filter,
    ) -> anyhow::Result<impl Stream<Item = anyhow::Result<(String, String)>> + use<>> {
        let (_, response) = self
            .request(ViewKind::Events, filter, stream::MEDIA_TYPE)
            .await?;
        let octets = StreamReader::new(
            response
                .into_body()
                .into_data_stream()
                .map_err(io::Error::other),
        );
        let lines = FramedRead::new(octets, LinesCodec::new_with_max_length(MAX_LINE));
        let unreadable =
            |error: LinesCodecError| anyhow!(error).context("cannot read the events of the server");
        let mut kind = String::new();
        Ok(lines.map_err(unreadable).try_filter_map(move |line| {
            let mut message = None;
            match line.split_once(": ") {
                Some(("event", name)) => name.clone_into(&mut kind),
                Some(("data", data)) => message = Some((kind.clone(), data.to_owned())),
                _ => {}
            }
            ready(Ok(message))
        }))
    }

    /// Sends a request on a new connection and waits for the head of the response, which is that of success. Returns it with its
    /// description.
    async fn request(
        &self,
        view: ViewKind,
        filter: &Filter,
        accept: &str,
    ) -> anyhow::Result<(String, Response<Body>)> {
        // A filter has only texts, numbers and times, so that it always is a query.
        let query = serde_urlencoded::to_string(filter).unwrap_or_default();
        let path = format!("/api/v1/{}?{query}", view.name())
            .trim_end_matches('?')
            .to_owned();
        let what = match self {
            Self::Url(url) => format!("{}{path}", url.to_string().trim_end_matches('/')),
            Self::Replica(replica) => format!("{path} of {replica}"),
            Self::InProcess(..) => path.clone(),
        };
        let response = match within(RESPONSE_TIMEOUT, self.send(&path, accept)).await {
            Err(error) if error.is::<Unreachable>() => return Err(error),
            sent => sent.with_context(|| format!("cannot request {what}"))?,
        };
        let status = response.status();
        if status.is_success() {
            return Ok((what, response));
        }
        let text = read(response.into_body()).await?;
        let text = Line::from(String::from_utf8_lossy(&text).trim());
        match status {
            StatusCode::BAD_REQUEST => bail!(ViewError::Invalid(format!("{what}: {text}"))),
            StatusCode::GONE => bail!(ViewError::Gone),
            _ => bail!("{what} returned {status}: {text}"),
        }
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
            Self::Replica(replica) => {
                let (stream, reason) = replica.connect().await?;
                // The API refuses the name of the pod.
                let sent = request_on(stream, path, "localhost", accept).await;
                let Err(error) = sent else { return sent };
                // The reason may arrive after the end of the stream.
                match timeout(REASON_TIMEOUT, reason).await {
                    Ok(Some(reason)) => bail!("{}", reason.trim()),
                    _ => Err(error),
                }
            }
            Self::InProcess(..) => bail!("a server in this process has no connections"),
        }
    }
}

/// Waits for a response of a server.
///
/// # Errors
///
/// If there is none in this time.
pub async fn within<T>(
    limit: Duration,
    response: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    timeout(limit, response)
        .await
        .map_err(|_| anyhow!("no response within {} s", limit.as_secs()))?
}

/// Sends a request on a stream, which the server closes after the response.
async fn request_on(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    target: &str,
    host: &str,
    accept: &str,
) -> anyhow::Result<Response<Body>> {
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    // Its errors are those of the request.
    tokio::spawn(connection);
    Ok(sender
        .send_request(
            Request::get(target)
                .header(HOST, host)
                .header(ACCEPT, accept)
                .body(Body::empty())?,
        )
        .await?
        .map(Body::new))
}

/// Reads the body of a response.
async fn read(body: Body) -> anyhow::Result<Bytes> {
    Ok(timeout(RESPONSE_TIMEOUT, to_bytes(body, MAX_BODY))
        .await
        .context("the response did not end")??)
}
