//! Clients of DNS over HTTPS, with HTTP/1.1 and with HTTP/2. Both send the same requests.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::tls::{Client, Stream, localhost};
use crate::wait::TIMEOUT;

/// The media type of messages (RFC 8484 section 6).
pub const MEDIA_TYPE: &str = "application/dns-message";
/// The path for DNS messages.
pub const PATH: &str = "/dns-query";

/// An HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

/// An HTTP/1.1 connection.
pub struct Http1(pub BufReader<Stream>);

/// An HTTP/2 connection.
pub struct Http2 {
    runtime: Runtime,
    sender: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
}

/// A request with an incomplete body.
pub struct Upload {
    response: ResponseFuture,
    body: SendStream<Bytes>,
}

// === Requests ===

/// Returns a request without headers other than the host.
pub fn request(method: &str, target: &str) -> Request<()> {
    let request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap());
    request
        .uri(format!("https://localhost{target}"))
        .body(())
        .unwrap()
}

/// Returns a POST request as in RFC 8484.
pub fn post(target: &str) -> Request<()> {
    let request = with(request("POST", target), "content-type", MEDIA_TYPE);
    with(request, "accept", MEDIA_TYPE)
}

/// Returns a GET request as in RFC 8484.
pub fn get(path: &str, message: &[u8]) -> Request<()> {
    let target = format!("{path}?dns={}", base64url(message));
    with(request("GET", &target), "accept", MEDIA_TYPE)
}

/// Sets a header.
pub fn with(mut request: Request<()>, name: &str, value: &str) -> Request<()> {
    let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
    let value = HeaderValue::from_str(value).unwrap();
    request.headers_mut().insert(name, value);
    request
}

/// Removes a header.
pub fn without(mut request: Request<()>, name: &str) -> Request<()> {
    request.headers_mut().remove(name);
    request
}

/// Encodes octets in base64url without padding (RFC 4648 section 5).
pub fn base64url(octets: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in octets.chunks(3) {
        let octet = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = octet(0) << 16 | octet(1) << 8 | octet(2);
        for digit in 0..=three.len() {
            let index = bits >> (18 - 6 * digit) & 0x3f;
            text.push(char::from(DIGITS[index as usize]));
        }
    }
    text
}

// === impl Response ===

impl Response {
    /// Returns the value of a header. Fails if it occurs twice.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.get_all(name).iter();
        let value = all.next().map(|value| value.to_str().unwrap());
        assert!(all.next().is_none(), "two headers {name}: {self:?}");
        value
    }

    /// Returns the DNS message. Fails unless the response contains one.
    pub fn message(self) -> Vec<u8> {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(self.header("content-type"), Some(MEDIA_TYPE), "{self:?}");
        self.body
    }
}

// === impl Http1 ===

impl Http1 {
    /// Connects over TLS.
    pub fn connect(client: &Client, server: SocketAddr) -> io::Result<Self> {
        client.connect(server).map(Self::from_stream)
    }

    /// Uses an open TLS connection.
    pub fn from_stream(stream: Stream) -> Self {
        Self(BufReader::new(stream))
    }

    /// Sends a request and waits for its response.
    pub fn send(&mut self, request: &Request<()>, body: &[u8]) -> io::Result<Response> {
        self.write(&Self::text(request, body))?;
        self.receive(request.method())
    }

    /// Returns a request in HTTP/1.1 syntax. A body has a `content-length`; with POST, also an empty one.
    pub fn text(request: &Request<()>, body: &[u8]) -> Vec<u8> {
        let (method, target) = (request.method(), request.uri().path_and_query().unwrap());
        let mut text = format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\n").into_bytes();
        for (name, value) in request.headers() {
            text.extend_from_slice(format!("{name}: ").as_bytes());
            text.extend_from_slice(value.as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        if !body.is_empty() || method == Method::POST {
            text.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
        }
        text.extend_from_slice(b"\r\n");
        text.extend_from_slice(body);
        text
    }

    /// Writes any octets.
    pub fn write(&mut self, octets: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(octets)?;
        self.0.get_mut().flush()
    }

    /// Reads the response to a request with this method. Skips interim responses.
    pub fn receive(&mut self, method: &Method) -> io::Result<Response> {
        loop {
            let (status, headers) = self.receive_head()?;
            if status < 200 {
                continue;
            }
            let length = headers.get("content-length");
            let length = length.map(|value| value.to_str().unwrap().parse().unwrap());
            let has_none = method == Method::HEAD || status == 204;
            assert!(
                has_none || length.is_some(),
                "this client does not support chunked responses: {headers:?}"
            );
            let mut body = vec![0; length.filter(|_| !has_none).unwrap_or(0)];
            self.0.read_exact(&mut body)?;
            return Ok(Response {
                status,
                headers,
                body,
            });
        }
    }

    /// Reads the next status and headers, also of an interim response.
    pub fn receive_head(&mut self) -> io::Result<(u16, HeaderMap)> {
        let status = self.line()?;
        let code = status
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .ok_or_else(|| io::Error::other(format!("no status: {status:?}")))?;
        let mut headers = HeaderMap::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else {
                assert_eq!(line, "", "header without a colon");
                return Ok((code, headers));
            };
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_str(value.trim()).unwrap());
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let line = line.strip_suffix("\r\n").ok_or_else(ended)?;
        Ok(line.to_owned())
    }
}

// === impl Http2 ===

impl Http2 {
    /// Connects over TLS.
    pub fn connect(client: &Client, server: SocketAddr) -> io::Result<Self> {
        Self::connect_with(client, server, h2::client::Builder::new())
    }

