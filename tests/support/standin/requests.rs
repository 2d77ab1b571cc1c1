//! Responses of the stand-in.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::future::pending;
use futures::{Stream, StreamExt as _, stream};
use hyper::upgrade::OnUpgrade;
use serde_json::{Value, json};

use super::{ApiRequest, Behavior, Shared, lock};
use crate::port_forward::forward;

/// Time for which a list waits for a future resource version, as in a real API server.
const FRESHNESS: Duration = Duration::from_secs(3);

/// Answers one request.
pub(super) async fn serve(
    State(shared): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
    upgrade: Option<Extension<OnUpgrade>>,
) -> Response {
    if let (Some(Extension(upgrade)), Some(ports)) = (upgrade, query.get("ports"))
        && uri.path().ends_with("/portforward")
    {
        let mut state = lock(&shared);
        state.forwards += 1;
        return if state.forbidden.contains("pods/portforward") {
            forbid("pods/portforward")
        } else {
            forward(&headers, upgrade, ports)
        };
    }
    let requires_credentials = lock(&shared).token.is_some();
    let mut response = answer(shared, &uri, &headers, &query).await;
    if requires_credentials {
        // Each connection carries one request, so that each request authenticates itself.
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
    if uri.path() == "/version" {
        return axum::Json(version_info()).into_response();
    }
    let request = ApiRequest::read(uri.path(), query);
    let Some(request) = request.filter(|request| lock(&shared).serves(request)) else {
        return refuse(
            404,
            "NotFound",
            "the server could not find the requested resource",
        );
    };
    let authorization = headers
        .get("authorization")
        .and_then(|value| value.to_str().ok());
    // Some proxies (Teleport, Rancher, GKE) drop the bookmark that ends a streamed list.
    let is_streamed = query.contains_key("sendInitialEvents");
    if is_streamed || lock(&shared).behavior == Behavior::Unreachable {
        lock(&shared).requests.push(request);
        return pending().await;
    }
    let version = query.get("resourceVersion");
    let version: Option<u64> = version.and_then(|version| version.parse().ok());
    let current = lock(&shared).version;
    if let Some(version) = version.filter(|version| !request.watch && *version > current) {
        lock(&shared).requests.push(request);
        tokio::time::sleep(FRESHNESS).await;
        return too_large_version(version, current);
    }
    let mut state = lock(&shared);
    state.requests.push(request.clone());
    if state.forbidden.contains(&request.resource) {
        return forbid(&request.resource);
    }
    if state
        .token
        .as_ref()
        .is_some_and(|token| authorization != Some(&format!("Bearer {token}")))
    {
        return refuse(401, "Unauthorized", "Unauthorized");
    }
    match state.behavior {
        Behavior::InternalErrors => {
            return refuse(500, "InternalError", "simulated internal error");
        }
        Behavior::TooManyRequests => {
            let text = "Too many requests, please try again later.\n";
            let head = [
                ("content-type", "text/plain; charset=utf-8"),
                ("retry-after", "1"),
            ];
            return (StatusCode::TOO_MANY_REQUESTS, head, text).into_response();
        }
        // Alternates with the event that `ServerState::watch` sends.
        Behavior::ExpiredWatches if request.watch && state.requests.len().is_multiple_of(2) => {
            return refuse(410, "Expired", "too old resource version");
        }
        Behavior::ExpiredWatches if request.watch => state.oldest = u64::MAX,
        Behavior::TruncatedLists if !request.watch => return truncated(&state.list(&request)),
        Behavior::EndlessLists if !request.watch => {
            let list = state.list(&request);
            drop(state);
            return endless(list, shared);
        }
        Behavior::Normal
        | Behavior::EmptyLists
        | Behavior::SilentWatches
        | Behavior::ExpiredWatches
        | Behavior::TruncatedLists
        | Behavior::EndlessLists
        | Behavior::Unreachable
        | Behavior::GarbageInWatches => {}
    }
    if !request.watch {
        let mut list = state.list(&request);
        if request.probe {
            let items = list["items"].as_array_mut();
            items.into_iter().for_each(|items| items.truncate(1));
        }
        return (StatusCode::OK, axum::Json(list)).into_response();
    }
    let since = version.unwrap_or(state.version);
    let is_silent = state.behavior == Behavior::SilentWatches;
    let limit = state.watch_limit;
    let (id, mut receiver) = state.watch(&request, since);
    if state.oldest == u64::MAX {
        state.oldest = 0;
    }
    drop(state);
    if let (false, Some(seconds)) = (
        is_silent,
        query
            .get("timeoutSeconds")
            .and_then(|seconds| seconds.parse().ok()),
    ) {
        tokio::spawn(end_watch(
            shared,
            id,
            Duration::from_secs(seconds).min(limit),
        ));
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
    lock(&shared).watchers.retain(|watcher| watcher.id != id);
}

/// Returns the response of kube-apiserver 1.33 to a request for its version.
fn version_info() -> Value {
    json!({"major": "1", "minor": "33", "gitVersion": "v1.33.4", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "2025-08-13T14:21:22Z", "goVersion": "go1.24.5", "compiler": "gc", "platform": "linux/amd64"})
}

/// Returns the response of kube-apiserver 1.33 to a future resource version.
fn too_large_version(version: u64, current: u64) -> Response {
    let message = format!("Timeout: Too large resource version: {version}, current: {current}");
    let cause =
        json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
    let status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": 504, "reason": "Timeout", "message": message,
        "details": {"causes": [cause], "retryAfterSeconds": 1}});
    (StatusCode::GATEWAY_TIMEOUT, axum::Json(status)).into_response()
}

