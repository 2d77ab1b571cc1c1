use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::scripted::{Asked, Manner, Scripted, Streaming, VERSION, Verb, feed};
use super::*;
use crate::mirror::{Kind, Watch};
use crate::source::Update;
use crate::testing::{endpoint, mirror};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
/// Far beyond every test.
const NEVER: Duration = Duration::from_secs(1000 * 24 * 60 * 60);
const MIRRORS: &str = "services mirror.linkerd.io/mirrored-service=true";

fn feed_of(watch: Watch) -> String {
    let resource = match watch.kind() {
        Kind::Service => "services",
        Kind::EndpointSlice => "endpointslices",
    };
    feed(resource, &watch.label_selector())
}

/// A replica that watches a scripted API server.
struct Replica {
    server: Scripted,
    feeds: Feeds,
    updates: mpsc::UnboundedReceiver<Update>,
    tasks: [JoinHandle<()>; 2],
}

impl Replica {
    fn start(server: &Scripted, relist: Duration) -> Self {
        Self::start_with(server, relist, Duration::from_secs(30))
    }

    fn start_with(server: &Scripted, relist: Duration, watch_timeout: Duration) -> Self {
        // Jitter that is the same in every run.
        fastrand::seed(7);
        let feeds = Feeds::new(&[]);
        let (sender, mut receiver) = mpsc::channel(16);
        let timing = Timing {
            watch_timeout,
            relist,
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

    /// Starts one, and waits until every watch is open.
    async fn start_ready(server: &Scripted, relist: Duration) -> Self {
        let replica = Self::start(server, relist);
        replica.until_watched().await;
        replica
    }

    async fn until_watched(&self) {
        let is_listed = || self.feeds.troubles().is_empty();
        let began = Instant::now();
        while !is_listed() || self.server.count(Verb::Watch, began) < Watch::ALL.len() {
            assert!(began.elapsed() < 13 * HOUR, "{:?}", self.feeds.troubles());
            sleep(SECOND).await;
        }
    }

    /// Names of the objects of the mirrors' watch, by what was sent so far.
    fn names(&mut self, names: &mut BTreeMap<String, Value>) {
        while let Ok(update) = self.updates.try_recv() {
            match update {
                Update::Apply {
                    watch: Watch::MirrorServices,
                    key,
                    object,
                } => {
                    let name = key.name.to_string();
                    match object {
                        Some(object) => _ = names.insert(name, json!(format!("{object:?}"))),
                        None => _ = names.remove(&name),
                    }
                }
                Update::Reset(lists) => {
                    for (feed, objects) in lists {
                        if feed.watch != Watch::MirrorServices {
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
                Update::Apply { .. } => {}
            }
        }
    }

    fn seen(&mut self) -> Vec<String> {
        let mut names = BTreeMap::new();
        self.names(&mut names);
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

fn lists(asked: &[Asked]) -> usize {
    let is_list =
        |asked: &&Asked| matches!(asked.verb, Verb::List | Verb::StreamedList | Verb::Check);
    asked.iter().filter(is_list).count()
}

// === Lists that fail ===

#[tokio::test(start_paused = true)]
async fn a_healthy_watch_goes_on_while_lists_fail() {
    let server = Scripted::new(Streaming::Off);
    let mut replica = Replica::start_ready(&server, SECOND).await;
    server.behave(Manner::FailsLists);
    let began = Instant::now();
    sleep(10 * SECOND).await;
    let _ = replica.seen();
    server.tell(
        MIRRORS,
        "ADDED",
        &at(mirror("prod", "db", "east"), VERSION + 5),
    );
    sleep(SECOND).await;
    assert_eq!(replica.seen(), ["db-east"]);
    sleep(50 * SECOND - began.elapsed()).await;
    // No watch is opened before the last one has lasted its time.
    let watches = server.count(Verb::Watch, began);
    assert!(watches <= 2 * Watch::ALL.len(), "{watches} watches");
    let lists = lists(&server.asked_since(began));
    assert!((1..=3).contains(&lists), "{lists} lists in 50 s of 504");
    assert!(replica.feeds.age() < 31 * SECOND);
    let troubles = replica.feeds.troubles();
    let told = "the last list failed: the API server says 504: the server is overloaded";
    assert!(
        troubles.iter().any(|trouble| trouble.ends_with(told)),
        "{troubles:?}"
    );

    // It is tried again, and that ends it.
    server.behave(Manner::Good);
    let good = Instant::now();
    while !replica.feeds.troubles().is_empty() {
        assert!(good.elapsed() < 10 * MINUTE);
        sleep(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_server_is_asked_for_at_most_three_lists_in_50_seconds() {
    for streaming in [Streaming::Off, Streaming::On] {
        for manner in [Manner::FailsLists, Manner::FailsEverything] {
            for case in ["at the start", "when a relist is due", "with 410 before"] {
                let server = Scripted::new(streaming);
                let replica = if case == "at the start" {
                    server.behave(manner);
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
                    for watch in Watch::ALL {
                        server.tell(&feed_of(watch), "ERROR", &gone);
                    }
                }
                server.behave(manner);
                let began = Instant::now();
                sleep(50 * SECOND).await;
                let lists = lists(&server.asked_since(began));
                assert!(
                    (1..=3).contains(&lists),
                    "{lists} lists, {streaming:?}, {manner:?}, {case}"
                );
                drop(replica);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_to_minutes_whatever_the_server_says() {
    for manner in [
        Manner::FailsEverything,
        Manner::Busy(1),
        Manner::Busy(30),
        Manner::Forgets,
        Manner::ForgetsLater(2 * SECOND),
        Manner::ForgetsLater(20 * SECOND),
    ] {
        let server = Scripted::new(Streaming::Off);
        let replica = Replica::start_ready(&server, NEVER).await;
        server.behave(manner);
        sleep(30 * MINUTE).await;
        let began = Instant::now();
        sleep(HOUR).await;
        let asked = server.asked_since(began);
        let most = 2 * 12 * Watch::ALL.len();
        assert!(
            asked.len() <= most,
            "{} requests in an hour of {manner:?}",
            asked.len()
        );
        let troubles = replica.feeds.troubles();
        assert_eq!(troubles.len(), Watch::ALL.len(), "{manner:?}: {troubles:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_kept_to_and_replicas_do_not_come_in_step() {
    let wanted = 30 * SECOND;
    let server = Scripted::new(Streaming::Off);
    let _replica = Replica::start_ready(&server, NEVER).await;
    server.behave(Manner::Busy(30));
    sleep(MINUTE).await;
    let began = Instant::now();
    sleep(HOUR).await;
    let mut last: BTreeMap<String, Instant> = BTreeMap::new();
    let mut pauses = Vec::new();
    for asked in server.asked_since(began) {
        if let Some(last) = last.insert(asked.feed, asked.at) {
            pauses.push(asked.at - last);
        }
    }
    assert!(pauses.len() > Watch::ALL.len());
    assert!(pauses.iter().all(|pause| *pause >= wanted), "{pauses:?}");
    let mut moments: Vec<Duration> = last.values().map(|at| *at - began).collect();
    moments.sort_unstable();
    moments.dedup();
    assert_eq!(
        moments.len(),
        Watch::ALL.len(),
        "at one moment: {moments:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_ends_watches_at_once_is_asked_less_and_less() {
    let server = Scripted::new(Streaming::Off);
    let _replica = Replica::start_ready(&server, NEVER).await;
    server.behave(Manner::EndsWatches);
    sleep(10 * MINUTE).await;
    let began = Instant::now();
    sleep(10 * MINUTE).await;
    let asked = server.asked_since(began).len();
    // One in 15 s for each watch, and the question whether the server has come as far.
    assert!(asked <= 2 * 40 * Watch::ALL.len(), "{asked} requests");
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_is_denied_does_not_keep_others_from_being_listed() {
    let server = Scripted::new(Streaming::Off);
    server.behave(Manner::DeniesSlices);
    let replica = Replica::start(&server, NEVER);
    sleep(5 * MINUTE).await;
    let troubles = replica.feeds.troubles();
    let slices = Watch::ALL
        .iter()
        .filter(|watch| watch.kind() == Kind::EndpointSlice);
    assert_eq!(troubles.len(), slices.count(), "{troubles:?}");
    // Once it is granted, a minute and a half is enough.
    server.behave(Manner::Good);
    sleep(91 * SECOND).await;
    assert!(replica.feeds.troubles().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_once_is_listed_again_at_once() {
    let server = Scripted::new(Streaming::Off);
    let _replica = Replica::start_ready(&server, NEVER).await;
    let gone = json!({"kind": "Status", "code": 410, "message": "gone"});
    let told = Instant::now();
    server.tell(MIRRORS, "ERROR", &gone);
    sleep(SECOND).await;
    assert_eq!(server.count(Verb::List, told), 1);
    // The second time within minutes, it waits.
    let told = Instant::now();
    server.tell(MIRRORS, "ERROR", &gone);
    sleep(4 * SECOND).await;
    assert_eq!(server.count(Verb::List, told), 0);
    sleep(4 * SECOND).await;
    assert_eq!(server.count(Verb::List, told), 1);
}

// === Relists beside a watch ===

#[tokio::test(start_paused = true)]
async fn what_a_watch_says_while_a_list_is_made_is_newer_than_the_list() {
    let server = Scripted::new(Streaming::Off);
    let named = |host: &str| endpoint("prod", "db", "east", host, &["10.0.0.1"]);
    server.put(MIRRORS, vec![named("db-0"), named("db-1")]);
    let mut replica = Replica::start_ready(&server, MINUTE).await;
    let mut names = BTreeMap::new();
    replica.names(&mut names);
    assert_eq!(names.len(), 2);

    // The list holds what there was at its version, whenever it arrives.
    server.behave(Manner::HoldsLists);
    let held = Instant::now();
    while server.count(Verb::List, held) == 0 {
        sleep(SECOND).await;
    }
    server.tell(MIRRORS, "DELETED", &at(named("db-0"), VERSION + 1));
    server.tell(MIRRORS, "ADDED", &at(named("db-2"), VERSION + 2));
    // Of an object that the list already has as deleted.
    server.tell(MIRRORS, "ADDED", &at(named("db-3"), VERSION - 1));
    sleep(SECOND).await;
    server.behave(Manner::Good);
    server.let_go();
    sleep(SECOND).await;
    replica.names(&mut names);
    let expected = ["db-1-east", "db-2-east"];
    assert_eq!(names.keys().collect::<Vec<_>>(), expected);

    // Nor does an event that is late make anything older afterwards.
    server.tell(MIRRORS, "ADDED", &at(named("db-4"), VERSION));
    server.tell(MIRRORS, "ADDED", &at(named("db-5"), VERSION + 3));
    sleep(SECOND).await;
    replica.names(&mut names);
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.contains_key("db-5-east"));
}

#[tokio::test(start_paused = true)]
async fn each_relist_is_one_of_the_watches_in_turn() {
    for streaming in [Streaming::Off, Streaming::On] {
        let server = Scripted::new(streaming);
        let replica = Replica::start_with(&server, HOUR, 10 * MINUTE);
        replica.until_watched().await;
        let began = Instant::now();
        sleep(100 * HOUR).await;
        let verb = match streaming {
            Streaming::On => Verb::StreamedList,
            Streaming::Off | Streaming::Unfinished => Verb::List,
        };
        let asked = server.asked_since(began);
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for asked in asked.iter().filter(|asked| asked.verb == verb) {
            *counts.entry(&asked.feed).or_default() += 1;
        }
        let sum: usize = counts.values().sum();
        assert!((90..=110).contains(&sum), "{counts:?}");
        assert_eq!(counts.len(), Watch::ALL.len());
        assert!(
            counts.values().all(|count| (16..=25).contains(count)),
            "{counts:?}"
        );
    }
}

// === Streamed lists ===

#[tokio::test(start_paused = true)]
async fn a_streamed_list_holds_what_came_before_its_end() {
    let server = Scripted::new(Streaming::On);
    let named = |host: &str| endpoint("prod", "db", "east", host, &["10.0.0.1"]);
    let began = Instant::now();
    server.put(MIRRORS, vec![named("db-0"), named("db-1"), named("db-2")]);
    let mut unlabelled = named("db-1");
    unlabelled["metadata"]["labels"] = json!({});
    server.put_events(vec![
        json!({"type": "DELETED", "object": named("db-0")}),
        json!({"type": "MODIFIED", "object": unlabelled}),
        json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}),
        json!({"type": "ADDED", "object": named("db-3")}),
    ]);
    let mut replica = Replica::start_ready(&server, NEVER).await;
    assert_eq!(replica.seen(), ["db-2-east", "db-3-east"]);
    let asked = server.asked_since(began);
    assert_eq!(server.count(Verb::StreamedList, began), Watch::ALL.len());
    assert!(
        asked.iter().all(|asked| asked.verb != Verb::List),
        "{asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_error_in_a_streamed_list_is_a_failure_of_the_list() {
    let server = Scripted::new(Streaming::On);
    let status = json!({"kind": "Status", "code": 504, "message": "etcd is slow"});
    server.put_events(vec![json!({"type": "ERROR", "object": status})]);
    let replica = Replica::start(&server, NEVER);
    let began = Instant::now();
    sleep(SECOND).await;
    let troubles = replica.feeds.troubles();
    let told = "not listed yet: the API server says 504: etcd is slow";
    assert!(troubles.iter().any(|t| t.ends_with(told)), "{troubles:?}");
    assert_eq!(server.count(Verb::List, began), 0);
    server.put_events(Vec::new());
    replica.until_watched().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_stream_lists_is_asked_to_once() {
    for streaming in [Streaming::Off, Streaming::Unfinished] {
        let server = Scripted::new(streaming);
        server.put(MIRRORS, vec![mirror("prod", "db", "east")]);
        let began = Instant::now();
        let mut replica = Replica::start_ready(&server, HOUR).await;
        assert!(began.elapsed() < 35 * SECOND, "{:?}", began.elapsed());
        sleep(6 * HOUR).await;
        assert_eq!(server.count(Verb::StreamedList, began), 1);
        assert!(server.count(Verb::List, began) > 9);
        assert_eq!(replica.seen(), ["db-east"]);
    }
}

// === Requests by the hour ===

/// What README says about the load on the API server, computed.
#[tokio::test(start_paused = true)]
async fn requests_of_one_replica_and_of_a_thousand() {
    const REPLICAS: f64 = 1000.0;
    let default_relist = 12 * HOUR;
    println!(
        "{:44} {:>8} {:>8} {:>8} {:>8} {:>12}",
        "one replica", "lists", "streamed", "checks", "watches", "1,000: LIST/s"
    );
    let print = |name: &str, server: &Scripted, began: Instant| -> f64 {
        let lasted = began.elapsed().as_secs_f64();
        let count = |verb| f64::from(u32::try_from(server.count(verb, began)).unwrap());
        let [lists, streamed, checks, watches] =
            [Verb::List, Verb::StreamedList, Verb::Check, Verb::Watch].map(count);
        let a_second = (lists + streamed) * REPLICAS / lasted;
        println!("{name:44} {lists:8} {streamed:8} {checks:8} {watches:8} {a_second:12.3}");
        a_second
    };
    for (streaming, how) in [(Streaming::Off, "lists"), (Streaming::On, "streamed lists")] {
        let server = Scripted::new(streaming);
        let replica = Replica::start_ready(&server, default_relist).await;
        let began = Instant::now();
        sleep(HOUR).await;
        print(&format!("a quiet hour, {how}"), &server, began);
        assert!(server.count(Verb::Watch, began) <= 120 * Watch::ALL.len());
        for (manner, name) in [
            (Manner::FailsEverything, "504 to everything"),
            (Manner::FailsLists, "504 to lists"),
            (Manner::Busy(5), "429, Retry-After: 5"),
            (Manner::Forgets, "410 to watches"),
        ] {
            server.behave(manner);
            let began = Instant::now();
            sleep(10 * MINUTE).await;
            print(&format!("10 minutes of {name}, {how}"), &server, began);
            let asked = server.asked_since(began).len();
            // Less than in ten quiet minutes, and lists aside from the 410 hardly any.
            assert!(asked <= 21 * Watch::ALL.len(), "{asked} requests: {name}");
            let most = if manner == Manner::Forgets {
                6 * Watch::ALL.len()
            } else {
                6
            };
            let listed = lists(&server.asked_since(began));
            assert!(listed <= most, "{listed} lists: {name}");
            server.behave(Manner::Good);
            replica.until_watched().await;
            sleep(11 * MINUTE).await;
        }
        drop(replica);

        // Watches have no part in this, so they may last longer here.
        let server = Scripted::new(streaming);
        let replica = Replica::start_with(&server, default_relist, 12 * HOUR);
        replica.until_watched().await;
        let began = Instant::now();
        sleep(120 * 24 * HOUR).await;
        let a_second = print(&format!("120 quiet days, {how}"), &server, began);
        assert!(
            a_second <= 0.05,
            "{a_second} lists a second by 1,000 replicas"
        );
    }
}
