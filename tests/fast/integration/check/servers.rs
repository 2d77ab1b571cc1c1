//! `check` with a running server, directly and through a forwarder.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use support::fleet::{Alteration, altered};
use support::objects::{Manifest, mirror, objects};
use support::server::Server;

use super::forwarder::{forward, start};
use super::{checkup, finding};

fn sample(address: &str) -> Manifest {
    objects().with(mirror("prod", "db", "east").endpoint("db-0", &[address]))
}

fn server() -> Server {
    Server::with_objects(sample("10.96.1.1"), &[])
}

/// Runs `check` with a server and a resolver.
fn check_of(server: &Server, resolver: SocketAddr) -> (Value, Option<i32>) {
    let api = format!("--server={}", server.api);
    let dns = format!("--dns={}", server.dns);
    let resolver = format!("--resolver={resolver}");
    checkup(&[&api, &dns, &resolver])
}

#[test]
fn correct_installation_has_only_lines_that_are_ok() {
    let server = server();
    let upstream = server.dns;
    let resolver = start(move |_, query| forward(upstream, query));
    let (checkup, exit) = check_of(&server, resolver);
    let dns = server.dns;
    for (name, expected) in [
        (
            "direct-answer",
            format!("ok: {dns} answers db.prod.global. A: 10.96.1.1"),
        ),
        (
            "cluster-answer",
            format!("ok: {resolver} answers as the server does: db.prod.global. A"),
        ),
    ] {
        assert_eq!(finding(&checkup, name), expected);
    }
    let states = |checkup: &Value| -> Vec<Value> {
        let items = checkup["items"].as_array().unwrap().iter();
        items.map(|one| one["state"].clone()).collect()
    };
    assert_eq!(states(&checkup), ["ok"; 3], "{checkup:#}");
    assert_eq!(exit, Some(0));
    // Neither a cluster nor a name server is known: there is no line about them.
    let (checkup, _) = super::checkup(&[&format!("--server={}", server.api)]);
    assert_eq!(states(&checkup), ["ok"], "{checkup:#}");
}

#[test]
fn unknown_kind_of_problem_is_printed() {
    let objects =
        sample("10.96.1.1").with(mirror("shop", "db", "east").endpoint("db-0", &["10.96.1.9"]));
    let server = Server::with_objects(objects, &[]);
    const ALTERATION: Alteration = &[
        ("\"short-name\"", "\"tea-cold\""),
        ("\"error\"", "\"tragedy\""),
    ];
    let api = format!("--server={}", altered(server.api, ALTERATION));
    let (checkup, exit) = checkup(&[&api]);
    let found = finding(&checkup, "tea-cold");
    assert!(
        found.starts_with("attention: Short name is ambiguous: "),
        "{found}"
    );
    assert_eq!(exit, Some(0));
}

#[test]
fn changed_answer_is_compared_again_after_the_cache_expires() {
    let (server, before) = (server(), Server::with_objects(sample("10.97.1.1"), &[]));
    let (now, then) = (server.dns, before.dns);
    let asked = AtomicUsize::new(0);
    // The first reply is the old answer from a cache.
    let resolver = start(move |name, query| {
        let is_first = name.starts_with("db.") && asked.fetch_add(1, Ordering::Relaxed) == 0;
        forward(if is_first { then } else { now }, query)
    });
    let (checkup, exit) = check_of(&server, resolver);
    let found = finding(&checkup, "cluster-answer");
    assert!(found.starts_with("ok: "), "{found}");
    assert_eq!(exit, Some(0));
}

#[test]
fn older_negative_answer_of_a_cache_is_no_missing_stanza() {
    let server = server();
    let upstream = server.dns;
    let resolver = start(move |name, query| {
        let mut reply = forward(upstream, query);
        if name.starts_with("db.") {
            reply = query.to_vec();
            (reply[2], reply[3]) = (reply[2] | 0x80, reply[3] & 0xf0 | 3);
        }
        reply
    });
    let (checkup, exit) = check_of(&server, resolver);
    let expected = format!(
        "failing: {resolver} has an older answer for db.prod.global. A, and forwards the zone"
    );
    let found = finding(&checkup, "cluster-answer");
    assert!(found.starts_with(&expected), "{found}");
    assert_eq!(exit, Some(1));
}

#[test]
fn truncated_answers_are_repeated_over_tcp() {
    let mut member = mirror("prod", "db", "east");
    for host in 0..200 {
        member = member.endpoint(&format!("db-{host}"), &[&format!("10.96.1.{host}")]);
    }
    let server = Server::with_objects(member, &[]);
    // The server acts as its own resolver, which also answers over TCP.
    let (checkup, exit) = check_of(&server, server.dns);
    let found = finding(&checkup, "cluster-answer");
    assert!(found.starts_with("ok: "), "{found}");
    assert!(found.contains("db.prod.global. A"), "{found}");
    assert_eq!(exit, Some(0));
}
