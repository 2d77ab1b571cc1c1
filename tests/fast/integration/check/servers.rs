//! `check` with a running server, directly and through a forwarder.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use support::objects::{Manifest, mirror, objects};
use support::ports::free_port;
use support::server::Server;

use super::forwarder::{NXDOMAIN, REFUSED, SERVFAIL, code, forward, start};
use super::{checkup, finding, findings};

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
fn every_zone_is_checked() {
    let zones = ["--zone=a.test", "--zone=b.test"];
    let server = Server::with_objects(sample("10.96.1.1"), &zones);
    let upstream = server.dns;
    let resolver = start(move |name, query| {
        if name.ends_with("b.test.") {
            code(query, NXDOMAIN)
        } else {
            forward(upstream, query)
        }
    });
    let (checkup, exit) = check_of(&server, resolver, &zones);
    assert_eq!(exit, Some(0), "{checkup:#}");
    let served = findings(&checkup, "server");
    assert_eq!(served.len(), 2);
    assert!(
        served.iter().all(|one| one.starts_with("green: ")),
        "{served:?}"
    );
    let mut forwarded = findings(&checkup, "forwarding");
    forwarded.sort();
    let start = |one: &String| one.split(", and").next().unwrap().to_owned();
    let expected = [
        format!("green: {resolver} forwards a.test. to the server: the same SOA record"),
        format!("yellow: {resolver} does not forward b.test. yet: it returns NXDOMAIN"),
    ];
    assert_eq!(forwarded.iter().map(start).collect::<Vec<_>>(), expected);
}

#[test]
fn zone_without_forwarding_is_yellow_for_every_response_code() {
    let server = server();
    for (rcode, message) in [
        (NXDOMAIN, "it returns NXDOMAIN"),
        (REFUSED, "it returns REFUSED"),
        (SERVFAIL, "it returns SERVFAIL, also for the root zone"),
    ] {
        let resolver = start(move |_, query| code(query, rcode));
        let (checkup, exit) = check_of(&server, resolver, &[]);
        let expected = format!("yellow: {resolver} does not forward global. yet: {message}");
        assert_eq!(finding(&checkup, "forwarding"), expected);
        assert_eq!(exit, Some(0));
    }
}

#[test]
fn zone_forwarded_to_an_unreachable_server_is_red() {
    let server = server();
    let resolver = start(|name, query| {
        let rcode = if name == "." { NXDOMAIN } else { SERVFAIL };
        code(query, rcode)
    });
    let (checkup, exit) = check_of(&server, resolver, &[]);
    let expected = format!("red: {resolver} fails only for global.: it returns SERVFAIL");
    assert_eq!(finding(&checkup, "forwarding"), expected);
    assert_eq!(exit, Some(1));
}

#[test]
fn zone_forwarded_to_the_server_of_another_cluster_is_red() {
    let (server, other) = (server(), Server::with_objects(sample("10.97.1.1"), &[]));
    let upstream = other.dns;
    let resolver = start(move |_, query| forward(upstream, query));
    let (checkup, exit) = check_of(&server, resolver, &[]);
    let expected = format!("red: {resolver} and the server answer differently: db.prod.global. A");
    assert_eq!(finding(&checkup, "forwarding"), expected);
    assert_eq!(exit, Some(1));
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

#[test]
fn unusable_server_is_red_and_is_not_compared_with_the_resolver() {
    let server = server();
    let closed = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let file = format!("--file={}", server.file.display());
    let resolver = format!("--resolver={}", server.dns);
    let check_at = |at: SocketAddr, flags: &[&str]| {
        let direct = format!("--dns={at}");
        let (checkup, exit) = checkup(&[&[file.as_str(), &direct, &resolver], flags].concat());
        assert_eq!(exit, Some(1), "{checkup:#}");
        let found = finding(&checkup, "forwarding");
        assert!(
            found.starts_with("grey: ") && found.contains("not checked"),
            "{found}"
        );
        finding(&checkup, "server")
    };
    let found = check_at(closed, &[]);
    let expected =
        format!("red: {closed} does not answer over UDP: Connection refused (os error 111)");
    assert_eq!(found, expected);
    let dns = server.dns;
    let found = check_at(dns, &["--zone=other.test"]);
    assert_eq!(
        found,
        format!("red: {dns} does not serve other.test.: REFUSED")
    );
}

#[test]
fn server_without_a_table_is_red() {
    let closed = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let waiting = Server::without_table(closed, &[]);
    let other = server();
    let file = format!("--file={}", other.file.display());
    let (checkup, exit) = checkup(&[&file, &format!("--dns={}", waiting.dns)]);
    let dns = waiting.dns;
    let expected =
        format!("red: {dns} does not answer over UDP: Connection refused (os error 111)");
    assert_eq!(finding(&checkup, "server"), expected);
    assert_eq!(exit, Some(1));
}
