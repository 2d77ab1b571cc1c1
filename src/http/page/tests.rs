//! Tests of the embedded files.

use axum::body::{Body, to_bytes};
use http::Request;
use tower::ServiceExt;

use super::*;

/// Octets that a browser transfers for these files at most.
const MAX_TRANSFERRED: usize = 40 * 1024;

async fn get_page(path: &str) -> http::Response<Body> {
    let request = Request::get(path).body(Body::empty()).unwrap();
    routes::<()>().oneshot(request).await.unwrap()
}

#[tokio::test]
async fn every_file_has_the_policy_and_its_media_type() {
    for file in &FILES {
        let response = get_page(file.path).await;
        assert_eq!(response.status(), 200, "{}", file.path);
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-type"), file.media_type);
        assert_eq!(header("referrer-policy"), "no-referrer");
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
        for word in ["unsafe", "http", "data:", "*"] {
            assert!(!policy.contains(word), "{word} in {policy}");
        }
    }
}

#[tokio::test]
async fn every_file_is_compressed_for_clients_that_accept_it() {
    let mut transferred = 0;
    for file in &FILES {
        let request = Request::get(file.path)
            .header("accept-encoding", "gzip, br")
            .body(Body::empty())
            .unwrap();
        let routes = routes::<()>().layer(tower_http::compression::CompressionLayer::new());
        let response = routes.oneshot(request).await.unwrap();
        assert_eq!(response.headers()["content-type"], file.media_type);
        let is_compressed = response.headers().contains_key("content-encoding");
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert!(is_compressed || body.len() < 1000, "{}", file.path);
        transferred += body.len();
    }
    assert!(transferred <= MAX_TRANSFERRED, "{transferred} octets");
}

#[tokio::test]
async fn other_paths_and_methods_are_refused() {
    for path in [
        "/page/",
        "/page/tests.rs",
        "/page/../page.rs",
        "/index.html",
    ] {
        assert_eq!(get_page(path).await.status(), 404, "{path}");
    }
    let request = Request::post("/").body(Body::empty()).unwrap();
    assert_eq!(routes::<()>().oneshot(request).await.unwrap().status(), 405);
}

/// The policy blocks inline scripts and styles, so the page must not have any. The other calls turn texts into markup.
#[test]
fn files_have_no_inline_code_no_markup_from_texts_and_no_foreign_address() {
    for file in &FILES {
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
            assert!(!file.content.contains(word), "{word} in {}", file.path);
        }
        let foreign = file.content.replace("http://www.w3.org/2000/svg", "");
        assert!(!foreign.contains("http://"), "{}", file.path);
    }
}

/// Returns the paths that a script imports.
fn imports(script: &File) -> impl Iterator<Item = String> {
    let lines = script.content.lines();
    let imported = lines.filter_map(|line| line.split_once(" from \"./"));
    imported.map(|(_, file)| format!("/page/{}", file.trim_end_matches("\";")))
}

#[test]
fn scripts_import_each_other_without_a_circle() {
    let mut scripts: Vec<&File> = FILES
        .iter()
        .filter(|file| file.media_type == SCRIPT)
        .collect();
    while !scripts.is_empty() {
        // Those that import none of the others are below all of them.
        let paths: Vec<&str> = scripts.iter().map(|script| script.path).collect();
        scripts.retain(|script| imports(script).any(|path| paths.contains(&&*path)));
        assert!(scripts.len() < paths.len(), "{paths:?} import each other");
    }
}
