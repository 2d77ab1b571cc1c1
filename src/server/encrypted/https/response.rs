//! The responses of DNS over HTTPS.

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;

use crate::server::encrypted::request::{self, RequestError};

/// Returns the response to OPTIONS.
pub(super) fn methods() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let allow = HeaderValue::from_static(request::METHODS);
    response.headers_mut().insert(ALLOW, allow);
    response
}

/// Returns the response to a request that gets no DNS message.
pub(super) fn error_response(error: RequestError, is_head: bool) -> Response<Full<Bytes>> {
    let text = format!("{error}\n");
    let length = text.len();
    let mut response = Response::new(body(text, is_head));
    *response.status_mut() = error.status();
    let headers = response.headers_mut();
    let media_type = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(CONTENT_LENGTH, length.into());
    if error.status() == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static(request::METHODS));
    }
    if error.ends_connection() {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Returns a body. For HEAD it is empty, but the response still has the length of the omitted body.
pub(super) fn body(octets: impl Into<Bytes>, is_head: bool) -> Full<Bytes> {
    if is_head {
        Full::default()
    } else {
        Full::new(octets.into())
    }
}

/// Returns the `cache-control` of a reply (RFC 8484 section 5.1).
pub(super) fn cache_control(max_age: Option<u32>) -> HeaderValue {
    let no_store = HeaderValue::from_static("no-store");
    let Some(seconds) = max_age else {
        return no_store;
    };
    HeaderValue::try_from(format!("max-age={seconds}")).unwrap_or(no_store)
}
