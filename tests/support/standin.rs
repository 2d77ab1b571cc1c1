//! A simulated API server with configurable faults. It serves lists and watches of Services, Endpoints, EndpointSlices and Links,
//! lists of Leases, Deployments, DaemonSets and Pods, the port-forward of Pods, and its version.
//!
//! The server under test sees the behavior of a real API server: selectors, resource versions, items without a kind,
//! watches that end after some seconds. A streamed list never ends. An object that a watch no longer
//! selects is deleted on that watch. The stand-in records all requests.

mod history;
mod requests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use axum::Router;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::history::PastEvent;
use crate::credentials::Credentials;
pub use crate::credentials::Rotation;
use crate::kubeconfig;

/// Number of past events from which a watch can start.
const HISTORY: usize = 10_000;

/// Time after which a watch ends, although the server asks for longer: an API server may do that, and tests need not wait.
const WATCH_LIMIT: Duration = Duration::from_secs(3);

/// Behavior towards new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Behavior {
    /// Like a real API server.
    Normal,
    /// Accepts watches but sends nothing on them, not even their end. Answers lists.
    SilentWatches,
    /// Returns complete and well-formed but empty lists, like an etcd without data.
    EmptyLists,
    /// Answers every request with 500.
    InternalErrors,
    /// Answers every request with 429, a line of text and a `Retry-After` header, like an overloaded API server.
    TooManyRequests,
    /// Rejects every watch with 410 Gone, alternately as an HTTP status and as an event. Answers lists.
    ExpiredWatches,
    /// Ends the connection in the middle of a list.
    TruncatedLists,
    /// Returns lists without an end.
    EndlessLists,
    /// Keeps connections open and accepts new ones, but sends nothing on them.
    Unreachable,
    /// Sends an invalid line before each event.
    GarbageInWatches,
}

/// Access control of a stand-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Plain HTTP without credentials.
    Open,
    /// HTTPS and a token. The token and the trusted certificates are in files.
    Credentials,
}

/// A running stand-in.
pub struct StandIn {
    /// The kubeconfig file for clients.
    pub kubeconfig: PathBuf,
    /// Set for [`Access::Credentials`].
    credentials: Option<Credentials>,
    state: Shared,
    // The drop ends all connections.
    _runtime: Runtime,
    _directory: TempDir,
}

/// A request that the stand-in received.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// Time of arrival.
    pub at: Instant,
    /// Whether it is a watch.
    pub watch: bool,
    /// Whether it is limited to one object.
    pub probe: bool,
    /// `services`, `endpoints`, `endpointslices`, `deployments`, `daemonsets` or `pods`.
    pub resource: String,
    /// The namespace. Empty: all.
    pub namespace: String,
    /// The label selector.
    pub labels: String,
    /// The field selector.
    pub fields: String,
}

type Shared = Arc<Mutex<ServerState>>;

struct ServerState {
    behavior: Behavior,
    /// Time after which a watch ends.
    watch_limit: Duration,
    /// The newest resource version.
    version: u64,
    /// The oldest version that a watch can start from.
    oldest: u64,
    objects: BTreeMap<String, Value>,
    /// The last events, with which a watch can start.
    events: VecDeque<PastEvent>,
    watchers: Vec<Watcher>,
    /// Open watches that receive no more events.
    unreachable_watchers: Vec<Watcher>,
    requests: Vec<ApiRequest>,
    forwards: usize,
    /// The required token.
    token: Option<String>,
    /// The resources that the client may not use.
    forbidden: BTreeSet<String>,
    /// Whether the API of Links is installed.
    has_links: bool,
}

/// A backup of the objects and of the resource version, like a backup of etcd.
pub struct Backup {
    version: u64,
    objects: BTreeMap<String, Value>,
}

struct Watcher {
    id: usize,
    request: ApiRequest,
    /// Events up to this version are not sent.
    since: u64,
    /// The drop ends the watch.
    sender: UnboundedSender<io::Result<String>>,
}

// === impl StandIn ===

impl StandIn {
    /// Starts a stand-in with open access and the given objects.
    pub fn start(behavior: Behavior, objects: &[Value]) -> Result<Self> {
        Self::start_with_access(Access::Open, behavior, objects)
    }

