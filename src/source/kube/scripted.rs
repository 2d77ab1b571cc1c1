//! An API server in memory, for tests with paused time: its answers are set by the test, and it records every request.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::{Body, ClientBuilder};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, timeout_at};

use super::client::with_retry_after;

/// The version of its lists.
pub(super) const VERSION: u64 = 1000;

/// How it answers from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Good,
    /// 504 to lists; watches are good.
    FailsLists,
    /// 504 to everything; what is open stays open.
    FailsEverything,
    /// 429 to everything, with `Retry-After` of so many seconds.
    Busy(u32),
    /// Watches are refused: their version is gone.
    Forgets,
    /// Watches are opened, and say a moment later that their version is gone.
    ForgetsLater(Duration),
    /// Watches end at once, and lists are good.
    EndsWatches,
    /// Lists wait until [`Scripted::let_go`].
    HoldsLists,
    /// 403 to lists of EndpointSlices.
    DeniesSlices,
}

/// What it does with streamed lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Streaming {
    /// Refused, as by Kubernetes 1.33.
    Off,
    On,
    /// They are accepted, and never completed.
    Unfinished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Verb {
    List,
    StreamedList,
    /// A list of one object.
    Check,
    Watch,
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) at: Instant,
    pub(super) verb: Verb,
    /// As [`feed`] names it.
    pub(super) feed: String,
}

#[derive(Clone)]
pub(super) struct Scripted {
    state: Arc<Mutex<State>>,
    held: Arc<Notify>,
}

struct State {
    manner: Manner,
    streaming: Streaming,
    asked: Vec<Asked>,
    /// Items of the lists of a feed.
    items: HashMap<String, Vec<Value>>,
    /// Further events of a streamed list, before its end.
    events: Vec<Value>,
    watches: Vec<(String, mpsc::UnboundedSender<String>)>,
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

// === impl Scripted ===

impl Scripted {
    pub(super) fn new(streaming: Streaming) -> Self {
        let state = State {
            manner: Manner::Good,
            streaming,
            asked: Vec::new(),
            items: HashMap::new(),
            events: Vec::new(),
            watches: Vec::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            held: Arc::default(),
        }
    }

    /// A client of it, as of any other.
    pub(super) fn client(&self) -> Client {
        let scripted = self.clone();
        let answer = move |request: Request<Body>| {
            let scripted = scripted.clone();
            async move { Ok::<_, Infallible>(scripted.answer(request.uri()).await) }
        };
        with_retry_after(ClientBuilder::new(tower::service_fn(answer), "default"))
    }

    pub(super) fn behave(&self, manner: Manner) {
        self.state().manner = manner;
    }

    /// Answers the lists that are held.
    pub(super) fn let_go(&self) {
        self.held.notify_waiters();
    }

    /// What lists of a feed hold.
    pub(super) fn put(&self, feed: &str, items: Vec<Value>) {
        self.state().items.insert(feed.to_owned(), items);
    }

    /// What comes in a streamed list after its items.
    pub(super) fn put_events(&self, events: Vec<Value>) {
        self.state().events = events;
    }

    /// Sends an event to the open watches of a feed.
    pub(super) fn tell(&self, feed: &str, kind: &str, object: &Value) {
        let line = line(kind, object);
        let state = self.state();
        let open = state.watches.iter().filter(|(of, _)| of == feed);
        for (_, sender) in open {
            // Fails if that watch has ended.
            let _ = sender.send(line.clone());
        }
    }

    /// What it was asked since a moment.
    pub(super) fn asked_since(&self, moment: Instant) -> Vec<Asked> {
        let state = self.state();
        let later = state.asked.iter().filter(|asked| asked.at >= moment);
        later.cloned().collect()
    }

    /// How many requests of a verb there were since a moment.
    pub(super) fn count(&self, verb: Verb, since: Instant) -> usize {
        let state = self.state();
        let is_meant = |asked: &&Asked| asked.verb == verb && asked.at >= since;
        state.asked.iter().filter(is_meant).count()
    }

