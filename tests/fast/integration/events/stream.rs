//! The clients of a stream: resumption, restarts of the server, limits, slow clients.

use serde_json::json;
use support::event_stream::{EventStream, summary};
use support::http::get;
use support::objects::{Gateway, Manifest, objects};
use support::server::Server;
use support::wait::wait_for;

use super::{EVENTS, east, events, west};

/// Maximum number of streams of a listener.
const MAX_STREAMS: usize = 8;

/// East with a number of endpoints.
fn endpoints(count: usize) -> Manifest {
    let hosts = 1..count;
    let mirror = hosts.fold(east(), |mirror, host| {
        mirror.endpoint(&format!("db-{host}"), &[&format!("10.96.1.{}", host + 1)])
    });
    mirror.into()
}

fn write(server: &Server, manifest: impl Into<Manifest>) {
    std::fs::write(&server.file, manifest.into().text()).unwrap();
}

#[test]
fn client_resumes_after_its_last_event() {
    let server = Server::with_objects(endpoints(1), &[]);
    let mut stream = EventStream::open(server.api, EVENTS, &[]);
    // Also a client that received no change has a position.
    let start = stream.next("table").id;
    drop(stream);
    write(&server, endpoints(2));
    wait_for("an event", || (events(&server).len() == 1).then_some(()));
    let mut stream = EventStream::open(server.api, EVENTS, &[&format!("Last-Event-ID: {start}")]);
    let first = stream.next("change");
    assert_eq!(first.id, first.data["id"].to_string());
    assert_eq!(summary(&first.data), "grew prod/db east db-1");
    drop(stream);
    write(&server, endpoints(3));
    wait_for("an event", || (events(&server).len() == 2).then_some(()));
    write(&server, endpoints(4));
    wait_for("an event", || (events(&server).len() == 3).then_some(()));
    // The header is newer than the query string, which a browser repeats.
    let path = format!("{EVENTS}?after={start}");
    let header = format!("Last-Event-ID: {}", first.id);
    let mut stream = EventStream::open(server.api, &path, &[&header]);
    assert_eq!(
        stream.changes(2),
        ["grew prod/db east db-2", "grew prod/db east db-3"]
    );
    let mut stream = EventStream::open(server.api, &path, &[]);
    assert_eq!(stream.changes(3).len(), 3);
}

#[test]
fn restart_of_the_server_is_a_reset() {
    let first = Server::with_objects(endpoints(1), &[]);
    let mut stream = EventStream::open(first.api, EVENTS, &[]);
    let start = stream.next("table").id;
    write(&first, endpoints(2));
    let change = stream.next("change");
    drop(first);
    let second = Server::with_objects(endpoints(1), &[]);
    for known in [&start, &change.id, "12"] {
        let header = format!("Last-Event-ID: {known}");
        let mut stream = EventStream::open(second.api, EVENTS, &[&header]);
        let reset = stream.try_next().unwrap().unwrap();
        assert_eq!(
            (&*reset.kind, &reset.data),
            ("reset", &json!({})),
            "{known}"
        );
        // The client continues with the position of the new process.
        let table = stream.try_next().unwrap().unwrap();
        assert_eq!((&*table.kind, &table.id), ("table", &reset.id));
        let header = format!("Last-Event-ID: {}", reset.id);
        let mut resumed = EventStream::open(second.api, EVENTS, &[&header]);
        assert_eq!(resumed.try_next().unwrap().unwrap().kind, "table");
    }
}

#[test]
fn number_of_streams_is_limited_and_pages_are_still_served() {
    let server = Server::with_objects(east(), &[]);
    let open = || EventStream::open(server.api, EVENTS, &[]);
    let mut streams: Vec<EventStream> = (0..MAX_STREAMS).map(|_| open()).collect();
    assert!(streams.iter().all(|stream| stream.status == 200));
    assert_eq!(open().status, 503);
    assert_eq!(get(server.api, "/api/v1/table").unwrap().status, 200);
    // Events as JSON need no stream.
    assert_eq!(get(server.api, EVENTS).unwrap().status, 200);
    streams.pop();
    wait_for("a free stream", || (open().status == 200).then_some(()));
}

/// A client that does not read has no queue in the server.
#[test]
fn client_that_does_not_read_delays_nobody() {
    let server = Server::with_objects(east(), &[]);
    let _silent: Vec<EventStream> = (0..MAX_STREAMS - 1)
        .map(|_| EventStream::open(server.api, EVENTS, &[]))
        .collect();
    let mut stream = EventStream::open(server.api, EVENTS, &[]);
    for gateway in [Gateway::Up, Gateway::Down, Gateway::Up, Gateway::Down] {
        let manifest = objects().with(east()).with(west(gateway, "10.96.2.1"));
        write(&server, manifest);
        stream.next("change");
    }
}
