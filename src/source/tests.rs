use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::table::change::{Change, ChangeKind};
use crate::testing::{endpoint, kind_of, link, local, mirror, mirrors, parsed, rules};

/// Returns the settings of a loop whose tables follow each other.
fn settings() -> UpdateSettings {
    UpdateSettings {
        rules: rules(),
        is_following: true,
    }
}

/// Starts an update loop. The test sends its updates.
fn spawn_update_loop(feeds: Feeds, publisher: Publisher) -> (Updates, JoinHandle<()>) {
    let (updates, inbox) = mpsc::channel(QUEUE_LENGTH);
    let update_loop = async move {
        let (settings, mut memory) = (settings(), LoopMemory::default());
        let update_loop = UpdateLoop::new(&feeds, &publisher, &settings, &mut memory);
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
        updates.send(read(lists(count))).await.unwrap();
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
            updates.send(read(vec![(feed.clone(), own)])).await.unwrap();
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
    Update::Reset { lists, doubt: None }
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
        let feeds = Feeds::new(&[]);
        let publisher = Publisher::default();
        let reader = publisher.reader();
        let (updates, task) = spawn_update_loop(feeds.clone(), publisher);
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
        self.updates.send(update).await.unwrap();
        // Paused time goes on when the loop waits for the next update.
        sleep(Duration::from_millis(10)).await;
    }

    async fn apply(&self, object: &serde_json::Value) {
        let (key, object) = parsed(Kind::Service, object);
        let update = Update::Apply {
            kind: Kind::Service,
            key,
            object: Some(object),
            arrival: Instant::now(),
        };
        self.send(update).await;
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
        let (doubt, doubted) = oneshot::channel();
        let doubtful = Update::Reset {
            lists: lists.clone(),
            doubt: Some(doubt),
        };
        update_loop.send(doubtful).await;
        assert_eq!(doubted.await.is_ok(), is_doubted, "{case}");
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
    let (_updates, _task) = spawn_update_loop(feeds, Publisher::default());
    for _ in 0..100 {
        sleep(2 * heartbeat::INTERVAL).await;
        assert!(heartbeat.take());
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