    /// Connects with the given HTTP/2 settings.
    pub fn connect_with(
        client: &Client,
        server: SocketAddr,
        mut settings: h2::client::Builder,
    ) -> io::Result<Self> {
        // Applies until the server sends its limit.
        settings.initial_max_send_streams(1);
        // The thread keeps the connection alive while the test does not wait for it.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let connecting = async {
            let stream = tokio::net::TcpStream::connect(server).await?;
            stream.set_nodelay(true)?;
            let connector = tokio_rustls::TlsConnector::from(client.0.clone());
            let stream = connector.connect(localhost(), stream).await?;
            let (sender, connection) = settings
                .handshake::<_, Bytes>(stream)
                .await
                .map_err(io::Error::other)?;
            let connection = tokio::spawn(connection);
            let sender = sender.ready().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>((sender, connection))
        };
        let (sender, connection) = runtime.block_on(with_timeout(connecting))?;
        Ok(Self {
            runtime,
            sender,
            connection,
        })
    }

    /// Sends a request and waits for its response.
    pub fn send(&mut self, request: &Request<()>, body: &[u8]) -> Result<Response, h2::Error> {
        let mut all = self.send_all(&[(request.clone(), body.to_vec())]);
        all.remove(0)
    }

    /// Sends requests concurrently and waits for their responses.
    pub fn send_all(
        &mut self,
        requests: &[(Request<()>, Vec<u8>)],
    ) -> Vec<Result<Response, h2::Error>> {
        let Self {
            runtime, sender, ..
        } = self;
        runtime.block_on(with_timeout(async {
            let mut pending = Vec::new();
            for (request, body) in requests {
                pending.push(Self::start(sender, request, body).await);
            }
            let mut responses = Vec::new();
            for response in pending {
                responses.push(match response {
                    Ok(response) => Self::finish(response).await,
                    Err(error) => Err(error),
                });
            }
            responses
        }))
    }

    async fn start(
        sender: &mut SendRequest<Bytes>,
        request: &Request<()>,
        body: &[u8],
    ) -> Result<ResponseFuture, h2::Error> {
        *sender = sender.clone().ready().await?;
        let (response, mut stream) = sender.send_request(request.clone(), body.is_empty())?;
        if !body.is_empty() {
            // A server that does not need the body may respond and close the stream first.
            let _ = stream.send_data(Bytes::copy_from_slice(body), true);
        }
        Ok(response)
    }

    async fn finish(response: ResponseFuture) -> Result<Response, h2::Error> {
        let response = response.await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = Self::body(response.into_body()).await?;
        Ok(Response {
            status,
            headers,
            body,
        })
    }

    async fn body(mut stream: RecvStream) -> Result<Vec<u8>, h2::Error> {
        let mut body = Vec::new();
        while let Some(part) = stream.data().await {
            let part = part?;
            stream.flow_control().release_capacity(part.len())?;
            body.extend_from_slice(&part);
        }
        Ok(body)
    }

    /// Starts a request without sending its body.
    pub fn begin(&mut self, request: &Request<()>) -> Result<Upload, h2::Error> {
        let Self {
            runtime, sender, ..
        } = self;
        runtime.block_on(with_timeout(async {
            *sender = sender.clone().ready().await?;
            let (response, body) = sender.send_request(request.clone(), false)?;
            Ok(Upload { response, body })
        }))
    }

    /// Sends a part of a body.
    pub fn send_part(
        &mut self,
        upload: &mut Upload,
        part: &[u8],
        is_last: bool,
    ) -> Result<(), h2::Error> {
        let part = Bytes::copy_from_slice(part);
        upload.body.send_data(part, is_last)
    }

    /// Waits for the response to a request from [`Self::begin`].
    pub fn end(&mut self, upload: Upload) -> Result<Response, h2::Error> {
        self.runtime
            .block_on(with_timeout(Self::finish(upload.response)))
    }

    /// Returns the server's limit of concurrent requests.
    pub fn max_streams(&self) -> usize {
        self.sender.current_max_send_streams()
    }

    /// Waits until the server ends the connection. Succeeds after a GOAWAY without an error or a clean end.
    pub fn wait_for_end(self) -> Result<(), h2::Error> {
        let Self {
            runtime,
            sender,
            connection,
        } = self;
        // The sender must live until here: without it, the client would close the connection itself.
        let ended = runtime.block_on(with_timeout(connection)).unwrap();
        drop(sender);
        ended
    }
}

async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    timeout(TIMEOUT, future)
        .await
        .expect("the server must answer in time")
}
