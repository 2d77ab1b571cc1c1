//! Tests of the handlers, without connections.

use std::sync::atomic::AtomicU64;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::Request;
use axum::http::header::HOST;
use tower::ServiceExt as _;

use super::*;
use crate::mirror::Mcs;
use crate::server::counters::CounterSet;
use crate::table::Publisher;
use crate::testing::zones;

/// Returns the state of a server with the tables of a publisher, for tests on a runtime.
pub(crate) fn state(publisher: &Publisher, liveness: Liveness) -> AdminState {
    let (reader, feeds) = (publisher.reader(), Feeds::new(&[], Mcs::Off));
    AdminState {
        reader: reader.clone(),
        zones: Arc::new(zones(&["global"])),
        cluster_name: "hub".parse().unwrap(),
        namespaces: Arc::new([]),
        feeds: feeds.clone(),
        metrics: Metrics {
            counters: CounterSet::default(),
            reader,
            feeds,
            snapshot_failures: Arc::<AtomicU64>::default(),
            lost_log_lines: Arc::default(),
            certificate_expiry: None,
            facts: Facts::default(),
        },
        draining: Arc::default(),
        liveness,
        api_runtime: Handle::current(),
    }
}

/// Requests a path.
async fn get(routes: &Router, path: &str, headers: &[(&str, &str)]) -> Response {
    let request = Request::get(path).header(HOST, "localhost");
    let add = |request: http::request::Builder, (name, value): &(&str, &str)| {
        request.header(*name, *value)
    };
    let request = headers.iter().fold(request, add);
    let request = request.body(Body::empty()).unwrap();
    routes.clone().oneshot(request).await.unwrap()
}

async fn octets(response: Response) -> Bytes {
    to_bytes(response.into_body(), usize::MAX).await.unwrap()
}

/// Returns the response to `/livez`.
pub(crate) async fn livez(liveness: &Liveness) -> (u16, String) {
    let state = state(&Publisher::default(), liveness.clone());
    let response = get(&admin_routes(state), "/livez", &[]).await;
    let status = response.status().as_u16();
    let text = octets(response).await;
    (status, String::from_utf8_lossy(&text).into_owned())
}

/// Checks the loops until `/livez` succeeds. Fails if that takes longer than on the busiest machine.
pub(crate) async fn wait_until_alive(liveness: &Liveness) {
    let alive = async {
        while livez(liveness).await.0 != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            liveness.check();
        }
    };
    let limit = std::time::Duration::from_secs(60);
    tokio::time::timeout(limit, alive).await.unwrap();
}

/// Checks the loops without any pause until `/livez` must fail. Returns its sentence.
pub(crate) async fn wait_until_stuck(liveness: &Liveness) -> String {
    // The first check may see the progress before.
    for _ in 0..=liveness::MAX_MISSED {
        liveness.check();
    }
    let (status, sentence) = livez(liveness).await;
    assert_eq!(status, 503, "{sentence}");
    sentence
}
