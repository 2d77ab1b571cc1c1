use serde_json::Value;
use tokio::task::JoinHandle;

use super::*;
use crate::model::{GatewayDown, Mcs, ObjectKey, Watch};
use crate::source::{Arrival, Update, UpdateSettings, Updates, file, tests::spawn_update_loop};
use crate::table::Publisher;
use crate::table::Rules;
use crate::table::publish::Reader;
use crate::table::store::Objects;
use crate::testing::{
    backends, endpoint, exported, gateway, local, mirror, mirrors, parsed, rules, service_mirror,
};

/// An update loop, with the sender of its updates.
struct TestLoop {
    updates: Updates,
    feeds: Feeds,
    reader: Reader,
    _task: JoinHandle<()>,
}

impl TestLoop {
    fn new(percent: Option<u8>, namespaces: &[&str]) -> Self {
        Self::guarded(ShrinkGuard::new(percent), namespaces)
    }

    fn guarded(shrink_guard: ShrinkGuard, namespaces: &[&str]) -> Self {
        Self::ruled(rules(), shrink_guard, namespaces)
    }

    fn ruled(rules: Rules, shrink_guard: ShrinkGuard, namespaces: &[&str]) -> Self {
        let namespaces: Vec<_> = namespaces.iter().map(|n| n.parse().unwrap()).collect();
        let feeds = Feeds::new(&namespaces, Mcs::On);
        let publisher = Publisher::default();
        let reader = publisher.reader();
        let settings = UpdateSettings {
            rules,
            shrink_guard,
            is_following: true,
        };
        let (updates, _task) = spawn_update_loop(feeds.clone(), publisher, settings);
        Self {
            updates,
            reader,
            _task,
            feeds,
        }
    }

    /// Starts an update loop and sends complete lists: `mirrors`, and empty lists for the other watches.
    async fn with(percent: Option<u8>, mirrors: &[Value]) -> Self {
        Self::guarded_with(ShrinkGuard::new(percent), mirrors).await
    }

    async fn guarded_with(shrink_guard: ShrinkGuard, mirrors: &[Value]) -> Self {
        let running = Self::guarded(shrink_guard, &[]);
        for watch in Watch::ALL {
            let is_mirrors = watch == Watch::Services;
            running
                .list(watch, if is_mirrors { mirrors } else { &[] })
                .await;
        }
        running.wait("the first table", |f| f.answered() > 0).await;
        running
    }

    async fn list(&self, watch: Watch, objects: &[Value]) {
        let objects = objects.iter().map(|object| parsed(watch, object));
        let list = (feed(watch, None), objects.collect());
        self.send(Update::Reset(vec![list])).await;
    }

    async fn send(&self, update: Update) {
        self.updates.send(update).await.unwrap();
    }

    /// Returns the number of services with endpoints.
    fn answered(&self) -> usize {
        let now = self.reader.load();
        let services = now.table.iter().flat_map(Table::services);
        services.filter(|s| !s.endpoints.is_empty()).count()
    }

    /// Waits until one list is held.
    async fn wait_for_hold(&self) {
        let is_held = |running: &Self| running.feeds.held_count() == 1;
        self.wait("a held list", is_held).await;
    }