    async fn answer(&self, uri: &Uri) -> Answer {
        let query = Query::read(uri);
        self.state().asked.push(Asked {
            at: Instant::now(),
            verb: query.verb,
            feed: query.feed.clone(),
        });
        let (manner, streaming) = {
            let state = self.state();
            (state.manner, state.streaming)
        };
        let is_list = matches!(query.verb, Verb::List | Verb::StreamedList);
        let is_list_or_check = is_list || query.verb == Verb::Check;
        match manner {
            Manner::FailsEverything => return refuse(504, "the server is overloaded"),
            Manner::FailsLists if is_list_or_check => {
                return refuse(504, "the server is overloaded");
            }
            Manner::Busy(seconds) => {
                let mut answer = refuse(429, "too many requests");
                let headers = answer.headers_mut();
                headers.insert(http::header::RETRY_AFTER, seconds.into());
                return answer;
            }
            Manner::Forgets if query.verb == Verb::Watch => {
                return refuse(410, "too old resource version");
            }
            Manner::ForgetsLater(after) if query.verb == Verb::Watch => {
                sleep(after).await;
                let status = json!({"kind": "Status", "status": "Failure", "code": 410,
                    "reason": "Expired", "message": "too old resource version"});
                return text(line("ERROR", &status));
            }
            Manner::EndsWatches if query.verb == Verb::Watch => return text(String::new()),
            Manner::HoldsLists if is_list => self.held.notified().await,
            Manner::DeniesSlices if is_list && uri.path().contains("endpointslices") => {
                return refuse(403, "forbidden");
            }
            Manner::Good
            | Manner::FailsLists
            | Manner::Forgets
            | Manner::ForgetsLater(_)
            | Manner::EndsWatches
            | Manner::HoldsLists
            | Manner::DeniesSlices => {}
        }
        let items = self.state().items.get(&query.feed).cloned();
        let items = items.unwrap_or_default();
        match (query.verb, streaming) {
            (Verb::List | Verb::Check, _) => {
                let metadata = json!({"resourceVersion": VERSION.to_string()});
                text(json!({"metadata": metadata, "items": items}).to_string())
            }
            (Verb::StreamedList, Streaming::Off) => refuse(
                422,
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
            ),
            (Verb::StreamedList, _) => {
                let (sender, receiver) = mpsc::unbounded_channel();
                let items = items.iter().map(|item| line("ADDED", item));
                let events: Vec<String> =
                    self.state().events.iter().map(Value::to_string).collect();
                let mark = json!({"resourceVersion": VERSION.to_string(),
                    "annotations": {"k8s.io/initial-events-end": "true"}});
                let end = (streaming == Streaming::On)
                    .then(|| line("BOOKMARK", &json!({"metadata": mark})));
                let events = events.into_iter().map(|event| event + "\n");
                for line in items.chain(events).chain(end) {
                    let _ = sender.send(line);
                }
                self.open(query, sender, receiver)
            }
            (Verb::Watch, _) => {
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
        let frames = stream::unfold(receiver, move |mut receiver| async move {
            match timeout_at(end, receiver.recv()).await {
                Ok(Some(line)) => Some((Ok(Frame::data(Bytes::from(line))), receiver)),
                Ok(None) | Err(_) => None,
            }
        });
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// The query of a URL.
struct Query {
    verb: Verb,
    feed: String,
    lasts: Duration,
}

impl Query {
    fn read(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let pairs: HashMap<&str, &str> = pairs.collect();
        let is_watch = pairs.get("watch") == Some(&"true");
        let verb = match (is_watch, pairs.contains_key("sendInitialEvents")) {
            (true, true) => {
                assert_eq!(pairs.get("resourceVersionMatch"), Some(&"NotOlderThan"));
                assert_eq!(pairs.get("allowWatchBookmarks"), Some(&"true"));
                Verb::StreamedList
            }
            (true, false) => Verb::Watch,
            (false, _) if pairs.get("limit") == Some(&"1") => Verb::Check,
            (false, _) => Verb::List,
        };
        let seconds = pairs.get("timeoutSeconds").map(|text| text.parse());
        let selector = pairs.get("labelSelector").copied().unwrap_or_default();
        let selector = selector.replace("%2F", "/").replace("%3D", "=");
        let selector = selector.replace("%2C", ",").replace("%21", "!");
        let resource = uri.path().rsplit('/').next().unwrap_or_default();
        Self {
            verb,
            feed: feed(resource, &selector),
            lasts: Duration::from_secs(seconds.map_or(0, Result::unwrap)),
        }
    }
}

/// Names a feed: Services and EndpointSlices are selected by the same labels.
pub(super) fn feed(resource: &str, selector: &str) -> String {
    format!("{resource} {selector}")
}

fn line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

fn text(text: String) -> Answer {
    Response::new(Full::from(text).boxed_unsync())
}

fn refuse(code: u16, message: &str) -> Answer {
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": message});
    let mut answer = text(status.to_string());
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    answer
}
