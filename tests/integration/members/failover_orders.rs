//! Failover orders (rules K5, K6) and expected clusters (rule K8), with objects from a file. `tests/e2e` has the delays.

use serde_json::{Value, json};
use support::objects::{Gateway, Manifest, gateway_mirror, local, mirror, objects};
use support::server::Server;
use support::wait::wait_for;
use support::wire::Transport;

use super::check_outcomes;

/// Returns `prod/db` in east and west, and the Service of this cluster with an annotation.
fn sample(key: &str, value: &str) -> Manifest {
    objects()
        .with(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]))
        .with(mirror("prod", "db", "west").endpoint("db-0", &["10.96.2.1"]))
        .with(
            local("prod", "db")
                .without_selector()
                .annotation(key, value),
        )
}

fn conflict_details(server: &Server) -> String {
    server.api("/api/v1/conflicts").to_string()
}

#[test]
fn annotation_comes_before_the_flags() {
    let flags = ["--failover", "prod/db=west:east,local:*"];
    let server = Server::with_objects(sample("x", "y"), &flags);
    server.wait_for_outcome("db.prod.global. A", "10.96.2.1");
    let server = Server::with_objects(sample("global-dns/failover", "east:west"), &flags);
    server.wait_for_outcome("db.prod.global. A", "10.96.1.1");
    assert_eq!(server.outcome("west.db.prod.global. A"), "10.96.2.1");
    let table = server.api("/api/v1/table");
    let failover = &table["services"][0]["failover"];
    assert_eq!(failover["order"], "east:west");
    assert_eq!(failover["origin"], "annotation");
    assert_eq!(failover["step"], 1);
    assert_eq!(failover["steps"][1]["clusters"], "west");
    assert_eq!(failover["steps"][1]["state"], "alive");
    assert!(failover["steps"][0]["since"].is_string());
    assert_eq!(table["services"][0]["endpoints"][1]["state"], "standby");
}

#[test]
fn default_order_does_not_split_headless_services() {
    let pay = |cluster: &str, address: &str| gateway_mirror("prod", "pay", cluster, address);
    let manifest = sample("x", "y")
        .with(pay("east", "10.96.1.9"))
        .with(pay("west", "10.96.2.9"));
    let server = Server::with_objects(manifest, &["--failover", "west:*"]);
    check_outcomes(
        &server,
        "answers",
        &[
            ("db.prod.global. A", "10.96.1.1 10.96.2.1"),
            ("pay.prod.global. A", "10.96.2.9"),
            ("east.pay.prod.global. A", "10.96.1.9"),
        ],
    );
}

/// The first table has no predecessor, so no delay applies.
#[test]
fn first_table_has_the_first_step_that_is_alive() {
    let manifest = objects()
        .with(mirror("prod", "db", "east").endpoint_behind(Gateway::Down, "db-0", &["10.96.1.1"]))
        .with(mirror("prod", "db", "west").endpoint("db-0", &["10.96.2.1"]));
    let server = Server::with_objects(manifest, &["--failover", "prod/db=east:west"]);
    server.wait_for_outcome("db.prod.global. A", "10.96.2.1");
}

#[test]
fn failover_is_one_log_line_with_service_steps_and_reason() {
    let manifest = |east| {
        let mirror = |cluster| mirror("prod", "db", cluster);
        objects()
            .with(mirror("east").endpoint_behind(east, "db-0", &["10.96.1.1"]))
            .with(mirror("west").endpoint("db-0", &["10.96.2.1"]))
            .with(
                local("prod", "db")
                    .without_selector()
                    .annotation("global-dns/failover", "east:west"),
            )
    };
    let server = Server::with_objects(manifest(Gateway::Up), &["--failover-delay", "0s"]);
    server.wait_for_outcome("db.prod.global. A", "10.96.1.1");
    server.rewrite(&manifest(Gateway::Down).text());
    server.wait_for_outcome("db.prod.global. A", "10.96.2.1");
    // A thread writes the log.
    let sentence = "Step west of the failover order answers for prod/db instead of east: no endpoint of the last step is alive.";
    server.process().log().wait(0, sentence);
    let events = server.process().log().events().into_iter();
    let failovers: Vec<Value> = events
        .filter(|event| event["fields"]["kind"] == "failover")
        .map(|mut event| json!([event["level"].take(), event["fields"].take()]))
        .collect();
    let expected = json!(["INFO", {
        "message": sentence,
        "kind": "failover",
        "namespace": "prod",
        "service": "db",
        "before": "east",
        "after": "west",
        "count": 1,
    }]);
    assert_eq!(failovers, [expected]);
}

