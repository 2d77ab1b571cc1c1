use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::table::change::{Change, ChangeKind};
use crate::testing::{endpoint, kind_of, link, local, mirror, mirrors, parsed, rules, rules_with};

/// Returns the settings of a loop whose tables follow each other.
fn settings() -> UpdateSettings {
    UpdateSettings {
        rules: rules(),
        is_following: true,
    }
}

/// Starts an update loop. The test sends its updates.
fn spawn_update_loop(
    feeds: Feeds,
    publisher: Publisher,
    settings: UpdateSettings,
) -> (Updates, JoinHandle<()>) {
    let updates = Updates::default();
    let inbox = updates.inbox();
    let update_loop = async move {
        let mut memory = LoopMemory::default();
        let mut update_loop = UpdateLoop::new(&feeds, &publisher, &settings, &mut memory);
        // Each build ends its round.
        let round = Duration::ZERO;
        update_loop.round = round;
        update_loop.run(inbox).await
    };
    (updates, tokio::spawn(update_loop))
}

#[tokio::test(start_paused = true)]
async fn source_restarts_after_a_panic_and_the_table_stays() {
    let feeds = Feeds::new(&[]);
    let publisher = Publisher::default();
    let reader = publisher.reader();
    let lists = |count: usize| {
        let mirrors = mirrors(count);
        let list = |kind: Kind| {
            let own = mirrors.iter().filter(|_| kind == Kind::Service);
            let feed = Feed {
                kind,
                namespace: None,
            };
            (feed, own.map(|object| parsed(kind, object)).collect())
        };
        let needed = Kind::ALL.into_iter().filter(|kind| kind.is_needed());
        needed.map(list).collect()
    };
    // The source sends a list with the watched number of mirrors at each start. It panics when that number changes. The
    // third start panics at once.
    let (set_count, count) = tokio::sync::watch::channel(20);
    let mut starts = 0;
    let source = async move |_: Feeds, updates: Updates| {
        starts += 1;
        let mut watched = count.clone();
        let count = *watched.borrow_and_update();
        if starts == 3 {
            panic!("at once");
        }
        updates.send(read(lists(count)));
        watched.changed().await.unwrap();
        panic!("later");
    };
    let _task = tokio::spawn(run(source, feeds.clone(), publisher, settings()));
    let answered = || {
        let now = reader.load();
        now.table
            .as_ref()
            .map_or(0, |table| table.services().count())
    };
    // `/livez` sees progress meanwhile, also in the pauses after panics.
    let wait = async |count: usize| {
        let mut silence = Duration::ZERO;
        while answered() != count {
            sleep(Duration::from_millis(1)).await;
            silence += Duration::from_millis(1);
            if feeds.heartbeat.take() {
                silence = Duration::ZERO;
            }
            assert!(silence < 2 * heartbeat::INTERVAL, "{silence:?}");
        }
    };
    wait(20).await;
    let generation = reader.load().generation;
    set_count.send_replace(21);
    wait(21).await;
    assert_eq!(
        (reader.load().generation, feeds.panics.count()),
        (generation + 1, 1)
    );
    // Two panics in a row.
    set_count.send_replace(22);
    wait(22).await;
    assert_eq!(feeds.panics.count(), 3);
}

/// A list after a panic may be as wrong as any other.
#[tokio::test(start_paused = true)]
async fn first_list_after_a_panic_is_doubted_if_it_lacks_most_objects() {
    let publisher = Publisher::default();
    let reader = publisher.reader();
    let mut starts = 0;
    let source = async move |_: Feeds, updates: Updates| {
        starts += 1;
        let of_start = mirrors(if starts == 1 { 20 } else { 1 });
        for kind in [Kind::EndpointSlice, Kind::Service] {
            let own = of_start.iter().filter(|_| kind == Kind::Service);
            let feed = Feed {
                kind,
                namespace: None,
            };
            let objects = own.map(|object| parsed(kind, object)).collect();
            let (outcome, applied) = oneshot::channel();
            updates.send(Update::Reset {
                lists: vec![(feed, objects)],
                is_certain: false,
                outcome,
            });
            let is_doubted = applied.await == Ok(Outcome::Doubted);
            assert_eq!(is_doubted, starts > 1 && kind == Kind::Service);
        }
        sleep(Duration::from_secs(60)).await;
        panic!("later");
    };
    let feeds = Feeds::new(&[]);
    let _task = tokio::spawn(run(source, feeds.clone(), publisher, settings()));
    sleep(Duration::from_secs(150)).await;
    assert_eq!(feeds.panics.count(), 2);
    let now = reader.load();
    assert_eq!(now.table.as_ref().unwrap().services().count(), 20);
}

