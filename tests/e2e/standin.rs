//! An API server that misbehaves on request: lists and watches of Services and EndpointSlices over plain HTTP.
//!
//! It behaves as a real one does in what the server under test can see (selectors, resource versions, items without a
//! kind, watches that end after `timeoutSeconds`, no streamed lists as Kubernetes 1.33), and it keeps a list of what it
//! was asked.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::future::pending;
use futures::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::credentials::Credentials;
pub use crate::credentials::Rotated;

/// Events that it remembers.
const HISTORY: usize = 10_000;

/// How long [`Manner::AsksForPatience`] wants to be left alone: longer than who backs off by himself does.
pub const PATIENCE: Duration = Duration::from_secs(7);

/// How long a version that is yet to come is waited for, as by a real API server.
const FRESHNESS: Duration = Duration::from_secs(3);

/// How it behaves towards whatever is asked from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    Good,
    /// As Kubernetes before 1.31: Services cannot be selected by their cluster IP.
    RefusesFieldSelectors,
    /// Lists are answered; watches are accepted, and then nothing is sent, not even their end.
    SilentOnWatches,
    /// Lists are complete, well-formed and empty, as those of an etcd that was restored from nothing.
    ListsNothing,
    /// Everything is answered with 500.
    RefusesEverything,
    /// Everything is answered with 429 and the wish to be left alone for [`PATIENCE`], as by an API server that has too
    /// much to do: a line of text, and a header.
    AsksForPatience,
    /// No watch is opened: its version is always gone, told by turns as a status and as an event. Lists are answered.
    ForgetsAtOnce,
    /// Lists break off in the middle of an object.
    CutsLists,
    /// Lists never end: object after object.
    EndlessLists,
    /// As if the way to it were cut: connections stay, new ones are taken, and nothing is ever heard on either.
    Unreachable,
    /// A line that is nothing comes before each event.
    Garbles,
}

/// How a stand-in is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// By whoever comes, over plain HTTP.
    Openly,
    /// With the token in a file, over HTTPS; the file of certificates to trust is beside it.
    WithCredentials,
}

pub struct StandIn {
    pub kubeconfig: PathBuf,
    /// Of those who need any.
    credentials: Option<Credentials>,
    book: Shared,
    // Ends every connection when it is dropped.
    _runtime: Runtime,
    _directory: TempDir,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Asked {
    pub at: Instant,
    pub watch: bool,
    /// A list, as events of a watch.
    pub streamed: bool,
    /// One object is enough.
    pub probe: bool,
    /// `services` or `endpointslices`
    pub resource: String,
    pub labels: String,
    pub fields: String,
}

type Shared = Arc<Mutex<Book>>;

struct Book {
    manner: Manner,
    /// The newest resource version.
    version: u64,
    /// The oldest version that a watch can start from.
    oldest: u64,
    objects: BTreeMap<String, Value>,
    /// The last ones, which a watch can still ask for.
    events: VecDeque<Happened>,
    watchers: Vec<Watcher>,
    /// Watches that hear no more, and do not know it.
    deaf: Vec<Watcher>,
    asked: Vec<Asked>,
    /// What a request must show.
    token: Option<String>,
}

/// A moment in the life of a cluster, as a backup of etcd holds it.
pub struct Backup {
    version: u64,
    objects: BTreeMap<String, Value>,
}

struct Happened {
    version: u64,
    event: Value,
}

struct Watcher {
    id: usize,
    asked: Asked,
    /// Nothing up to this version is told.
    since: u64,
    /// Dropping it ends the watch.
    sender: UnboundedSender<io::Result<String>>,
}

// === impl StandIn ===

impl StandIn {
    pub fn start(manner: Manner, objects: &[Value]) -> Result<Self> {
        Self::start_reached(Reached::Openly, manner, objects)
    }