    /// Waits until a condition is true. Time is paused: it advances only when all tasks are idle.
    async fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_so(self) {
            assert!(Instant::now() < end, "timed out waiting for {what}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until every update is applied.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn feed(watch: Watch, namespace: Option<&str>) -> Feed {
    let namespace = namespace.map(|n| n.parse().unwrap());
    Feed { watch, namespace }
}

const MIRRORS: Watch = Watch::Services;

#[test]
fn share_applies_to_eleven_or_more_services() {
    for (percent, lost, total, is_too_much) in [
        (Some(90), 20, 20, true),
        (Some(90), 19, 20, true),
        (Some(90), 18, 20, false), // exactly the share is allowed
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
        let case = format!("{lost} of {total} with {percent:?}");
        for guard in [
            ShrinkGuard::new(percent),
            ShrinkGuard::new(percent).for_files(),
        ] {
            assert_eq!(guard.is_too_much(lost, total), is_too_much, "{case}");
        }
    }
}

#[test]
fn removal_of_all_services_is_too_much_except_ten_of_files() {
    for (percent, total, of_api_server, of_files) in [
        (Some(90), 10, true, false),
        (Some(90), 1, true, false),
        (Some(99), 1, true, false),
        (None, 10, false, false),
    ] {
        let guard = ShrinkGuard::new(percent);
        assert_eq!(guard.is_too_much(total, total), of_api_server, "{total}");
        assert_eq!(
            guard.for_files().is_too_much(total, total),
            of_files,
            "{total}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn list_that_removes_most_services_is_held_until_confirmed() {
    let running = TestLoop::with(Some(90), &mirrors(20)).await;
    let generation = running.reader.load().generation;
    running.list(MIRRORS, &mirrors(1)).await;
    running.wait_for_hold().await;
    let held = Instant::now();
    let expected =
        "List is held: Services: it would leave 1 of 20 services; a second list must confirm it";
    let problems = running.feeds.problems();
    assert!(
        problems.iter().any(|one| one.to_string() == expected),
        "{problems:?}"
    );
    // A list before the end of the pause does not confirm it.
    running.list(MIRRORS, &mirrors(1)).await;
    running.settle().await;
    assert_eq!((running.feeds.held_count(), running.answered()), (1, 20));
    assert_eq!(running.reader.load().generation, generation);

    running.feeds.wait_for_relist(&feed(MIRRORS, None)).await;
    let paused = held.elapsed();
    assert!(paused >= PAUSE.mul_f64(0.7) && paused < Duration::from_secs(25));
    assert_eq!(running.answered(), 20);
    running.list(MIRRORS, &[]).await;
    running
        .wait("the confirmed list", |f| f.answered() == 0)
        .await;
    assert_eq!(running.feeds.held_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn contradicting_list_is_applied_at_once() {
    let running = TestLoop::with(Some(90), &mirrors(20)).await;
    running.list(MIRRORS, &[]).await;
    running.wait_for_hold().await;
    running.list(MIRRORS, &mirrors(21)).await;
    running.wait("the list", |f| f.answered() == 21).await;
    assert_eq!(running.feeds.held_count(), 0);
    // The dropped list confirms nothing: the next one is held again.
    tokio::time::sleep(2 * PAUSE).await;
    running.list(MIRRORS, &[]).await;
    running.wait_for_hold().await;
    assert_eq!(running.answered(), 21);
}

#[tokio::test(start_paused = true)]
async fn lists_that_remove_less_are_applied() {
    let of_api_server = ShrinkGuard::new;
    let of_files = |percent| ShrinkGuard::new(percent).for_files();
    for (guard, before, after) in [
        (of_api_server(Some(90)), 20, 2),
        (of_api_server(Some(90)), 10, 1),
        (of_api_server(Some(90)), 2, 1),
        (of_api_server(None), 20, 0),
        (of_api_server(None), 1, 0),
        (of_files(Some(90)), 10, 0),
        (of_files(Some(90)), 1, 0),
    ] {
        let running = TestLoop::guarded_with(guard, &mirrors(before)).await;
        running.list(MIRRORS, &mirrors(after)).await;
        running.wait("the list", |f| f.answered() == after).await;
        assert_eq!(running.feeds.held_count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn list_that_removes_every_service_is_held_for_any_number() {
    for before in [1, 2, 10] {
        let running = TestLoop::with(Some(90), &mirrors(before)).await;
        let generation = running.reader.load().generation;
        running.list(MIRRORS, &[]).await;
        running.wait_for_hold().await;
        assert_eq!(running.answered(), before);
        assert_eq!(running.reader.load().generation, generation);
        // A list with some services is applied at once.
        running.list(MIRRORS, &mirrors(before)[..2]).await;
        let is_taken = |f: &TestLoop| f.feeds.held_count() == 0 && f.answered() == 1;
        running.wait("the list", is_taken).await;
        running.list(MIRRORS, &[]).await;
        running.wait_for_hold().await;
        tokio::time::sleep(2 * PAUSE).await;
        assert_eq!(running.answered(), 1);
        running.list(MIRRORS, &[]).await;
        running
            .wait("the confirmed list", |f| f.answered() == 0)
            .await;
        assert_eq!(running.feeds.held_count(), 0);
    }
}

/// The remaining mirrors have no endpoints.
#[tokio::test(start_paused = true)]
async fn services_without_endpoints_do_not_count_as_remaining() {
    let beside = [
        mirror("prod", "empty", "west"),
        mirror("prod", "void", "west"),
    ];
    let running = TestLoop::with(Some(90), &[mirrors(3), beside.to_vec()].concat()).await;
    running.list(MIRRORS, &beside).await;
    running.wait_for_hold().await;
    assert_eq!(running.answered(), 3);
}

/// The list has the known slices, but without endpoints.
#[tokio::test(start_paused = true)]
async fn list_of_emptied_slices_is_held() {
    let of = |pods: &[(&str, &str, bool)]| {
        let [mut service, slice] = local("prod", "cache", pods);
        service["metadata"]["labels"]["mirror.linkerd.io/exported"] = "true".into();
        (service, slice)
    };
    let running = TestLoop::new(Some(90), &[]);
    let (service, slice) = of(&[("a", "192.0.2.1", true)]);
    for watch in Watch::ALL {
        let own = [(Watch::Services, &service), (Watch::LocalSlices, &slice)]
            .into_iter()
            .filter(|(of, _)| *of == watch);
        let list: Vec<Value> = own.map(|(_, object)| object.clone()).collect();
        running.list(watch, &list).await;
    }
    running.wait("the table", |f| f.answered() == 1).await;
    // Changed addresses are not a loss.
    let (_, moved) = of(&[("a", "192.0.2.2", true)]);
    let generation = running.reader.load().generation;
    running.list(Watch::LocalSlices, &[moved]).await;
    let has_moved = |f: &TestLoop| f.reader.load().generation > generation;
    running.wait("the new address", has_moved).await;
    let (_, emptied) = of(&[]);
    running.list(Watch::LocalSlices, &[emptied]).await;
    running.wait_for_hold().await;
    assert_eq!(running.answered(), 1);
}

#[tokio::test(start_paused = true)]
async fn events_are_never_held() {
    let all = mirrors(20);
    let running = TestLoop::with(Some(90), &all).await;
    running.list(MIRRORS, &[]).await;
    running.wait_for_hold().await;
    let delete = |key: ObjectKey| Update::Apply {
        watch: MIRRORS,
        key,
        object: None,
        arrival: Arrival::now(),
    };
    for object in &all[2..] {
        running.send(delete(parsed(MIRRORS, object).0)).await;
    }
    running.wait("the deletes", |f| f.answered() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn deletions_by_events_do_not_count_for_the_next_list() {
    let all = mirrors(30);
    let running = TestLoop::with(Some(90), &all).await;
    // In one batch, events delete 18 services, and then a list removes 10 of 12.
    for object in &all[..36] {
        let (key, _) = parsed(MIRRORS, object);
        let (watch, object) = (MIRRORS, None);
        let arrival = Arrival::now();
        let update = Update::Apply {
            watch,
            key,
            object,
            arrival,
        };
        running.send(update).await;
    }
    running.list(MIRRORS, &all[56..]).await;
    running.wait("the list", |f| f.answered() == 2).await;
    assert_eq!(running.feeds.held_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn list_of_another_watch_that_removes_endpoints_is_held() {
    let running = TestLoop::with(Some(90), &mirrors(1)).await;
    let pairs = (0..20).map(|number| {
        let pod = [("a", &*format!("192.0.2.{number}"), true)];
        local("prod", &format!("cache{number}"), &pod)
    });
    let mut services = mirrors(1);
    let mut slices = Vec::new();
    for [mut service, slice] in pairs {
        service["metadata"]["labels"]["mirror.linkerd.io/exported"] = "true".into();
        services.push(service);
        slices.push(slice);
    }
    running.list(Watch::Services, &services).await;
    running.list(Watch::LocalSlices, &slices).await;
    running.wait("local members", |f| f.answered() == 21).await;
    running.list(Watch::LocalSlices, &[]).await;
    running.wait_for_hold().await;
    assert_eq!(running.answered(), 21);
}

/// Returns the objects of every watch for services with mirrors of two clusters and a local member. The gateway of one
/// cluster is down.
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
            lists.entry(Watch::Services).or_default().extend(mirrors);
            lists.entry(Watch::MirrorSlices).or_default().push(slice);
        }
        let [service, slice] = local(
            "prod",
            &name,
            &[(&host, &format!("192.0.2.{number}"), true)],
        );
        lists.entry(Watch::Services).or_default().push(service);
        lists.entry(Watch::LocalSlices).or_default().push(slice);
    }
    lists
}

/// Returns the objects of every watch for services with cluster IPs. Mirrors of two clusters have slices; the gateway of
/// cluster `west` is down. The Service of this cluster is exported, and has the annotations `settings`.
fn with_cluster_ips(count: usize, settings: &[(&str, &str)]) -> BTreeMap<Watch, Vec<Value>> {
    let mut lists: BTreeMap<Watch, Vec<Value>> = Watch::ALL.map(|watch| (watch, vec![])).into();
    for number in 1..=count {
        let name = format!("web{number}");
        for (cluster, net) in [("east", 3), ("west", 4)] {
            let address = format!("10.{net}.0.{number}");
            let mirrored = format!("{name}-{cluster}");
            let object = service_mirror("prod", &name, cluster, &address);
            let slice = backends("prod", &mirrored, true, cluster == "east");
            lists.entry(Watch::Services).or_default().push(object);
            lists.entry(Watch::MirrorSlices).or_default().push(slice);
        }
        let mut own = exported("prod", &name, &format!("192.0.2.{number}"));
        for (annotation, value) in settings {
            own["metadata"]["annotations"][annotation] = (*value).into();
        }
        let slice = backends("prod", &name, false, true);
        lists.entry(Watch::Services).or_default().push(own);
        lists.entry(Watch::ExportedSlices).or_default().push(slice);
    }
    lists
}

/// Applies the lists of 20 services with cluster IPs, and then an empty list of `emptied`, which must be held.
async fn assert_emptied_list_is_held(emptied: Watch, rules: Rules, settings: &[(&str, &str)]) {
    let running = TestLoop::ruled(rules, ShrinkGuard::new(Some(90)), &[]);
    for (watch, objects) in &with_cluster_ips(20, settings) {
        running.list(*watch, objects).await;
    }
    running.wait("the table", |f| f.answered() == 20).await;
    let generation = running.reader.load().generation;
    running.list(emptied, &[]).await;
    running.wait_for_hold().await;
    assert_eq!(running.reader.load().generation, generation);
    // A second list confirms it.
    running.feeds.wait_for_relist(&feed(emptied, None)).await;
    running.list(emptied, &[]).await;
    running
        .wait("the list", |f| f.feeds.held_count() == 0)
        .await;
    assert_ne!(running.reader.load().generation, generation);
}

/// A mirror of a whole Service is down or not ready without its slice. An endpoint of this cluster does not hide that.
#[tokio::test(start_paused = true)]
async fn list_without_the_slices_of_service_mirrors_is_held() {
    let excluding = Rules {
        gateway_down: GatewayDown::Exclude,
        ..rules()
    };
    let order = [("global-dns/failover", "east:local")];
    assert_emptied_list_is_held(Watch::MirrorSlices, rules(), &[]).await;
    assert_emptied_list_is_held(Watch::MirrorSlices, excluding, &[]).await;
    assert_emptied_list_is_held(Watch::MirrorSlices, rules(), &order).await;
}

#[tokio::test(start_paused = true)]
async fn list_without_the_slices_of_exported_services_is_held() {
    let excluding = Rules {
        gateway_down: GatewayDown::Exclude,
        ..rules()
    };
    let order = [("global-dns/failover", "local:east")];
    assert_emptied_list_is_held(Watch::ExportedSlices, rules(), &[]).await;
    assert_emptied_list_is_held(Watch::ExportedSlices, excluding, &[]).await;
    assert_emptied_list_is_held(Watch::ExportedSlices, rules(), &order).await;
}

/// The endpoints have no slices before the list. Their addresses are answered, as the last resort.
#[tokio::test(start_paused = true)]
async fn list_without_mirrors_that_had_no_slices_is_held() {
    let services = &with_cluster_ips(20, &[])[&Watch::Services];
    let running = TestLoop::with(Some(90), services).await;
    running.list(Watch::Services, &[]).await;
    running.wait_for_hold().await;
    assert_eq!(running.answered(), 20);
}

#[tokio::test(start_paused = true)]
async fn every_watch_is_guarded_in_any_order() {
    let mut lists = everything(20);
    for (watch, objects) in with_cluster_ips(20, &[]) {
        lists.entry(watch).or_default().extend(objects);
    }
    let watches: Vec<Watch> = lists
        .iter()
        .filter(|(_, objects)| !objects.is_empty())
        .map(|(watch, _)| *watch)
        .collect();
    assert_eq!(watches.len(), 4);
    for first in 0..watches.len() {
        let running = TestLoop::new(Some(90), &[]);
        for (watch, objects) in &lists {
            running.list(*watch, objects).await;
        }
        running.wait("the table", |f| f.answered() == 40).await;
        let before = running.reader.load().generation;
        for offset in 0..watches.len() {
            let watch = watches[(first + offset) % watches.len()];
            running.list(watch, &[]).await;
            running
                .wait("a held list", |f| f.feeds.held_count() == offset + 1)
                .await;
        }
        assert_eq!(running.reader.load().generation, before, "{first}");
        // The held lists are confirmed one by one.
        tokio::time::sleep(2 * PAUSE).await;
        for watch in &watches {
            running.list(*watch, &[]).await;
        }
        running
            .wait("the confirmed list", |f| f.answered() == 0)
            .await;
        assert_eq!(running.feeds.held_count(), 0);
    }
}

/// One list has the mirrors and the Services of this cluster. Each service keeps an endpoint of this cluster.
#[tokio::test(start_paused = true)]
async fn services_of_this_cluster_do_not_hide_that_all_mirrors_are_missing() {
    let mut lists = everything(20);
    let services = lists.get_mut(&Watch::Services).unwrap();
    let is_own =
        |service: &Value| service["metadata"]["labels"]["mirror.linkerd.io/cluster-name"].is_null();
    for own in services.iter_mut().filter(|service| is_own(service)) {
        own["metadata"]["labels"]["mirror.linkerd.io/exported"] = "true".into();
    }
    let running = TestLoop::new(Some(90), &[]);
    for (watch, objects) in &lists {
        running.list(*watch, objects).await;
    }
    running.wait("the table", |f| f.answered() == 20).await;
    let generation = running.reader.load().generation;
    let services = &lists[&Watch::Services];
    let own: Vec<Value> = services.iter().filter(|one| is_own(one)).cloned().collect();
    running.list(Watch::Services, &own).await;
    running.wait_for_hold().await;
    assert_eq!(running.reader.load().generation, generation);
}

/// Without the slices of endpoint mirrors, every endpoint is alive (rule M3).
#[tokio::test(start_paused = true)]
async fn list_without_the_slices_of_endpoint_mirrors_is_applied() {
    let running = TestLoop::new(Some(90), &[]);
    for (watch, objects) in &everything(20) {
        running.list(*watch, objects).await;
    }
    let down = |f: &TestLoop| {
        let now = f.reader.load();
        let services = now.table.iter().flat_map(Table::services);
        let endpoints = services.flat_map(|service| service.endpoints.iter());
        endpoints.filter(|endpoint| !endpoint.is_alive()).count()
    };
    running.wait("the table", |f| down(f) == 20).await;
    running.list(Watch::MirrorSlices, &[]).await;
    running.wait("the list", |f| down(f) == 0).await;
    assert_eq!((running.feeds.held_count(), running.answered()), (0, 20));
}

#[tokio::test(start_paused = true)]
async fn services_that_lose_most_endpoints_count_as_removed() {
    let running = TestLoop::new(Some(90), &[]);
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
            Watch::Services | Watch::LocalSlices => {
                objects.iter().filter(is_own).cloned().collect()
            }
            Watch::MirrorSlices
            | Watch::ForeignSlices
            | Watch::ExportedSlices
            | Watch::ServiceImports
            | Watch::ImportSlices
            | Watch::Links => vec![],
        }
    };
    for watch in Watch::needed(Mcs::On) {
        running.list(watch, &list(watch, &hosts(50))).await;
    }
    let endpoints = |f: &TestLoop| {
        let now = f.reader.load();
        let services = now.table.iter().flat_map(Table::services);
        services
            .map(|service| service.endpoints.len())
            .sum::<usize>()
    };
    running.wait("the table", |f| endpoints(f) == 1000).await;
    // The same slices with 5 of 50 endpoints each, which is exactly the share; then with 4 of 50.
    running
        .list(Watch::LocalSlices, &list(Watch::LocalSlices, &hosts(5)))
        .await;
    running.wait("the list", |f| endpoints(f) == 100).await;
    running
        .list(Watch::LocalSlices, &list(Watch::LocalSlices, &hosts(50)))
        .await;
    running.wait("the list", |f| endpoints(f) == 1000).await;
    running
        .list(Watch::LocalSlices, &list(Watch::LocalSlices, &hosts(4)))
        .await;
    running.wait_for_hold().await;
    assert_eq!(endpoints(&running), 1000);
}

#[tokio::test(start_paused = true)]
async fn each_namespace_is_decided_separately() {
    let running = TestLoop::new(Some(90), &["prod", "shop"]);
    for feed in running.feeds.all() {
        let count = match feed.namespace.as_ref().map(|n| n.as_str()) {
            Some("prod") if feed.watch == MIRRORS => 12,
            _ => 0,
        };
        let mirrors = mirrors(count);
        let mut objects: Objects = mirrors.iter().map(|m| parsed(feed.watch, m)).collect();
        if feed.watch == MIRRORS && count == 0 {
            for number in 0..40 {
                let name = format!("cart{number}");
                let host = format!("{name}-0");
                let parts = [
                    mirror("shop", &name, "east"),
                    endpoint("shop", &name, "east", &host, &["10.0.1.1"]),
                ];
                objects.extend(parts.iter().map(|part| parsed(MIRRORS, part)));
            }
        }
        running.send(Update::Reset(vec![(feed, objects)])).await;
    }
    running.wait("the table", |f| f.answered() == 52).await;
    let list = (feed(MIRRORS, Some("prod")), [].into());
    running.send(Update::Reset(vec![list])).await;
    running.wait_for_hold().await;
    assert_eq!(running.answered(), 52);
}

#[tokio::test(start_paused = true)]
async fn files_are_held_until_a_second_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mirrors.json");
    let write = |objects: &[Value]| {
        let list = serde_json::json!({"kind": "List", "items": objects});
        std::fs::write(&path, list.to_string()).unwrap();
    };
    write(&mirrors(20));
    let running = TestLoop::new(Some(90), &[]);
    let mut files = file::Files::open(vec![path.clone()], file::FileTiming::default()).unwrap();
    let run = tokio::spawn({
        let (feeds, updates) = (running.feeds.clone(), running.updates.clone());
        async move { files.run(feeds, updates).await }
    });
    running.wait("the table", |f| f.answered() == 20).await;

    write(&mirrors(1));
    running
        .wait("a held list", |f| f.feeds.held_count() > 0)
        .await;
    let held = Instant::now();
    assert_eq!(running.answered(), 20);
    running
        .wait("the confirmed list", |f| f.answered() == 1)
        .await;
    let waited = held.elapsed();
    assert!(waited > PAUSE.mul_f64(0.7) && waited < Duration::from_secs(30));
    assert_eq!(running.feeds.held_count(), 0);

    // A file that is repaired before the second read is applied at once.
    write(&mirrors(20));
    running.wait("the table", |f| f.answered() == 20).await;
    let generation = running.reader.load().generation;
    write(&mirrors(1));
    running
        .wait("a held list", |f| f.feeds.held_count() > 0)
        .await;
    write(&mirrors(20));
    running
        .wait("the release", |f| f.feeds.held_count() == 0)
        .await;
    tokio::time::sleep(2 * PAUSE).await;
    assert_eq!(running.reader.load().generation, generation);
    run.abort();
}
