//! Limits of all readers of the API together: the number of requests, and the memory of responses that are not read yet.
//!
//! A request waits for a moment if there are too many. After that, and if there is no memory for its response, the answer
//! is 503 with `Retry-After`. The files of the page are embedded in the binary, and streams of events have a limit of
//! their own.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The content type of server-sent events.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// Maximum number of requests whose responses are not completely sent. One address may have as many connections
/// (`server/http.rs`), and loses its oldest one then, so that readers of other addresses are refused at most.
pub(super) const MAX_REQUESTS: usize = 16;

/// Maximum time for which a request waits for another one to end.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Memory for responses in KiB. With the buffers of the sockets (`server/http.rs`), all readers use at most 32 MiB.
const MEMORY: usize = 24 * 1024;

/// The limits that all listeners of the API share.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    requests: Arc<Semaphore>,
    memory: Memory,
}

/// The memory for responses that is not in use. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Memory(Arc<Semaphore>);

/// Answers a request within the limits.
pub(super) async fn limit(State(limits): State<Limits>, request: Request, next: Next) -> Response {
    let place = limits.requests.clone().acquire_owned();
    let Ok(Ok(place)) = timeout(MAX_WAIT, place).await else {
        return busy(&format!(
            "{MAX_REQUESTS} requests are being answered already"
        ));
    };
    let response = next.run(request).await;
    let content_type = response.headers().get(CONTENT_TYPE);
    if content_type.is_some_and(|value| value == EVENT_STREAM) {
        return response;
    }
    // A body of unknown size is streamed, and its source counts its memory.
    let size = response.body().size_hint().exact().unwrap_or_default();
    let Some(memory) = limits.memory.reserve(size as usize) else {
        return no_memory();
    };
    // The body owns the closure, and with it the place and the memory, until it is sent or dropped.
    response.map(|body| {
        Body::new(body.map_err(move |error| {
            let _held = (&place, &memory);
            error
        }))
    })
}

/// Returns the response to a request for which there is no memory now.
pub(super) fn no_memory() -> Response {
    busy("other responses use all of the memory for responses")
}

fn busy(why: &str) -> Response {
    let sentence = format!("{why}; try again later\n");
    let again = [(RETRY_AFTER, "1")];
    (StatusCode::SERVICE_UNAVAILABLE, again, sentence).into_response()
}

// === impl Limits ===

impl Limits {
    /// Returns the memory for responses.
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            memory: Memory::new(MEMORY),
        }
    }
}

// === impl Memory ===

impl Memory {
    /// Creates a budget of this number of KiB.
    pub(super) fn new(limit: usize) -> Self {
        Self(Arc::new(Semaphore::new(limit)))
    }

    /// Reserves memory for this number of octets, rounded up to KiB, unless others use too much.
    pub(super) fn reserve(&self, octets: usize) -> Option<OwnedSemaphorePermit> {
        let permits = u32::try_from(octets.div_ceil(1024)).ok()?;
        self.0.clone().try_acquire_many_owned(permits).ok()
    }
}
