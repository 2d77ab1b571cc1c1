use crate::table::Timers;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::model::{Kind, KubeObject, Mcs, Timestamp};
use crate::source::{
    Arrival, Feed, Feeds, ShrinkGuard, Update, UpdateSettings, Updates, tests::spawn_update_loop,
};
use crate::table::publish::Reader;
use crate::table::store::Objects;
use crate::table::{Publisher, Service, Table};
use crate::testing::{
    endpoint, gateway, import, local, mirror, mirrors, parsed, rules, service_mirror, store, table,
};

fn scope() -> SnapshotScope {
    SnapshotScope {
        source: "https://192.0.2.1:6443/".to_owned(),
        cluster_name: "hub".parse().unwrap(),
        namespaces: BTreeSet::new(),
        watches: Watch::needed(Mcs::On).collect(),
    }
}

/// Returns one object of each kind, and some that are skipped.
fn objects() -> Vec<Value> {
    let [mut service, slice] = local("prod", "cache", &[("a", "192.0.2.7", true)]);
    service["metadata"]["annotations"] =
        json!({"global-dns/ttl": "7", "global-dns/gateway-down": "include"});
    service["metadata"]["labels"]["mirror.linkerd.io/exported"] = "true".into();
    vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.0.0.1", "2001:db8::1"]),
        endpoint("prod", "db", "east", "db-1", &["127.0.0.1"]),
        gateway("prod", "db-0-east", false),
        service,
        slice,
        service_mirror("prod", "flat", "west", "10.0.0.9"),
    ]
}

/// Returns a ServiceImport of each form.
fn imports() -> Vec<Value> {
    let mut without_slices = import("prod", "plain", "Headless", &[]);
    without_slices["status"]["endpointSliceObjects"] = "Absent".into();
    vec![
        without_slices,
        import("prod", "idle", "Headless", &[]),
        import("prod", "web", "ClusterSetIP", &["10.0.0.7"]),
    ]
}

fn saved(path: &Path, objects: &[Value]) -> Snapshots {
    let snapshots = Snapshots::new(path.to_owned(), Duration::from_secs(3600), scope());
    let time = u64::from(unix_seconds());
    write(path, scope(), time, &store(objects), Earlier::default()).unwrap();
    snapshots
}

fn save_if_due(snapshots: &mut Snapshots, store: &Store) -> Duration {
    let saved = Saved {
        store,
        table: &Table::default(),
        links: &Links::default(),
    };
    snapshots.save_if_due(saved, Duration::ZERO)
}

#[test]
fn snapshot_restores_the_written_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let objects = [objects(), imports()].concat();
    let restored = saved(&path, &objects).load().unwrap();
    let store = store(&objects);
    for watch in Watch::ALL {
        assert_eq!(restored.store.objects(watch), store.objects(watch));
    }
    let build = |store: &Store| {
        let built = crate::table::build(
            &Table::default(),
            store,
            &store.services(),
            &rules(),
            &Timers::default(),
        );
        built.table
    };
    assert_eq!(build(&restored.store), table(&objects));
    assert!(restored.age < Duration::from_secs(60));
    // The temporary file is gone.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn unusable_snapshot_is_ignored_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let snapshots = saved(&path, &objects());
    let good: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let now = good["time"].as_u64().unwrap();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut value = good.clone();
        change(&mut value);
        value.to_string()
    };
    let half = good.to_string()[..good.to_string().len() / 2].to_owned();
    for (text, reason) in [
        (String::new(), "it is invalid: EOF"),
        (half, "it is invalid: EOF"),
        ("[]".to_owned(), "it is invalid"),
        (
            changed(&|value| value["form"] = 0.into()),
            "format 0; this program has",
        ),
        (
            changed(&|value| value["program"] = "0.0.0".into()),
            "it has version 0.0.0",
        ),
        (
            changed(&|value| value["of"]["cluster_name"] = "east".into()),
            "cluster 'east'",
        ),
        (
            changed(&|value| value["of"]["source"] = "https://192.0.2.2/".into()),
            "it belongs to source https://192.0.2.2/",
        ),
        (
            changed(&|value| value["of"]["namespaces"] = json!(["prod"])),
            "it belongs to",
        ),
        (
            // It was written without --mcs, so that it has no ServiceImports.
            changed(&|value| value["of"]["watches"] = json!(["services"])),
            "and has 1 watches",
        ),
        (
            changed(&|value| value["time"] = (now - 3700).into()),
            "which is more than --snapshot-max-age",
        ),
        (
            changed(&|value| value["time"] = (now + 3700).into()),
            "s in the future",
        ),
        (
            changed(&|value| value["objects"][0][1][0][0]["name"] = 7.into()),
            "it is invalid: invalid type",
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        let why = snapshots.read().unwrap_err().to_string();
        assert!(why.contains(reason), "'{why}' instead of '{reason}'");
        assert!(snapshots.load().is_none(), "{reason}");
    }
    std::fs::write(&path, changed(&|value| value["time"] = (now - 3000).into())).unwrap();
    assert!(snapshots.load().unwrap().age >= Duration::from_secs(3000));
    std::fs::remove_file(&path).unwrap();
    assert!(snapshots.load().is_none());
}