    /// Starts a stand-in with the given objects.
    pub fn start_with_access(
        access: Access,
        behavior: Behavior,
        objects: &[Value],
    ) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let directory = tempfile::Builder::new()
            .prefix("global-dns-e2e-")
            .tempdir()?;
        let credentials = match access {
            Access::Open => None,
            Access::Credentials => Some(Credentials::new(directory.path())?),
        };
        let file = directory.path().join("kubeconfig");
        let text = match &credentials {
            None => kubeconfig::text(&format!("http://{address}"), "", ""),
            Some(credentials) => credentials.kubeconfig(address),
        };
        fs::write(&file, text)?;
        let state = ServerState {
            behavior,
            watch_limit: WATCH_LIMIT,
            version: 1000,
            oldest: 0,
            objects: BTreeMap::new(),
            events: VecDeque::new(),
            watchers: Vec::new(),
            unreachable_watchers: Vec::new(),
            requests: Vec::new(),
            forwards: 0,
            token: credentials.as_ref().map(Credentials::token),
            forbidden: BTreeSet::new(),
            has_links: objects.iter().any(|object| object["kind"] == "Link"),
        };
        let state = Arc::new(Mutex::new(state));
        let router = Router::new()
            .fallback(requests::serve)
            .with_state(Arc::clone(&state));
        match &credentials {
            None => runtime.spawn(async move { axum::serve(listener, router).await }),
            Some(credentials) => {
                let listener = credentials.listen(listener);
                runtime.spawn(async move { axum::serve(listener, router).await })
            }
        };
        let standin = Self {
            kubeconfig: file,
            credentials,
            state,
            _runtime: runtime,
            _directory: directory,
        };
        objects
            .iter()
            .for_each(|object| standin.put_without_event(object));
        Ok(standin)
    }

    /// Changes the behavior.
    pub fn set_behavior(&self, behavior: Behavior) {
        let mut state = lock(&self.state);
        state.behavior = behavior;
        if behavior == Behavior::Unreachable {
            let unreachable_watchers = std::mem::take(&mut state.watchers);
            state.unreachable_watchers.extend(unreachable_watchers);
        }
    }

    /// Lets watches that begin from now on last as long as the server asks.
    pub fn keep_watches(&self) {
        lock(&self.state).watch_limit = Duration::MAX;
    }

    /// Answers all requests for a resource, such as `pods` or `pods/portforward`, with 403.
    pub fn forbid(&self, resource: &str) {
        lock(&self.state).forbidden.insert(resource.to_owned());
    }

    /// Rotates the token or the certificates in their files, invalidates the old ones, and ends all watches.
    pub fn rotate(&self, rotation: Rotation) -> Result<()> {
        let credentials = self.credentials.as_ref();
        let credentials = credentials.context("the stand-in has no credentials")?;
        let token = credentials.rotate(rotation)?;
        let mut state = lock(&self.state);
        state.token = Some(token);
        state.watchers.clear();
        Ok(())
    }

    /// Creates or replaces an object and sends the event.
    pub fn put(&self, object: &Value) {
        let mut state = lock(&self.state);
        let before = state.objects.get(&key(object)).cloned();
        let object = state.store(object);
        state.publish(before, Some(object));
    }

    /// Deletes an object and sends the event.
    pub fn delete(&self, object: &Value) {
        let mut state = lock(&self.state);
        if let Some(before) = state.objects.remove(&key(object)) {
            state.version += 1;
            state.publish(Some(before), None);
        }
    }

    /// Creates or replaces objects. Sends each event twice, in reverse order.
    pub fn put_in_disorder(&self, objects: &[Value]) {
        let mut state = lock(&self.state);
        let mut stored: Vec<Value> = objects.iter().map(|object| state.store(object)).collect();
        stored.reverse();
        for object in stored {
            state.publish(None, Some(object.clone()));
            state.publish(Some(object.clone()), Some(object));
        }
    }

    /// Returns a backup of the current state.
    pub fn back_up(&self) -> Backup {
        let state = lock(&self.state);
        Backup {
            version: state.version,
            objects: state.objects.clone(),
        }
    }

    /// Restores a backup, including the resource version, as after a restore of etcd. All connections break. A new
    /// watch from a future version is accepted but receives no events.
    pub fn restore(&self, backup: Backup) {
        let mut state = lock(&self.state);
        let Backup { version, objects } = backup;
        (state.version, state.objects) = (version, objects);
        state.events.retain(|past| past.version <= version);
        for watcher in state.watchers.drain(..) {
            let broken = io::Error::new(io::ErrorKind::ConnectionReset, "closed by the stand-in");
            // Fails if the client has closed the watch.
            let _ = watcher.sender.send(Err(broken));
        }
    }

    /// Creates or replaces an object without an event.
    fn put_without_event(&self, object: &Value) {
        lock(&self.state).store(object);
    }

    /// Drops the history of events. Ends every watch with a 410 Gone event.
    pub fn lose_history(&self) {
        let mut state = lock(&self.state);
        state.version += 1;
        state.oldest = state.version;
        for watcher in state.watchers.drain(..) {
            // Fails if the client has closed the watch.
            let _ = watcher.sender.send(Ok(line(&gone())));
        }
    }

    /// Returns the number of port-forwards so far.
    pub fn forwards(&self) -> usize {
        lock(&self.state).forwards
    }

    /// Returns all requests so far, without port-forwards.
    pub fn requests(&self) -> Vec<ApiRequest> {
        lock(&self.state).requests.clone()
    }
}

