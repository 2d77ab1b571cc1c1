use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::super::tests::spawn_update_loop;
use super::super::{ShrinkGuard, SnapshotScope, Snapshots, Update, UpdateSettings, Updates};
use super::*;
use crate::model::{Mcs, Watch};
use crate::table::publish::Reader;
use crate::table::{Publisher, Service};
use crate::testing::{endpoint, gateway, local, mirror, parsed, rules};

const DELAYS: Delays = Delays {
    failover: Duration::from_secs(2),
    failback: Duration::from_secs(30),
};

/// A running update loop with two clusters of `prod/db` and the order `east:west`.
struct Running {
    updates: Updates,
    reader: Reader,
    feeds: Feeds,
    _task: tokio::task::JoinHandle<()>,
}

fn objects() -> Vec<Value> {
    let [mut service, _] = local("prod", "db", &[]);
    service["metadata"]["annotations"] = json!({"global-dns/failover": "east:west"});
    let cluster = |cluster: &str, ip: &str| {
        [
            mirror("prod", "db", cluster),
            endpoint("prod", "db", cluster, "db-0", &[ip]),
            gateway("prod", &format!("db-0-{cluster}"), true),
        ]
    };
    let mut objects = [cluster("east", "10.0.0.1"), cluster("west", "10.0.0.2")].concat();
    objects.push(service);
    objects
}

fn watch_of(object: &Value) -> Watch {
    let is_slice = !object["addressType"].is_null();
    if is_slice {
        Watch::MirrorSlices
    } else {
        Watch::Services
    }
}

impl Running {
    /// Starts without any list.
    fn spawn(rules: Rules, snapshot: Option<Snapshots>) -> Self {
        let feeds = Feeds::new(&[], Mcs::Off);
        let publisher = Publisher::default();
        let reader = publisher.reader();
        let settings = UpdateSettings {
            rules,
            shrink_guard: ShrinkGuard::new(None),
            snapshot,
            max_stale: None,
            delays: DELAYS,
        };
        let (updates, task) = spawn_update_loop(feeds.clone(), publisher, settings);
        Self {
            updates,
            reader,
            feeds,
            _task: task,
        }
    }

    async fn start(snapshot: Option<Snapshots>, objects: &[Value]) -> Self {
        let running = Self::spawn(rules(), snapshot);
        for feed in running.feeds.all() {
            let own = objects
                .iter()
                .filter(|object| watch_of(object) == feed.watch);
            let list = own.map(|object| parsed(feed.watch, object)).collect();
            let update = Update::Reset(vec![(feed, list)]);
            running.updates.send(update).await.unwrap();
        }
        running
    }

    async fn apply(&self, object: &Value) {
        let watch = watch_of(object);
        let (key, object) = parsed(watch, object);
        let update = Update::Apply {
            watch,
            key,
            object: Some(object),
        };
        self.updates.send(update).await.unwrap();
    }

    async fn set_gateway(&self, cluster: &str, ready: bool) {
        self.apply(&gateway("prod", &format!("db-0-{cluster}"), ready))
            .await;
    }

    /// Returns the service after the update loop has handled what it has received.
    async fn service(&self) -> Arc<Service> {
        sleep(Duration::from_millis(1)).await;
        let now = self.reader.load();
        let table = now.table.as_ref().expect("a table");
        Arc::new(table.service("prod", "db").expect("prod/db").clone())
    }

    /// Returns the step that answers, counted from zero.
    async fn step(&self) -> usize {
        let service = self.service().await;
        service.failover.as_ref().unwrap().state.answering
    }
}

/// Returns the reader and writer of a file.
fn snapshots(path: &Path) -> Option<Snapshots> {
    let scope = SnapshotScope {
        source: "test".to_owned(),
        cluster_name: "hub".parse().unwrap(),
        namespaces: Default::default(),
        watches: Default::default(),
    };
    let max_age = Duration::from_secs(3600);
    Some(Snapshots::new(path.to_owned(), max_age, scope))
}

#[tokio::test(start_paused = true)]
async fn step_changes_when_a_delay_ends() {
    let running = Running::start(None, &objects()).await;
    assert_eq!(running.step().await, 0);
    running.set_gateway("east", false).await;
    sleep(Duration::from_millis(1_990)).await;
    assert_eq!(running.step().await, 0);
    sleep(Duration::from_millis(20)).await;
    assert_eq!(running.step().await, 1);
    assert_eq!(running.feeds.failover_count(), 1);
    running.set_gateway("east", true).await;
    sleep(Duration::from_millis(29_990)).await;
    assert_eq!(running.step().await, 1);
    sleep(Duration::from_millis(20)).await;
    assert_eq!(running.step().await, 0);
    assert_eq!(running.feeds.failover_count(), 2);
}

/// Each update restarts the wait for the next one. That must not postpone the end of a delay.
#[tokio::test(start_paused = true)]
async fn steady_updates_do_not_postpone_a_failover() {
    let running = Running::start(None, &objects()).await;
    running.set_gateway("east", false).await;
    for number in 0..25 {
        running
            .apply(&mirror("shop", &format!("other{number}"), "north"))
            .await;
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(running.step().await, 1);
}

#[tokio::test(start_paused = true)]
async fn first_table_does_not_wait_for_the_delay() {
    let mut objects = objects();
    objects[2] = gateway("prod", "db-0-east", false);
    let running = Running::start(None, &objects).await;
    assert_eq!(running.step().await, 1);
}

/// A restarted process continues with the step that answered, and not with the first one that is alive.
#[tokio::test(start_paused = true)]
async fn snapshot_keeps_the_step_that_answers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("snapshot.json");
    let running = Running::start(snapshots(&path), &objects()).await;
    running.set_gateway("east", false).await;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(running.step().await, 1);
    running.set_gateway("east", true).await;
    wait_for_file(&path, "\"answering\":1").await;
    drop(running);
    let running = Running::start(snapshots(&path), &objects()).await;
    assert_eq!(running.step().await, 1);
    sleep(Duration::from_secs(31)).await;
    assert_eq!(running.step().await, 0);
}

