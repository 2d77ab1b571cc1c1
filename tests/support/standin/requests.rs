//! What the stand-in answers.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::future::pending;
use futures::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};

use super::{Asked, Manner, PATIENCE, Shared, open};

/// How long a version that is yet to come is waited for, as by a real API server.
const FRESHNESS: Duration = Duration::from_secs(3);

/// Answers one request.
pub(super) async fn serve(
    State(shared): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let wants_credentials = open(&shared).token.is_some();
    let mut response = answer(shared, &uri, &headers, &query).await;
    if wants_credentials {
        // Each request makes itself known anew.
        let headers = response.headers_mut();
        headers.insert("connection", HeaderValue::from_static("close"));
    }
    response
}

async fn answer(
    shared: Shared,
    uri: &Uri,
    headers: &HeaderMap,
    query: &HashMap<String, String>,
) -> Response {
    let Some(asked) = Asked::read(uri.path(), query) else {
        return refuse(
            404,
            "NotFound",
            "the server could not find the requested resource",
        );
    };
    let shown = headers
        .get("authorization")
        .and_then(|value| value.to_str().ok());
    if open(&shared).manner == Manner::Unreachable {
        open(&shared).asked.push(asked);
        return pending().await;
    }
    let version = query.get("resourceVersion");
    let version: Option<u64> = version.and_then(|version| version.parse().ok());
    let current = open(&shared).version;
    if let Some(version) = version.filter(|version| !asked.watch && *version > current) {
        open(&shared).asked.push(asked);
        tokio::time::sleep(FRESHNESS).await;
        return of_the_future(version, current);
    }
    let mut book = open(&shared);
    book.asked.push(asked.clone());
    if book
        .token
        .as_ref()
        .is_some_and(|token| shown != Some(&format!("Bearer {token}")))
    {
        return refuse(401, "Unauthorized", "Unauthorized");
    }
    match book.manner {
        Manner::RefusesEverything => {
            return refuse(500, "InternalError", "the stand-in refuses everything");
        }
        Manner::AsksForPatience => {
            let text = "Too many requests, please try again later.\n";
            let seconds = PATIENCE.as_secs().to_string();
            let head = [
                ("content-type", "text/plain; charset=utf-8"),
                ("retry-after", &seconds),
            ];
            return (StatusCode::TOO_MANY_REQUESTS, head, text).into_response();
        }
        _ if asked.streamed => {
            let text = "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is \
                        forbidden for watch unless the WatchList feature gate is enabled";
            return refuse(422, "Invalid", text);
        }
        // By turns; the event comes from `Book::watch`.
        Manner::ForgetsAtOnce if asked.watch && book.asked.len().is_multiple_of(2) => {
            return refuse(410, "Expired", "too old resource version");
        }
        Manner::ForgetsAtOnce if asked.watch => book.oldest = u64::MAX,
        Manner::CutsLists if !asked.watch => return cut(&book.list(&asked)),
        Manner::EndlessLists if !asked.watch => {
            let list = book.list(&asked);
            drop(book);
            return endless(list, shared);
        }
        Manner::RefusesFieldSelectors if !asked.fields.is_empty() => {
            let text = format!(
                "Unable to find \"/v1, Resource=services\" that match label selector \"{}\", field selector \"{}\": \
                 field label not supported: spec.clusterIP",
                asked.labels, asked.fields
            );
            return refuse(400, "BadRequest", &text);
        }
        Manner::Good
        | Manner::ListsNothing
        | Manner::RefusesFieldSelectors
        | Manner::SilentOnWatches
        | Manner::ForgetsAtOnce
        | Manner::CutsLists
        | Manner::EndlessLists
        | Manner::Unreachable
        | Manner::Garbles => {}
    }
    if !asked.watch {
        let mut list = book.list(&asked);
        if asked.probe {
            let items = list["items"].as_array_mut();
            items.into_iter().for_each(|items| items.truncate(1));
        }
        return (StatusCode::OK, axum::Json(list)).into_response();
    }
    let since = version.unwrap_or(book.version);
    let silent = book.manner == Manner::SilentOnWatches;
    let (id, mut receiver) = book.watch(&asked, since);
    if book.oldest == u64::MAX {
        book.oldest = 0;
    }
    drop(book);
    if let (false, Some(seconds)) = (
        silent,
        query
            .get("timeoutSeconds")
            .and_then(|seconds| seconds.parse().ok()),
    ) {
        tokio::spawn(end_watch(shared, id, Duration::from_secs(seconds)));
    }
    let events = stream::poll_fn(move |context| receiver.poll_recv(context));
    (
        [("content-type", "application/json")],
        Body::from_stream(events),
    )
        .into_response()
}

