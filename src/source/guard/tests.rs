use serde_json::Value;
use tokio::task::JoinHandle;

use super::*;
use crate::mirror::{ObjectKey, Watch};
use crate::source::{Policy, Update, Updates, file, tests::spawn_follow};
use crate::table::Publisher;
use crate::table::inputs::Objects;
use crate::table::publish::Reader;
use crate::testing::{endpoint, gateway, local, mirror, mirrors, reduced, rules};

/// A source that is followed.
struct Followed {
    updates: Updates,
    feeds: Feeds,
    reader: Reader,
    _task: JoinHandle<()>,
}

impl Followed {
    fn new(percent: Option<u8>, namespaces: &[&str]) -> Self {
        Self::guarded(ShrinkGuard::new(percent), namespaces)
    }

    fn guarded(shrink_guard: ShrinkGuard, namespaces: &[&str]) -> Self {
        let namespaces: Vec<_> = namespaces.iter().map(|n| n.parse().unwrap()).collect();
        let feeds = Feeds::new(&namespaces);
        let publisher = Publisher::default();
        let reader = publisher.reader();
        let policy = Policy {
            rules: rules(),
            shrink_guard,
            snapshot: None,
            max_stale: None,
        };
        let (updates, _task) = spawn_follow(feeds.clone(), publisher, policy);
        Self {
            updates,
            reader,
            _task,
            feeds,
        }
    }

    /// Starts with a complete list of mirrors, and empty ones of everything else.
    async fn with(percent: Option<u8>, mirrors: &[Value]) -> Self {
        Self::guarded_with(ShrinkGuard::new(percent), mirrors).await
    }

    async fn guarded_with(shrink_guard: ShrinkGuard, mirrors: &[Value]) -> Self {
        let followed = Self::guarded(shrink_guard, &[]);
        for watch in Watch::ALL {
            let is_mirrors = watch == Watch::MirrorServices;
            followed
                .list(watch, if is_mirrors { mirrors } else { &[] })
                .await;
        }
        followed.wait("the first table", |f| f.answered() > 0).await;
        followed
    }

    async fn list(&self, watch: Watch, objects: &[Value]) {
        let objects = objects.iter().map(|object| reduced(watch, object));
        let list = (feed(watch, None), objects.collect());
        self.send(Update::Reset(vec![list])).await;
    }

    async fn send(&self, update: Update) {
        self.updates.send(update).await.unwrap();
    }

    /// How many services have endpoints.
    fn answered(&self) -> usize {
        let now = self.reader.load();
        let services = now.table.iter().flat_map(Table::services);
        services.filter(|s| !s.endpoints.is_empty()).count()
    }