fn forbid(resource: &str) -> Response {
    let message = format!("{resource} is forbidden: User \"nobody\" has no permission");
    refuse(403, "Forbidden", &message)
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

/// Returns the first half of a list, then ends the connection.
fn truncated(list: &Value) -> Response {
    let text = list.to_string();
    let half = Bytes::from(text[..text.len() / 2].to_owned());
    let broken = io::Error::new(io::ErrorKind::ConnectionReset, "closed by the stand-in");
    json_body(stream::iter([Ok(half), Err(broken)]))
}

/// Returns a list without an end. When the behavior changes, the connection ends.
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
            if lock(&shared).behavior != Behavior::EndlessLists {
                let ended =
                    io::Error::new(io::ErrorKind::ConnectionReset, "closed by the stand-in");
                return Some((Err(ended), (count, item, shared)));
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

// === impl ApiRequest ===

impl ApiRequest {
    pub(super) fn read(path: &str, query: &HashMap<String, String>) -> Option<Self> {
        let groups = [
            "/api/v1",
            "/apis/apps/v1",
            "/apis/discovery.k8s.io/v1",
            "/apis/coordination.k8s.io/v1",
            "/apis/multicluster.linkerd.io/v1alpha3",
        ];
        let rest = groups.iter().find_map(|group| path.strip_prefix(group))?;
        let (namespace, resource) = match rest.strip_prefix("/namespaces/") {
            Some(below) => below.split_once('/')?,
            None => ("", rest.strip_prefix('/')?),
        };
        let is_known = [
            "services",
            "endpoints",
            "pods",
            "namespaces",
            "deployments",
            "daemonsets",
            "endpointslices",
            "leases",
            "links",
        ]
        .contains(&resource);
        is_known.then_some(())?;
        let parameter = |name: &str| query.get(name).cloned().unwrap_or_default();
        Some(Self {
            at: Instant::now(),
            watch: matches!(parameter("watch").as_str(), "true" | "1"),
            probe: parameter("limit") == "1",
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            labels: parameter("labelSelector"),
            fields: parameter("fieldSelector"),
        })
    }

    pub(super) fn selects(&self, object: &Value) -> bool {
        let kind = match self.resource.as_str() {
            "services" => "Service",
            "endpoints" => "Endpoints",
            "pods" => "Pod",
            "namespaces" => "Namespace",
            "deployments" => "Deployment",
            "daemonsets" => "DaemonSet",
            "leases" => "Lease",
            "links" => "Link",
            _ => "EndpointSlice",
        };
        let labels = &object["metadata"]["labels"];
        let namespace = &object["metadata"]["namespace"];
        object["kind"] == kind
            && (self.namespace.is_empty() || *namespace == *self.namespace)
            && self
                .labels
                .split(',')
                .filter(|term| !term.is_empty())
                .all(|term| matches_term(term, labels))
            && match self.fields.as_str() {
                "" => true,
                "spec.clusterIP!=None" => object["spec"]["clusterIP"] != "None",
                fields if fields.starts_with("metadata.name=") => {
                    let name = object["metadata"]["name"].as_str();
                    name == fields.strip_prefix("metadata.name=")
                }
                _ => object["spec"]["clusterIP"] == "None",
            }
    }
}

/// Returns whether labels match a term of a label selector: `key`, `!key`, `key=value` or `key!=value`.
fn matches_term(term: &str, labels: &Value) -> bool {
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