#[tokio::test(start_paused = true)]
async fn snapshot_is_written_after_changes_and_before_it_is_too_old() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let mut snapshots = Snapshots::new(path.clone(), Duration::from_secs(3600), scope());
    let store = store(&objects());
    let mut writes = |wait: Duration, change: bool| {
        let _ = std::fs::remove_file(&path);
        if change {
            snapshots.note_change();
        }
        let next = save_if_due(&mut snapshots, &store);
        if let Some(writer) = snapshots.writer.take() {
            writer.join().unwrap();
        }
        // On a busy machine, a write can take long, which would delay the next one.
        snapshots.status.duration.store(0, Relaxed);
        assert!(next <= wait, "{next:?}");
        path.exists()
    };
    assert!(writes(INTERVAL, true));
    assert!(
        !writes(INTERVAL, true),
        "a second write within the interval"
    );
    tokio::time::advance(INTERVAL).await;
    assert!(writes(INTERVAL, false), "a change within the interval");
    let refresh = Duration::from_secs(3600) / REFRESHES;
    tokio::time::advance(refresh / 2).await;
    assert!(!writes(refresh, false), "no change");
    tokio::time::advance(refresh / 2).await;
    assert!(writes(INTERVAL, false), "refresh before it is too old");
}

#[tokio::test(start_paused = true)]
async fn failed_writes_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join("snapshot.json");
    let mut snapshots = Snapshots::new(path, Duration::from_secs(3600), scope());
    for count in 1..=2 {
        snapshots.note_change();
        save_if_due(&mut snapshots, &store(&objects()));
        snapshots.writer.take().unwrap().join().unwrap();
        assert_eq!(snapshots.failures().count(), count);
        assert!(snapshots.status.is_failing.load(Relaxed));
        tokio::time::advance(INTERVAL).await;
    }
}

// === Update loop ===

struct TestLoop {
    updates: Updates,
    feeds: Feeds,
    reader: Reader,
    _task: JoinHandle<()>,
}

fn start_loop(snapshots: Snapshots) -> TestLoop {
    let feeds = Feeds::new(&[], Mcs::On);
    let publisher = Publisher::default();
    let reader = publisher.reader();
    let settings = UpdateSettings {
        rules: rules(),
        shrink_guard: ShrinkGuard::new(Some(90)),
        snapshot: Some(snapshots),
        is_following: true,
    };
    let (updates, _task) = spawn_update_loop(feeds.clone(), publisher, settings);
    TestLoop {
        updates,
        reader,
        _task,
        feeds,
    }
}