    /// Waits for what must come. Time is paused: it passes only when nothing else can happen.
    async fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_so(self) {
            assert!(Instant::now() < end, "waited for {what}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until everything that was sent has been dealt with.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn feed(watch: Watch, namespace: Option<&str>) -> Feed {
    let namespace = namespace.map(|n| n.parse().unwrap());
    Feed { watch, namespace }
}

const MIRRORS: Watch = Watch::MirrorServices;

#[test]
fn more_than_the_share_of_more_than_ten_services_is_too_much() {
    for (percent, lost, there, is_too_much) in [
        (Some(90), 20, 20, true),
        (Some(90), 19, 20, true),
        (Some(90), 18, 20, false), // the share itself may go
        (Some(90), 11, 11, true),
        (Some(90), 9, 10, false),
        (Some(50), 10, 20, false),
        (Some(50), 11, 20, true),
        (Some(1), 1, 2, false),
        (Some(1), 9, 10, false),
        (Some(90), 0, 0, false),
        (Some(90), 0, 1, false),
        (None, 20, 20, false),
        (None, 1, 1, false),
    ] {
        let case = format!("{lost} of {there} with {percent:?}");
        for guard in [
            ShrinkGuard::new(percent),
            ShrinkGuard::new(percent).of_files(),
        ] {
            assert_eq!(guard.is_too_much(lost, there), is_too_much, "{case}");
        }
    }
}

#[test]
fn none_left_of_any_number_is_too_much_of_the_api_servers_and_of_ten_not_of_a_files() {
    for (percent, there, of_api_server, of_file) in [
        (Some(90), 10, true, false),
        (Some(90), 1, true, false),
        (Some(99), 1, true, false),
        (None, 10, false, false),
    ] {
        let guard = ShrinkGuard::new(percent);
        assert_eq!(guard.is_too_much(there, there), of_api_server, "{there}");
        assert_eq!(
            guard.of_files().is_too_much(there, there),
            of_file,
            "{there}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_drops_most_is_held_until_another_one_says_the_same() {
    let followed = Followed::with(Some(90), &mirrors(20)).await;
    let generation = followed.reader.load().generation;
    followed.list(MIRRORS, &mirrors(1)).await;
    followed.wait("the hold", |f| f.feeds.held() == 1).await;
    let held = Instant::now();
    let told = "mirror-services: a list that would leave 1 of 20 services is held until another one says the same";
    assert!(followed.feeds.troubles().contains(&told.to_owned()));
    // Too early to confirm anything.
    followed.list(MIRRORS, &mirrors(1)).await;
    followed.settle().await;
    assert_eq!((followed.feeds.held(), followed.answered()), (1, 20));
    assert_eq!(followed.reader.load().generation, generation);

    followed.feeds.relist_due(&feed(MIRRORS, None)).await;
    let paused = held.elapsed();
    assert!(paused >= PAUSE.mul_f64(0.7) && paused < Duration::from_secs(25));
    assert_eq!(followed.answered(), 20);
    followed.list(MIRRORS, &[]).await;
    followed.wait("the end", |f| f.answered() == 0).await;
    assert_eq!(followed.feeds.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_says_otherwise_is_applied_at_once() {
    let followed = Followed::with(Some(90), &mirrors(20)).await;
    followed.list(MIRRORS, &[]).await;
    followed.wait("the hold", |f| f.feeds.held() == 1).await;
    followed.list(MIRRORS, &mirrors(21)).await;
    followed.wait("the list", |f| f.answered() == 21).await;
    assert_eq!(followed.feeds.held(), 0);
    // It begins anew: the first list of its kind was dropped, and confirms nothing.
    tokio::time::sleep(2 * PAUSE).await;
    followed.list(MIRRORS, &[]).await;
    followed.wait("the hold", |f| f.feeds.held() == 1).await;
    assert_eq!(followed.answered(), 21);
}

#[tokio::test(start_paused = true)]
async fn lists_that_drop_less_are_not_held() {
    let of_api_server = ShrinkGuard::new;
    let of_file = |percent| ShrinkGuard::new(percent).of_files();
    for (guard, before, after) in [
        (of_api_server(Some(90)), 20, 2),
        (of_api_server(Some(90)), 10, 1),
        (of_api_server(Some(90)), 2, 1),
        (of_api_server(None), 20, 0),
        (of_api_server(None), 1, 0),
        (of_file(Some(90)), 10, 0),
        (of_file(Some(90)), 1, 0),
    ] {
        let followed = Followed::guarded_with(guard, &mirrors(before)).await;
        followed.list(MIRRORS, &mirrors(after)).await;
        followed.wait("the list", |f| f.answered() == after).await;
        assert_eq!(followed.feeds.held(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_leaves_none_is_held_however_few_there_were() {
    for before in [1, 2, 10] {
        let followed = Followed::with(Some(90), &mirrors(before)).await;
        let generation = followed.reader.load().generation;
        followed.list(MIRRORS, &[]).await;
        followed.wait("the hold", |f| f.feeds.held() == 1).await;
        assert_eq!(followed.answered(), before);
        assert_eq!(followed.reader.load().generation, generation);
        // One that leaves some is true at once.
        followed.list(MIRRORS, &mirrors(before)[..2]).await;
        let is_taken = |f: &Followed| f.feeds.held() == 0 && f.answered() == 1;
        followed.wait("the list", is_taken).await;
        followed.list(MIRRORS, &[]).await;
        followed.wait("the hold", |f| f.feeds.held() == 1).await;
        tokio::time::sleep(2 * PAUSE).await;
        assert_eq!(followed.answered(), 1);
        followed.list(MIRRORS, &[]).await;
        followed.wait("the end", |f| f.answered() == 0).await;
        assert_eq!(followed.feeds.held(), 0);
    }
}

/// Whatever is left beside them: mirrors that have no place here, and Services that do not join.
#[tokio::test(start_paused = true)]
async fn what_answers_nothing_does_not_hide_that_none_is_left() {
    let mut flat = mirror("prod", "flat", "west");
    flat["spec"]["clusterIP"] = "10.0.0.9".into();
    let beside = [flat, mirror("prod", "empty", "west")];
    let followed = Followed::with(Some(90), &[mirrors(3), beside.to_vec()].concat()).await;
    followed.list(MIRRORS, &beside).await;
    followed.wait("the hold", |f| f.feeds.held() == 1).await;
    assert_eq!(followed.answered(), 3);
}

/// The slices that are listed are those that were seen: emptied.
#[tokio::test(start_paused = true)]
async fn a_list_that_empties_what_it_leaves_is_held_too() {
    let of = |pods: &[(&str, &str, bool)]| {
        let [mut service, slice] = local("prod", "cache", pods);
        service["metadata"]["labels"]["mirror.linkerd.io/exported"] = "true".into();
        (service, slice)
    };
    let followed = Followed::new(Some(90), &[]);
    let (service, slice) = of(&[("a", "192.0.2.1", true)]);
    for watch in Watch::ALL {
        let own = [
            (Watch::LocalServices, &service),
            (Watch::LocalSlices, &slice),
        ];
        let own = own.into_iter().filter(|(of, _)| *of == watch);
        let list: Vec<Value> = own.map(|(_, object)| object.clone()).collect();
        followed.list(watch, &list).await;
    }
    followed.wait("the table", |f| f.answered() == 1).await;
    // Other endpoints are none fewer.
    let (_, moved) = of(&[("a", "192.0.2.2", true)]);
    let generation = followed.reader.load().generation;
    followed.list(Watch::LocalSlices, &[moved]).await;
    let has_moved = |f: &Followed| f.reader.load().generation > generation;
    followed.wait("the other address", has_moved).await;
    let (_, emptied) = of(&[]);
    followed.list(Watch::LocalSlices, &[emptied]).await;
    followed.wait("the hold", |f| f.feeds.held() == 1).await;
    assert_eq!(followed.answered(), 1);
}

#[tokio::test(start_paused = true)]
async fn events_are_never_held() {
    let all = mirrors(20);
    let followed = Followed::with(Some(90), &all).await;
    followed.list(MIRRORS, &[]).await;
    followed.wait("the hold", |f| f.feeds.held() == 1).await;
    let delete = |key: ObjectKey| Update::Apply {
        watch: MIRRORS,
        key,
        object: None,
    };
    for object in &all[2..] {
        followed.send(delete(reduced(MIRRORS, object).0)).await;
    }
    followed.wait("the deletes", |f| f.answered() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn what_events_deleted_is_not_the_next_lists_doing() {
    let all = mirrors(30);
    let followed = Followed::with(Some(90), &all).await;
    // Taken together: 18 services go by events, then 10 of 12 by a list.
    for object in &all[..36] {
        let (key, _) = reduced(MIRRORS, object);
        let (watch, object) = (MIRRORS, None);
        followed.send(Update::Apply { watch, key, object }).await;
    }
    followed.list(MIRRORS, &all[56..]).await;
    followed.wait("the list", |f| f.answered() == 2).await;
    assert_eq!(followed.feeds.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_vanish_with_another_watch_count_too() {
    let followed = Followed::with(Some(90), &mirrors(1)).await;
    let pairs = (0..20).map(|number| {
        let pod = [("a", &*format!("192.0.2.{number}"), true)];
        local("prod", &format!("cache{number}"), &pod)
    });
    let mut services = Vec::new();
    let mut slices = Vec::new();
    for [mut service, slice] in pairs {
        service["metadata"]["labels"]["mirror.linkerd.io/exported"] = "true".into();
        services.push(service);
        slices.push(slice);
    }
    followed.list(Watch::LocalServices, &services).await;
    followed.list(Watch::LocalSlices, &slices).await;
    followed.wait("local members", |f| f.answered() == 21).await;
    followed.list(Watch::LocalSlices, &[]).await;
    followed.wait("the hold", |f| f.feeds.held() == 1).await;
    assert_eq!(followed.answered(), 21);
}

/// Every watch's objects of services that are mirrored from two clusters, with a gateway that is down, and that have a
/// local member; one of them has another cluster's pods by another controller's slices.
fn everything(count: usize) -> BTreeMap<Watch, Vec<Value>> {
    let mut lists: BTreeMap<Watch, Vec<Value>> = Watch::ALL.map(|watch| (watch, vec![])).into();
    for number in 1..=count {
        let name = format!("db{number}");
        let host = format!("{name}-0");
        for (cluster, net) in [("east", 1), ("west", 2)] {
            let address = format!("10.{net}.0.{number}");
            let slice = gateway("prod", &format!("{host}-{cluster}"), cluster == "east");
            let mirrors = [
                mirror("prod", &name, cluster),
                endpoint("prod", &name, cluster, &host, &[&address]),
            ];
            lists
                .entry(Watch::MirrorServices)
                .or_default()
                .extend(mirrors);
            lists.entry(Watch::MirrorSlices).or_default().push(slice);
        }
        let [service, slice] = local(
            "prod",
            &name,
            &[(&host, &format!("192.0.2.{number}"), true)],
        );
        lists.entry(Watch::LocalServices).or_default().push(service);
        lists.entry(Watch::LocalSlices).or_default().push(slice);
    }
    lists
}

#[tokio::test(start_paused = true)]
async fn each_watch_is_guarded_whatever_the_others_say_and_in_any_order() {
    let lists = everything(20);
    let watches: Vec<Watch> = lists
        .iter()
        .filter(|(_, objects)| !objects.is_empty())
        .map(|(watch, _)| *watch)
        .collect();
    assert_eq!(watches.len(), 4);
    for first in 0..watches.len() {
        let followed = Followed::new(Some(90), &[]);
        for (watch, objects) in &lists {
            followed.list(*watch, objects).await;
        }
        followed.wait("the table", |f| f.answered() == 20).await;
        let before = followed.reader.load().generation;
        for offset in 0..watches.len() {
            let watch = watches[(first + offset) % watches.len()];
            followed.list(watch, &[]).await;
            followed
                .wait("a hold", |f| f.feeds.held() == offset + 1)
                .await;
        }
        assert_eq!(followed.reader.load().generation, before, "{first}");
        // They are confirmed one by one.
        tokio::time::sleep(2 * PAUSE).await;
        for watch in &watches {
            followed.list(*watch, &[]).await;
        }
        followed.wait("the end", |f| f.answered() == 0).await;
        assert_eq!(followed.feeds.held(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn services_that_lose_most_of_their_endpoints_count_as_dropped() {
    let followed = Followed::new(Some(90), &[]);
    let hosts = |count: usize| -> Vec<Value> {
        (0..20)
            .flat_map(|number| {
                let pods: Vec<(String, String)> = (0..count)
                    .map(|pod| (format!("p{pod}"), format!("192.0.{number}.{pod}")))
                    .collect();
                let pods: Vec<(&str, &str, bool)> = pods
                    .iter()
                    .map(|(host, ip)| (&**host, &**ip, true))
                    .collect();
                let [mut service, slice] = local("prod", &format!("cache{number}"), &pods);
                service["metadata"]["labels"]["mirror.linkerd.io/exported"] = "true".into();
                [service, slice]
            })
            .collect()
    };
    let list = |watch: Watch, objects: &[Value]| -> Vec<Value> {
        let is_slice = watch == Watch::LocalSlices;
        let is_own = |object: &&Value| object["addressType"].is_null() != is_slice;
        match watch {
            Watch::LocalServices | Watch::LocalSlices => {
                objects.iter().filter(is_own).cloned().collect()
            }
            Watch::MirrorServices | Watch::MirrorSlices | Watch::ForeignSlices => vec![],
        }
    };
    for watch in Watch::ALL {
        followed.list(watch, &list(watch, &hosts(50))).await;
    }
    let endpoints = |f: &Followed| {
        let now = f.reader.load();
        let services = now.table.iter().flat_map(Table::services);
        services
            .map(|service| service.endpoints.len())
            .sum::<usize>()
    };
    followed.wait("the table", |f| endpoints(f) == 1000).await;
    // The same slices, each with 5 endpoints of 50 left: the share itself. Then with 4.
    followed
        .list(Watch::LocalSlices, &list(Watch::LocalSlices, &hosts(5)))
        .await;
    followed.wait("the list", |f| endpoints(f) == 100).await;
    followed
        .list(Watch::LocalSlices, &list(Watch::LocalSlices, &hosts(50)))
        .await;
    followed.wait("the list", |f| endpoints(f) == 1000).await;
    followed
        .list(Watch::LocalSlices, &list(Watch::LocalSlices, &hosts(4)))
        .await;
    followed.wait("the hold", |f| f.feeds.held() == 1).await;
    assert_eq!(endpoints(&followed), 1000);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_of_its_own_is_measured_by_itself() {
    let followed = Followed::new(Some(90), &["prod", "shop"]);
    for feed in followed.feeds.all() {
        let count = match feed.namespace.as_ref().map(|n| n.as_str()) {
            Some("prod") if feed.watch == MIRRORS => 12,
            _ => 0,
        };
        let mirrors = mirrors(count);
        let mut objects: Objects = mirrors.iter().map(|m| reduced(feed.watch, m)).collect();
        if feed.watch == MIRRORS && count == 0 {
            for number in 0..40 {
                let name = format!("cart{number}");
                let host = format!("{name}-0");
                let parts = [
                    mirror("shop", &name, "east"),
                    endpoint("shop", &name, "east", &host, &["10.0.1.1"]),
                ];
                objects.extend(parts.iter().map(|part| reduced(MIRRORS, part)));
            }
        }
        followed.send(Update::Reset(vec![(feed, objects)])).await;
    }
    followed.wait("the table", |f| f.answered() == 52).await;
    let list = (feed(MIRRORS, Some("prod")), [].into());
    followed.send(Update::Reset(vec![list])).await;
    followed.wait("the hold", |f| f.feeds.held() == 1).await;
    assert_eq!(followed.answered(), 52);
}

#[tokio::test(start_paused = true)]
async fn files_are_held_until_they_are_read_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mirrors.json");
    let write = |objects: &[Value]| {
        let objects = objects.iter().cloned().map(|mut object| {
            object["kind"] = "Service".into();
            object
        });
        let list = serde_json::json!({"kind": "List", "items": objects.collect::<Vec<_>>()});
        std::fs::write(&path, list.to_string()).unwrap();
    };
    write(&mirrors(20));
    let followed = Followed::new(Some(90), &[]);
    let mut files = file::Files::open(vec![path.clone()], file::Timing::default()).unwrap();
    let run = tokio::spawn({
        let (feeds, updates) = (followed.feeds.clone(), followed.updates.clone());
        async move { files.run(feeds, updates).await }
    });
    followed.wait("the table", |f| f.answered() == 20).await;

    write(&mirrors(1));
    followed.wait("the hold", |f| f.feeds.held() > 0).await;
    let held = Instant::now();
    assert_eq!(followed.answered(), 20);
    followed.wait("the end", |f| f.answered() == 1).await;
    let waited = held.elapsed();
    assert!(waited > PAUSE.mul_f64(0.7) && waited < Duration::from_secs(30));
    assert_eq!(followed.feeds.held(), 0);

    // And one that is mended before.
    write(&mirrors(20));
    followed.wait("the table", |f| f.answered() == 20).await;
    let generation = followed.reader.load().generation;
    write(&mirrors(1));
    followed.wait("the hold", |f| f.feeds.held() > 0).await;
    write(&mirrors(20));
    followed.wait("the release", |f| f.feeds.held() == 0).await;
    tokio::time::sleep(2 * PAUSE).await;
    assert_eq!(followed.reader.load().generation, generation);
    run.abort();
}
