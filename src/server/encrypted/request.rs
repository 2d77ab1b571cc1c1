//! Parses the heads of DNS over HTTPS requests (RFC 8484), without a socket.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode, Version};

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

/// The reason why a request gets an error response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// HTTP/1.1 without a host.
    #[error("the request has no host")]
    NoHost,
    /// Several hosts.
    #[error("the request has more than one host")]
    TwoHosts,
    /// A host that is not valid.
    #[error("the host of the request is invalid")]
    InvalidHost,
    /// A transfer coding that is not supported.
    #[error("the transfer coding is not chunked, once")]
    OtherCoding,
    /// A path without a resource.
    #[error("there is no resource at this path")]
    NoSuchPath,
    /// A method that is not supported.
    #[error("the method is not GET, HEAD, POST or OPTIONS")]
    OtherMethod,
    /// A body that is not a DNS message.
    #[error("the content type is not application/dns-message")]
    OtherMediaType,
    /// GET without a message.
    #[error("the query of the URI has no parameter 'dns'")]
    NoMessage,
    /// GET with several messages.
    #[error("the query of the URI has more than one parameter 'dns'")]
    TwoMessages,
    /// GET with an unreadable message.
    #[error("the parameter 'dns' is not base64url without padding")]
    NotBase64Url,
    /// A URI with a message that is longer than any query.
    #[error("the message is longer than {MAX_QUERY} octets")]
    LongUri,
    /// A body that is longer than any query.
    #[error("the message is longer than {MAX_QUERY} octets")]
    LongBody,
    /// A body that did not arrive in time.
    #[error("the body did not arrive in time")]
    SlowBody,
    /// A body that ended early.
    #[error("the body cannot be read")]
    BrokenBody,
    /// A message that is never answered.
    #[error("the message is a response, or shorter than a header")]
    NoQuery,
    /// An internal error.
    #[error("answering the message failed")]
    Failure,
}

/// Length of the longest query in base64url (RFC 4648 section 5).
const ENCODED_QUERY: usize = (MAX_QUERY * 4).div_ceil(3);

/// Parses the head of a request. `path` is that of DNS over HTTPS. `accept` is ignored, because every client must
/// accept the media type (RFC 8484 section 4.1).
///
/// # Errors
///
/// If the request gets no DNS message.
pub fn read(head: &Parts, path: &str) -> Result<DnsRequest, RequestError> {
    let Parts {
        method,
        uri,
        headers,
        ..
    } = head;
    check_host(head)?;
    check_coding(headers)?;
    if uri.path() != path {
        return Err(RequestError::NoSuchPath);
    }
    match *method {
        Method::GET | Method::HEAD => {
            message(uri.query().unwrap_or_default()).map(DnsRequest::Message)
        }
        Method::POST if is_message(headers) => Ok(DnsRequest::Body),
        Method::POST => Err(RequestError::OtherMediaType),
        Method::OPTIONS => Ok(DnsRequest::Methods),
        _ => Err(RequestError::OtherMethod),
    }
}

/// Checks the host of a request. HTTP/1.1 needs one (RFC 9112 section 3.2). HTTP/2 has it in the URI.
fn check_host(head: &Parts) -> Result<(), RequestError> {
    let mut hosts = head.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if head.version == Version::HTTP_11 => Err(RequestError::NoHost),
        (None, _) => Ok(()),
        (Some(host), None) if is_host(host.as_bytes()) => Ok(()),
        (Some(_), None) => Err(RequestError::InvalidHost),
        (Some(_), Some(_)) => Err(RequestError::TwoHosts),
    }
}

/// Returns whether a host is valid: `uri-host [ ":" port ]` (RFC 9110 section 7.2). It may be empty.
fn is_host(host: &[u8]) -> bool {
    if host.is_empty() {
        return true;
    }
    let Ok(authority) = Authority::try_from(host) else {
        return false;
    };
    let rest = authority.as_str().strip_prefix(authority.host());
    let is_port = |rest: &str| match rest.strip_prefix(':') {
        Some(port) => port.bytes().all(|octet| octet.is_ascii_digit()),
        None => rest.is_empty(),
    };
    rest.is_some_and(is_port) // with user information, the host is not a prefix
}

/// Checks the transfer codings of a request. HTTP/2 has none. Only `chunked` is supported, and a message is chunked at
/// most once (RFC 9112 sections 6.1 and 7).
fn check_coding(headers: &HeaderMap) -> Result<(), RequestError> {
    let fields = headers.get_all(TRANSFER_ENCODING).iter();
    let mut codings = fields
        .flat_map(|field| field.as_bytes().split(|octet| *octet == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|coding| !coding.is_empty());
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(only), None) if only.eq_ignore_ascii_case(b"chunked") => Ok(()),
        (Some(_), _) => Err(RequestError::OtherCoding),
    }
}

