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
use axum::http::header::{CACHE_CONTROL, HeaderName, HeaderValue, ORIGIN, X_CONTENT_TYPE_OPTIONS};
use axum::http::{self, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::host::{ApiHosts, host_of};
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
    None
}

/// Returns the first `Origin` that is not a URL with an allowed host. Browsers omit the header when a page requests its
/// own server, and programs never send it. `null` stands for an origin that the browser hides.
fn foreign_origin<B>(hosts: &ApiHosts, request: &http::Request<B>) -> Option<String> {
    let local = request.extensions().get::<LocalAddress>();
    let is_foreign = |origin: &&HeaderValue| {
        let text = origin.to_str().unwrap_or_default();
        let host = ["http://", "https://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme))
            .and_then(host_of);
        !host.is_some_and(|host| hosts.is_allowed(&host, local))
    };
    let foreign = request.headers().get_all(ORIGIN).iter().find(is_foreign)?;
    let shown = &foreign.as_bytes()[..foreign.len().min(MAX_SHOWN)];
    Some(shown.escape_ascii().to_string())
}

/// Returns whether a page of another site, or of another port of this host, makes the browser send a request. The header
/// is absent if the sender is a program, and `none` if the user opens the address.
fn is_of_another_site<B>(request: &http::Request<B>) -> bool {
    request
        .headers()
        .get_all(SEC_FETCH_SITE)
        .iter()
        .any(|site| site == "cross-site" || site == "same-site")
}

/// Returns whether a request opens the status page in a window.
fn opens_page<B>(request: &http::Request<B>) -> bool {
    let has = |name, value| request.headers().get(name).is_some_and(|has| has == value);
    request.uri().path() == "/"
        && has(SEC_FETCH_MODE, "navigate")
        && has(SEC_FETCH_DEST, "document")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sockets of the integration tests cannot send these.
    #[test]
    fn refused_origin_is_repeated_without_control_characters_and_shortened() {
        let refused = |origin: &[u8]| {
            let request = http::Request::get("/").header(ORIGIN, origin);
            foreign_origin(&ApiHosts::new(Vec::new()), &request.body(()).unwrap())
        };
        let shown = refused(b"http://a.example/<\t\">");
        assert_eq!(shown.as_deref(), Some("http://a.example/<\\t\\\">"));
        assert_eq!(refused(&b"a".repeat(5000)).unwrap().len(), MAX_SHOWN);
        for origin in [
            "",
            "*",
            "localhost:9154",
            "http://",
            "HTTP://localhost",
            "http://localhost/",
        ] {
            assert_eq!(refused(origin.as_bytes()).as_deref(), Some(origin));
        }
    }
}