// === impl ServerState ===

impl ServerState {
    fn store(&mut self, object: &Value) -> Value {
        self.version += 1;
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(key(&object), object.clone());
        object
    }

    /// Sends a change of an object to the watches that select it, or selected it before.
    fn publish(&mut self, before: Option<Value>, after: Option<Value>) {
        let past = PastEvent::new(self.version, before, after);
        for watcher in self.watchers.iter().filter(|w| w.since < past.version) {
            let Some(event) = past.seen_by(&watcher.request) else {
                continue;
            };
            if self.behavior == Behavior::GarbageInWatches {
                let _ = watcher
                    .sender
                    .send(Ok("{\"type\":\"ADDED\",\"object\":{\u{1}\n".to_owned()));
            }
            // Fails if the client has closed the watch.
            let _ = watcher.sender.send(Ok(line(&event)));
        }
        self.events.push_back(past);
        if self.events.len() > HISTORY
            && let Some(oldest) = self.events.pop_front()
        {
            self.oldest = oldest.version;
        }
    }

    /// Returns whether the API of a request exists: that of Linkerd's Links and Leases only if there was a Link at the start.
    fn serves(&self, request: &ApiRequest) -> bool {
        let is_linkerds = ["leases", "links"].contains(&&*request.resource);
        !is_linkerds || self.has_links
    }

    fn list(&self, request: &ApiRequest) -> Value {
        let items: Vec<Value> = self
            .objects
            .values()
            .filter(|object| self.behavior != Behavior::EmptyLists && request.selects(object))
            .map(without_kind)
            .collect();
        let (version, kind) = match request.resource.as_str() {
            "services" => ("v1", "ServiceList"),
            "endpoints" => ("v1", "EndpointsList"),
            "pods" => ("v1", "PodList"),
            "namespaces" => ("v1", "NamespaceList"),
            "deployments" => ("apps/v1", "DeploymentList"),
            "daemonsets" => ("apps/v1", "DaemonSetList"),
            "leases" => ("coordination.k8s.io/v1", "LeaseList"),
            "links" => ("multicluster.linkerd.io/v1alpha3", "LinkList"),
            _ => ("discovery.k8s.io/v1", "EndpointSliceList"),
        };
        let metadata = json!({"resourceVersion": self.version.to_string()});
        json!({"apiVersion": version, "kind": kind, "metadata": metadata, "items": items})
    }

    /// Opens a watch. Returns its ID, by which it can be ended, and its events.
    fn watch(
        &mut self,
        request: &ApiRequest,
        since: u64,
    ) -> (usize, UnboundedReceiver<io::Result<String>>) {
        let (sender, receiver) = unbounded_channel();
        let id = self.requests.len();
        if since < self.oldest {
            let _ = sender.send(Ok(line(&gone())));
            return (id, receiver);
        }
        if self.behavior != Behavior::SilentWatches {
            let later = self.events.iter().filter(|past| past.version > since);
            for event in later.filter_map(|past| past.seen_by(request)) {
                let _ = sender.send(Ok(line(&event)));
            }
        }
        self.watchers.push(Watcher {
            id,
            request: request.clone(),
            since,
            sender,
        });
        (id, receiver)
    }
}

fn gone() -> Value {
    json!({"type": "ERROR", "object": {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": 410, "reason": "Expired", "message": "too old resource version"}})
}

fn lock(shared: &Shared) -> MutexGuard<'_, ServerState> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(object: &Value) -> String {
    format!(
        "{}/{}/{}",
        object["kind"], object["metadata"]["namespace"], object["metadata"]["name"]
    )
}

/// Removes kind and API version, which items of a list do not have.
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