// === impl RequestError ===

impl RequestError {
    /// Returns the status code (RFC 9110 section 15).
    pub fn status(self) -> StatusCode {
        match self {
            Self::NoHost
            | Self::TwoHosts
            | Self::InvalidHost
            | Self::NoMessage
            | Self::TwoMessages
            | Self::NotBase64Url
            | Self::BrokenBody
            | Self::NoQuery => StatusCode::BAD_REQUEST,
            Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::OtherMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Self::LongBody => StatusCode::PAYLOAD_TOO_LARGE,
            Self::LongUri => StatusCode::URI_TOO_LONG,
            Self::OtherMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Failure => StatusCode::INTERNAL_SERVER_ERROR,
            Self::OtherCoding => StatusCode::NOT_IMPLEMENTED,
        }
    }

    /// Returns whether the connection must end, because its next octets may have another meaning for an intermediary.
    pub fn ends_connection(self) -> bool {
        matches!(
            self,
            Self::NoHost | Self::TwoHosts | Self::InvalidHost | Self::OtherCoding
        )
    }
}

/// Decodes the message in the query of a URI (RFC 8484 section 4.1).
fn message(query: &str) -> Result<Vec<u8>, RequestError> {
    let mut parameters = query
        .split('&')
        .filter_map(|part| part.strip_prefix("dns="));
    let encoded = parameters.next().ok_or(RequestError::NoMessage)?;
    if parameters.next().is_some() {
        return Err(RequestError::TwoMessages);
    }
    if encoded.len() > ENCODED_QUERY {
        return Err(RequestError::LongUri);
    }
    URL_SAFE_NO_PAD
        .decode(encoded)
        .map_err(|_| RequestError::NotBase64Url)
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
    use http::Request;
    use http::request::Builder;

    fn read_uri(method: Method, uri: &str) -> Result<DnsRequest, u16> {
        let request = Request::builder().method(method).uri(uri);
        read_request(request)
    }

    fn read_type(types: &[&str]) -> Result<DnsRequest, u16> {
        let request = Request::builder().method(Method::POST).uri("/dns-query");
        let with_type = |request: Builder, media_type| request.header(CONTENT_TYPE, media_type);
        read_request(types.iter().copied().fold(request, with_type))
    }

    fn read_request(request: Builder) -> Result<DnsRequest, u16> {
        let request = request.version(Version::HTTP_2).body(()).unwrap();
        let request = read(&request.into_parts().0, "/dns-query");
        request.map_err(|error| error.status().as_u16())
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
    fn http_1_1_needs_one_valid_host() {
        let check = |version: Version, hosts: &[&[u8]]| {
            let with_host = |request: Builder, host: &&[u8]| request.header(HOST, *host);
            let request = hosts
                .iter()
                .fold(Request::builder().version(version), with_host);
            let checked = check_host(&request.body(()).unwrap().into_parts().0);
            checked.map_err(|error| error.status().as_u16())
        };
        for host in [
            "",
            "dns.example",
            "dns.example:",
            "dns.example:8443",
            "192.0.2.1:443",
            "[2001:db8::1]",
            "[2001:db8::1]:443",
        ] {
            assert_eq!(
                check(Version::HTTP_11, &[host.as_bytes()]),
                Ok(()),
                "{host}"
            );
        }
        for host in [
            &b"a b"[..],
            b"a/b",
            b"user@a",
            b"a:b",
            b"a:1:2",
            b"[::1",
            b"a?b",
            b"\xff",
            b"https://a",
        ] {
            assert_eq!(check(Version::HTTP_11, &[host]), Err(400), "{host:?}");
            assert_eq!(check(Version::HTTP_10, &[host]), Err(400), "{host:?}");
        }
        assert_eq!(check(Version::HTTP_11, &[]), Err(400));
        assert_eq!(check(Version::HTTP_11, &[b"a", b"a"]), Err(400));
        assert_eq!(check(Version::HTTP_10, &[]), Ok(()));
        assert_eq!(check(Version::HTTP_2, &[]), Ok(()));
    }

    #[test]
    fn only_one_chunked_coding_is_supported() {
        let check = |codings: &[&str]| {
            let mut headers = HeaderMap::new();
            for coding in codings {
                headers.append(TRANSFER_ENCODING, coding.parse().unwrap());
            }
            check_coding(&headers).map_err(|error| error.status().as_u16())
        };
        for codings in [&[][..], &["chunked"], &["Chunked"], &[" chunked ,"]] {
            assert_eq!(check(codings), Ok(()), "{codings:?}");
        }
        for codings in [
            &["gzip, chunked"][..],
            &["gzip", "chunked"],
            &["chunked, chunked"],
            &["chunked", "chunked"],
            &["identity"],
            &["xchunked"],
            &["chunked;x"],
        ] {
            assert_eq!(check(codings), Err(501), "{codings:?}");
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