    pub fn start_reached(reached: Reached, manner: Manner, objects: &[Value]) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let directory = tempfile::Builder::new()
            .prefix("global-dns-e2e-")
            .tempdir()?;
        let credentials = match reached {
            Reached::Openly => None,
            Reached::WithCredentials => Some(Credentials::new(directory.path())?),
        };
        let kubeconfig = directory.path().join("kubeconfig");
        let (cluster, user) = match &credentials {
            None => (format!("server: \"http://{address}\""), String::new()),
            Some(credentials) => credentials.of_kubeconfig(address),
        };
        fs::write(
            &kubeconfig,
            format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: standin\n\
                 clusters:\n- {{name: standin, cluster: {{{cluster}}}}}\n\
                 contexts:\n- {{name: standin, context: {{cluster: standin, user: nobody}}}}\n\
                 users:\n- {{name: nobody, user: {{{user}}}}}\n"
            ),
        )?;
        let book = Book {
            manner,
            version: 1000,
            oldest: 0,
            objects: BTreeMap::new(),
            events: VecDeque::new(),
            watchers: Vec::new(),
            deaf: Vec::new(),
            asked: Vec::new(),
            token: credentials.as_ref().map(Credentials::token),
        };
        let book = Arc::new(Mutex::new(book));
        let router = Router::new().fallback(serve).with_state(Arc::clone(&book));
        match &credentials {
            None => runtime.spawn(async move { axum::serve(listener, router).await }),
            Some(credentials) => {
                let listener = credentials.listen(listener);
                runtime.spawn(async move { axum::serve(listener, router).await })
            }
        };
        let standin = Self {
            kubeconfig,
            credentials,
            book,
            _runtime: runtime,
            _directory: directory,
        };
        objects
            .iter()
            .for_each(|object| standin.put_quietly(object));
        Ok(standin)
    }

    pub fn behave(&self, manner: Manner) {
        let mut book = open(&self.book);
        book.manner = manner;
        if manner == Manner::Unreachable {
            let deaf = std::mem::take(&mut book.watchers);
            book.deaf.extend(deaf);
        }
    }

    /// Changes the token or the certificates in their files, and takes no others from now on; watches end.
    pub fn rotate(&self, what: Rotated) -> Result<()> {
        let credentials = self.credentials.as_ref().context("it has none")?;
        let token = credentials.rotate(what)?;
        let mut book = open(&self.book);
        book.token = Some(token);
        book.watchers.clear();
        Ok(())
    }

    /// Creates or replaces, and tells the watches.
    pub fn put(&self, object: &Value) {
        let mut book = open(&self.book);
        let kind = if book.objects.contains_key(&key(object)) {
            "MODIFIED"
        } else {
            "ADDED"
        };
        let object = book.store(object);
        book.tell(kind, &object);
    }

    /// Creates or replaces several objects, whose events come twice each, the last one first.
    pub fn put_in_disorder(&self, objects: &[Value]) {
        let mut book = open(&self.book);
        let mut stored: Vec<Value> = objects.iter().map(|object| book.store(object)).collect();
        stored.reverse();
        for object in stored {
            book.tell("ADDED", &object);
            book.tell("MODIFIED", &object);
        }
    }

    /// Keeps what there is now.
    pub fn back_up(&self) -> Backup {
        let book = open(&self.book);
        Backup {
            version: book.version,
            objects: book.objects.clone(),
        }
    }

    /// Makes everything what it was, versions too, as who restores etcd from a backup: connections break, and new watches
    /// from versions that are yet to come are accepted and hear nothing.
    pub fn restore(&self, backup: Backup) {
        let mut book = open(&self.book);
        let Backup { version, objects } = backup;
        (book.version, book.objects) = (version, objects);
        book.events.retain(|happened| happened.version <= version);
        for watcher in book.watchers.drain(..) {
            let broken = io::Error::new(io::ErrorKind::ConnectionReset, "the API server is gone");
            // Fails if the other side is gone already.
            let _ = watcher.sender.send(Err(broken));
        }
    }

    /// Creates or replaces without an event.
    pub fn put_quietly(&self, object: &Value) {
        open(&self.book).store(object);
    }

    /// Deletes without an event.
    pub fn delete_quietly(&self, object: &Value) {
        let mut book = open(&self.book);
        book.version += 1;
        book.objects.remove(&key(object));
    }

    /// Ends every watch with an event that says that its history is lost (410 Gone).
    pub fn lose_history(&self) {
        let mut book = open(&self.book);
        book.version += 1;
        book.oldest = book.version;
        for watcher in book.watchers.drain(..) {
            // Fails if the other side is gone already.
            let _ = watcher.sender.send(Ok(line(&gone())));
        }
    }

    /// Everything that was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        open(&self.book).asked.clone()
    }
}