/// Returns the complete lists that a source would send.
fn lists(objects: &[Value]) -> Vec<(Feed, Objects)> {
    let list = |watch: Watch| {
        let is_own = |object: &&Value| {
            let is_slice = !object["addressType"].is_null();
            let kind = [Kind::Service, Kind::EndpointSlice][usize::from(is_slice)];
            Watch::for_object(kind, &KubeObject::read(&object.to_string())) == Some(watch)
        };
        let own = objects.iter().filter(is_own);
        let feed = Feed {
            watch,
            namespace: None,
        };
        let objects: Objects = own.map(|object| parsed(watch, object)).collect();
        (feed, objects)
    };
    Watch::needed(Mcs::On).map(list).collect()
}

#[tokio::test(start_paused = true)]
async fn restored_table_is_served_until_all_watches_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let running = start_loop(saved(&path, &objects()));
    let settle = || tokio::time::sleep(Duration::from_millis(1));
    settle().await;
    let is_from_snapshot = || running.reader.load().is_from_snapshot;
    assert!(is_from_snapshot());
    let served = || running.reader.load().table.clone().unwrap();
    assert_eq!(served(), table(&objects()));
    let generation = running.reader.load().generation;

    // The mirrors of `db` are gone, and there is a new service.
    let mut now = objects().split_off(4);
    now.push(mirror("prod", "new", "east"));
    now.push(endpoint("prod", "new", "east", "new-0", &["10.0.0.3"]));
    let mut lists = lists(&now);
    let last = lists.pop().unwrap();
    for list in lists {
        running
            .updates
            .send(Update::Reset(vec![list]))
            .await
            .unwrap();
    }
    settle().await;
    assert!(
        is_from_snapshot(),
        "the table was replaced before all watches were listed"
    );
    assert_eq!(served(), table(&objects()));
    running
        .updates
        .send(Update::Reset(vec![last]))
        .await
        .unwrap();
    settle().await;
    assert!(!is_from_snapshot());
    // The table also remembers that `east` left `prod/db`.
    assert_eq!(served().answers_hash(), table(&now).answers_hash());
    assert_eq!(running.reader.load().generation, generation + 1);
}

#[tokio::test(start_paused = true)]
async fn confirmed_restored_table_keeps_its_serial() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let running = start_loop(saved(&path, &objects()));
    let settle = || tokio::time::sleep(Duration::from_millis(1));
    settle().await;
    let serial = running.reader.load().serial;
    let update = Update::Reset(lists(&objects()));
    running.updates.send(update).await.unwrap();
    settle().await;
    let now = running.reader.load();
    assert_eq!((now.is_from_snapshot, now.serial), (false, serial));
}

#[tokio::test(start_paused = true)]
async fn restored_table_keeps_its_age() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let snapshots = saved(&path, &objects());
    let time = u64::from(unix_seconds()) - 600;
    write(&path, scope(), time, &store(&objects()), Earlier::default()).unwrap();
    let running = start_loop(snapshots);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(running.feeds.age() >= Duration::from_secs(600));
}

