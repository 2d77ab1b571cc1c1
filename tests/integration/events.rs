//! `/api/v1/events` and `/api/v1/status`: changes of real objects, the stream and its clients.

mod status;
mod stream;

use std::time::Duration;

use serde_json::{Value, json};
use support::event_stream::{EventStream, summary};
use support::objects::{Gateway, Manifest, Mirror, local, mirror, objects};
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::wait::wait_for;

const EVENTS: &str = "/api/v1/events";

fn east() -> Mirror {
    mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"])
}

fn west(gateway: Gateway, address: &str) -> Mirror {
    mirror("prod", "db", "west").endpoint_behind(gateway, "db-0", &[address])
}

/// `count` services with one endpoint each.
fn services(count: usize) -> Manifest {
    (0..count)
        .map(|number| {
            let address = format!("10.96.{}.{}", number / 250, number % 250 + 1);
            mirror("prod", &format!("db{number}"), "east")
                .endpoint(&format!("db{number}-0"), &[&address])
        })
        .collect()
}

/// Returns the events in the ring.
fn events(server: &Server) -> Vec<Value> {
    let report = server.api(EVENTS);
    assert_eq!(report["schemaVersion"], 2);
    report["events"].as_array().unwrap().clone()
}

/// A file with the objects after each step, and the events of the step.
#[test]
fn each_change_of_objects_is_an_event() {
    let server = Server::with_objects(east(), &["--cluster-name=hub"]);
    assert_eq!(events(&server), Vec::<Value>::new());
    let mut stream = EventStream::open(server.api, EVENTS, &[]);
    assert_eq!(stream.next("table").data, json!({"generation": 1}));
    let two = || objects().with(east()).with(west(Gateway::Up, "10.96.2.1"));
    let cache = mirror("shop", "cache", "east").endpoint("cache-0", &["10.96.3.1"]);
    let steps: [(&str, Manifest, &[&str]); 9] = [
        (
            "west is linked",
            two(),
            &[
                "cluster-joined - - west -",
                "endpoint-added prod db west db-0",
            ],
        ),
        (
            "a pod starts",
            objects()
                .with(east().endpoint("db-1", &["10.96.1.2"]))
                .with(west(Gateway::Up, "10.96.2.1")),
            &["endpoint-added prod db east db-1"],
        ),
        (
            "it ends, and another one has a new address",
            objects().with(east()).with(west(Gateway::Up, "10.96.2.2")),
            &[
                "endpoint-removed prod db east db-1",
                "endpoint-changed prod db west db-0",
            ],
        ),
        (
            "the gateway is down",
            objects()
                .with(east())
                .with(west(Gateway::Down, "10.96.2.2")),
            &["gateway-down prod db west db-0"],
        ),
        (
            "the gateway is up",
            objects().with(east()).with(west(Gateway::Up, "10.96.2.2")),
            &["gateway-up prod db west db-0"],
        ),
        (
            "a service is exported",
            objects()
                .with(east())
                .with(west(Gateway::Up, "10.96.2.2"))
                .with(cache),
            &["service-added shop cache - -"],
        ),
        (
            "the service is not exported any more",
            objects().with(east()).with(west(Gateway::Up, "10.96.2.2")),
            &[
                "cluster-left shop cache east -",
                "service-removed shop cache - -",
            ],
        ),
        (
            "a local Service joins",
            objects()
                .with(east())
                .with(west(Gateway::Up, "10.96.2.2"))
                .with(local("prod", "db").endpoint(Some("db-0"), "10.1.0.1", true)),
            &["endpoint-added prod db hub db-0"],
        ),
        (
            "west is unlinked",
            objects().with(east()).with(local("prod", "db").endpoint(
                Some("db-0"),
                "10.1.0.1",
                true,
            )),
            &[
                "cluster-left prod db west -",
                "endpoint-removed prod db west db-0",
            ],
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
    let changed = &report[4];
    assert_eq!(
        changed["text"],
        "Endpoint db-0 of cluster west in prod/db changed its address from 10.96.2.1 to 10.96.2.2."
    );
    // Fields that do not apply are absent.
    let linked: Vec<&String> = report[0].as_object().unwrap().keys().collect();
    assert_eq!(linked, ["cluster", "count", "id", "kind", "text", "time"]);
    let states = |event: &Value| [event["before"].clone(), event["after"].clone()];
    assert_eq!(states(changed), ["10.96.2.1", "10.96.2.2"]);
    assert_eq!(states(&report[5]), ["alive", "down"]);
    assert_eq!(
        states(&report[7]),
        [Value::Null, json!("1 endpoint in east")]
    );
    // The log has the same sentences and fields.
    let fields = |event: &Value| {
        let mut fields = event.as_object().unwrap().clone();
        fields.retain(|name, _| name != "id" && name != "time");
        json!(fields)
    };
    server
        .log
        .wait(0, report.last().unwrap()["text"].as_str().unwrap());
    let lines = server
        .log
        .events()
        .into_iter()
        .filter(|line| line["fields"]["count"].is_number());
    let logged = lines.map(|line| {
        assert_eq!(line["level"], "INFO");
        let mut fields = line["fields"].clone();
        fields["text"] = fields["message"].take();
        fields.as_object_mut().unwrap().remove("message");
        fields
    });
    assert_eq!(
        logged.collect::<Vec<_>>(),
        report.iter().map(fields).collect::<Vec<_>>()
    );
    let after = server.api(&format!("{EVENTS}?after={}", ids[9]));
    assert_eq!(after["events"], json!(report[10..]));
    // An unknown ID: everything.
    let unknown = server.api(&format!("{EVENTS}?after=12"));
    assert_eq!(unknown["events"], json!(report));
    let bad = support::http::get(server.api, &format!("{EVENTS}?after=x")).unwrap();
    assert_eq!(
        (bad.status, &*bad.body),
        (400, "'x' is not the ID of an event\n")
    );
}

#[test]
fn change_of_a_watch_is_an_event_within_a_second() {
    let standin = StandIn::start(Behavior::Normal, &Manifest::from(east()).0).unwrap();
    let server = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    let mut stream = EventStream::open(server.api, EVENTS, &[]);
    let generation = stream.next("table").data["generation"].as_u64().unwrap();
    wait_for("the watches", || {
        let watches = standin
            .requests()
            .into_iter()
            .filter(|request| request.watch);
        (watches.count() >= 7).then_some(())
    });
    let mirror = west(Gateway::Up, "10.96.2.1");
    standin.put(&mirror.service());
    assert_eq!(stream.changes(1), ["cluster-joined - - west -"]);
    let started = std::time::Instant::now();
    standin.put(&mirror.endpoint_mirror("db-0", &["10.96.2.1"]));
    assert_eq!(stream.changes(1), ["endpoint-added prod db west db-0"]);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    let started = std::time::Instant::now();
    standin.put(&mirror.slice("db-0", false));
    // The table is announced before its changes, so that a client that loads it has them.
    let table = stream.next("table").data["generation"].as_u64().unwrap();
    assert!(table > generation);
    assert_eq!(stream.changes(1), ["gateway-down prod db west db-0"]);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn held_list_and_the_list_after_it_are_events() {
    let server = Server::with_objects(services(20), &[]);
    let mut stream = EventStream::open(server.api, EVENTS, &[]);
    std::fs::write(&server.file, services(1).text()).unwrap();
    let held = stream.next("change").data;
    assert_eq!(summary(&held), "list-held - - - -");
    let text = held["text"].as_str().unwrap();
    assert!(
        text.ends_with("it would leave 1 of 20 services; a second list must confirm it"),
        "{text}"
    );
    let problems = server.api("/api/v1/status")["attention"].to_string();
    assert!(
        problems.contains("it would leave 1 of 20 services"),
        "{problems}"
    );
    std::fs::write(&server.file, services(19).text()).unwrap();
    let mut changes = vec![stream.next("change").data];
    while summary(changes.last().unwrap()) != "service-removed prod db19 - -" {
        changes.push(stream.next("change").data);
    }
    let accepted = changes
        .iter()
        .filter(|change| change["kind"] == "list-accepted");
    let texts: Vec<&str> = accepted
        .map(|change| change["text"].as_str().unwrap())
        .collect();
    assert!(!texts.is_empty());
    for text in texts {
        assert!(
            text.ends_with(": the held list was not confirmed; a later list is applied."),
            "{text}"
        );
    }
    // Nothing is held. The service that is gone is reported for an hour.
    let status = server.api("/api/v1/status");
    let rows = status["attention"].as_array().unwrap().iter();
    let kinds: Vec<&Value> = rows.map(|row| &row["kind"]).collect();
    assert_eq!(kinds, [&json!("cluster-left")]);
}

#[test]
fn expired_table_and_its_recovery_are_events() {
    let flags = ["--watch-timeout=1s", "--max-stale=2s"];
    let server = Server::with_objects(east(), &flags);
    let mut stream = EventStream::open(server.api, EVENTS, &[]);
    let tables = |stream: &mut EventStream| {
        let event = stream.next("change").data;
        assert_eq!(summary(&event), "table-expired - - - -");
        event["text"].as_str().unwrap().to_owned()
    };
    std::fs::write(&server.file, "just words\n").unwrap();
    let expired = tables(&mut stream);
    let start = "Table is older than --max-stale: answering SERVFAIL; its age is ";
    assert!(expired.starts_with(start), "{expired}");
    let status = server.api("/api/v1/status");
    assert_eq!(status["state"], "expired");
    assert_eq!(status["level"], "failing");
    std::fs::write(&server.file, Manifest::from(east()).text()).unwrap();
    assert_eq!(
        tables(&mut stream),
        "The source is active again; queries are answered from the table."
    );
    assert_eq!(server.api("/api/v1/status")["state"], "ready");
}

#[test]
fn snapshot_and_its_replacement_are_events() {
    let standin = StandIn::start(Behavior::Normal, &Manifest::from(east()).0).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot.json");
    let flags = ["--snapshot", file.to_str().unwrap()];
    let first = Server::ready_of_cluster(&standin.kubeconfig, &flags);
    wait_for("the snapshot", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.contains("10.96.1.1").then_some(())
    });
    drop(first); // SIGKILL
    standin.set_behavior(Behavior::InternalErrors);
    let second = Server::ready_of_cluster(&standin.kubeconfig, &flags);
    let status = second.api("/api/v1/status");
    assert_eq!(status["state"], "stale");
    let problems = status["attention"].to_string();
    assert!(
        problems.contains("Table comes from a snapshot"),
        "{problems}"
    );
    // A change that happened meanwhile is a change of answers.
    standin.put_without_event(&west(Gateway::Up, "10.96.2.1").service());
    let start = events(&second);
    assert_eq!(start.len(), 1, "{start:?}");
    let text = start[0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("Table comes from a snapshot: its age is "),
        "{text}"
    );
    let path = format!("{EVENTS}?after={}", start[0]["id"]);
    let mut stream = EventStream::open(second.api, &path, &[]);
    stream.next("table");
    standin.set_behavior(Behavior::Normal);
    assert_eq!(
        stream.changes(2),
        ["snapshot - - - -", "cluster-joined - - west -"]
    );
    assert_eq!(second.api("/api/v1/status")["state"], "ready");
}

/// Ten thousand endpoints: few events, and the events before them stay.
#[test]
fn change_of_ten_thousand_endpoints_is_a_few_events() {
    let many = |count: usize| -> Manifest {
        let service = |service: usize| {
            let mut west = mirror("prod", &format!("db{service}"), "west");
            for host in 0..count {
                let address = format!("10.{}.{}.{}", 100 + host / 250, service, host % 250 + 1);
                west = west.endpoint_behind(
                    Gateway::Unknown,
                    &format!("db{service}-{host}"),
                    &[&address],
                );
            }
            west
        };
        let services: Manifest = (0..20).map(service).collect();
        services.with(east())
    };
    // The lists of an API server are read faster than files.
    let standin = StandIn::start(Behavior::Normal, &many(1).0).unwrap();
    let server = Server::ready_of_cluster(&standin.kubeconfig, &["--shrink-guard=off"]);
    let mut stream = EventStream::open(server.api, EVENTS, &[]);
    stream.next("table");
    let more = many(500).0;
    more.iter()
        .for_each(|object| standin.put_without_event(object));
    let started = std::time::Instant::now();
    standin.lose_history();
    let texts: Vec<String> = (0..20)
        .map(|_| {
            let change = stream.next("change").data;
            change["text"].as_str().unwrap().to_owned()
        })
        .collect();
    let took = started.elapsed();
    println!("9,980 endpoints: {took:?} from the list to the last event");
    assert_eq!(texts[0], "499 endpoints of cluster west joined prod/db0.");
    assert_eq!(events(&server).len(), 20);
}
