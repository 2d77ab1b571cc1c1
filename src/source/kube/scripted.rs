//! An in-memory API server for tests with paused time. The test sets its behavior. It records every request.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body as Answered;
use futures::stream;
use hyper::{Request, Response, StatusCode, Uri};
use kube::Client;
use kube::client::{Body, ClientBuilder};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// The resource version of its lists.
pub(super) const VERSION: u64 = 1000;

/// The behavior of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behavior {
    Normal,
    /// Connections are refused.
    Unreachable,
    /// Lists get 504. Watches work.
    ListsFail,
    /// Every request gets 504. Open watches stay open.
    EverythingFails,
    /// Every request gets 500.
    InternalErrors,
    /// Every request gets 502 with an endless body.
    EndlessErrors,
    /// Every request gets 302 without a body.
    Redirects,
    /// Watches are accepted. Nothing is sent on them, not even their end.
    WatchesSilent,
    /// Watches are accepted and end in time. A proxy keeps what they send.
    WatchesBuffered,
    /// Every request gets 429.
    TooManyRequests,
    /// Lists that name a version get this status.
    VersionsGone(u16),
    /// Watches get 410.
    WatchesExpire,
    /// Watches get an event with 410 after this time.
    WatchesExpireLater(Duration),
    /// Watches end at once. Lists work.
    WatchesEnd,
    /// Lists of EndpointSlices send an octet every ten seconds.
    SlicesSlow,
    /// Lists of EndpointSlices get 403.
    SlicesDenied,
    /// Requests for Links get 404.
    LinksUndefined,
    /// Requests for Links get no response.
    LinksWait,
    /// Requests for Links and Leases get 403.
    LinksDenied,
    /// Requests for Leases get 504.
    LeasesFail,
    /// Requests for Leases in this namespace get 403.
    LeasesDenied(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Verb {
    List,
    /// A list of one object.
    Check,
    Watch,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub(super) struct RecordedRequest {
    pub(super) at: Instant,
    pub(super) verb: Verb,
    /// Its resource, such as `services`.
    pub(super) feed: String,
    /// The version that it names.
    pub(super) version: Option<String>,
}

#[derive(Clone)]
pub(super) struct ScriptedServer {
    state: Arc<Mutex<State>>,
}

struct State {
    behavior: Behavior,
    requests: Vec<RecordedRequest>,
    /// The items of the lists of each feed.
    items: HashMap<String, Vec<Value>>,
    watches: Vec<(String, mpsc::UnboundedSender<String>)>,
}

type Answer = Response<Answered>;

// === impl ScriptedServer ===

impl ScriptedServer {
    pub(super) fn new() -> Self {
        let state = State {
            behavior: Behavior::Normal,
            requests: Vec::new(),
            items: HashMap::new(),
            watches: Vec::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Returns a client of this server.
    pub(super) fn client(&self) -> Client {
        let server = self.clone();
        let answer = move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let is_reachable = server.state().behavior != Behavior::Unreachable;
                if is_reachable {
                    Ok(server.answer(request.uri()).await)
                } else {
                    Err(io::Error::from(ErrorKind::ConnectionRefused))
                }
            }
        };
        ClientBuilder::new(tower::service_fn(answer), "default").build()
    }

    pub(super) fn set_behavior(&self, behavior: Behavior) {
        self.state().behavior = behavior;
    }

    /// Sets the items of the lists of a feed.
    pub(super) fn set_items(&self, feed: &str, items: Vec<Value>) {
        self.state().items.insert(feed.to_owned(), items);
    }

    /// Sends an event to the open watches of a feed.
    pub(super) fn send_event(&self, feed: &str, kind: &str, object: &Value) {
        let line = line(kind, object);
        let state = self.state();
        let open = state.watches.iter().filter(|(of, _)| of == feed);
        for (_, sender) in open {
            // Fails if the watch has ended.
            let _ = sender.send(line.clone());
        }
    }

    /// Ends the open watches.
    pub(super) fn end_watches(&self) {
        self.state().watches.clear();
    }

    /// Returns the requests since a time.
    pub(super) fn requests_since(&self, start: Instant) -> Vec<RecordedRequest> {
        let state = self.state();
        let later = state.requests.iter().filter(|request| request.at >= start);
        later.cloned().collect()
    }

    /// Counts the requests with a verb since a time.
    pub(super) fn count(&self, verb: Verb, start: Instant) -> usize {
        let state = self.state();
        let is_counted = |request: &&RecordedRequest| request.verb == verb && request.at >= start;
        state.requests.iter().filter(is_counted).count()
    }

    async fn answer(&self, uri: &Uri) -> Answer {
        let query = Query::read(uri);
        self.state().requests.push(RecordedRequest {
            at: Instant::now(),
            verb: query.verb,
            feed: query.feed.clone(),
            version: query.version.clone(),
        });
        let behavior = self.state().behavior;
        let is_list = query.verb == Verb::List;
        let is_list_or_check = is_list || query.verb == Verb::Check;
        match behavior {
            Behavior::EverythingFails => return refuse(504, "the server is overloaded"),
            Behavior::InternalErrors => return refuse(500, "internal error"),
            Behavior::EndlessErrors => {
                let text = stream::repeat(Ok::<_, Infallible>("bad gateway "));
                return with_status(502, Answered::from_stream(text));
            }
            Behavior::Redirects => return with_status(302, Answered::empty()),
            Behavior::WatchesSilent if query.verb == Verb::Watch => {
                let nothing = stream::pending::<Result<String, Infallible>>();
                return Response::new(Answered::from_stream(nothing));
            }
            Behavior::ListsFail if is_list_or_check => {
                return refuse(504, "the server is overloaded");
            }
            Behavior::TooManyRequests => return refuse(429, "too many requests"),
            Behavior::VersionsGone(code) if is_list && query.version.is_some() => {
                return refuse(code, "Too large resource version: 1007, current: 1000");
            }
            Behavior::WatchesExpire if query.verb == Verb::Watch => {
                return refuse(410, "too old resource version");
            }
            Behavior::WatchesExpireLater(after) if query.verb == Verb::Watch => {
                sleep(after).await;
                let status = json!({"kind": "Status", "status": "RequestFailure", "code": 410,
                    "reason": "Expired", "message": "too old resource version"});
                return text(line("ERROR", &status));
            }
            Behavior::WatchesEnd if query.verb == Verb::Watch => return text(String::new()),
            Behavior::SlicesSlow if is_list && uri.path().contains("endpointslices") => {
                let octets = stream::unfold((), async |()| {
                    sleep(Duration::from_secs(10)).await;
                    Some((Ok::<_, Infallible>(" "), ()))
                });
                return Response::new(Answered::from_stream(octets));
            }
            Behavior::SlicesDenied if is_list && uri.path().contains("endpointslices") => {
                return refuse(403, "forbidden");
            }
            Behavior::LinksUndefined if uri.path().ends_with("/links") => {
                return refuse(404, "the server could not find the requested resource");
            }
            Behavior::LinksWait if uri.path().ends_with("/links") => {
                std::future::pending::<()>().await;
            }
            Behavior::LinksDenied if uri.path().contains("/linkerd-multicluster/") => {
                return refuse(403, "forbidden");
            }
            Behavior::LeasesFail if uri.path().ends_with("/leases") => {
                return refuse(504, "the server is overloaded");
            }
            Behavior::LeasesDenied(namespace)
                if uri.path().ends_with(&format!("/{namespace}/leases")) =>
            {
                return refuse(403, "forbidden");
            }
            _ => {}
        }
        let items = self
            .state()
            .items
            .get(&query.feed)
            .cloned()
            .unwrap_or_default();
        match query.verb {
            Verb::List | Verb::Check => {
                let metadata = json!({"resourceVersion": VERSION.to_string()});
                text(json!({"metadata": metadata, "items": items}).to_string())
            }
            Verb::Watch => {
                let (sender, receiver) = mpsc::unbounded_channel();
                self.open(query, sender, receiver)
            }
        }
    }

    fn open(
        &self,
        query: Query,
        sender: mpsc::UnboundedSender<String>,
        receiver: mpsc::UnboundedReceiver<String>,
    ) -> Answer {
        let mut state = self.state();
        state.watches.retain(|(_, sender)| !sender.is_closed());
        state.watches.push((query.feed, sender));
        let end = Instant::now() + query.lasts;
        if state.behavior == Behavior::WatchesBuffered {
            let nothing = async move {
                sleep_until(end).await;
                Ok::<_, Infallible>(String::new())
            };
            return Response::new(Answered::from_stream(stream::once(nothing)));
        }
        // The API server sends a bookmark before the end.
        let mark = end - Duration::from_secs(2);
        let lines = stream::unfold((receiver, mark), move |(mut receiver, until)| async move {
            match timeout_at(until, receiver.recv()).await {
                Ok(Some(line)) => Some((Ok::<_, Infallible>(line), (receiver, until))),
                Err(_) if until < end => {
                    let version = json!({"metadata": {"resourceVersion": VERSION.to_string()}});
                    Some((Ok(line("BOOKMARK", &version)), (receiver, end)))
                }
                Ok(None) | Err(_) => None,
            }
        });
        Response::new(Answered::from_stream(lines))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// The query of a URL.
struct Query {
    verb: Verb,
    feed: String,
    version: Option<String>,
    lasts: Duration,
}

impl Query {
    fn read(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        let pairs: HashMap<&str, &str> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .collect();
        let is_watch = pairs.get("watch") == Some(&"true");
        let verb = match pairs.get("limit") {
            _ if is_watch => Verb::Watch,
            Some(&"1") => Verb::Check,
            _ => Verb::List,
        };
        let seconds = pairs.get("timeoutSeconds").map(|text| text.parse());
        let resource = uri.path().rsplit('/').next().unwrap_or_default();
        Self {
            verb,
            feed: resource.to_owned(),
            version: pairs.get("resourceVersion").map(|&text| text.to_owned()),
            lasts: Duration::from_secs(seconds.map_or(0, Result::unwrap)),
        }
    }
}

fn line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

fn text(text: String) -> Answer {
    Response::new(text.into())
}

fn refuse(code: u16, message: &str) -> Answer {
    let status =
        json!({"kind": "Status", "status": "RequestFailure", "code": code, "message": message});
    with_status(code, status.to_string().into())
}

fn with_status(code: u16, body: Answered) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    answer
}