// === impl Book ===

impl Book {
    fn store(&mut self, object: &Value) -> Value {
        self.version += 1;
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(key(&object), object.clone());
        object
    }

    fn tell(&mut self, kind: &str, object: &Value) {
        let version = object["metadata"]["resourceVersion"].as_str();
        let happened = Happened {
            version: version
                .and_then(|version| version.parse().ok())
                .unwrap_or(self.version),
            event: json!({"type": kind, "object": object}),
        };
        let concerned =
            |watcher: &&Watcher| watcher.since < happened.version && watcher.asked.selects(object);
        for watcher in self.watchers.iter().filter(concerned) {
            if self.manner == Manner::Garbles {
                let _ = watcher
                    .sender
                    .send(Ok("{\"type\":\"ADDED\",\"object\":{\u{1}\n".to_owned()));
            }
            // Fails if the other side is gone already.
            let _ = watcher.sender.send(Ok(line(&happened.event)));
        }
        self.events.push_back(happened);
        if self.events.len() > HISTORY
            && let Some(forgotten) = self.events.pop_front()
        {
            self.oldest = forgotten.version;
        }
    }

    fn list(&self, asked: &Asked) -> Value {
        let items: Vec<Value> = self
            .objects
            .values()
            .filter(|object| self.manner != Manner::ListsNothing && asked.selects(object))
            .map(without_kind)
            .collect();
        let (version, kind) = if asked.resource == "services" {
            ("v1", "ServiceList")
        } else {
            ("discovery.k8s.io/v1", "EndpointSliceList")
        };
        let metadata = json!({"resourceVersion": self.version.to_string()});
        json!({"apiVersion": version, "kind": kind, "metadata": metadata, "items": items})
    }

    /// Opens a watch; returns the number by which it is ended, and its events.
    fn watch(
        &mut self,
        asked: &Asked,
        since: u64,
    ) -> (usize, UnboundedReceiver<io::Result<String>>) {
        let (sender, receiver) = unbounded_channel();
        let id = self.asked.len();
        if since < self.oldest {
            let _ = sender.send(Ok(line(&gone())));
            return (id, receiver);
        }
        if self.manner != Manner::SilentOnWatches {
            let later = self
                .events
                .iter()
                .filter(|happened| happened.version > since);
            for happened in later.filter(|happened| asked.selects(&happened.event["object"])) {
                let _ = sender.send(Ok(line(&happened.event)));
            }
        }
        self.watchers.push(Watcher {
            id,
            asked: asked.clone(),
            since,
            sender,
        });
        (id, receiver)
    }
}

// === requests ===

async fn serve(
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

fn gone() -> Value {
    json!({"type": "ERROR", "object": {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": 410, "reason": "Expired", "message": "too old resource version"}})
}

// === impl Asked ===

impl Asked {
    fn read(path: &str, query: &HashMap<String, String>) -> Option<Self> {
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

    fn selects(&self, object: &Value) -> bool {
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

fn open(shared: &Shared) -> MutexGuard<'_, Book> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(object: &Value) -> String {
    format!(
        "{}/{}/{}",
        object["kind"], object["metadata"]["namespace"], object["metadata"]["name"]
    )
}

/// Items of a list have no kind of their own.
fn without_kind(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    object
}

fn line(event: &Value) -> String {
    format!("{event}\n")
}
