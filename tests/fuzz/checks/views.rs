//! Checks of every document over generated worlds: the whole way of the data, from events of objects to the API and the metrics.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use global_dns::http::{ApiHosts, HttpState, Probes, Readiness, admin_routes, api_routes};
use global_dns::model::{Kind, KubeObject, Timestamp, parse};
use global_dns::source::{self, Feeds, ObjectChange, Update, UpdateSettings, Updates};
use global_dns::table::Publisher;
use global_dns::table::publish::Reader;
use global_dns::view::{self, Identity};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;

use super::choices::Choices;
use super::cluster::Cluster;
use super::messages::SETTINGS;
use super::seen::Seen;
use super::{kinds, objects};

/// The documents, each with a query.
const DOCUMENTS: [&str; 11] = [
    "table?limit=1000",
    "endpoints?limit=1000",
    "problems?limit=1000",
    "events?limit=1000",
    "status",
    "status?cluster=east",
    "zone?limit=1000",
    "explain?limit=1000&name=db.prod",
    "explain?limit=1000&name=db-0.east.db.prod.global",
    "explain?limit=1000&name=nope.shop",
    "explain?limit=1000&name=web",
];

/// The cases that [`check`] notes.
pub const CASES: [&str; 8] = [
    "hostile text",
    "row of table",
    "row of problems",
    "row of events",
    "row of status",
    "row of zone",
    "row of explain",
    "metric",
];

/// Texts that would forge lines or move a cursor, and annotations that may have them.
const HOSTILE: [&str; 4] = [
    "x\n2026 INFO forged",
    "\u{1b}[2J\r",
    "a\u{202e}b\u{2066}c\u{2028}",
    "east:\u{7}",
];
const ANNOTATIONS: [&str; 5] = [
    "global-dns/failover",
    "global-dns/ttl",
    "global-dns/expected-clusters",
    "global-dns/x\u{1b}",
    "mirror.linkerd.io/remote-svc-fq-name",
];

/// Maximum number of objects of a world.
const STEPS: usize = 40;
/// Longer than the time that changes wait to be merged into an event.
const PAUSE: Duration = Duration::from_millis(600);
/// Maximum number of characters of a text: that of a cell with the first texts of tenants.
const MAX_TEXT: usize = 8192;

/// The routes of a server without listeners.
pub struct Routes {
    pub api: Router,
    pub admin: Router,
}

/// Simulates a world from choices, and checks every document of some of its moments.
pub fn check(octets: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(simulate(octets, &mut seen));
    seen
}

async fn simulate(octets: &[u8], seen: &mut Seen) {
    let choices = &mut Choices::new(octets);
    let rules = Cluster::new(choices).rules;
    let feeds = Feeds::new(&[]);
    let publisher = Publisher::new(Timestamp(0), Duration::from_secs(86_400));
    let routes = Routes::new(publisher.reader(), &feeds, Handle::current());
    let (sender, receiver) = oneshot::channel();
    let mut sender = Some(sender);
    let source = async |_: Feeds, updates: Updates| {
        _ = sender.take().map(|sender| sender.send(updates.clone()));
        updates.closed().await;
    };
    let settings = UpdateSettings {
        rules,
        is_following: true,
    };
    let lists = feeds.all().into_iter();
    let lists = lists.map(|feed| (feed, Default::default())).collect();
    let change = async {
        let updates = receiver.await.unwrap();
        updates.send(Update::Reset {
            lists,
            is_certain: true,
            outcome: oneshot::channel().0,
        });
        for _ in 0..STEPS {
            let (kind, mut object) = match choices.rarely(4) {
                true => objects::object(choices),
                false => kinds::object(choices),
            };
            let annotations = &mut object["metadata"]["annotations"];
            if choices.rarely(3) && (annotations.is_object() || annotations.is_null()) {
                annotations[choices.pick(&ANNOTATIONS)] = choices.pick(&HOSTILE).into();
            }
            put(&updates, kind, &object, choices.rarely(8));
            if choices.is_exhausted() {
                break;
            }
            if choices.rarely(12) {
                sleep(PAUSE).await;
                routes.check(seen).await;
            }
        }
        sleep(PAUSE).await;
        routes.check(seen).await;
    };
    tokio::select! {
        () = source::run(source, feeds.clone(), publisher, settings) => panic!("the loop has ended"),
        () = change => {}
    }
}

