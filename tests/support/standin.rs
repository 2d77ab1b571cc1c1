//! An API server that misbehaves on request: lists and watches of Services and EndpointSlices over plain HTTP.
//!
//! It behaves as a real one does in what the server under test can see (selectors, resource versions, items without a
//! kind, watches that end after `timeoutSeconds`, no streamed lists as Kubernetes 1.33), and it keeps a list of what it
//! was asked.

mod requests;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use axum::Router;
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

/// How it behaves towards whatever is asked from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As a real one.
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

/// A running stand-in.
pub struct StandIn {
    /// How it is reached.
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
    /// When it came.
    pub at: Instant,
    /// A watch, and no list.
    pub watch: bool,
    /// A list, as events of a watch.
    pub streamed: bool,
    /// One object is enough.
    pub probe: bool,
    /// `services` or `endpointslices`
    pub resource: String,
    /// The label selector.
    pub labels: String,
    /// The field selector.
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
    /// Starts one that is reached openly and has these objects.
    pub fn start(manner: Manner, objects: &[Value]) -> Result<Self> {
        Self::start_reached(Reached::Openly, manner, objects)
    }

    /// The same, however it is reached.
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
        let router = Router::new()
            .fallback(requests::serve)
            .with_state(Arc::clone(&book));
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

    /// Behaves in another manner from now on.
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

fn gone() -> Value {
    json!({"type": "ERROR", "object": {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": 410, "reason": "Expired", "message": "too old resource version"}})
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