/// After a panic of the loop, another run reads the files.
#[tokio::test(start_paused = true)]
async fn source_of_files_ends_when_nobody_receives_its_updates() {
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/src/demo.yaml");
    let mut files = file::Files::open(vec![demo.into()]).unwrap();
    let updates = Updates::default();
    let inbox = updates.inbox();
    let reading = tokio::spawn(async move { files.run(Feeds::new(&[]), updates).await });
    inbox.wait().await;
    drop(inbox);
    timeout(Duration::from_secs(10), reading)
        .await
        .unwrap()
        .unwrap();
}

/// The list of Links of the restarted source comes a second after the others.
#[tokio::test(start_paused = true)]
async fn clusters_stay_linked_while_a_restarted_source_lists() {
    let feeds = Feeds::new(&[]).with_links(&["linkerd-multicluster".parse().unwrap()]);
    let publisher = Publisher::default();
    let reader = publisher.reader();
    let objects = [
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.0.0.1"]),
        link("east", "east"),
    ];
    let mut starts = 0;
    let source = async move |feeds: Feeds, updates: Updates| {
        starts += 1;
        for feed in feeds.all() {
            let own = objects.iter().filter(|one| kind_of(one) == feed.kind);
            let own = own.map(|one| parsed(feed.kind, one)).collect();
            if feed.kind == Kind::Link {
                sleep(Duration::from_secs(1)).await;
            }
            updates.send(read(vec![(feed.clone(), own)]));
            feeds.note_listed(&feed, None);
        }
        sleep(Duration::from_secs(1)).await;
        assert!(starts > 1, "an injected panic");
        std::future::pending::<()>().await;
    };
    let _task = tokio::spawn(run(source, feeds.clone(), publisher, settings()));
    for _ in 0..1000 {
        sleep(Duration::from_millis(10)).await;
        let now = reader.load();
        let problems = now.table.iter().flat_map(Table::problems);
        assert_eq!(problems.count(), 0);
    }
    assert_eq!((feeds.panics.count(), feeds.problems()), (1, Vec::new()));
}

/// Returns an update with lists that are not doubted.
fn read(lists: Vec<(Feed, Objects)>) -> Update {
    Update::Reset {
        lists,
        is_certain: true,
        outcome: oneshot::channel().0,
    }
}

/// An update loop with a first table.
struct Loop {
    feeds: Feeds,
    reader: Reader,
    updates: Updates,
    _task: JoinHandle<()>,
}

impl Loop {
    /// Starts a loop with these objects of the kind Service.
    async fn start(services: &[serde_json::Value]) -> Self {
        Self::start_with(settings(), services).await
    }

    async fn start_with(settings: UpdateSettings, services: &[serde_json::Value]) -> Self {
        let feeds = Feeds::new(&[]);
        let publisher = Publisher::default();
        let reader = publisher.reader();
        let (updates, task) = spawn_update_loop(feeds.clone(), publisher, settings);
        let list = |feed: Feed| {
            let own = services.iter().filter(|_| feed.kind == Kind::Service);
            let objects = own.map(|object| parsed(Kind::Service, object)).collect();
            (feed, objects)
        };
        let started = Self {
            updates,
            reader,
            _task: task,
            feeds,
        };
        let lists = started.feeds.all().into_iter().map(list).collect();
        started.send(read(lists)).await;
        started
    }

    async fn send(&self, update: Update) {
        self.updates.send(update);
        // Paused time goes on when the loop waits for the next update.
        sleep(Duration::from_millis(10)).await;
    }

    async fn apply(&self, object: &serde_json::Value) {
        self.push(object);
        sleep(Duration::from_millis(10)).await;
    }

    /// Sends an object, without a wait.
    fn push(&self, object: &serde_json::Value) {
        let (key, object) = parsed(Kind::Service, object);
        self.push_change(key, Some(object));
    }

    /// Sends that an object was deleted, without a wait.
    fn delete(&self, object: &serde_json::Value) {
        self.push_change(parsed(Kind::Service, object).0, None);
    }

    fn push_change(&self, key: ObjectKey, object: Option<Object>) {
        let change = ObjectChange {
            kind: Kind::Service,
            key,
            object,
            arrival: Instant::now(),
        };
        self.updates.send(Update::Apply(change));
    }

    fn services(&self) -> usize {
        let now = self.reader.load();
        now.table.as_ref().unwrap().services().count()
    }
}

