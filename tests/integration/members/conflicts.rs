//! Contradictions are never silent: logged once, counted by kind, listed in the table, the API and explanations.

use std::collections::BTreeMap;

use serde_json::Value;
use support::objects::{Manifest, local, mirror, objects, with_cluster_ip};
use support::server::Server;
use support::wait::wait_for;

use super::{conflicts, expected};

/// A sample that contradicts itself in every way that objects alone can: `identity` takes a change.
fn contradictory() -> Manifest {
    let not_headless = with_cluster_ip(mirror("prod", "db", "north").service(), "10.96.9.9");
    objects()
        .with(
            mirror("prod", "db", "east")
                .annotation("global-dns/ttl", "10")
                .endpoint("db-0", &["10.96.1.1"]),
        )
        .with(
            mirror("prod", "db", "west")
                .annotation("global-dns/ttl", "20")
                .endpoint("db-0", &["10.96.2.1"]),
        )
        .with(not_headless)
        .with(local("prod", "db").endpoint(Some("db-0"), "192.0.2.1", true))
        .with(mirror("shop", "db", "east").endpoint("db-0", &["10.96.3.1"]))
        // A namespace called like a service, with a service called like a cluster of it.
        .with(mirror("far", "queue", "north").endpoint("q-0", &["10.96.5.1"]))
        .with(mirror("queue", "north", "east").endpoint("h-0", &["10.96.4.1"]))
}

/// Two links of one name, and this cluster called `hub`.
const FLAGS: [&str; 2] = ["--cluster-name=hub", "--cluster-alias=west=east"];

/// The log's conflicts: how often each detail was told, by kind and name.
fn logged(server: &Server) -> BTreeMap<(String, String), usize> {
    let mut logged = BTreeMap::new();
    for event in server.log.events() {
        let fields = &event["fields"];
        let text = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
        if text("message").starts_with("Conflict: ") {
            assert_eq!(event["level"], "WARN");
            *logged.entry((text("kind"), text("name"))).or_default() += 1;
        }
    }
    logged
}

#[test]
fn every_conflict_is_logged_once_counted_and_listed() {
    let server = Server::of(contradictory(), &FLAGS);
    let all = expected(&[
        ("annotation", "prod/db"),
        ("cluster-name", "prod/db"),
        ("endpoint", "prod/db"),
        ("headless", "prod/db"),
        ("not-exported", "prod/db"),
        ("shadowed", "north.queue"),
        ("short-name", "db"),
    ]);
    assert_eq!(conflicts(&server), all);
    assert_eq!(
        server.api("/api/v1/table")["conflicts"],
        server.api("/api/v1/conflicts")
    );
    for (kind, _) in &all {
        let metric = format!("global_dns_conflicts{{kind=\"{kind}\"}}");
        assert_eq!(server.metric(&metric), 1.0, "{kind}");
    }
    assert_eq!(
        server.metric("global_dns_conflicts{kind=\"identity\"}"),
        0.0
    );

    // A change elsewhere, and one of the service itself, tell nothing twice.
    let more = contradictory()
        .with(mirror("far", "cache", "east").endpoint("c-0", &["10.96.7.1"]))
        .with(mirror("prod", "db", "south").endpoint("db-0", &["10.96.8.1"]));
    let mark = server.log.mark();
    server.rewrite(&more.text());
    server.log.wait(mark, "Published table"); // conflicts come before it
    assert_eq!(server.outcome("db-0.south.db.prod.global. A"), "10.96.8.1");
    let logged = logged(&server);
    // Who is headless changed its wording with the new cluster: that is news.
    let news = ("headless".to_owned(), "prod/db".to_owned());
    for conflict in &all {
        let times = if *conflict == news { 2 } else { 1 };
        assert_eq!(logged.get(conflict), Some(&times), "{conflict:?}");
    }
    assert_eq!(logged.len(), all.len());
}

#[test]
fn an_explanation_lists_the_conflicts_of_its_service_and_no_others() {
    let server = Server::of(contradictory(), &FLAGS);
    let kinds = |name: &str| -> Vec<String> {
        let explained = server.api(&format!("/api/v1/explain?name={name}"));
        let conflicts = explained["conflicts"].as_array().unwrap().iter();
        conflicts
            .map(|conflict: &Value| conflict["kind"].as_str().unwrap().to_owned())
            .collect()
    };
    for name in [
        "db.prod.global",
        "east.db.prod.global",
        "nope.db.prod.global",
    ] {
        let kinds = kinds(name);
        for kind in [
            "annotation",
            "cluster-name",
            "endpoint",
            "headless",
            "not-exported",
            "short-name",
        ] {
            assert!(kinds.contains(&kind.to_owned()), "{name}: {kinds:?}");
        }
    }
    assert_eq!(kinds("db-0.east.db.shop.global"), ["short-name"]);
    assert_eq!(kinds("north.queue.global"), ["shadowed"]);
}

#[test]
fn an_answer_that_no_message_holds_is_logged_once_and_counted() {
    // SRV records of 42 octets, as targets are not compressed.
    let mut large = mirror("prod", "db", "east").ports(&[("sql", "TCP", 26257)]);
    for index in 0..1_700 {
        let address = format!("10.97.{}.{}", index / 250, index % 250 + 1);
        large = large.endpoint(&format!("db-{index}"), &[&address]);
    }
    let server = Server::of(large, &[]);
    for _ in 0..3 {
        let reply = server.ask("db.prod.global. SRV", support::wire::Over::Tcp);
        assert!(reply.is_truncated());
    }
    assert_eq!(
        server.metric("global_dns_truncated_responses_total{proto=\"tcp\"}"),
        3.0
    );
    let warnings = || -> Vec<Value> {
        let is_one = |fields: &Value| {
            let message = fields["message"].as_str().unwrap_or_default();
            message.starts_with("An answer does not fit 65,535 octets")
        };
        let events = server.log.events().into_iter();
        let fields = events.map(|event| event["fields"].clone());
        fields.filter(is_one).collect()
    };
    wait_for("the warning", || (!warnings().is_empty()).then_some(()));
    let warnings = warnings();
    assert_eq!(warnings.len(), 1);
    // By the service: what was asked is nobody's business.
    assert_eq!(warnings[0]["service"], "prod/db");
    assert_eq!(warnings[0].as_object().unwrap().len(), 2, "{warnings:?}");
}
