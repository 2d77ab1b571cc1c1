mod links;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::scripted::{Behavior, RecordedRequest, ScriptedServer, VERSION, Verb};
use super::*;
use crate::model::Kind;
use crate::source::{Outcome, Update};
use crate::testing::{endpoint, mirror};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
/// Longer than every test.
const NEVER: Duration = Duration::from_secs(1000 * 24 * 60 * 60);
const SERVICES: &str = "services";
/// The watches of a server without `links.enabled`.
const WATCHES: usize = Kind::ALL.len() - 1;

/// A replica that watches a scripted API server.
struct Replica {
    server: ScriptedServer,
    feeds: Feeds,
    updates: mpsc::UnboundedReceiver<Update>,
    tasks: [JoinHandle<()>; 2],
}

impl Replica {
    /// Starts a replica that lists each watch again every `relist`.
    fn start(server: &ScriptedServer, relist: Duration) -> Self {
        // The same jitter in every run.
        fastrand::seed(7);
        let feeds = Feeds::new(&[]);
        let sender = Updates::default();
        let inbox = sender.inbox();
        let watch = run(server.client(), relist, feeds.clone(), sender);
        let (seen, updates) = mpsc::unbounded_channel();
        let forward = async move {
            let mut known = Vec::new();
            loop {
                inbox.wait().await;
                for mut update in inbox.take() {
                    // The update loop accepts every list here.
                    if let Update::Reset { outcome, lists, .. } = &mut update {
                        let is_news = !known.contains(lists);
                        known.push(lists.clone());
                        let sender = std::mem::replace(outcome, oneshot::channel().0);
                        _ = sender.send(Outcome::Applied { is_news });
                    }
                    if seen.send(update).is_err() {
                        return;
                    }
                }
            }
        };
        Self {
            server: server.clone(),
            feeds,
            updates,
            tasks: [tokio::spawn(watch), tokio::spawn(forward)],
        }
    }

    /// Starts a replica and waits until every watch is open.
    async fn start_ready(server: &ScriptedServer, relist: Duration) -> Self {
        let replica = Self::start(server, relist);
        replica.wait_until_watched().await;
        replica
    }

    async fn wait_until_watched(&self) {
        let start = Instant::now();
        while !self.feeds.problems().is_empty() || self.server.count(Verb::Watch, start) < WATCHES {
            assert!(start.elapsed() < HOUR, "{:?}", self.feeds.problems());
            sleep(SECOND).await;
        }
    }

