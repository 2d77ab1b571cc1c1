//! Conditions for every request to the API and the page, and the headers of every response.
//!
//! A page on the Internet must not read the server through the browser of a user with a port-forward. The host of a
//! request is checked ([`ApiHosts`]), against DNS rebinding. An `Origin` that is not this server's is refused, so that
//! other sites cannot open connections, even if they could not read the response. Images and `no-cors` requests have no
//! `Origin`, but `Sec-Fetch-Site`, so requests of pages of other sites are refused by that. It also tells another port of
//! the same host apart, where another port-forward may be. Only a link to the page itself works from anywhere: a user has
//! followed it, and the page that has it learns nothing. Browsers send this header to loopback addresses and over HTTPS,
//! but not to other addresses over HTTP; programs never send it. Nothing is stored by caches.

use axum::extract::{Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, HeaderName, HeaderValue, ORIGIN, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::host::{ApiHosts, HostRefusal, host_of};
use crate::server::LocalAddress;

/// Not a constant of `http`. It keeps other sites from embedding responses.
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

/// The relation between the page that makes a browser send a request and the server (Fetch Metadata). Not constants of
/// `http`, nor are those that follow.
const SEC_FETCH_SITE: &str = "sec-fetch-site";
/// `navigate` for a request that opens a document.
const SEC_FETCH_MODE: &str = "sec-fetch-mode";
/// `document` for a request that opens a document in a window, not in a frame.
const SEC_FETCH_DEST: &str = "sec-fetch-dest";

/// Maximum length of a header in the sentence about it.
const MAX_SHOWN: usize = 100;

/// Answers a request, or refuses it with one sentence.
pub(super) async fn check_request(
    State(hosts): State<ApiHosts>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match refuse(&hosts, &request) {
        None => next.run(request).await,
        Some(refusal) => refusal,
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let policy = HeaderValue::from_static("same-origin");
    headers.insert(CROSS_ORIGIN_RESOURCE_POLICY, policy);
    response
}

/// Returns the response to a request that is refused.
fn refuse(hosts: &ApiHosts, request: &Request) -> Option<Response> {
    if let Err(refusal) = hosts.check(request) {
        return Some(refusal.into_response());
    }
    if let Some(origin) = foreign_origin(hosts, request) {
        let sentence = format!(
            "Origin '{origin}' is not allowed: only pages of this server may read it; listen.apiHosts adds hosts\n"
        );
        return Some((StatusCode::FORBIDDEN, sentence).into_response());
    }
    if is_of_another_site(request) && !opens_page(request) {
        let sentence = "a page of another site may not use the API; it may only link to the page of this server, /\n";
        return Some((StatusCode::FORBIDDEN, sentence).into_response());
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let allow = [(ALLOW, "GET, HEAD")];
        let sentence = "the API is read-only: use GET or HEAD\n";
        return Some((StatusCode::METHOD_NOT_ALLOWED, allow, sentence).into_response());
    }
    None
}

/// Returns the first `Origin` that is not a URL with an allowed host. Browsers omit the header when a page requests its
/// own server, and programs never send it. `null` stands for an origin that the browser hides.
fn foreign_origin<B>(hosts: &ApiHosts, request: &http::Request<B>) -> Option<String> {
    let local = request.extensions().get::<LocalAddress>();
    let is_foreign = |origin: &&HeaderValue| {
        let text = origin.to_str().unwrap_or_default();
        let authority = ["http://", "https://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme));
        let host = authority.and_then(host_of);
        !host.is_some_and(|host| hosts.is_allowed(&host, local))
    };
    let foreign = request.headers().get_all(ORIGIN).iter().find(is_foreign)?;
    let shown = &foreign.as_bytes()[..foreign.len().min(MAX_SHOWN)];
    Some(shown.escape_ascii().to_string())
}

/// Returns whether a page of another site, or of another port of this host, makes the browser send a request. The header
/// is absent if the sender is a program, and `none` if the user opens the address.
fn is_of_another_site<B>(request: &http::Request<B>) -> bool {
    let mut sites = request.headers().get_all(SEC_FETCH_SITE).iter();
    sites.any(|site| site == "cross-site" || site == "same-site")
}

/// Returns whether a request opens the status page in a window.
fn opens_page<B>(request: &http::Request<B>) -> bool {
    let has = |name, value| request.headers().get(name).is_some_and(|has| has == value);
    request.uri().path() == "/"
        && has(SEC_FETCH_MODE, "navigate")
        && has(SEC_FETCH_DEST, "document")
}

// === impl HostRefusal ===

impl IntoResponse for HostRefusal {
    fn into_response(self) -> Response {
        match self {
            Self::Malformed => {
                let sentence = "a request must have exactly one valid Host\n";
                (StatusCode::BAD_REQUEST, sentence).into_response()
            }
            // The host was parsed, so that it has no characters with a meaning to a browser.
            Self::Misdirected(host) => {
                let sentence = format!(
                    "Host '{host}' is not a name of this server; to allow it, add it to listen.apiHosts\n"
                );
                (StatusCode::MISDIRECTED_REQUEST, sentence).into_response()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the refused origin of a request to 192.0.2.7.
    fn refused(origins: &[&str]) -> Option<String> {
        let mut request = http::Request::get("/").extension(LocalAddress([192, 0, 2, 7].into()));
        for origin in origins {
            request = request.header(ORIGIN, *origin);
        }
        let hosts = ApiHosts::new(vec!["dns.example.com".parse().unwrap()]);
        foreign_origin(&hosts, &request.body(()).unwrap())
    }

    #[test]
    fn origins_of_this_server_are_allowed() {
        for origin in [
            "http://localhost:9154",
            "http://localhost",
            "http://127.0.0.1:19154",
            "http://[::1]:9154",
            "https://dns.example.com",
            "http://dns.example.com:8080",
            "http://192.0.2.7:9154",
        ] {
            assert_eq!(refused(&[origin]), None, "{origin}");
        }
        assert_eq!(refused(&[]), None);
    }

    #[test]
    fn other_origins_are_refused() {
        for origin in [
            "null",
            "",
            "*",
            "localhost:9154",
            "http://",
            "http://attacker.example",
            "https://localhost.attacker.example",
            "http://localhost:9154.attacker.example",
            "http://localhost@attacker.example",
            "http://192.0.2.8:9154",
            "https://a.dns.example.com",
            "file://localhost",
            "chrome-extension://localhost",
            "HTTP://localhost",
            "http://localhost/",
            "http://localhost http://attacker.example",
        ] {
            assert_eq!(refused(&[origin]).as_deref(), Some(origin), "{origin}");
        }
        let both = ["http://localhost", "http://attacker.example"];
        assert_eq!(refused(&both).as_deref(), Some(both[1]));
        // What is repeated is short and has no control characters.
        let long = format!("http://{}.example/<\t\">", "a".repeat(20));
        assert_eq!(
            refused(&[&long]),
            Some(format!("http://{}.example/<\\t\\\">", "a".repeat(20)))
        );
        assert_eq!(refused(&[&"a".repeat(5000)]).unwrap().len(), MAX_SHOWN);
    }
}
