//! `/api/v1/events` and `/api/v1/status`: changes of real objects, the stream and its clients.

mod status;
mod stream;

use serde_json::{Value, json};
use support::event_stream::{EventStream, summary};
use support::objects::{Gateway, Manifest, Mirror, local, mirror, objects};
use support::server::Server;
use support::standin::{Behavior, StandIn};

const EVENTS: &str = "/api/v1/events";

fn east() -> Mirror {
    mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"])
}

fn west(gateway: Gateway, address: &str) -> Mirror {
    mirror("prod", "db", "west").endpoint_behind(gateway, "db-0", &[address])
}

/// Returns the events in the ring.
fn events(server: &Server) -> Vec<Value> {
    server.items("events")
}

/// A file with the objects after each step, and the events of the step.
#[test]
fn each_change_of_objects_is_an_event() {
    let server = Server::with_objects(east(), &["--cluster-name=hub"]);
    assert_eq!(events(&server), Vec::<Value>::new());
    let mut stream = EventStream::open(server.api, EVENTS, &[]);
    let table = stream.next("table").data;
    assert_eq!(
        table,
        json!({"generation": 1, "version": 1, "services": null})
    );
    let two = || objects().with(east()).with(west(Gateway::Up, "10.96.2.1"));
    let cache = mirror("shop", "cache", "east").endpoint("cache-0", &["10.96.3.1"]);
    let then = |db: Mirror| objects().with(db).with(west(Gateway::Up, "10.96.2.2"));
    let pod = || local("prod", "db").endpoint(Some("db-0"), "10.1.0.1", true);
    let down = objects()
        .with(east())
        .with(west(Gateway::Down, "10.96.2.2"));
    let east_1 = east().endpoint("db-1", &["10.96.1.2"]);
    let steps: [(&str, Manifest, &[&str]); 9] = [
        ("west is linked", two(), &["joined prod/db west db-0"]),
        (
            "a pod starts",
            objects().with(east_1).with(west(Gateway::Up, "10.96.2.1")),
            &["grew prod/db east db-1"],
        ),
        (
            "it ends, and another one has a new address",
            then(east()),
            &["shrank prod/db east db-1", "address prod/db west db-0"],
        ),
        ("the gateway is down", down, &["down prod/db west db-0"]),
        ("the gateway is up", then(east()), &["up prod/db west db-0"]),
        (
            "a service is exported",
            then(east()).with(cache),
            &["joined shop/cache east cache-0"],
        ),
        (
            "the service is not exported any more",
            then(east()),
            &["left shop/cache east cache-0"],
        ),
        (
            "a local Service joins",
            then(east()).with(pod()),
            &["joined prod/db hub db-0"],
        ),
        (
            "west is unlinked",
            objects().with(east()).with(pod()),
            &["left prod/db west db-0"],
        ),
    ];
    let mut all = Vec::new();
    for (step, manifest, expected) in steps {
        std::fs::write(&server.file, manifest.text()).unwrap();
        let changes = stream.changes(expected.len());
        assert_eq!(changes, expected, "{step}");
        all.extend(changes);
    }
    // The JSON has the same events, in the same order, with consecutive IDs.
    let report = events(&server);
    assert_eq!(report.iter().map(summary).collect::<Vec<_>>(), all);
    let ids: Vec<u64> = report
        .iter()
        .map(|event| event["id"].as_u64().unwrap())
        .collect();
    assert!(ids.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{ids:?}");
    for event in &report {
        let time = event["time"].as_str().unwrap();
        assert!(
            time.len() == 20 && time.starts_with("20") && time.ends_with('Z'),
            "{time}"
        );
        assert!(event["text"].as_str().unwrap().ends_with('.'), "{event}");
    }
    let fields = |event: &Value| {
        let mut fields = event.as_object().unwrap().clone();
        fields.retain(|name, _| name != "id" && name != "time");
        json!(fields)
    };
    // Fields that do not apply are absent.
    assert_eq!(
        fields(&report[3]),
        json!({
            "kind": "address", "services": ["prod/db"], "cluster": "west", "endpoints": ["db-0"], "count": 1,
            "before": "10.96.2.1", "after": "10.96.2.2",
            "text": "The address of cluster west in prod/db (db-0) changed from 10.96.2.1 to 10.96.2.2.",
        })
    );
    let causes = [4, 7].map(|index| report[index]["cause"].clone());
    assert_eq!(
        causes,
        [
            "no address of its gateway is ready",
            "its mirror is gone here"
        ]
    );
    // The log has the same sentences and fields. The line has the exact time.
    server.log.wait(0, report[5]["text"].as_str().unwrap());
    let is_of_db = |services: &Value| services.to_string().contains("prod/db");
    let lines = server.log.events().into_iter();
    let lines = lines.filter(|line| line["fields"]["count"].is_number());
    let lines = lines.filter(|line| is_of_db(&line["fields"]["services"]));
    let of_db = report.iter().filter(|event| is_of_db(&event["services"]));
    for (line, event) in lines.zip(of_db.take(5)) {
        let (logged, trouble) = (&line["fields"], event["kind"] == "down");
        assert_eq!(line["level"], if trouble { "WARN" } else { "INFO" });
        assert_eq!(
            logged["time"].as_str().unwrap().len(),
            "2026-11-24T03:11:42.123Z".len()
        );
        assert_eq!(logged["message"], event["text"]);
        assert_eq!(logged["services"], event["services"][0]);
        for field in ["kind", "cluster", "before", "after", "cause", "count"] {
            assert_eq!(logged[field], event[field], "{field}");
        }
    }
    let after = server.items(&format!("events?after={}", ids[5]));
    assert_eq!(after, report[6..]);
    // A reader of pages continues after the last one.
    let page = |query: &str| server.api(&format!("{EVENTS}?limit=2{query}"))["items"].clone();
    assert_eq!(page(&format!("&after={}", ids[1])), json!(report[2..4]));
    assert_eq!(page(""), json!(report[report.len() - 2..]));
    // An unknown ID: everything.
    assert_eq!(server.items("events?after=12"), report);
    let bad = support::http::get(server.api, &format!("{EVENTS}?after=x")).unwrap();
    assert_eq!(
        (bad.status, &*bad.body),
        (
            400,
            "after: 'x' cannot be used: invalid digit found in string\n"
        )
    );
}

/// The table is announced before its changes, so that a client that loads it has them.
#[test]
fn change_of_a_watch_is_an_event_after_its_table() {
    let up = objects().with(east()).with(west(Gateway::Up, "10.96.2.1"));
    let standin = StandIn::start(Behavior::Normal, &up.0).unwrap();
    let server = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    let mut stream = EventStream::open(server.api, EVENTS, &[]);
    let generation = stream.next("table").data["generation"].as_u64().unwrap();
    standin.put(&west(Gateway::Up, "10.96.2.1").slice("db-0", false));
    let table = stream.try_next().unwrap().unwrap();
    assert_eq!(table.kind, "table");
    assert!(table.data["generation"].as_u64().unwrap() > generation);
    assert_eq!(stream.changes(1), ["down prod/db west db-0"]);
}

#[test]
fn query_that_cannot_be_read_is_refused_with_a_sentence() {
    let server = Server::with_objects(east(), &[]);
    for (query, sentence) in [
        (
            "since=yesterday",
            "since: 'yesterday' cannot be used: a time is like ",
        ),
        (
            "kind=gateway",
            "kind: 'gateway' cannot be used: it is one of joined, left, grew, ",
        ),
        ("namespace=a%20b", "namespace: 'a b' cannot be used: "),
    ] {
        let response = support::http::get(server.api, &format!("{EVENTS}?{query}")).unwrap();
        assert_eq!(response.status, 400, "{query}");
        assert!(response.body.starts_with(sentence), "{}", response.body);
    }
}