#[tokio::test(start_paused = true)]
async fn list_that_lacks_most_objects_is_not_applied() {
    let db = |count: usize| -> Vec<_> {
        let names = (0..count).map(|one| format!("db{one}"));
        names.map(|name| mirror("prod", &name, "east")).collect()
    };
    for (known, listed, is_doubted) in [
        (20, 2, false),
        (20, 1, true),
        (20, 0, true),
        (10, 1, false),
        (10, 0, true),
        (1, 0, true),
        (0, 0, false),
    ] {
        let case = format!("{listed} of {known}");
        let update_loop = Loop::start(&db(known)).await;
        let objects = db(listed);
        let objects = objects.iter().map(|object| parsed(Kind::Service, object));
        let services = Feed {
            kind: Kind::Service,
            namespace: None,
        };
        let lists = vec![(services, objects.collect())];
        let (outcome, applied) = oneshot::channel();
        let doubtful = Update::Reset {
            lists: lists.clone(),
            is_certain: false,
            outcome,
        };
        update_loop.send(doubtful).await;
        let is_news = known != listed;
        let expected = if is_doubted {
            Outcome::Doubted
        } else {
            Outcome::Applied { is_news }
        };
        assert_eq!(applied.await, Ok(expected), "{case}");
        let expected = if is_doubted { known } else { listed };
        assert_eq!(update_loop.services(), expected, "{case}");
        update_loop.send(read(lists)).await;
        assert_eq!(update_loop.services(), listed, "{case}");
    }
}

/// Most events of a cluster concern nothing that this server answers for.
#[tokio::test(start_paused = true)]
async fn annotations_of_an_unrelated_service_publish_nothing() {
    let service = |name: &str, ip: &str, number: usize| {
        serde_json::json!({
            "metadata": {"namespace": "prod", "name": name, "annotations": {"note": number.to_string()}},
            "spec": {"clusterIP": ip, "ports": [{"port": 80}]},
        })
    };
    let unrelated = [("web", "10.96.9.9"), ("headless", "None")];
    let mut objects = vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.0.0.2"]),
    ];
    objects.extend(unrelated.map(|(name, ip)| service(name, ip, 0)));
    let update_loop = Loop::start(&objects).await;
    let before = update_loop.reader.load();
    let latest = update_loop.feeds.events.latest();
    for number in 0..500 {
        for (name, ip) in unrelated {
            update_loop.apply(&service(name, ip, number)).await;
        }
    }
    let after = update_loop.reader.load();
    assert!(std::ptr::eq(&**before, &**after), "a table was published");
    assert_eq!(update_loop.feeds.events.latest(), latest);
    // A change that matters is published.
    update_loop
        .apply(&endpoint("prod", "db", "east", "db-1", &["10.0.0.3"]))
        .await;
    assert_eq!(update_loop.reader.load().generation, before.generation + 1);
}

#[tokio::test(start_paused = true)]
async fn loop_that_waits_for_events_gives_signs_of_progress() {
    let feeds = Feeds::new(&[]);
    let heartbeat = feeds.heartbeat.clone();
    let (_updates, _task) = spawn_update_loop(feeds, Publisher::default(), settings());
    for _ in 0..100 {
        sleep(2 * heartbeat::INTERVAL).await;
        assert!(heartbeat.take());
    }
}

/// Each build ends its round here, as if it took longer.
#[tokio::test(start_paused = true)]
async fn change_is_answered_within_two_rounds_whatever_another_namespace_changes() {
    // A service of its own, and an alias of sources in the namespace of the attacker.
    for alias in [None, Some("victim/db")] {
        let attacked = (0..1000).map(|number| {
            let [high, low] = [number / 250, number % 250 + 1];
            let host = format!("db-{number}");
            endpoint(
                "attacker",
                "db",
                "east",
                &host,
                &[&format!("10.0.{high}.{low}")],
            )
        });
        let mut objects: Vec<_> = attacked.collect();
        objects.push(mirror("attacker", "db", "east"));
        objects.push(mirror("victim", "web", "east"));
        let settings = match alias {
            None => settings(),
            Some(name) => UpdateSettings {
                rules: rules_with(&format!("aliases: {{{name}: [attacker/db, victim/web]}}")),
                ..settings()
            },
        };
        let update_loop = Loop::start_with(settings, &objects).await;
        let changed = |number: usize| {
            let mut object = objects[number % 1000].clone();
            object["spec"]["clusterIPs"] = serde_json::json!([format!("10.9.{}.1", number % 250)]);
            object
        };
        let victim = endpoint("victim", "web", "east", "web-0", &["10.1.0.1"]);
        for number in 0..182 {
            update_loop.push(&changed(number));
            update_loop.push(&changed(number + 500));
            yield_now().await;
        }
        let before = update_loop.reader.load().version;
        update_loop.push(&victim);
        let is_answered = |name: (&str, &str)| {
            let now = update_loop.reader.load();
            let service = now.table.as_ref().unwrap().service(name.0, name.1);
            service.is_some_and(|service| {
                service
                    .endpoints
                    .iter()
                    .any(|one| *one.labels()[0] == *"web-0")
            })
        };
        let mut number = 0;
        while !is_answered(("victim", "web")) || alias.is_some() && !is_answered(("victim", "db")) {
            number += 1;
            update_loop.push(&changed(number));
            yield_now().await;
        }
        let rounds = update_loop.reader.load().version - before;
        // The alias is a service of its own.
        let most = if alias.is_some() { 4 } else { 2 };
        assert!(rounds <= most, "{rounds} rounds, {alias:?}");
    }
}

