//! The client: kube's own, a name, and `Retry-After`.
//!
//! An API server that has too much to do (priority and fairness, or too many requests in flight) refuses before it knows
//! what was asked: with 429, a line of text, and the header `Retry-After`. What is on its way to it refuses with 503 and
//! the same header. kube hands on what a refusal's body says and nothing of its headers, so the header is written into
//! the body, as the `retryAfterSeconds` of a Status, where API servers put it when they do know.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Body as HttpBody;
use kube::client::{Body, ClientBuilder};
use kube::core::Status;
use kube::core::response::StatusDetails;
use kube::{Client, Config};
use tower::util::AndThenLayer;
use tower::{BoxError, Service};

/// Octets of a refusal that are read: what fits on a screen is a fraction of it.
const LONGEST: usize = 64 << 10;

/// How this program names itself: API servers write it to their audit logs, and count by it.
const USER_AGENT_VALUE: &str = concat!("global-dns/", env!("CARGO_PKG_VERSION"));

/// Makes a client. What it asks for comes compressed, watches aside: the client says so itself.
///
/// # Errors
///
/// If certificates or credentials cannot be used.
pub(super) fn client(mut config: Config) -> Result<Client, kube::Error> {
    let name = HeaderValue::from_static(USER_AGENT_VALUE);
    config.headers.push((USER_AGENT, name));
    Ok(with_retry_after(ClientBuilder::try_from(config)?))
}

/// Makes a client of what sends requests: with `Retry-After`.
pub(super) fn with_retry_after<S, B>(sender: ClientBuilder<S>) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    sender.with_layer(&AndThenLayer::new(heed::<B>)).build()
}

/// Passes a response on; writes into the body of a refusal when to come again.
async fn heed<B>(response: Response<B>) -> Result<Response<Either<B, Full<Bytes>>>, BoxError>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>>,
{
    let seconds = match response.status() {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => seconds(&response),
        _ => None,
    };
    let Some(seconds) = seconds else {
        return Ok(response.map(Either::Left));
    };
    let (mut head, body) = response.into_parts();
    let body = Limited::new(body, LONGEST).collect().await?.to_bytes();
    let text = String::from_utf8_lossy(&body);
    let status = serde_json::from_str(&text);
    let status: Status =
        status.unwrap_or_else(|_| Status::failure(text.trim(), "").with_code(head.status.as_u16()));
    let status = with_seconds(status, seconds);
    head.headers.remove(CONTENT_LENGTH);
    let body = Full::from(serde_json::to_vec(&status)?);
    Ok(Response::from_parts(head, Either::Right(body)))
}

/// Reads the header, if it counts seconds. A date, which it may be too, no API server sends.
fn seconds<B>(response: &Response<B>) -> Option<u32> {
    let value = response.headers().get(RETRY_AFTER)?;
    value.to_str().ok()?.trim().parse().ok()
}

/// Adds to a refusal when to come again, if it does not say so itself.
fn with_seconds(mut status: Status, seconds: u32) -> Status {
    let details = status.details.get_or_insert_with(|| StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    });
    details.retry_after_seconds = details.retry_after_seconds.max(seconds);
    status
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A list of three objects, compressed.
    const COMPRESSED: [u8; 106] = [
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x95, 0xca, 0x3b, 0x0e, 0x80,
        0x20, 0x10, 0x45, 0xd1, 0xbd, 0xbc, 0x1a, 0x13, 0xb5, 0x31, 0x61, 0x21, 0x36, 0xc6, 0x62,
        0x94, 0x29, 0x28, 0xf8, 0x64, 0xc0, 0x8a, 0xcc, 0xde, 0x25, 0x76, 0x96, 0x94, 0xf7, 0xe6,
        0x34, 0x04, 0xae, 0xe4, 0xa8, 0x12, 0x6c, 0x83, 0x70, 0x49, 0x8f, 0xdc, 0xbc, 0xb3, 0x14,
        0x9f, 0x22, 0x2c, 0x36, 0xa8, 0x81, 0xaf, 0x1c, 0x0a, 0xec, 0xd1, 0x7e, 0x38, 0x52, 0xe0,
        0x92, 0xe9, 0xe6, 0xce, 0xb2, 0x24, 0x07, 0xf3, 0xad, 0x5e, 0xee, 0x9a, 0x66, 0xa8, 0x9a,
        0x01, 0xbf, 0x0c, 0xfa, 0xb5, 0xfb, 0x53, 0x5f, 0xd4, 0xa9, 0x96, 0xa5, 0xbe, 0x00, 0x00,
        0x00,
    ];

    /// Answers one request with a compressed list; returns the request's head.
    fn answer(listener: &TcpListener) -> String {
        let (stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(&stream).lines().map(Result::unwrap);
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        let length = COMPRESSED.len();
        let reply = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n"
        );
        (&stream).write_all(reply.as_bytes()).unwrap();
        (&stream).write_all(&COMPRESSED).unwrap();
        head.join("\n").to_lowercase()
    }

    #[tokio::test]
    async fn lists_come_compressed_and_requests_name_the_program_and_its_version() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = thread::spawn(move || answer(&listener));
        let client = client(Config::new(url.parse().unwrap())).unwrap();
        let request = Request::get("/api/v1/services").body(Vec::new()).unwrap();
        let text = client.request_text(request).await.unwrap();
        assert_eq!(text.matches("\"db-").count(), 3, "{text}");
        let head = server.join().unwrap();
        assert!(head.contains("accept-encoding: gzip"), "{head}");
        let name = format!("user-agent: global-dns/{}", crate::VERSION);
        assert!(head.contains(&name), "{head}");
    }
}
