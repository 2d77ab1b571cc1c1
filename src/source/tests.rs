use tokio::task::JoinHandle;

use super::*;
use crate::testing::{endpoint, mirror, mirrors, reduced, rules};

/// Follows what a test sends.
pub(super) fn spawn_follow(
    feeds: Feeds,
    publisher: Publisher,
    mut policy: Policy,
) -> (Updates, JoinHandle<()>) {
    let (updates, inbox) = channel();
    let follow = async move { follow(inbox, &feeds, &publisher, &mut policy).await };
    (updates, tokio::spawn(follow))
}

#[tokio::test(start_paused = true)]
async fn a_table_without_a_sign_of_life_expires_until_there_is_one() {
    let feeds = Feeds::new(&[]);
    let publisher = Publisher::default();
    let reader = publisher.reader();
    let most = Duration::from_secs(60);
    let policy = Policy {
        rules: rules(),
        shrink_guard: ShrinkGuard::new(None),
        snapshot: None,
        max_stale: Some(most),
    };
    let (updates, _task) = spawn_follow(feeds.clone(), publisher, policy);
    let alive = || feeds.all().iter().for_each(|feed| feeds.alive(feed));
    let mirrors = [
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.0.0.1"]),
    ];
    for feed in feeds.all() {
        let own = mirrors
            .iter()
            .filter(|_| feed.watch == Watch::MirrorServices);
        let objects = own.map(|object| reduced(feed.watch, object)).collect();
        updates
            .send(Update::Reset(vec![(feed, objects)]))
            .await
            .unwrap();
    }
    let second = Duration::from_secs(1);
    alive();
    sleep(most - second).await;
    assert!(reader.load().table.is_some() && !reader.load().is_expired);
    let generation = reader.load().generation;
    sleep(2 * second).await;
    assert!(reader.load().is_expired);

    // A watch that is silent is enough; what others say is kept for later.
    let silent = feeds.all().pop_first().unwrap();
    for feed in feeds.all().iter().filter(|feed| **feed != silent) {
        feeds.alive(feed);
    }
    let (key, object) = reduced(
        Watch::MirrorServices,
        &endpoint("prod", "db", "east", "db-1", &["10.0.0.2"]),
    );
    let update = Update::Apply {
        watch: Watch::MirrorServices,
        key,
        object: Some(object),
    };
    updates.send(update).await.unwrap();
    sleep(second).await;
    assert!(reader.load().is_expired);
    assert_eq!(reader.load().generation, generation + 1);

    alive();
    sleep(second).await;
    assert!(!reader.load().is_expired);
}

#[tokio::test(start_paused = true)]
async fn after_a_panic_the_source_begins_anew_and_the_table_stays() {
    let feeds = Feeds::new(&[]);
    let publisher = Publisher::default();
    let reader = publisher.reader();
    let policy = Policy {
        rules: rules(),
        shrink_guard: ShrinkGuard::new(Some(90)),
        snapshot: None,
        max_stale: None,
    };
    let lists = |count: usize| {
        let mirrors = mirrors(count);
        let list = |watch| {
            let own = mirrors.iter().filter(|_| watch == Watch::MirrorServices);
            let feed = Feed {
                watch,
                namespace: None,
            };
            (feed, own.map(|object| reduced(watch, object)).collect())
        };
        Watch::ALL.map(list).to_vec()
    };
    // How often it began; it panics when it is told to, and says at each start what it is told to.
    let (trap, trapped) = tokio::sync::watch::channel(20);
    let mut begun = 0;
    let source = async move |_: Feeds, updates: Updates| {
        begun += 1;
        let mut trapped = trapped.clone();
        let count = *trapped.borrow_and_update();
        if begun == 3 {
            panic!("at once");
        }
        updates.send(Update::Reset(lists(count))).await.unwrap();
        trapped.changed().await.unwrap();
        panic!("later");
    };
    let _task = tokio::spawn(run(source, feeds.clone(), publisher, policy));
    let answered = || {
        let now = reader.load();
        now.table
            .as_ref()
            .map_or(0, |table| table.services().count())
    };
    let wait = async |count: usize| {
        while answered() != count {
            sleep(Duration::from_millis(1)).await;
        }
    };
    wait(20).await;
    let generation = reader.load().generation;
    trap.send_replace(21);
    wait(21).await;
    assert_eq!(
        (reader.load().generation, feeds.panics()),
        (generation + 1, 1)
    );
    // Twice in a row; and what it says then is guarded, as any other list is.
    trap.send_replace(0);
    while feeds.held() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!((answered(), feeds.panics()), (21, 3));
    assert!(!reader.load().is_stale);
}
