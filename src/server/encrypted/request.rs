//! Parses the heads of DNS over HTTPS requests (RFC 8484), without a socket.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode, Uri};

use crate::server::framing::MAX_QUERY;

/// The media type of DNS messages (RFC 8484 section 6).
pub const MEDIA_TYPE: &str = "application/dns-message";
/// The supported methods.
pub const METHODS: &str = "GET, HEAD, POST, OPTIONS";

/// A valid request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsRequest {
    /// GET or HEAD with this message in the URI.
    Message(Vec<u8>),
    /// POST with a message in the body.
    Body,
    /// OPTIONS.
    Methods,
}

/// The error response to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The status code (RFC 9110 section 15).
    pub status: StatusCode,
    /// The reason, for people.
    pub reason: &'static str,
}

/// Length of the longest query in base64url (RFC 4648 section 5).
const ENCODED_QUERY: usize = (MAX_QUERY * 4).div_ceil(3);

/// Parses the head of a request. `path` is that of DNS over HTTPS. `accept` is ignored, because every client must
/// accept the media type (RFC 8484 section 4.1).
///
/// # Errors
///
/// If the request gets no DNS message.
pub fn read(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    path: &str,
) -> Result<DnsRequest, Problem> {
    if uri.path() != path {
        return Err(NO_SUCH_PATH);
    }
    match *method {
        Method::GET | Method::HEAD => {
            message(uri.query().unwrap_or_default()).map(DnsRequest::Message)
        }
        Method::POST if is_message(headers) => Ok(DnsRequest::Body),
        Method::POST => Err(OTHER_MEDIA_TYPE),
        Method::OPTIONS => Ok(DnsRequest::Methods),
        _ => Err(OTHER_METHOD),
    }
}

const NO_SUCH_PATH: Problem = Problem {
    status: StatusCode::NOT_FOUND,
    reason: "there is no resource at this path",
};
const OTHER_METHOD: Problem = Problem {
    status: StatusCode::METHOD_NOT_ALLOWED,
    reason: "the method is not GET, HEAD, POST or OPTIONS",
};
const OTHER_MEDIA_TYPE: Problem = Problem {
    status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
    reason: "the content type is not application/dns-message",
};
const NO_MESSAGE: Problem = Problem {
    status: StatusCode::BAD_REQUEST,
    reason: "the query of the URI has no parameter 'dns'",
};
const TWO_MESSAGES: Problem = Problem {
    status: StatusCode::BAD_REQUEST,
    reason: "the query of the URI has more than one parameter 'dns'",
};
const NOT_BASE64URL: Problem = Problem {
    status: StatusCode::BAD_REQUEST,
    reason: "the parameter 'dns' is not base64url without padding",
};
const LONG_URI: Problem = Problem {
    status: StatusCode::URI_TOO_LONG,
    reason: "the message is longer than 4096 octets",
};
/// The body is longer than any query.
pub const LONG_BODY: Problem = Problem {
    status: StatusCode::PAYLOAD_TOO_LARGE,
    reason: "the message is longer than 4096 octets",
};
/// The body did not arrive in time.
pub const SLOW_BODY: Problem = Problem {
    status: StatusCode::REQUEST_TIMEOUT,
    reason: "the body did not arrive in time",
};
/// The body ended early.
pub const BROKEN_BODY: Problem = Problem {
    status: StatusCode::BAD_REQUEST,
    reason: "the body cannot be read",
};
/// The message is never answered.
pub const NO_QUERY: Problem = Problem {
    status: StatusCode::BAD_REQUEST,
    reason: "the message is a response, or shorter than a header",
};
/// An internal error.
pub const FAILURE: Problem = Problem {
    status: StatusCode::INTERNAL_SERVER_ERROR,
    reason: "answering the message failed",
};

/// Decodes the message in the query of a URI (RFC 8484 section 4.1).
fn message(query: &str) -> Result<Vec<u8>, Problem> {
    let mut parameters = query
        .split('&')
        .filter_map(|part| part.strip_prefix("dns="));
    let encoded = parameters.next().ok_or(NO_MESSAGE)?;
    if parameters.next().is_some() {
        return Err(TWO_MESSAGES);
    }
    if encoded.len() > ENCODED_QUERY {
        return Err(LONG_URI);
    }
    URL_SAFE_NO_PAD.decode(encoded).map_err(|_| NOT_BASE64URL)
}

