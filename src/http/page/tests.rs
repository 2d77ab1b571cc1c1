//! Tests of the embedded files.

use axum::body::{Body, to_bytes};
use axum::http::Request;
use tower::ServiceExt;

use super::*;

/// Octets that a browser transfers for these files at most.
const MAX_TRANSFERRED: usize = 40 * 1024;

async fn get_page(path: &str) -> axum::http::Response<Body> {
    let request = Request::get(path).header("accept-encoding", "gzip, br");
    let routes = routes::<()>().layer(tower_http::compression::CompressionLayer::new());
    let request = request.body(Body::empty()).unwrap();
    routes.oneshot(request).await.unwrap()
}

#[tokio::test]
async fn every_file_has_the_policy_and_is_compressed() {
    let mut transferred = 0;
    for File(path, media_type, _) in &FILES {
        let response = get_page(path).await;
        assert_eq!(response.status(), 200, "{path}");
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-type"), *media_type);
        assert_eq!(header("referrer-policy"), "no-referrer");
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
        for word in ["unsafe", "http", "data:", "*"] {
            assert!(!policy.contains(word), "{word} in {policy}");
        }
        let is_compressed = response.headers().contains_key("content-encoding");
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert!(is_compressed || body.len() < 1000, "{path}");
        transferred += body.len();
    }
    assert!(transferred <= MAX_TRANSFERRED, "{transferred} octets");
}

#[tokio::test]
async fn other_paths_are_not_found() {
    for path in ["/page/", "/page/tests.rs", "/page/../page.rs"] {
        assert_eq!(get_page(path).await.status(), 404, "{path}");
    }
}

/// The policy blocks inline scripts and styles, so the page must not have any. The other calls turn texts into markup.
#[test]
fn files_have_no_inline_code_no_markup_from_texts_and_no_foreign_address() {
    for File(path, _, content) in &FILES {
        let words = [
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "new Function",
            "<style",
            " style=",
            " onclick",
            " onload",
            " onerror=",
            "javascript:",
            "https://",
        ];
        for word in words {
            assert!(!content.contains(word), "{word} in {path}");
        }
        let foreign = content.replace("http://www.w3.org/2000/svg", "");
        assert!(!foreign.contains("http://"), "{path}");
    }
}

/// Returns the paths that a script imports.
fn imports(File(_, _, script): &File) -> impl Iterator<Item = String> {
    let imported = script
        .lines()
        .filter_map(|line| line.split_once(" from \"./"));
    imported.map(|(_, file)| format!("/page/{}", file.trim_end_matches("\";")))
}

#[test]
fn scripts_import_each_other_without_a_circle() {
    let mut scripts: Vec<&File> = FILES.iter().filter(|file| file.1 == SCRIPT).collect();
    while !scripts.is_empty() {
        // Those that import none of the others are below all of them.
        let paths: Vec<&str> = scripts.iter().map(|script| script.0).collect();
        scripts.retain(|script| imports(script).any(|path| paths.contains(&&*path)));
        assert!(scripts.len() < paths.len(), "{paths:?} import each other");
    }
}
