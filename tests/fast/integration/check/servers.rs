//! `check` with a running server, directly and through a forwarder.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
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

/// Runs `check` with the server's file, the server and a resolver.
fn check_of(server: &Server, resolver: SocketAddr, flags: &[&str]) -> (Value, Option<i32>) {
    let file = format!("--file={}", server.file.display());
    let direct = format!("--dns={}", server.dns);
    let resolver = format!("--resolver={resolver}");
    checkup(&[&[file.as_str(), &direct, &resolver], flags].concat())
}

#[test]
fn answering_server_with_forwarding_is_green() {
    let server = server();
    let upstream = server.dns;
    let resolver = start(move |_, query| forward(upstream, query));
    let (checkup, exit) = check_of(&server, resolver, &[]);
    let (_, serial) = server.generation_and_serial();
    let dns = server.dns;
    assert_eq!(
        finding(&checkup, "server"),
        format!("green: {dns} serves global. over UDP and TCP, serial {serial}")
    );
    assert_eq!(
        finding(&checkup, "forwarding"),
        format!(
            "green: {resolver} forwards global. to the server: the same SOA record, and the same answer for \
             db.prod.global. A"
        )
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
    let (checkup, exit) = check_of(&server, resolver, &[]);
    let found = finding(&checkup, "forwarding");
    assert!(found.starts_with("green: "), "{found}");
    assert_eq!(exit, Some(0));
}

#[test]
fn truncated_answers_are_repeated_over_tcp() {
    let mut member = mirror("prod", "db", "east");
    for host in 0..200 {
        member = member.endpoint(&format!("db-{host}"), &[&format!("10.96.1.{host}")]);
    }
    let server = Server::with_objects(member, &[]);
    // The server acts as its own resolver, which also answers over TCP.
    let (checkup, exit) = check_of(&server, server.dns, &[]);
    let found = finding(&checkup, "forwarding");
    assert!(found.starts_with("green: "), "{found}");
    assert!(found.contains("db.prod.global. A"), "{found}");
    assert_eq!(exit, Some(0));
}