/// With rounds of one build, and events in any order, the table is that of one build of everything.
#[tokio::test(start_paused = true)]
async fn rounds_end_in_the_table_of_a_full_build() {
    let mut random = fastrand::Rng::with_seed(72);
    for _ in 0..20 {
        let update_loop = Loop::start(&[]).await;
        let mut objects = BTreeMap::new();
        for _ in 0..200 {
            let namespace = ["a", "b", "c"][random.usize(..3)];
            let cluster = ["east", "west"][random.usize(..2)];
            let host = format!("db-{}", random.u8(..4));
            let ip = format!("10.0.0.{}", random.u8(1..9));
            let object = match random.u8(..4) {
                0 => mirror(namespace, "db", cluster),
                _ => endpoint(namespace, "db", cluster, &host, &[&ip]),
            };
            let (key, _) = parsed(Kind::Service, &object);
            if random.bool() {
                update_loop.push(&object);
                objects.insert(key, object);
            } else {
                update_loop.delete(&object);
                objects.remove(&key);
            }
            if random.u8(..5) == 0 {
                yield_now().await;
            }
        }
        sleep(Duration::from_secs(1)).await;
        let objects: Vec<_> = objects.into_values().collect();
        let (now, full) = (update_loop.reader.load(), crate::testing::table(&objects));
        let table = now.table.as_ref().unwrap();
        assert_eq!(table.answers_hash(), full.answers_hash());
        let services = |table: &Table| -> Vec<_> {
            let services = table.sorted_services().into_iter();
            services
                .map(|one| (one.key.clone(), one.endpoints.clone()))
                .collect()
        };
        assert_eq!(services(table), services(&full));
    }
}

/// An annotation may have thousands of octets.
#[tokio::test(start_paused = true)]
async fn texts_of_an_event_have_at_most_four_hundred_characters() {
    let ordered = |letter: &str| {
        let [mut service, _] = local("prod", "db", &[]);
        let steps: Vec<String> = (10..40)
            .map(|n| format!("{n}{}", letter.repeat(58)))
            .collect();
        service["metadata"]["annotations"]["global-dns/failover"] = steps.join(":").into();
        service
    };
    let started = Loop::start(&[ordered("x")]).await;
    started.apply(&ordered("y")).await;
    sleep(Duration::from_secs(5)).await;
    let (events, _) = started.feeds.events.all();
    let order = events
        .iter()
        .find(|one| one.change.kind == ChangeKind::Order);
    let Change {
        before,
        after,
        text,
        ..
    } = &order.unwrap().change;
    for text in [before.as_ref().unwrap(), after.as_ref().unwrap(), text] {
        assert_eq!(text.chars().count(), 400, "{text}");
    }
}

/// Two hours of the clock of delays pass, but none of the wall clock.
#[tokio::test(start_paused = true)]
async fn gate_reads_the_wall_clock() {
    let hour = Duration::from_secs(3600);
    let wall = Timestamp(unix_milliseconds());
    let expecting = |until: Timestamp| {
        let [mut service, _] = local("prod", "db", &[]);
        service["metadata"]["annotations"]["global-dns/expected-clusters"] =
            format!("north until {}", until.to_text()).into();
        service
    };
    let started = Loop::start(&[expecting(wall.after(hour))]).await;
    let waiting = || {
        let now = started.reader.load();
        let service = now.table.as_ref().unwrap().service("prod", "db");
        service.is_some_and(|service| !service.missing_clusters().is_empty())
    };
    assert!(waiting());
    sleep(2 * hour).await;
    assert!(waiting());
    started.apply(&expecting(wall.before(hour))).await;
    assert!(!waiting());
}