#[test]
fn name_that_waits_for_clusters_is_answered_with_servfail_and_not_ready() {
    let server = Server::with_objects(
        sample("x", "y"),
        &["--expected-clusters", "prod/db=east+north,prod/new=east"],
    );
    check_outcomes(
        &server,
        "answers",
        &[
            ("db.prod.global. A", "SERVFAIL"),
            ("db.global. A", "SERVFAIL"),
            ("_sql._tcp.db.prod.global. SRV", "SERVFAIL"),
            ("new.prod.global. A", "SERVFAIL"),
            ("west.db.prod.global. A", "10.96.2.1"),
        ],
    );
    let reply = server.ask("db.prod.global. A +bufsize=1232", Transport::Udp);
    assert_eq!(reply.extended_error(), Some(14));
    let page = server.admin("/readyz");
    assert_eq!(page.status, 200);
    for sentence in [
        "Name waits for expected clusters: prod/db: not answered; waits for north",
        "Name waits for expected clusters: prod/new: not answered; waits for east",
    ] {
        assert!(page.body.contains(sentence), "{}", page.body);
    }
    // The cluster comes, and leaves again.
    let north = mirror("prod", "db", "north").endpoint("db-0", &["10.96.3.1"]);
    server.rewrite(&sample("x", "y").with(north).text());
    server.wait_for_outcome("db.prod.global. A", "10.96.1.1 10.96.2.1 10.96.3.1");
    server.rewrite(&sample("x", "y").text());
    server.wait_for_outcome("db.prod.global. A", "10.96.1.1 10.96.2.1");
}

/// Each invalid annotation is reported in one sentence, and the name is answered as without it.
#[test]
fn invalid_annotation_is_reported_and_ignored() {
    let long = "east:".repeat(40_000);
    for (key, value, sentence) in [
        ("failover", "", "a failover order needs a step"),
        (
            "failover",
            "east::west",
            "step 2 of the failover order is empty",
        ),
        (
            "failover",
            "east:east",
            "'east' is in the failover order twice",
        ),
        ("failover", "east+*", "'*' stands for all other clusters"),
        ("failover", "East", "'East' is not the name of a cluster"),
        (
            "failover",
            long.as_str(),
            "a failover order has at most 4096 octets, found 200000",
        ),
        (
            "expected-clusters",
            "east,west",
            "'east,west' is not the name of a cluster",
        ),
        (
            "expected-clusters",
            "east+east",
            "'east' is in the list twice",
        ),
        (
            "expected-clusters",
            long.as_str(),
            "is not the name of a cluster",
        ),
    ] {
        let server = Server::with_objects(sample(&format!("global-dns/{key}"), value), &[]);
        check_outcomes(
            &server,
            key,
            &[("db.prod.global. A", "10.96.1.1 10.96.2.1")],
        );
        let conflicts = conflict_details(&server);
        let start: String = value.chars().take(20).collect();
        let invalid = format!("annotation global-dns/{key}={start}");
        assert!(conflicts.contains(&invalid), "{conflicts}");
        assert!(conflicts.contains(sentence), "{conflicts}");
        assert!(conflicts.len() < 600, "{}", conflicts.len());
        let notes = server
            .api("/api/v1/explain?name=db.prod.global")
            .to_string();
        assert!(notes.contains(sentence), "{notes}");
        wait_for("the conflict in the log", || {
            let log = server.process().log().text();
            log.contains(sentence).then_some(())
        });
    }
}

/// A person who writes the annotation on a mirror, or in the exporting cluster, learns that it is ignored.
#[test]
fn annotation_of_a_mirror_is_ignored_and_explained() {
    let east = mirror("prod", "db", "east")
        .annotation("global-dns/failover", "east")
        .endpoint("db-0", &["10.96.1.1"]);
    let west = mirror("prod", "db", "west").endpoint("db-0", &["10.96.2.1"]);
    let server = Server::with_objects(objects().with(east).with(west), &[]);
    check_outcomes(
        &server,
        "annotation of a mirror",
        &[("db.prod.global. A", "10.96.1.1 10.96.2.1")],
    );
    let problems = server.api("/api/v1/explain?name=db.prod.global")["problems"].to_string();
    let detail = "global-dns/failover=east";
    assert!(problems.contains(detail), "{problems}");
}