#[tokio::test(start_paused = true)]
async fn first_lists_are_compared_with_the_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let mirrors = mirrors(20);
    let running = start_loop(saved(&path, &mirrors));
    let answered = || {
        let now = running.reader.load();
        let services = now.table.iter().flat_map(Table::services);
        services.filter(|s| !s.endpoints.is_empty()).count()
    };
    let list = async |objects: &[Value]| {
        for list in lists(objects) {
            running
                .updates
                .send(Update::Reset(vec![list]))
                .await
                .unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let saved_file = std::fs::read(&path).unwrap();
    list(&[]).await;
    assert_eq!(
        (answered(), running.feeds.held_count()),
        (20, Watch::needed(Mcs::On).count())
    );
    assert!(running.reader.load().is_from_snapshot);
    // Lists before the end of the pause do not confirm it, and the snapshot is not written.
    tokio::time::sleep(Duration::from_secs(10)).await;
    list(&[]).await;
    assert_eq!(answered(), 20);
    assert_eq!(std::fs::read(&path).unwrap(), saved_file);
    // Contradicting lists are applied at once. Then an empty list is held again.
    list(&mirrors).await;
    assert_eq!((answered(), running.feeds.held_count()), (20, 0));
    assert!(!running.reader.load().is_from_snapshot);
    list(&[]).await;
    assert_eq!((answered(), running.feeds.held_count()), (20, 1));
}

#[tokio::test(start_paused = true)]
async fn first_lists_are_applied_when_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let mirrors = mirrors(20);
    let running = start_loop(saved(&path, &mirrors));
    for pause in [0, 30] {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        for list in lists(&[]) {
            running
                .updates
                .send(Update::Reset(vec![list]))
                .await
                .unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let now = running.reader.load();
    let mut services = now.table.as_ref().unwrap().services();
    assert!(!services.any(Service::is_listed));
    assert_eq!(
        (now.is_from_snapshot, running.feeds.held_count()),
        (false, 0)
    );
}

/// Returns the objects of [`objects`], with another one for `db-1`, which is skipped.
fn objects_with(skipped: &Value) -> Vec<Value> {
    let mut objects = objects();
    objects[2] = skipped.clone();
    objects
}

/// Returns `db-1` with an address that clients cannot use.
fn unusable(address: &str) -> Value {
    endpoint("prod", "db", "east", "db-1", &[address])
}

impl TestLoop {
    async fn send(&self, update: Update) {
        self.updates.send(update).await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
    }

    /// Returns the times since which `db-1` is skipped and `db-0` is down.
    fn times(&self) -> [Option<Timestamp>; 2] {
        let now = self.reader.load();
        let table = now.table.as_ref().unwrap();
        let mut skipped = table.skipped();
        let skipped = skipped.find(|one| one.subject() == "Service/prod/db-1-east");
        let service = table.service("prod", "db").unwrap();
        [
            skipped.unwrap().since(),
            service.since(&service.endpoints[0]),
        ]
    }
}

#[tokio::test(start_paused = true)]
async fn object_keeps_the_time_since_which_it_is_skipped_while_the_reason_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let snapshots = Snapshots::new(path, Duration::from_secs(3600), scope());
    let running = start_loop(snapshots);
    let start = running.feeds.clock().now();
    let list = |skipped: &Value| Update::Reset(lists(&objects_with(skipped)));
    let apply = |object: &Value| {
        let watch = Watch::Services;
        let (key, object) = parsed(watch, object);
        Update::Apply {
            watch,
            key,
            object: Some(object),
            arrival: Arrival::now(),
        }
    };
    running.send(list(&unusable("127.0.0.1"))).await;
    assert_eq!(running.times(), [Some(start); 2]);
    running.send(list(&unusable("127.0.0.2"))).await;
    running.send(apply(&unusable("127.0.0.3"))).await;
    assert_eq!(running.times(), [Some(start); 2]);
    let mut other_reason = unusable("127.0.0.1");
    other_reason["metadata"]["annotations"]["mirror.linkerd.io/remote-svc-fq-name"] =
        json!("db-1.shop.svc.cluster.local");
    running.send(apply(&other_reason)).await;
    let later = start.after(Duration::from_secs(30));
    assert_eq!(running.times(), [Some(later), Some(start)]);
}

#[tokio::test(start_paused = true)]
async fn times_of_a_snapshot_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let long_ago = Timestamp::from_seconds(1_000_000);
    let mut store = store(&objects());
    let (key, mut object) = parsed(Watch::Services, &unusable("127.0.0.2"));
    let skipped = object.skipped_mut().unwrap();
    skipped.set_since(Some(long_ago));
    store.apply(Watch::Services, key, object);
    let snapshots = saved(&path, &[]);
    write(
        &path,
        scope(),
        u64::from(unix_seconds()),
        &store,
        Earlier::default(),
    )
    .unwrap();
    let running = start_loop(snapshots);
    let start = running.feeds.clock().now();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(running.reader.load().is_from_snapshot);
    assert_eq!(running.times(), [Some(long_ago), Some(start)]);
    running.send(Update::Reset(lists(&objects()))).await;
    assert!(!running.reader.load().is_from_snapshot);
    assert_eq!(running.times(), [Some(long_ago), Some(start)]);
}
