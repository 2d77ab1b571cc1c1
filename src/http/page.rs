//! The status page: one HTML document with its style, scripts and icon, all of them embedded in the binary.
//!
//! The page is a client of `/api/v1/…` like any other. It shows names that other clusters chose, so its scripts never
//! turn a text into markup. [`POLICY`] is the second line of defense: with it, the browser loads and runs these files
//! and nothing else.

use axum::Router;
use axum::body::Bytes;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY};
use axum::routing::get;

/// The path, the media type and the content of an embedded file. The documents refer to each other by relative paths, so that they
/// also work below the path of a proxy.
struct File(&'static str, &'static str, &'static str);

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const ICON: &str = "image/svg+xml";
const SCRIPT: &str = "text/javascript; charset=utf-8";

static FILES: [File; 13] = [
    File("/", HTML, include_str!("page/index.html")),
    File("/page/page.css", CSS, include_str!("page/page.css")),
    File("/page/icon.svg", ICON, include_str!("page/icon.svg")),
    File("/page/address.js", SCRIPT, include_str!("page/address.js")),
    File("/page/answer.js", SCRIPT, include_str!("page/answer.js")),
    File("/page/api.js", SCRIPT, include_str!("page/api.js")),
    File("/page/changes.js", SCRIPT, include_str!("page/changes.js")),
    File("/page/cluster.js", SCRIPT, include_str!("page/cluster.js")),
    File("/page/dom.js", SCRIPT, include_str!("page/dom.js")),
    File("/page/main.js", SCRIPT, include_str!("page/main.js")),
    File("/page/problem.js", SCRIPT, include_str!("page/problem.js")),
    File("/page/table.js", SCRIPT, include_str!("page/table.js")),
    File("/page/words.js", SCRIPT, include_str!("page/words.js")),
];

/// No inline script or style, nothing from another origin, no frames, no forms, no markup made from texts.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// Headers in addition to those of every response (`gate.rs`).
const HEADERS: [(HeaderName, &str); 2] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (REFERRER_POLICY, "no-referrer"),
];

/// Returns the routes of the page.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let route = |router: Router<S>, file: &'static File| {
        let File(path, media_type, content) = file;
        let text = Bytes::from_static(content.as_bytes());
        let respond = async move || (HEADERS, [(CONTENT_TYPE, *media_type)], text);
        router.route(path, get(respond))
    };
    FILES.iter().fold(Router::new(), route)
}

#[cfg(test)]
mod tests;