/// Returns whether the body is a DNS message. Parameters of the media type are ignored.
fn is_message(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(media_type), None) = (types.next(), types.next()) else {
        return false;
    };
    let Ok(media_type) = media_type.to_str() else {
        return false;
    };
    let essence = media_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(MEDIA_TYPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_uri(method: Method, uri: &str) -> Result<DnsRequest, u16> {
        let request = read(
            &method,
            &uri.parse().unwrap(),
            &HeaderMap::new(),
            "/dns-query",
        );
        request.map_err(|problem| problem.status.as_u16())
    }

    fn read_type(types: &[&str]) -> Result<DnsRequest, u16> {
        let mut headers = HeaderMap::new();
        for media_type in types {
            headers.append(CONTENT_TYPE, media_type.parse().unwrap());
        }
        let uri = "/dns-query".parse().unwrap();
        let request = read(&Method::POST, &uri, &headers, "/dns-query");
        request.map_err(|problem| problem.status.as_u16())
    }

    #[test]
    fn message_is_read_from_the_uri() {
        let message = |message: &[u8]| Ok(DnsRequest::Message(message.to_vec()));
        let get = |uri| read_uri(Method::GET, uri);
        // The example of RFC 8484 section 4.1.1.
        let example = "/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB";
        let wire = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03com\0\0\x01\0\x01";
        assert_eq!(get(example), message(wire));
        assert_eq!(read_uri(Method::HEAD, example), message(wire));
        assert_eq!(get("/dns-query?ct&x=1&dns=_-8&y"), message(b"\xff\xef"));
        assert_eq!(get("https://a.test/dns-query?dns="), message(b""));
        for (uri, status) in [
            ("/dns-query", 400),
            ("/dns-query?", 400),
            ("/dns-query?DNS=AAAA", 400),
            ("/dns-query?dns", 400),
            ("/dns-query?dns=AAAA&dns=AAAA", 400),
            ("/dns-query?dns=AA==", 400),
            ("/dns-query?dns=+/8", 400),
            ("/dns-query?dns=A", 400),
            ("/dns-query?dns=%41AAA", 400),
            ("/?dns=AAAA", 404),
            ("/dns-query/?dns=AAAA", 404),
            ("/DNS-query?dns=AAAA", 404),
        ] {
            assert_eq!(get(uri), Err(status), "{uri}");
        }
    }

    #[test]
    fn message_in_uri_is_limited_to_the_length_of_a_query() {
        let uri = |length: usize| {
            let message = URL_SAFE_NO_PAD.encode(vec![0; length]);
            read_uri(Method::GET, &format!("/dns-query?dns={message}"))
        };
        assert_eq!(uri(MAX_QUERY), Ok(DnsRequest::Message(vec![0; MAX_QUERY])));
        assert_eq!(uri(MAX_QUERY + 1), Err(414));
    }

    #[test]
    fn body_needs_the_media_type_of_dns() {
        for types in [
            "application/dns-message",
            "Application/DNS-Message",
            "application/dns-message; charset=utf-8",
            " application/dns-message ;x",
        ] {
            assert_eq!(read_type(&[types]), Ok(DnsRequest::Body), "{types}");
        }
        let valid = "application/dns-message";
        for types in [
            &[][..],
            &[""],
            &["text/plain"],
            &["application/dns-messages"],
            &["application/dns-message, text/plain"],
            &[valid, valid],
        ] {
            assert_eq!(read_type(types), Err(415), "{types:?}");
        }
    }

    #[test]
    fn unsupported_methods_are_rejected() {
        for method in ["PUT", "DELETE", "CONNECT", "TRACE", "PATCH", "get", "QUERY"] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(read_uri(method.clone(), "/dns-query"), Err(405), "{method}");
        }
        assert_eq!(
            read_uri(Method::OPTIONS, "/dns-query"),
            Ok(DnsRequest::Methods)
        );
    }
}
