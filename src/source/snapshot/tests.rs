use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::mirror::{Kind, KubeObject};
use crate::source::{Feed, Feeds, Policy, ShrinkGuard, Update, Updates, tests::spawn_follow};
use crate::table::inputs::Objects;
use crate::table::publish::Reader;
use crate::table::{Publisher, Table};
use crate::testing::{endpoint, gateway, inputs, local, mirror, mirrors, reduced, rules, table};

fn of() -> SnapshotOf {
    SnapshotOf {
        source: "https://192.0.2.1:6443/".to_owned(),
        cluster_name: "hub".parse().unwrap(),
        namespaces: BTreeSet::new(),
    }
}

/// One of each kind, and some that are skipped.
fn objects() -> Vec<Value> {
    let [mut service, slice] = local("prod", "cache", &[("a", "192.0.2.7", true)]);
    service["metadata"]["annotations"] =
        json!({"global-dns/ttl": "7", "global-dns/gateway-down": "include"});
    service["metadata"]["labels"]["mirror.linkerd.io/exported"] = "true".into();
    let mut flat = mirror("prod", "flat", "west");
    flat["spec"]["clusterIP"] = "10.0.0.9".into();
    vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.0.0.1", "2001:db8::1"]),
        endpoint("prod", "db", "east", "db-1", &["127.0.0.1"]),
        gateway("prod", "db-0-east", false),
        service,
        slice,
        flat,
    ]
}

fn saved(path: &Path, objects: &[Value]) -> Snapshots {
    let snapshots = Snapshots::new(path.to_owned(), Duration::from_secs(3600), of());
    let time = u64::from(unix_seconds());
    write(path, of(), time, &inputs(objects)).unwrap();
    snapshots
}

#[test]
fn what_is_read_is_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let restored = saved(&path, &objects()).load().unwrap();
    let inputs = inputs(&objects());
    for watch in Watch::ALL {
        assert_eq!(restored.inputs.objects(watch), inputs.objects(watch));
    }
    let build = |inputs: &Inputs| {
        let built = crate::table::build(&Table::default(), inputs, &inputs.services(), &rules());
        built.table
    };
    assert_eq!(build(&restored.inputs), table(&objects()));
    assert!(restored.age < Duration::from_secs(60));
    // Nothing stays aside.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_is_of_no_use_is_ignored_with_a_reason() {
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
        (String::new(), "it makes no sense: EOF"),
        (half, "it makes no sense: EOF"),
        ("[]".to_owned(), "it makes no sense"),
        (
            changed(&|value| value["form"] = 0.into()),
            "in form 0, and this is",
        ),
        (
            changed(&|value| value["program"] = "0.0.0".into()),
            "it was written by version 0.0.0",
        ),
        (
            changed(&|value| value["of"]["cluster_name"] = "east".into()),
            "in cluster 'east'",
        ),
        (
            changed(&|value| value["of"]["source"] = "https://192.0.2.2/".into()),
            "it is of https://192.0.2.2/",
        ),
        (
            changed(&|value| value["of"]["namespaces"] = json!(["prod"])),
            "it is of",
        ),
        (
            changed(&|value| value["time"] = (now - 3700).into()),
            "which is more than --snapshot-max-age",
        ),
        (
            changed(&|value| value["time"] = (now + 3700).into()),
            "it is from the future",
        ),
        (
            changed(&|value| value["objects"][0][1][0][0]["name"] = 7.into()),
            "it makes no sense: invalid type",
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
async fn it_is_written_when_something_changes_and_before_it_is_too_old() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let mut snapshots = Snapshots::new(path.clone(), Duration::from_secs(3600), of());
    let inputs = inputs(&objects());
    let mut writes = |wait: Duration, change: bool| {
        let _ = std::fs::remove_file(&path);
        if change {
            snapshots.note_change();
        }
        let next = snapshots.save_if_due(&inputs, Duration::ZERO);
        if let Some(writing) = snapshots.writing.take() {
            writing.join().unwrap();
        }
        assert!(next <= wait, "{next:?}");
        path.exists()
    };
    assert!(writes(INTERVAL, true));
    assert!(!writes(INTERVAL, true), "again within the interval");
    tokio::time::advance(INTERVAL).await;
    assert!(writes(INTERVAL, false), "what changed meanwhile");
    let refresh = Duration::from_secs(3600) / REFRESHES;
    tokio::time::advance(refresh / 2).await;
    assert!(!writes(refresh, false), "nothing has changed");
    tokio::time::advance(refresh / 2).await;
    assert!(writes(INTERVAL, false), "it gets old");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_written_is_counted_and_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join("snapshot.json");
    let mut snapshots = Snapshots::new(path, Duration::from_secs(3600), of());
    for count in 1..=2 {
        snapshots.note_change();
        snapshots.save_if_due(&inputs(&objects()), Duration::ZERO);
        snapshots.writing.take().unwrap().join().unwrap();
        assert_eq!(snapshots.failures().load(Relaxed), count);
        assert!(snapshots.outcome.fails.load(Relaxed));
        tokio::time::advance(INTERVAL).await;
    }
}

// === Followed ===

struct Followed {
    updates: Updates,
    feeds: Feeds,
    reader: Reader,
    _task: JoinHandle<()>,
}