async fn end_watch(shared: Shared, id: usize, after: Duration) {
    tokio::time::sleep(after).await;
    open(&shared).watchers.retain(|watcher| watcher.id != id);
}

/// What kube-apiserver 1.33 says of a version that is yet to come.
fn of_the_future(version: u64, current: u64) -> Response {
    let message = format!("Timeout: Too large resource version: {version}, current: {current}");
    let cause =
        json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
    let status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": 504, "reason": "Timeout", "message": message,
        "details": {"causes": [cause], "retryAfterSeconds": 1}});
    (StatusCode::GATEWAY_TIMEOUT, axum::Json(status)).into_response()
}

fn refuse(code: u16, reason: &str, message: &str) -> Response {
    let status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message});
    (
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        axum::Json(status),
    )
        .into_response()
}

/// The first half of a list, and then no more: the connection ends.
fn cut(list: &Value) -> Response {
    let text = list.to_string();
    let half = Bytes::from(text[..text.len() / 2].to_owned());
    let broken = io::Error::new(io::ErrorKind::ConnectionReset, "cut by the stand-in");
    json_body(stream::iter([Ok(half), Err(broken)]))
}

/// A list that goes on and on, until the stand-in behaves: then the connection ends.
fn endless(list: Value, shared: Shared) -> Response {
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let item = items
        .first()
        .cloned()
        .unwrap_or_else(|| json!({"metadata": {}}));
    let start = format!("{{\"metadata\":{},\"items\":[{item}", list["metadata"]);
    let more = stream::unfold(
        (0_u64, item, shared),
        |(count, mut item, shared)| async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if open(&shared).manner != Manner::EndlessLists {
                let over = io::Error::new(io::ErrorKind::ConnectionReset, "ended by the stand-in");
                return Some((Err(over), (count, item, shared)));
            }
            item["metadata"]["name"] = json!(format!("endless-{count}"));
            let text = Bytes::from(format!(",{item}"));
            Some((Ok(text), (count + 1, item, shared)))
        },
    );
    json_body(stream::iter([Ok(Bytes::from(start))]).chain(more))
}

fn json_body(octets: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Response {
    let kind = [("content-type", "application/json")];
    (kind, Body::from_stream(octets)).into_response()
}

// === impl Asked ===

impl Asked {
    pub(super) fn read(path: &str, query: &HashMap<String, String>) -> Option<Self> {
        let resource = match path {
            "/api/v1/services" => "services",
            "/apis/discovery.k8s.io/v1/endpointslices" => "endpointslices",
            _ => return None,
        };
        let parameter = |name: &str| query.get(name).cloned().unwrap_or_default();
        let streamed = parameter("sendInitialEvents") == "true";
        Some(Self {
            at: Instant::now(),
            watch: matches!(parameter("watch").as_str(), "true" | "1") && !streamed,
            streamed,
            probe: parameter("limit") == "1",
            resource: resource.to_owned(),
            labels: parameter("labelSelector"),
            fields: parameter("fieldSelector"),
        })
    }

    /// Both ask for the same objects.
    pub fn is_alike(&self, other: &Self) -> bool {
        (&self.resource, &self.labels, &self.fields)
            == (&other.resource, &other.labels, &other.fields)
    }

    pub(super) fn selects(&self, object: &Value) -> bool {
        let kind = if self.resource == "services" {
            "Service"
        } else {
            "EndpointSlice"
        };
        let labels = &object["metadata"]["labels"];
        object["kind"] == kind
            && self
                .labels
                .split(',')
                .filter(|term| !term.is_empty())
                .all(|term| is_met(term, labels))
            && (self.fields.is_empty() || object["spec"]["clusterIP"] == "None")
    }
}

/// One term of a label selector: `key`, `!key`, `key=value` or `key!=value`.
fn is_met(term: &str, labels: &Value) -> bool {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    if let Some((key, value)) = term.split_once("!=") {
        label(key) != Some(value)
    } else if let Some((key, value)) = term.split_once('=') {
        label(key) == Some(value)
    } else if let Some(key) = term.strip_prefix('!') {
        label(key).is_none()
    } else {
        label(term).is_some()
    }
}
