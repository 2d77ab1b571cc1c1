use super::*;
use crate::source::events::MAX_EVENTS;
use crate::table::change::{Change, ChangeKind};
use crate::testing::record_now;
use tokio::time::Instant;

fn change(number: usize) -> Change {
    Change::new(ChangeKind::Grew, format!("Scene {number}."))
}

fn last_id(events: &Events) -> u64 {
    events.subscribe().borrow().id
}

fn new(events: &Events) -> EventStream {
    let open = Arc::new(Semaphore::new(1));
    let permit = open.try_acquire_owned().unwrap();
    EventStream::new(events.clone(), Filter::default(), permit)
}

/// Opens a stream, and reads its first batch.
async fn open(events: &Events) -> (EventStream, String) {
    let mut stream = new(events);
    let first = text(stream.next().await).await;
    (stream, first)
}

/// Returns messages as they are sent.
async fn text(messages: Vec<Message>) -> String {
    let messages = stream::iter(messages).map(Ok::<_, Infallible>);
    let body = Sse::new(messages).into_response().into_body();
    let octets = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    String::from_utf8(octets.to_vec()).unwrap()
}

/// Returns type and ID of the events in a batch.
fn kinds(batch: &str) -> Vec<(&str, u64)> {
    let blocks = batch
        .split("\n\n")
        .filter_map(|block| block.strip_prefix("id: "));
    blocks
        .map(|block| {
            let (id, rest) = block.split_once("\nevent: ").unwrap();
            let (kind, _) = rest.split_once("\ndata: ").unwrap();
            (kind, id.parse().unwrap())
        })
        .collect()
}

/// The ring does not wait for a client. What the client misses is a `reset`.
#[tokio::test(start_paused = true)]
async fn stream_that_falls_behind_the_ring_is_reset() {
    let events = Events::default();
    let (mut stream, _) = open(&events).await;
    let record = async |count: usize| {
        for number in 0..count {
            record_now(&events, change(number));
            sleep(Duration::from_secs(1)).await;
        }
    };
    record(MAX_EVENTS).await;
    // Nothing is lost yet. Long backlogs are sent in parts without waiting for another event.
    let mut received = 0;
    while received < MAX_EVENTS {
        let before = Instant::now();
        let batch = text(stream.next().await).await;
        assert!(before.elapsed() <= PAUSE);
        let kinds = kinds(&batch);
        assert!(kinds.len() <= MAX_IN_BATCH);
        assert!(kinds.iter().all(|(kind, _)| *kind == "change"), "{batch}");
        received += kinds.len();
    }
    record(MAX_EVENTS + 1).await;
    let last = last_id(&events);
    assert_eq!(kinds(&text(stream.next().await).await), [("reset", last)]);
    record(1).await;
    assert_eq!(
        kinds(&text(stream.next().await).await),
        [("change", last + 1)]
    );
}

#[tokio::test(start_paused = true)]
async fn silent_stream_gets_a_comment_every_15_seconds() {
    let events = Events::default();
    let mut body = new(&events).into_response().into_body().into_data_stream();
    let first = body.next().await.unwrap().unwrap();
    assert!(first.starts_with(b"id: "), "{first:?}");
    for _ in 0..3 {
        let started = Instant::now();
        let comment = body.next().await.unwrap().unwrap();
        assert_eq!(comment, ": the server is there\n\n");
        assert_eq!(started.elapsed(), KEEP_ALIVE);
    }
    record_now(&events, change(1));
    let message = body.next().await.unwrap().unwrap();
    assert!(message.starts_with(b"id: "), "{message:?}");
}
