use super::*;
use crate::testing::{endpoint, mirror, reduced, rules};

#[tokio::test(start_paused = true)]
async fn a_table_without_a_sign_of_life_expires_until_there_is_one() {
    let feeds = Feeds::new(&[]);
    let publisher = Publisher::default();
    let reader = publisher.reader();
    let (updates, inbox) = channel();
    let most = Duration::from_secs(60);
    let policy = Policy {
        rules: rules(),
        shrink_guard: ShrinkGuard::new(None),
        snapshot: None,
        max_stale: Some(most),
    };
    let _task = tokio::spawn(follow(inbox, feeds.clone(), publisher, policy));
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
    let sleep = tokio::time::sleep;
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