    /// Applies the received updates of Services to `names`.
    fn update_names(&mut self, names: &mut BTreeSet<String>) {
        while let Ok(update) = self.updates.try_recv() {
            match update {
                Update::Apply(change) if change.kind == Kind::Service => {
                    let name = change.key.name.to_string();
                    match change.object {
                        Some(_) => names.insert(name),
                        None => names.remove(&name),
                    };
                }
                Update::Reset { lists, .. } => {
                    let lists = lists.into_iter();
                    for (_, objects) in lists.filter(|(feed, _)| feed.kind == Kind::Service) {
                        *names = objects.keys().map(|key| key.name.to_string()).collect();
                    }
                }
                Update::Apply(_) | Update::Leases(_) => {}
            }
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn at(mut object: Value, version: u64) -> Value {
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    object
}

fn gone() -> Value {
    json!({"kind": "Status", "code": 410, "message": "gone"})
}

fn count_lists(requests: &[RecordedRequest]) -> usize {
    let is_list = |request: &&RecordedRequest| matches!(request.verb, Verb::List | Verb::Check);
    requests.iter().filter(is_list).count()
}

// === Failures ===

/// Whatever failed, and however long: an outage of 70 s must not last for 140.
#[tokio::test(start_paused = true)]
async fn return_of_the_server_is_noticed_within_fifteen_seconds() {
    for behavior in [
        Behavior::Unreachable,
        Behavior::EverythingFails,
        Behavior::InternalErrors,
        Behavior::TooManyRequests,
        Behavior::ListsFail,
        Behavior::SlicesDenied,
        Behavior::WatchesEnd,
    ] {
        for outage in [70 * SECOND, 10 * MINUTE] {
            let server = ScriptedServer::new();
            let is_denied = behavior == Behavior::SlicesDenied;
            if is_denied {
                server.set_behavior(behavior);
            }
            let replica = if is_denied {
                Replica::start(&server, NEVER)
            } else {
                Replica::start_ready(&server, NEVER).await
            };
            server.set_behavior(behavior);
            server.end_watches();
            sleep(outage).await;
            server.set_behavior(Behavior::Normal);
            let start = Instant::now();
            let is_watched = || {
                let requests = server.requests_since(start);
                let watches = requests.iter().filter(|one| one.verb == Verb::Watch);
                let watched: BTreeSet<&str> = watches.map(|one| one.feed.as_str()).collect();
                watched.len() == WATCHES && replica.feeds.problems().is_empty()
            };
            while !is_watched() && !is_denied || !replica.feeds.problems().is_empty() {
                sleep(SECOND / 10).await;
                let waited = start.elapsed();
                assert!(
                    waited < 16 * SECOND,
                    "{behavior:?} for {outage:?}: {waited:?}"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_for_every_failure() {
    for behavior in [
        Behavior::EverythingFails,
        Behavior::TooManyRequests,
        Behavior::EndlessErrors,
        Behavior::Redirects,
        Behavior::WatchesExpire,
        Behavior::WatchesExpireLater(2 * SECOND),
        Behavior::WatchesEnd,
    ] {
        let server = ScriptedServer::new();
        let replica = Replica::start_ready(&server, NEVER).await;
        server.set_behavior(behavior);
        sleep(MINUTE).await;
        let start = Instant::now();
        // A watch that expires later has no problem meanwhile.
        let mut failed = BTreeSet::new();
        while start.elapsed() < HOUR {
            sleep(7 * SECOND).await;
            for problem in replica.feeds.problems() {
                failed.extend(problem.subject().split(", ").map(str::to_owned));
            }
        }
        let requests = server.requests_since(start);
        // For each watch a request and a list, or a version check, in 15 s. The pauses begin again after the few lists of a silence.
        let most = 2 * 270 * WATCHES;
        let requests = requests.len();
        assert!(requests <= most, "{requests} requests, {behavior:?}");
        let expected = if behavior == Behavior::WatchesEnd {
            0
        } else {
            WATCHES
        };
        assert_eq!(failed.len(), expected, "{behavior:?}: {failed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn watch_that_is_silent_for_fifty_seconds_is_broken() {
    let server = ScriptedServer::new();
    let replica = Replica::start_ready(&server, NEVER).await;
    server.set_behavior(Behavior::WatchesSilent);
    server.end_watches();
    sleep(2 * SECOND).await;
    let start = Instant::now();
    while server.count(Verb::Watch, start) < WATCHES {
        sleep(SECOND).await;
    }
    let waited = start.elapsed();
    assert!((47 * SECOND..53 * SECOND).contains(&waited), "{waited:?}");
    assert!(replica.feeds.age() > 47 * SECOND);
}

/// A list shows that nothing was missed, and few follow. Of what a proxy keeps, lists find the changes until an event arrives.
#[tokio::test(start_paused = true)]
async fn lists_replace_a_watch_that_delivers_nothing() {
    for behavior in [
        Behavior::WatchesSilent,
        Behavior::WatchesBuffered,
        Behavior::WatchesEnd,
    ] {
        let server = ScriptedServer::new();
        let replica = Replica::start_ready(&server, NEVER).await;
        server.set_behavior(behavior);
        server.end_watches();
        sleep(3 * MINUTE).await;
        let start = Instant::now();
        let mut oldest = Duration::ZERO;
        while start.elapsed() < HOUR {
            assert_eq!(replica.feeds.problems(), [], "{behavior:?}");
            sleep(SECOND).await;
            oldest = oldest.max(replica.feeds.age());
        }
        let lists = server.count(Verb::List, start);
        assert!((4 * WATCHES..=7 * WATCHES).contains(&lists), "{lists}");
        assert!(oldest < 15 * MINUTE, "{oldest:?}");
        // What the watch of Services should have delivered.
        server.set_items(
            SERVICES,
            vec![endpoint("prod", "db", "east", "db-0", &["10.0.0.1"])],
        );
        while replica.feeds.problems().is_empty() {
            sleep(SECOND).await;
        }
        let start = Instant::now();
        sleep(10 * MINUTE).await;
        let lists = server.count(Verb::List, start);
        assert!((30..60).contains(&lists), "{lists}");
        assert_eq!(replica.feeds.problems().len(), 1);
        server.set_behavior(Behavior::Normal);
        sleep(2 * MINUTE).await;
        assert_eq!(replica.feeds.problems(), [], "{behavior:?}");
    }
}

/// Also if lists have shown before that the silence of watches means nothing.
#[tokio::test(start_paused = true)]
async fn outage_after_a_silence_is_a_problem_and_brings_no_lists() {
    for behavior in [Behavior::WatchesSilent, Behavior::WatchesBuffered] {
        let server = ScriptedServer::new();
        let replica = Replica::start_ready(&server, NEVER).await;
        server.set_behavior(behavior);
        server.end_watches();
        sleep(3 * MINUTE).await;
        assert_eq!(replica.feeds.problems(), [], "{behavior:?}");
        server.set_behavior(Behavior::TooManyRequests);
        server.end_watches();
        sleep(2 * MINUTE).await;
        assert_eq!(replica.feeds.problems().len(), 1, "{behavior:?}");
        let start = Instant::now();
        sleep(20 * MINUTE).await;
        assert_eq!(server.count(Verb::List, start), 0, "{behavior:?}");
        server.set_behavior(Behavior::Normal);
        sleep(MINUTE).await;
        assert_eq!(replica.feeds.problems(), [], "{behavior:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_list_of_a_feed_does_not_delay_the_watch_of_another() {
    let server = ScriptedServer::new();
    let _replica = Replica::start_ready(&server, NEVER).await;
    server.set_behavior(Behavior::SlicesSlow);
    server.send_event("endpointslices", "ERROR", &gone());
    sleep(SECOND).await;
    let start = Instant::now();
    server.end_watches();
    let is_watched = || {
        let mut requests = server.requests_since(start).into_iter();
        requests.any(|one| one.verb == Verb::Watch && one.feed == SERVICES)
    };
    while !is_watched() {
        sleep(SECOND / 10).await;
        let waited = start.elapsed();
        assert!(waited < 3 * SECOND, "{waited:?}");
    }
}

// === Lists and watches ===

/// A list never runs beside its watch, and the watch continues from it.
#[tokio::test(start_paused = true)]
async fn each_feed_is_listed_in_turn_and_then_watched_from_the_list() {
    let server = ScriptedServer::new();
    let named = |host: &str| endpoint("prod", "db", "east", host, &["10.0.0.1"]);
    server.set_items(SERVICES, vec![named("db-0"), named("db-1")]);
    let mut replica = Replica::start_ready(&server, 12 * HOUR).await;
    let mut names = BTreeSet::new();
    let start = Instant::now();
    // An event that a watch missed.
    server.set_items(SERVICES, vec![named("db-1")]);
    let event = at(named("db-2"), VERSION + 1);
    server.send_event(SERVICES, "ADDED", &event);
    sleep(SECOND).await;
    replica.update_names(&mut names);
    assert_eq!(names.len(), 3);
    sleep(120 * HOUR).await;
    replica.update_names(&mut names);
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["db-1-east"]);
    let requests = server.requests_since(start);
    let mut lists: Vec<Instant> = Vec::new();
    for feed in [SERVICES, "endpointslices"] {
        let own: Vec<_> = requests.iter().filter(|one| one.feed == feed).collect();
        let listed = own.iter().filter(|one| one.verb == Verb::List);
        let count = listed.clone().count();
        assert!((9..=12).contains(&count), "{count} lists of {feed}");
        lists.extend(listed.map(|one| one.at));
        for pair in own.windows(2).filter(|pair| pair[0].verb == Verb::List) {
            let version = Some(VERSION.to_string());
            assert_eq!((pair[1].verb, &pair[1].version), (Verb::Watch, &version));
        }
    }
    lists.sort_unstable();
    let distances = lists.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(distances.min().unwrap() > MINUTE, "{lists:?}");
}

#[tokio::test(start_paused = true)]
async fn list_is_not_older_than_the_last_version_and_consistent_if_that_is_gone() {
    let server = ScriptedServer::new();
    let start = Instant::now();
    let replica = Replica::start_ready(&server, NEVER).await;
    let lists = |start| -> Vec<Option<String>> {
        let requests = server.requests_since(start).into_iter();
        let lists = requests.filter(|one| one.verb == Verb::List && one.feed == SERVICES);
        lists.map(|list| list.version).collect()
    };
    // The first list may come from the memory of the API server.
    assert_eq!(lists(start), [Some("0".to_owned())]);

    let last = VERSION + 7;
    let bookmark = json!({"metadata": {"resourceVersion": last.to_string()}});
    server.send_event(SERVICES, "BOOKMARK", &bookmark);
    let start = Instant::now();
    server.send_event(SERVICES, "ERROR", &gone());
    sleep(SECOND).await;
    // The first version that expires is no failure, and the list follows at once.
    assert_eq!(lists(start), [Some(last.to_string())]);
    for code in [410, 504] {
        server.set_behavior(Behavior::VersionsGone(code));
        let start = Instant::now();
        server.send_event(SERVICES, "ERROR", &gone());
        sleep(MINUTE).await;
        assert_eq!(lists(start), [Some(VERSION.to_string()), None], "{code}");
        server.set_behavior(Behavior::Normal);
        assert_eq!(replica.feeds.problems(), []);
    }
}

// === Number of requests ===

/// Computes the load on the API server. `charts/global-dns/docs/src/sizing.md` has the results.
#[tokio::test(start_paused = true)]
async fn requests_of_one_replica() {
    let server = ScriptedServer::new();
    let replica = Replica::start_ready(&server, RELIST).await;
    println!(
        "{:32} {:>8} {:>8} {:>8}",
        "one replica", "lists", "checks", "watches"
    );
    let print = |name: &str, start: Instant| {
        let [lists, checks, watches] =
            [Verb::List, Verb::Check, Verb::Watch].map(|verb| server.count(verb, start));
        println!("{name:32} {lists:8} {checks:8} {watches:8}");
    };
    let start = Instant::now();
    sleep(HOUR).await;
    print("a quiet hour", start);
    assert!(server.count(Verb::Watch, start) <= 91 * WATCHES);
    for (behavior, name) in [
        (Behavior::EverythingFails, "504 to everything"),
        (Behavior::ListsFail, "504 to lists"),
        (Behavior::TooManyRequests, "429 to everything"),
        (Behavior::WatchesExpire, "410 to watches"),
    ] {
        server.set_behavior(behavior);
        let start = Instant::now();
        sleep(10 * MINUTE).await;
        print(&format!("10 minutes of {name}"), start);
        let listed = count_lists(&server.requests_since(start));
        assert!(listed <= 50, "{listed} lists: {name}");
        server.set_behavior(Behavior::Normal);
        replica.wait_until_watched().await;
        sleep(11 * MINUTE).await;
    }
    let start = Instant::now();
    sleep(10 * 24 * HOUR).await;
    print("10 quiet days", start);
    let lists = server.count(Verb::List, start);
    assert!(lists <= 22 * WATCHES, "{lists} lists");
}