fn followed(snapshots: Snapshots) -> Followed {
    let feeds = Feeds::new(&[]);
    let publisher = Publisher::default();
    let reader = publisher.reader();
    let policy = Policy {
        rules: rules(),
        shrink_guard: ShrinkGuard::new(Some(90)),
        snapshot: Some(snapshots),
        max_stale: None,
    };
    let (updates, _task) = spawn_follow(feeds.clone(), publisher, policy);
    Followed {
        updates,
        reader,
        _task,
        feeds,
    }
}

/// The complete lists that a source would send.
fn lists(objects: &[Value]) -> Vec<(Feed, Objects)> {
    let list = |watch: Watch| {
        let is_own = |object: &&Value| {
            let is_slice = !object["addressType"].is_null();
            let kind = [Kind::Service, Kind::EndpointSlice][usize::from(is_slice)];
            Watch::of(kind, &KubeObject::read(&object.to_string())) == Some(watch)
        };
        let own = objects.iter().filter(is_own);
        let feed = Feed {
            watch,
            namespace: None,
        };
        let objects: Objects = own.map(|object| reduced(watch, object)).collect();
        (feed, objects)
    };
    Watch::ALL.into_iter().map(list).collect()
}

#[tokio::test(start_paused = true)]
async fn a_saved_table_is_answered_until_everything_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let followed = followed(saved(&path, &objects()));
    let settle = || tokio::time::sleep(Duration::from_millis(1));
    settle().await;
    let is_stale = || followed.reader.load().is_stale;
    assert!(is_stale());
    let served = || followed.reader.load().table.clone().unwrap();
    assert_eq!(served(), table(&objects()));
    let generation = followed.reader.load().generation;

    // Without the mirrors of `db`, and with an object that is new.
    let mut now = objects().split_off(4);
    now.push(mirror("prod", "new", "east"));
    now.push(endpoint("prod", "new", "east", "new-0", &["10.0.0.3"]));
    let mut lists = lists(&now);
    let last = lists.pop().unwrap();
    for list in lists {
        followed
            .updates
            .send(Update::Reset(vec![list]))
            .await
            .unwrap();
    }
    settle().await;
    assert!(is_stale(), "replaced by a part");
    assert_eq!(served(), table(&objects()));
    followed
        .updates
        .send(Update::Reset(vec![last]))
        .await
        .unwrap();
    settle().await;
    assert!(!is_stale());
    assert_eq!(served(), table(&now));
    assert_eq!(followed.reader.load().generation, generation + 1);
}

#[tokio::test(start_paused = true)]
async fn a_saved_table_that_is_confirmed_keeps_its_serial() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let followed = followed(saved(&path, &objects()));
    let settle = || tokio::time::sleep(Duration::from_millis(1));
    settle().await;
    let serial = followed.reader.load().serial;
    let update = Update::Reset(lists(&objects()));
    followed.updates.send(update).await.unwrap();
    settle().await;
    let now = followed.reader.load();
    assert_eq!((now.is_stale, now.serial), (false, serial));
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_saved_table_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let snapshots = saved(&path, &objects());
    let time = u64::from(unix_seconds()) - 600;
    write(&path, of(), time, &inputs(&objects())).unwrap();
    let followed = followed(snapshots);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(followed.feeds.age() >= Duration::from_secs(600));
}

#[tokio::test(start_paused = true)]
async fn the_first_lists_of_all_are_guarded_by_what_was_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let mirrors = mirrors(20);
    let followed = followed(saved(&path, &mirrors));
    let answered = || {
        let now = followed.reader.load();
        let services = now.table.iter().flat_map(Table::services);
        services.filter(|s| !s.endpoints.is_empty()).count()
    };
    let list = async |objects: &[Value]| {
        for list in lists(objects) {
            followed
                .updates
                .send(Update::Reset(vec![list]))
                .await
                .unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let saved_file = std::fs::read(&path).unwrap();
    list(&[]).await;
    assert_eq!((answered(), followed.feeds.held()), (20, Watch::ALL.len()));
    assert!(followed.reader.load().is_stale);
    // Too early to confirm anything, and nothing worth saving.
    tokio::time::sleep(Duration::from_secs(10)).await;
    list(&[]).await;
    assert_eq!(answered(), 20);
    assert_eq!(std::fs::read(&path).unwrap(), saved_file);
    // What says otherwise ends it, and what says the same in time confirms it.
    list(&mirrors).await;
    assert_eq!((answered(), followed.feeds.held()), (20, 0));
    assert!(!followed.reader.load().is_stale);
    list(&[]).await;
    assert_eq!((answered(), followed.feeds.held()), (20, 1));
}

#[tokio::test(start_paused = true)]
async fn the_first_lists_of_all_are_taken_when_others_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let mirrors = mirrors(20);
    let followed = followed(saved(&path, &mirrors));
    for pause in [0, 30] {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        for list in lists(&[]) {
            followed
                .updates
                .send(Update::Reset(vec![list]))
                .await
                .unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let now = followed.reader.load();
    assert_eq!(now.table.as_ref().unwrap().services().count(), 0);
    assert_eq!((now.is_stale, followed.feeds.held()), (false, 0));
}