/// Sends an event of a watch: an object, or its deletion.
fn put(updates: &Updates, kind: Kind, object: &Value, is_deleted: bool) {
    let text = object.to_string();
    let read = KubeObject::read(&text);
    let Some(key) = read.key() else {
        return; // an API server has no objects without a name
    };
    let change = ObjectChange {
        kind,
        key,
        object: parse::read(kind, &read).filter(|_| !is_deleted),
        arrival: Instant::now(),
    };
    updates.send(Update::Apply(change));
}

// === impl Routes ===

impl Routes {
    pub fn new(reader: Reader, feeds: &Feeds, metrics_runtime: Handle) -> Self {
        let identity = Identity {
            cluster: "hub".parse().ok(),
            ..Identity::default()
        };
        let zones = SETTINGS.zones.clone();
        let server = view::Server::of_objects(reader, feeds.clone(), zones, identity);
        let state = HttpState {
            server: server.clone(),
            probes: Probes {
                readiness: watch::Sender::new(Readiness::Ready),
                ..Probes::default()
            },
            metrics_runtime,
        };
        Self {
            api: api_routes(server, ApiHosts::new(Vec::new())),
            admin: admin_routes(state),
        }
    }

    /// Checks every document, as objects and as cells.
    async fn check(&self, seen: &mut Seen) {
        for document in DOCUMENTS {
            let path = format!("/api/v1/{document}");
            for form in ["application/json", view::CELLS] {
                let (status, text) = get(&self.api, &path, form).await;
                // Nothing may know the cluster that is asked for.
                assert!([200, 400].contains(&status), "{path}: {status} {text}");
                if status == 200 {
                    let value: Value = serde_json::from_str(&text).unwrap();
                    check_texts(&path, &value);
                    seen.note("hostile text", text.contains("2026 INFO forged"));
                    let name = document.split('?').next().unwrap_or_default();
                    let items = value["items"].as_array();
                    let rows = items.map_or(0, Vec::len);
                    assert!(rows <= 3000, "{path} has {rows} rows");
                    seen.count(&format!("row of {name}"), rows);
                }
            }
        }
        let (_, text) = get(&self.admin, "/metrics", "text/plain").await;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            check_text("/metrics", line);
            let value = line
                .rsplit(' ')
                .next()
                .and_then(|value| value.parse::<f64>().ok());
            assert!(value.is_some(), "{line}");
            seen.count("metric", 1);
        }
    }
}

/// Requests a page in a form. Returns the status and the body.
pub async fn get(routes: &Router, path: &str, form: &str) -> (u16, String) {
    let request = Request::get(path)
        .header("host", "localhost")
        .header("accept", form);
    let request = request.body(Body::empty()).unwrap();
    let response = routes.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// Checks the texts of a value, also the names of fields.
fn check_texts(path: &str, value: &Value) {
    match value {
        Value::String(text) => check_text(path, text),
        Value::Array(values) => values.iter().for_each(|one| check_texts(path, one)),
        Value::Object(fields) => {
            for (name, field) in fields {
                check_text(path, name);
                check_texts(path, field);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Asserts that a text is short and changes no terminal: it has neither control characters nor marks of the direction of writing.
fn check_text(path: &str, text: &str) {
    // The fields of a zone file have tabs between them.
    let is_tab = |c: char| c == '\t' && path.contains("zone");
    let is_mark = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_bad = |c: char| (c.is_control() || is_mark(c)) && !is_tab(c);
    assert!(!text.contains(is_bad), "{path}: {text:?}");
    assert!(text.chars().count() <= MAX_TEXT, "{path}: {text}");
}
