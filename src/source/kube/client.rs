//! The client: kube's own, and `Retry-After`.
//!
//! An API server that has too much to do (priority and fairness, or too many requests in flight) refuses before it knows
//! what was asked: with 429, a line of text, and the header `Retry-After`. What is on its way to it refuses with 503 and
//! the same header. kube hands on what a refusal's body says and nothing of its headers, so the header is written into
//! the body, as the `retryAfterSeconds` of a Status, where API servers put it when they do know.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Either, Full, Limited};
use kube::client::ClientBuilder;
use kube::core::Status;
use kube::core::response::StatusDetails;
use kube::{Client, Config};
use tower::BoxError;
use tower::util::AndThenLayer;

/// Octets of a refusal that are read: what fits on a screen is a fraction of it.
const LONGEST: usize = 64 << 10;

/// Makes a client.
///
/// # Errors
///
/// If certificates or credentials cannot be used.
pub(super) fn client(config: Config) -> Result<Client, kube::Error> {
    let layer = AndThenLayer::new(heed);
    Ok(ClientBuilder::try_from(config)?.with_layer(&layer).build())
}

/// Passes a response on; writes into the body of a refusal when to come again.
async fn heed<B>(response: Response<B>) -> Result<Response<Either<B, Full<Bytes>>>, BoxError>
where
    B: BodyExt<Data = Bytes, Error: Into<BoxError>>,
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