/// A restarted process may have other flags, and may not reach the API server.
#[tokio::test(start_paused = true)]
async fn snapshot_without_the_cluster_that_answered_continues_with_the_next_step() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("snapshot.json");
    let running = Running::start(snapshots(&path), &objects()).await;
    assert_eq!(running.step().await, 0);
    wait_for_file(&path, "\"answering\":0").await;
    drop(running);
    let mut rules = rules();
    rules.excluded_clusters.insert("east".parse().unwrap());
    let running = Running::spawn(rules, snapshots(&path));
    assert_eq!(running.step().await, 1);
}

/// A restart does not make a name fail that was answered.
#[tokio::test(start_paused = true)]
async fn snapshot_keeps_an_open_gate() {
    let expecting = || {
        let mut objects = objects();
        let service = objects.last_mut().unwrap();
        service["metadata"]["annotations"] = json!({"global-dns/expected-clusters": "east+west"});
        objects
    };
    let without_west = || [&expecting()[..3], &expecting()[6..]].concat();
    let awaited = async |running: &Running| running.service().await.awaited().len();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("snapshot.json");
    let running = Running::start(snapshots(&path), &expecting()).await;
    assert_eq!(awaited(&running).await, 0);
    wait_for_file(&path, "\"is_open\":true").await;
    drop(running);
    let running = Running::start(snapshots(&path), &without_west()).await;
    assert_eq!(awaited(&running).await, 0);
    let running = Running::start(None, &without_west()).await;
    assert_eq!(awaited(&running).await, 1);
}

/// A database that is created again starts anew, also if the server restarted in between.
#[tokio::test(start_paused = true)]
async fn snapshot_forgets_the_gate_of_a_service_without_objects() {
    let expecting = |count: usize| {
        let mut objects = objects();
        let service = objects.last_mut().unwrap();
        service["metadata"]["annotations"] = json!({"global-dns/expected-clusters": "east+west"});
        [&objects[..count], &objects[6..]].concat()
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("snapshot.json");
    let running = Running::start(snapshots(&path), &expecting(6)).await;
    wait_for_file(&path, "\"is_open\":true").await;
    for feed in running.feeds.all() {
        let update = Update::Reset(vec![(feed, Default::default())]);
        running.updates.send(update).await.unwrap();
    }
    wait_for_file(&path, "\"gone_since\"").await;
    drop(running);
    let running = Running::start(snapshots(&path), &[]).await;
    sleep(Duration::from_secs(11)).await;
    for object in expecting(3) {
        running.apply(&object).await;
    }
    assert_eq!(running.service().await.awaited().len(), 1);
}

/// Waits until a file contains a text. The file is written by a thread.
async fn wait_for_file(path: &Path, text: &str) {
    let has_text = || std::fs::read_to_string(path).is_ok_and(|content| content.contains(text));
    for _ in 0..1000 {
        if has_text() {
            return;
        }
        sleep(Duration::from_secs(1)).await;
        tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(5)))
            .await
            .unwrap();
    }
    panic!("{} does not contain {text}", path.display());
}

/// The state is in the table that is published, so it survives a panic of the source.
#[tokio::test(start_paused = true)]
async fn panic_keeps_the_step_that_answers() {
    let feeds = Feeds::new(&[], Mcs::Off);
    let publisher = Publisher::default();
    let reader = publisher.reader();
    let settings = UpdateSettings {
        rules: rules(),
        shrink_guard: ShrinkGuard::new(None),
        snapshot: None,
        max_stale: None,
        delays: DELAYS,
    };
    let panics = Arc::new(tokio::sync::Notify::new());
    let trigger = panics.clone();
    let mut starts = 0;
    let source = async move |feeds: Feeds, updates: Updates| {
        starts += 1;
        let mut objects = objects();
        // At the first start, east is down. It is up again when the source restarts.
        objects[2] = gateway("prod", "db-0-east", starts > 1);
        for feed in feeds.all() {
            let own = objects
                .iter()
                .filter(|object| watch_of(object) == feed.watch);
            let list = own.map(|object| parsed(feed.watch, object)).collect();
            updates
                .send(Update::Reset(vec![(feed, list)]))
                .await
                .unwrap();
        }
        match starts {
            1 => trigger.notified().await,
            _ => std::future::pending().await,
        }
        panic!("test");
    };
    let task = tokio::spawn(super::super::run(
        source,
        feeds.clone(),
        publisher,
        settings,
    ));
    let step = || {
        let now = reader.load();
        let service = now.table.as_ref()?.service("prod", "db")?;
        Some(service.failover.as_ref()?.state.answering)
    };
    while step() != Some(1) {
        sleep(Duration::from_millis(1)).await;
    }
    panics.notify_one();
    while feeds.panic_count() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    sleep(Duration::from_secs(20)).await;
    assert_eq!(step(), Some(1));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(step(), Some(0));
    task.abort();
}
