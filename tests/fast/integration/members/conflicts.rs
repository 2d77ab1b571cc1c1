//! Conflicts: logged once, counted by kind, listed in the API.

use std::collections::BTreeMap;

use serde_json::Value;
use support::objects::{Manifest, local, mirror, objects, with_cluster_ip};
use support::server::Server;
use support::wait::wait_for;

/// Returns kinds and names of the conflicts, sorted.
fn conflicts(server: &Server) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let kinds = "cluster-name,endpoint,kind,not-exported,shadowed,short-name";
    let conflicts = server.section(&format!("problems?kind={kinds}"), "problems");
    let mut conflicts: Vec<_> = conflicts
        .iter()
        .map(|conflict| {
            assert!(!text(&conflict["detail"]).is_empty());
            (text(&conflict["kind"]), text(&conflict["subject"]))
        })
        .collect();
    conflicts.sort();
    conflicts
}

/// Returns objects with all kinds of conflicts.
fn conflicting() -> Manifest {
    let not_headless = with_cluster_ip(mirror("prod", "db", "north").service(), "10.96.9.9");
    let mut same_host = mirror("prod", "db", "east").endpoint_mirror("db-0", &["10.96.1.9"]);
    same_host["metadata"]["name"] = "db-zero-east".into();
    objects()
        .with(
            mirror("prod", "db", "east")
                .annotation("global-dns/ttl", "soon")
                .endpoint("db-0", &["10.96.1.1"]),
        )
        .with(mirror("prod", "db", "west").endpoint("db-0", &["10.96.2.1"]))
        .with(not_headless)
        .with(same_host)
        .with(local("prod", "db").endpoint(Some("db-0"), "192.0.2.1", true))
        .with(mirror("shop", "db", "east").endpoint("db-0", &["10.96.3.1"]))
        // A namespace named like a service, with a service named like a cluster of that service.
        .with(mirror("far", "queue", "north").endpoint("q-0", &["10.96.5.1"]))
        .with(mirror("queue", "north", "east").endpoint("h-0", &["10.96.4.1"]))
}

/// Two links with the same name, and `hub` as the name of the local cluster.
const FLAGS: [&str; 2] = ["--cluster-name=hub", "clusterAliases.west=east"];

/// Returns how often each problem was logged, by kind and name, and with which level.
fn logged_problems(server: &Server) -> BTreeMap<(String, String), (usize, Value)> {
    let mut logged = BTreeMap::new();
    for event in server.log.events() {
        let fields = &event["fields"];
        let text = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
        if fields["problem"].is_string() {
            let entry = logged.entry((text("problem"), text("subject")));
            let (count, level) = entry.or_insert((0, event["level"].clone()));
            assert_eq!(*level, event["level"], "{event}");
            *count += 1;
        }
    }
    logged
}

#[test]
fn each_conflict_is_logged_once_counted_and_listed() {
    let server = Server::with_objects(conflicting(), &FLAGS);
    let all = [
        ("cluster-name", "prod/db"),
        ("endpoint", "prod/db"),
        ("kind", "prod/db"),
        ("not-exported", "prod/db"),
        ("shadowed", "north.queue"),
        ("short-name", "db"),
    ]
    .map(|(kind, name)| (kind.to_owned(), name.to_owned()));
    assert_eq!(conflicts(&server), all);
    for (kind, _) in &all {
        let start = format!("global_dns_problems{{kind=\"{kind}\"");
        let page = server.admin("/metrics").body;
        let line = page.lines().find(|line| line.starts_with(&start)).unwrap();
        assert!(line.ends_with(" 1.0"), "{line}");
    }

    // Changes of another service and of the service itself do not repeat log messages.
    let more = conflicting()
        .with(mirror("far", "cache", "east").endpoint("c-0", &["10.96.7.1"]))
        .with(mirror("prod", "db", "south").endpoint("db-0", &["10.96.8.1"]));
    server.log.wait(0, "Published table"); // this line can come after readiness
    let mark = server.log.mark();
    server.rewrite(&more.text());
    // Conflicts are logged before the changes.
    server
        .log
        .wait(mark, "Cluster south joined prod/db (db-0: 10.96.8.1).");
    assert_eq!(server.outcome("db-0.south.db.prod.global. A"), "10.96.8.1");
    let logged = logged_problems(&server);
    // Of both, nobody has to do anything now. The first is not a conflict.
    let notes = [
        ("ignored-setting", "Service/prod/db-east"),
        ("kind", "prod/db"),
    ];
    let notes = notes.map(|(kind, subject)| (kind.to_owned(), subject.to_owned()));
    for problem in all.iter().chain(&notes[..1]) {
        // The new cluster changes the text of the conflict of kinds, so it is logged again.
        let times = if *problem == notes[1] { 2 } else { 1 };
        let level = match problem.0.as_str() {
            "endpoint" | "short-name" => "ERROR",
            _ if notes.contains(problem) => "INFO",
            _ => "WARN",
        };
        assert_eq!(
            logged.get(problem),
            Some(&(times, level.into())),
            "{problem:?}"
        );
    }
    // The state of a service is logged, too.
    for kind in ["service-not-ready", "no-hostnames"] {
        let state = (kind.to_owned(), "prod/db".to_owned());
        assert_eq!(logged.get(&state), Some(&(1, "WARN".into())));
    }
    assert_eq!(logged.len(), all.len() + 3, "{logged:?}");
}

#[test]
fn too_large_answer_is_logged_once_and_counted() {
    // SRV records have 42 octets, because targets are not compressed.
    let mut large = mirror("prod", "db", "east").ports(&[("sql", "TCP", 26257)]);
    for index in 0..1_700 {
        let address = format!("10.97.{}.{}", index / 250, index % 250 + 1);
        large = large.endpoint(&format!("db-{index}"), &[&address]);
    }
    let server = Server::with_objects(large, &[]);
    for _ in 0..3 {
        let reply = server.ask("db.prod.global. SRV", support::wire::Transport::Tcp);
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
    // The message contains the service but not the query.
    assert_eq!(warnings[0]["service"], "prod/db");
    assert_eq!(warnings[0].as_object().unwrap().len(), 2, "{warnings:?}");
}
