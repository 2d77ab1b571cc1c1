mod links;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::list::MAX_OBJECT_OCTETS;
use super::scripted::{Behavior, CHUNK, RecordedRequest, ScriptedServer, VERSION, Verb};
use super::*;
use crate::model::{Kind, Problem};
use crate::source::Update;
use crate::testing::{endpoint, mirror};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
/// Longer than every test.
const NEVER: Duration = Duration::from_secs(1000 * 24 * 60 * 60);
const SERVICES: &str = "services";
/// The watches of a server without `links.enabled`.
const WATCHES: usize = Kind::ALL.len() - 1;

fn feed_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Service => SERVICES,
        Kind::EndpointSlice => "endpointslices",
        Kind::Link => "links",
    }
}

/// A replica that watches a scripted API server.
struct Replica {
    server: ScriptedServer,
    feeds: Feeds,
    updates: mpsc::UnboundedReceiver<Update>,
    tasks: [JoinHandle<()>; 2],
}

impl Replica {
    /// Starts a replica that relists one watch in turn every `relist`.
    fn start(server: &ScriptedServer, relist: Duration) -> Self {
        Self::start_with(server, relist, WatchTiming::SERVE.watch_timeout)
    }

    fn start_with(server: &ScriptedServer, relist: Duration, watch_timeout: Duration) -> Self {
        // The same jitter in every run.
        fastrand::seed(7);
        let feeds = Feeds::new(&[]);
        let (sender, mut receiver) = mpsc::channel(16);
        let timing = WatchTiming {
            watch_timeout,
            relist: relist * u32::try_from(WATCHES).unwrap(),
        };
        let (client, of_watch) = (server.client(), feeds.clone());
        let watch = async move { watch(client, timing, &of_watch, &sender).await };
        let (seen, updates) = mpsc::unbounded_channel();
        let forward = async move {
            while let Some(update) = receiver.recv().await {
                if seen.send(update).is_err() {
                    return;
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
        let is_listed = || self.feeds.problems().is_empty();
        let start = Instant::now();
        while !is_listed() || self.server.count(Verb::Watch, start) < WATCHES {
            assert!(start.elapsed() < 13 * HOUR, "{:?}", self.feeds.problems());
            sleep(SECOND).await;
        }
    }

    /// Returns whether the last received list can be in doubt.
    fn can_last_list_be_doubted(&mut self) -> bool {
        let mut last = None;
        while let Ok(update) = self.updates.try_recv() {
            if let Update::Reset { can_be_doubted, .. } = update {
                last = Some(can_be_doubted);
            }
        }
        last.unwrap()
    }

    /// Applies the received updates of watch `services` to `names`.
    fn update_names(&mut self, names: &mut BTreeMap<String, Value>) {
        while let Ok(update) = self.updates.try_recv() {
            match update {
                Update::Apply {
                    kind: Kind::Service,
                    key,
                    object,
                    ..
                } => {
                    let name = key.name.to_string();
                    match object {
                        Some(object) => _ = names.insert(name, json!(format!("{object:?}"))),
                        None => _ = names.remove(&name),
                    }
                }
                Update::Reset { lists, .. } => {
                    for (feed, objects) in lists {
                        if feed.kind != Kind::Service {
                            continue;
                        }
                        *names = objects
                            .into_iter()
                            .map(|(key, object)| {
                                (key.name.to_string(), json!(format!("{object:?}")))
                            })
                            .collect();
                    }
                }
                Update::Apply { .. } | Update::Leases(_) => {}
            }
        }
    }

    fn received_names(&mut self) -> Vec<String> {
        let mut names = BTreeMap::new();
        self.update_names(&mut names);
        names.into_keys().collect()
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

fn count_lists(requests: &[RecordedRequest]) -> usize {
    let is_list = |request: &&RecordedRequest| matches!(request.verb, Verb::List | Verb::Check);
    requests.iter().filter(is_list).count()
}

// === Lists that fail ===

#[tokio::test(start_paused = true)]
async fn watch_continues_while_lists_fail() {
    let server = ScriptedServer::new();
    let mut replica = Replica::start_ready(&server, SECOND).await;
    server.set_behavior(Behavior::ListsFail);
    let start = Instant::now();
    sleep(10 * SECOND).await;
    let _ = replica.received_names();
    server.send_event(
        SERVICES,
        "ADDED",
        &at(mirror("prod", "db", "east"), VERSION + 5),
    );
    sleep(SECOND).await;
    assert_eq!(replica.received_names(), ["db-east"]);
    sleep(50 * SECOND - start.elapsed()).await;
    // Each watch lasts its full time before the next one is opened.
    let watches = server.count(Verb::Watch, start);
    assert!(watches <= 2 * WATCHES, "{watches} watches");
    let lists = count_lists(&server.requests_since(start));
    assert!((1..=3).contains(&lists), "{lists} lists in 50 s of 504");
    assert!(replica.feeds.age() < 31 * SECOND);
    let problems = replica.feeds.problems();
    let expected = "the last list failed: the API server returned 504: the server is overloaded";
    assert!(
        problems.iter().any(|one| one.detail == expected),
        "{problems:?}"
    );

    // A retry succeeds and clears the problem.
    server.set_behavior(Behavior::Normal);
    let good = Instant::now();
    while !replica.feeds.problems().is_empty() {
        assert!(good.elapsed() < 10 * MINUTE);
        sleep(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn overloaded_server_gets_at_most_three_lists_in_50_seconds() {
    for behavior in [Behavior::ListsFail, Behavior::EverythingFails] {
        for case in ["at the start", "when a relist is due", "with 410 before"] {
            let server = ScriptedServer::new();
            let replica = if case == "at the start" {
                server.set_behavior(behavior);
                Replica::start(&server, NEVER)
            } else {
                let relist = if case == "with 410 before" {
                    NEVER
                } else {
                    SECOND
                };
                Replica::start_ready(&server, relist).await
            };
            if case == "with 410 before" {
                let gone = json!({"kind": "Status", "code": 410, "message": "gone"});
                for kind in Kind::ALL {
                    server.send_event(feed_of(kind), "ERROR", &gone);
                }
            }
            server.set_behavior(behavior);
            let start = Instant::now();
            sleep(50 * SECOND).await;
            let lists = count_lists(&server.requests_since(start));
            assert!(
                (1..=3).contains(&lists),
                "{lists} lists, {behavior:?}, {case}"
            );
            drop(replica);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_to_minutes_for_every_failure() {
    for behavior in [
        Behavior::EverythingFails,
        Behavior::TooManyRequests(1),
        Behavior::TooManyRequests(30),
        Behavior::WatchesExpire,
        Behavior::WatchesExpireLater(2 * SECOND),
        Behavior::WatchesExpireLater(20 * SECOND),
    ] {
        let server = ScriptedServer::new();
        let replica = Replica::start_ready(&server, NEVER).await;
        server.set_behavior(behavior);
        sleep(30 * MINUTE).await;
        let start = Instant::now();
        // A watch that expires later has no problem meanwhile.
        let mut failed = BTreeSet::new();
        for _ in 0..60 {
            sleep(MINUTE).await;
            for problem in replica.feeds.problems() {
                failed.extend(problem.subject().split(", ").map(str::to_owned));
            }
        }
        let requests = server.requests_since(start);
        let most = 2 * 12 * WATCHES;
        assert!(
            requests.len() <= most,
            "{} requests in an hour of {behavior:?}",
            requests.len()
        );
        assert_eq!(failed.len(), WATCHES, "{behavior:?}: {failed:?}");
    }
}

/// An API server that starts refuses some requests at first. That is no reason to wait as long as for an overloaded one.
#[tokio::test(start_paused = true)]
async fn return_of_an_unreachable_server_is_noticed_within_half_a_minute() {
    let server = ScriptedServer::new();
    let replica = Replica::start_ready(&server, NEVER).await;
    server.set_behavior(Behavior::Unreachable);
    server.end_watches();
    sleep(10 * MINUTE).await;
    server.set_behavior(Behavior::EverythingFails);
    sleep(10 * SECOND).await;
    server.set_behavior(Behavior::Normal);
    sleep(30 * SECOND).await;
    assert_eq!(replica.feeds.problems(), []);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_observed_with_jitter() {
    let wanted = 30 * SECOND;
    let server = ScriptedServer::new();
    let _replica = Replica::start_ready(&server, NEVER).await;
    server.set_behavior(Behavior::TooManyRequests(30));
    sleep(MINUTE).await;
    let start = Instant::now();
    sleep(HOUR).await;
    let mut last: BTreeMap<String, Instant> = BTreeMap::new();
    let mut pauses = Vec::new();
    for request in server.requests_since(start) {
        if let Some(last) = last.insert(request.feed, request.at) {
            pauses.push(request.at - last);
        }
    }
    assert!(pauses.len() > WATCHES);
    assert!(pauses.iter().all(|pause| *pause >= wanted), "{pauses:?}");
    let mut times: Vec<Duration> = last.values().map(|at| *at - start).collect();
    times.sort_unstable();
    times.dedup();
    assert_eq!(times.len(), WATCHES, "at the same time: {times:?}");
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_if_a_proxy_ends_watches_at_once() {
    let server = ScriptedServer::new();
    let _replica = Replica::start_ready(&server, NEVER).await;
    server.set_behavior(Behavior::WatchesEnd);
    sleep(10 * MINUTE).await;
    let start = Instant::now();
    sleep(10 * MINUTE).await;
    let requests = server.requests_since(start).len();
    // For each watch, one request and one version check in 15 s.
    assert!(requests <= 2 * 40 * WATCHES, "{requests} requests");
}

#[tokio::test(start_paused = true)]
async fn denied_feed_does_not_delay_other_feeds() {
    let server = ScriptedServer::new();
    server.set_behavior(Behavior::SlicesDenied);
    let replica = Replica::start(&server, NEVER);
    sleep(5 * MINUTE).await;
    let problems = replica.feeds.problems();
    let names: Vec<_> = problems.iter().map(Problem::subject).collect();
    assert_eq!(names, ["EndpointSlices"]);
    // After the permission is granted, the feed is listed within 91 s.
    server.set_behavior(Behavior::Normal);
    sleep(91 * SECOND).await;
    assert!(replica.feeds.problems().is_empty());
}

#[tokio::test(start_paused = true)]
async fn first_expired_version_is_relisted_at_once() {
    let server = ScriptedServer::new();
    let _replica = Replica::start_ready(&server, NEVER).await;
    let gone = json!({"kind": "Status", "code": 410, "message": "gone"});
    let start = Instant::now();
    server.send_event(SERVICES, "ERROR", &gone);
    sleep(SECOND).await;
    assert_eq!(server.count(Verb::List, start), 1);
    // The second version that expires within minutes is relisted after a pause.
    let start = Instant::now();
    server.send_event(SERVICES, "ERROR", &gone);
    sleep(4 * SECOND).await;
    assert_eq!(server.count(Verb::List, start), 0);
    sleep(4 * SECOND).await;
    assert_eq!(server.count(Verb::List, start), 1);
}

// === Services that do not matter ===

/// Returns a Service of this cluster with these labels.
fn service(name: &str, labels: Value) -> Value {
    json!({
        "metadata": {"namespace": "prod", "name": name, "labels": labels},
        "spec": {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"]},
    })
}

#[tokio::test(start_paused = true)]
async fn service_of_the_mcs_api_is_dropped() {
    let server = ScriptedServer::new();
    let mut replica = Replica::start_ready(&server, NEVER).await;
    let mut names = BTreeMap::new();
    let mut version = VERSION;
    for (labels, is_kept) in [
        (json!({"mirror.linkerd.io/exported": "true"}), true),
        (
            json!({"multicluster.kubernetes.io/service-name": "web"}),
            false,
        ),
        (json!({}), true),
        (
            json!({"mirror.linkerd.io/mirrored-service": "false"}),
            false,
        ),
        (json!({"mirror.linkerd.io/mirrored-service": "true"}), true),
    ] {
        version += 1;
        server.send_event(
            SERVICES,
            "MODIFIED",
            &at(service("web", labels.clone()), version),
        );
        sleep(SECOND).await;
        replica.update_names(&mut names);
        assert_eq!(names.contains_key("web"), is_kept, "{labels}");
    }
}

// === Relists beside a watch ===

#[tokio::test(start_paused = true)]
async fn events_during_a_list_are_newer_than_the_list() {
    let server = ScriptedServer::new();
    let named = |host: &str| endpoint("prod", "db", "east", host, &["10.0.0.1"]);
    server.set_items(SERVICES, vec![named("db-0"), named("db-1")]);
    let mut replica = Replica::start_ready(&server, MINUTE).await;
    let mut names = BTreeMap::new();
    replica.update_names(&mut names);
    assert_eq!(names.len(), 2);

    // The list has the objects at its version, even if the response is late.
    server.set_behavior(Behavior::ListsWait);
    let held = Instant::now();
    while server.count(Verb::List, held) == 0 {
        sleep(SECOND).await;
    }
    server.send_event(SERVICES, "DELETED", &at(named("db-0"), VERSION + 1));
    server.send_event(SERVICES, "ADDED", &at(named("db-2"), VERSION + 2));
    // An older event, for an object that no longer exists at the version of the list.
    server.send_event(SERVICES, "ADDED", &at(named("db-3"), VERSION - 1));
    sleep(SECOND).await;
    server.set_behavior(Behavior::Normal);
    server.release_lists();
    sleep(SECOND).await;
    replica.update_names(&mut names);
    let expected = ["db-1-east", "db-2-east"];
    assert_eq!(names.keys().collect::<Vec<_>>(), expected);

    // An older event after the list is ignored, too.
    server.send_event(SERVICES, "ADDED", &at(named("db-4"), VERSION));
    server.send_event(SERVICES, "ADDED", &at(named("db-5"), VERSION + 3));
    sleep(SECOND).await;
    replica.update_names(&mut names);
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.contains_key("db-5-east"));
}

#[tokio::test(start_paused = true)]
async fn watches_are_relisted_in_turn() {
    let server = ScriptedServer::new();
    let replica = Replica::start_with(&server, HOUR, 10 * MINUTE);
    replica.wait_until_watched().await;
    let start = Instant::now();
    sleep(100 * HOUR).await;
    let requests = server.requests_since(start);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for request in requests.iter().filter(|request| request.verb == Verb::List) {
        *counts.entry(&request.feed).or_default() += 1;
    }
    let sum: usize = counts.values().sum();
    assert!((90..=110).contains(&sum), "{counts:?}");
    assert_eq!(counts.len(), WATCHES);
    let share = 100 / WATCHES;
    let range = share - share / 5..=share + share / 4 + 1;
    assert!(
        counts.values().all(|count| range.contains(count)),
        "{counts:?}"
    );
}

// === Broken watches ===

/// A server or a proxy that breaks the protocol must not fill the memory.
#[tokio::test(start_paused = true)]
async fn endless_line_of_a_watch_is_limited_and_the_feed_is_relisted() {
    let server = ScriptedServer::new();
    server.set_items(SERVICES, vec![mirror("prod", "db", "east")]);
    let mut replica = Replica::start_ready(&server, NEVER).await;
    let mut names = BTreeMap::new();
    replica.update_names(&mut names);
    server.set_behavior(Behavior::EndlessLine(SERVICES));
    let start = Instant::now();
    server.end_watches();
    let mut problems = BTreeSet::new();
    for _ in 0..60 {
        sleep(SECOND).await;
        // The objects of the last list stay.
        replica.update_names(&mut names);
        assert_eq!(names.keys().collect::<Vec<_>>(), ["db-east"]);
        problems.extend(replica.feeds.problems());
    }
    let requests: Vec<_> = server
        .requests_since(start)
        .into_iter()
        .filter(|r| r.feed == SERVICES)
        .collect();
    let watches = requests.iter().filter(|r| r.verb == Verb::Watch).count();
    // The first relist follows at once, the others after growing pauses.
    assert!((2..=4).contains(&watches), "{watches} watches in a minute");
    let lists = count_lists(&requests);
    assert!((1..=4).contains(&lists), "{lists} lists in a minute");
    let most = watches * (MAX_OBJECT_OCTETS + 2 * CHUNK.len());
    let accepted = server.endless_octets();
    assert!(accepted <= most, "{accepted} octets in {watches} watches");
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let expected = "Source of objects fails: Services: a line of the watch has more than 16 MiB";
    assert_eq!(problems, [expected]);

    server.set_behavior(Behavior::Normal);
    while !replica.feeds.problems().is_empty() {
        assert!(start.elapsed() < 10 * MINUTE);
        sleep(SECOND).await;
    }
}

// === Versions of lists ===

#[tokio::test(start_paused = true)]
async fn list_is_not_older_than_the_last_version_and_consistent_if_that_is_gone() {
    let server = ScriptedServer::new();
    let start = Instant::now();
    let mut replica = Replica::start_ready(&server, HOUR).await;
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
    let gone = json!({"kind": "Status", "code": 410, "message": "gone"});
    server.send_event(SERVICES, "ERROR", &gone);
    sleep(SECOND).await;
    assert_eq!(lists(start), [Some(last.to_string())]);

    for code in [410, 504] {
        server.set_behavior(Behavior::VersionsGone(code));
        let start = Instant::now();
        server.send_event(SERVICES, "ERROR", &gone);
        sleep(MINUTE).await;
        assert_eq!(lists(start), [Some(VERSION.to_string()), None], "{code}");
        server.set_behavior(Behavior::Normal);
        assert_eq!(replica.feeds.problems(), []);
    }

    // A list that is requested, because the last one is in doubt, is consistent and is in no doubt.
    assert!(replica.can_last_list_be_doubted());
    let start = Instant::now();
    let feeds = replica.feeds.all();
    let services = feeds.iter().find(|feed| feed.kind == Kind::Service);
    replica
        .feeds
        .request_relist(services.unwrap(), Instant::now());
    sleep(SECOND).await;
    assert_eq!(lists(start), [None]);
    assert!(!replica.can_last_list_be_doubted());
}

// === Number of requests ===

/// Computes the load on the API server. `charts/global-dns/docs/src/sizing.md` has the results.
#[tokio::test(start_paused = true)]
async fn requests_of_one_replica_and_of_a_thousand() {
    const REPLICAS: f64 = 1000.0;
    let default_relist = WatchTiming::SERVE.relist / u32::try_from(WATCHES).unwrap();
    println!(
        "{:44} {:>8} {:>8} {:>8} {:>12}",
        "one replica", "lists", "checks", "watches", "1,000: LIST/s"
    );
    let print = |name: &str, server: &ScriptedServer, start: Instant| -> f64 {
        let lasted = start.elapsed().as_secs_f64();
        let count = |verb| f64::from(u32::try_from(server.count(verb, start)).unwrap());
        let [lists, checks, watches] = [Verb::List, Verb::Check, Verb::Watch].map(count);
        let a_second = lists * REPLICAS / lasted;
        println!("{name:44} {lists:8} {checks:8} {watches:8} {a_second:12.3}");
        a_second
    };
    let server = ScriptedServer::new();
    let replica = Replica::start_ready(&server, default_relist).await;
    let start = Instant::now();
    sleep(HOUR).await;
    print("a quiet hour", &server, start);
    assert!(server.count(Verb::Watch, start) <= 90 * WATCHES);
    for (behavior, name) in [
        (Behavior::EverythingFails, "504 to everything"),
        (Behavior::ListsFail, "504 to lists"),
        (Behavior::TooManyRequests(5), "429, Retry-After: 5"),
        (Behavior::WatchesExpire, "410 to watches"),
    ] {
        server.set_behavior(behavior);
        let start = Instant::now();
        sleep(10 * MINUTE).await;
        print(&format!("10 minutes of {name}"), &server, start);
        let requests = server.requests_since(start).len();
        // Fewer requests than in ten normal minutes, and few lists, except after 410.
        assert!(requests <= 21 * WATCHES, "{requests} requests: {name}");
        let most = if behavior == Behavior::WatchesExpire {
            6 * WATCHES
        } else {
            6
        };
        let listed = count_lists(&server.requests_since(start));
        assert!(listed <= most, "{listed} lists: {name}");
        server.set_behavior(Behavior::Normal);
        replica.wait_until_watched().await;
        sleep(11 * MINUTE).await;
    }
    drop(replica);

    // This counts lists only, so watches may last longer.
    let server = ScriptedServer::new();
    let replica = Replica::start_with(&server, default_relist, 12 * HOUR);
    replica.wait_until_watched().await;
    let start = Instant::now();
    sleep(120 * 24 * HOUR).await;
    let a_second = print("120 quiet days", &server, start);
    assert!(
        a_second <= 0.13,
        "{a_second} lists per second of 1,000 replicas"
    );
}
