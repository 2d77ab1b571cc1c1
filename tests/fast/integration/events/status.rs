//! `/api/v1/status`: its fields, and a cause for each group of problems.

use std::net::TcpListener;

use serde_json::{Value, json};
use support::repository::repository;
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::wait::wait_for;

use super::east;

/// Returns a sentence for each cause.
fn causes(causes: &[Value]) -> Vec<String> {
    let causes = causes.iter();
    let sentence = |cause: &Value| {
        let parts = ["sentence", "subject", "detail"].map(|part| cause[part].as_str().unwrap());
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(": ")
    };
    causes.map(sentence).collect()
}

#[test]
fn status_of_a_healthy_server_has_every_field_and_no_problem() {
    let zones = "--zone=global,clusterset.local=mcs,other.example";
    let flags = ["--cluster-name=hub", zones];
    let server = Server::with_objects(east(), &flags);
    let mut status = server.status();
    let (generation, serial) = server.generation_and_serial();
    let since = status["since"].clone();
    let time = status["time"].take();
    for time in [&since, &time] {
        time.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    }
    let replica = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let expected = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "cluster": "hub",
        "replica": replica.trim(),
        "zones": ["global.", "clusterset.local.", "other.example."],
        "nameSuffixes": ["global.", "svc.clusterset.local.", "other.example."],
        "ownSuffix": "global.",
        "servers": [server.dns.to_string()],
        "state": "ready",
        "since": since,
        "generation": generation,
        "serial": serial,
        "tableHash": server.metric("global_dns_table_hash") as u64,
        "from": null,
        "tables": 1,
        "lastEvent": status["lastEvent"],
        "historyStart": status["historyStart"],
        "settings": status["settings"],
        "level": "ok",
        "services": {"ok": 1, "attention": 0, "failing": 0},
        "age": status["age"],
        "watches": status["watches"],
        "problems": {"error": 0, "warning": 0, "note": 0},
        "gone": [],
        "clusters": [{"name": "hub", "isOwn": true}],
        "moreClusters": 0,
        "time": null,
    });
    assert_eq!(status, expected);
}

#[test]
fn status_has_every_linked_cluster_and_describes_one() {
    let file = repository("tests/fixtures/faults/linked-without-the-service.yaml");
    let objects = std::fs::read_to_string(file).unwrap();
    let server = Server::with_text(&objects, &["--cluster-name=hub"]);
    let clusters = server.status()["clusters"].take();
    let north = json!({"name": "north", "isOwn": false, "link": "linked", "isMirrored": true});
    assert!(clusters.as_array().unwrap().contains(&north), "{clusters}");
    let [north] = server
        .section("status?cluster=north", "clusters")
        .try_into()
        .unwrap();
    assert_eq!(north["lacking"], json!(["prod/db", "shop/web"]));
    assert_eq!(north["endpoints"], json!({"alive": 1}));
    assert_eq!(north["services"][0]["service"], "prod/old");
    let refused = server.try_api("/api/v1/status?cluster=nort").unwrap_err();
    let refused = format!("{refused:#}");
    assert!(refused.contains("the nearest name is 'north'"), "{refused}");
}

#[test]
fn server_without_a_table_is_loading() {
    // Accepts connections, but does not answer.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::without_table(silent.local_addr().unwrap(), &["--cluster-name=hub"]);
    let status = server.status();
    assert_eq!(status["state"], "loading");
    assert_eq!(
        (&status["generation"], &status["serial"]),
        (&Value::Null, &Value::Null)
    );
    let all = server.section("problems", "causes");
    let causes = causes(&all);
    assert_eq!(causes[0], "No complete table yet: refusing queries");
    // One cause for all watches. A table does not need that of Links.
    assert_eq!(causes.len(), 2, "{causes:?}");
    assert_eq!(all[1]["kind"], "source-unavailable");
}

#[test]
fn log_of_a_server_without_a_table_names_what_is_not_listed() {
    let standin = StandIn::start(Behavior::InternalErrors, &[]).unwrap();
    let server = Server::of_cluster(&standin.kubeconfig, &[]);
    wait_for("the failed list", || {
        let events = server.log.events();
        let mut problems = events
            .iter()
            .filter(|event| event["fields"]["problem"] == "source-unavailable");
        problems.any(|event| event["level"] == "WARN").then_some(())
    });
}
