//! `/api/v1/status`: its fields, and a sentence for each problem.

use std::net::TcpListener;

use serde_json::{Value, json};
use support::objects::{Gateway, objects};
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::wait::wait_for;
use support::watches::WATCHES;
use support::wire::Transport;

use super::{east, west};

fn problems(status: &Value) -> Vec<&str> {
    let problems = status["problems"].as_array().unwrap();
    problems
        .iter()
        .map(|problem| problem.as_str().unwrap())
        .collect()
}

#[test]
fn status_of_a_healthy_server_has_every_field_and_no_problem() {
    let zones = "--zone=global,clusterset.local=mcs,other.example";
    let flags = [
        "--cluster-name=hub",
        zones,
        "--reverse-zone=96.10.in-addr.arpa",
    ];
    let server = Server::with_objects(east(), &flags);
    for _ in 0..5 {
        server.ask("db.prod.global. A", Transport::Udp);
    }
    server.ask("db.prod.global. AAAA", Transport::Tcp);
    let status = server.api("/api/v1/status");
    let (generation, serial) = server.generation_and_serial();
    let age = status["tableAgeSeconds"].as_f64().unwrap();
    assert!((0.0..60.0).contains(&age), "{age}");
    let expected = json!({
        "schemaVersion": 1,
        "version": env!("CARGO_PKG_VERSION"),
        "cluster": "hub",
        "zones": ["global.", "clusterset.local.", "other.example.", "96.10.in-addr.arpa."],
        "nameSuffixes": ["global.", "svc.clusterset.local.", "other.example."],
        "state": "ready",
        "generation": generation,
        "serial": serial,
        "tableHash": server.metric("global_dns_table_hash") as u64,
        "tableAgeSeconds": age,
        "queries": server.sum("global_dns_requests_total{"),
        "problems": [],
        "problemRows": [],
    });
    assert_eq!(status, expected);
    assert_eq!(status["queries"], 6);
}

#[test]
fn server_without_a_table_is_loading() {
    // Accepts connections, but does not answer.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::without_table(silent.local_addr().unwrap(), &["--cluster-name=hub"]);
    let status = server.api("/api/v1/status");
    assert_eq!(status["state"], "loading");
    assert_eq!(
        (&status["generation"], &status["serial"]),
        (&Value::Null, &Value::Null)
    );
    let problems = problems(&status);
    assert_eq!(problems[0], "No complete table yet: answering SERVFAIL");
    // One sentence for each watch.
    let unlisted = problems
        .iter()
        .filter(|text| text.contains("Watch is not listed yet"));
    // A table does not need that of Links.
    assert_eq!(unlisted.count(), WATCHES.len() + 1, "{problems:?}");
}

#[test]
fn log_of_a_server_without_a_table_names_what_is_not_listed() {
    let standin = StandIn::start(Behavior::InternalErrors, &[]).unwrap();
    let server = Server::of_cluster(&standin.kubeconfig, &[]);
    wait_for("the failed list", || {
        let events = server.log.events();
        let mut problems = events
            .iter()
            .filter(|event| event["fields"]["problem"] == "not-listed");
        problems.any(|event| event["level"] == "WARN").then_some(())
    });
}

#[test]
fn each_problem_is_a_sentence() {
    let mut stranger = west(Gateway::Down, "10.96.2.1").service();
    stranger["metadata"]["name"] = json!("other-west");
    stranger["metadata"]["annotations"]["mirror.linkerd.io/remote-svc-fq-name"] =
        json!("db.bank.svc.cluster.local");
    let other = support::objects::mirror("shop", "db", "east").endpoint("db-0", &["10.96.4.1"]);
    let manifest = objects()
        .with(east())
        .with(west(Gateway::Down, "10.96.2.1"))
        .with(other)
        .with(stranger);
    let server = Server::with_objects(manifest, &[]);
    let status = server.api("/api/v1/status");
    assert_eq!(status["state"], "ready");
    let problems = problems(&status);
    assert_eq!(problems.len(), 3, "{problems:?}");
    let starts = [
        "Mirror of a service in another namespace: Service/prod/other-west: ",
        "Short name is ambiguous: db: ",
        "Gateway is down: prod/db: cluster 'west': db-0",
    ];
    let pairs = || problems.iter().zip(starts);
    assert!(
        pairs().all(|(text, start)| text.starts_with(start)),
        "{problems:?}"
    );
    let rows = status["problemRows"].as_array().unwrap();
    let texts: Vec<&str> = rows.iter().filter_map(|row| row["text"].as_str()).collect();
    assert_eq!(texts, problems);
    let anchors = rows.iter().map(|row| row["anchor"].clone());
    let kinds = ["namespace-mismatch", "short-name", "gateway-down"];
    let expected = kinds.map(|kind| json!(format!("problems.html#{kind}")));
    assert_eq!(anchors.collect::<Vec<_>>(), expected);
    // A file that cannot be read.
    server.write_invalid("just words\n");
    let status = server.api("/api/v1/status");
    assert!(status["problems"].as_array().unwrap().len() > 3, "{status}");
}
