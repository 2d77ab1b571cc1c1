//! Bodies of responses: compressed, if the client accepts it.

use std::io::{self, Write as _};

use axum::http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, VARY,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

/// The header that says on which header of the request a body depends.
pub(super) const VARY_ENCODING: (HeaderName, HeaderValue) =
    (VARY, HeaderValue::from_static("accept-encoding"));

/// The header of a compressed body.
pub(super) const GZIP: (HeaderName, HeaderValue) =
    (CONTENT_ENCODING, HeaderValue::from_static("gzip"));

/// Shorter bodies are not compressed: they fit into one packet.
const MIN_COMPRESSED: usize = 1000;

/// Returns the response with a JSON document.
pub(super) fn json(headers: &HeaderMap, document: &impl Serialize) -> Response {
    let body = serde_json::to_vec(document).map_err(io::Error::from);
    let media_type = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let response = body.and_then(|body| {
        Ok(if body.len() >= MIN_COMPRESSED && accepts_gzip(headers) {
            let body = compress(&body, Compression::fast())?;
            ([media_type, VARY_ENCODING, GZIP], body).into_response()
        } else {
            ([media_type, VARY_ENCODING], body).into_response()
        })
    });
    response.unwrap_or_else(|error| failure(&error))
}

/// Returns the response to a request whose document cannot be written.
pub(super) fn failure(error: &io::Error) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
}

/// Compresses a body.
pub(super) fn compress(body: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), level);
    gzip.write_all(body)?;
    gzip.finish()
}

/// Returns whether a client accepts gzip (RFC 9110 section 12.5.3).
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    let mut codings = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = matches!(weight.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_used_if_the_client_accepts_it() {
        for (value, expected) in [
            ("gzip", true),
            ("br;q=1.0, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("br, deflate", false),
            ("", false),
        ] {
            let headers = [(ACCEPT_ENCODING, HeaderValue::from_static(value))];
            assert_eq!(
                accepts_gzip(&headers.into_iter().collect()),
                expected,
                "{value}"
            );
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
