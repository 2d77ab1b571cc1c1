//! A running server, asked directly and through a forwarder.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use support::commands::global_dns;
use support::objects::{Manifest, mirror, objects};
use support::ports::free_port;
use support::process::{run, run_global_dns};
use support::server::{Await, Server};

use super::forwarder::{NXDOMAIN, REFUSED, SERVFAIL, code, forward, start};
use super::{checkup, finding, findings, json_of};

fn sample(address: &str) -> Manifest {
    objects().with(mirror("prod", "db", "east").endpoint("db-0", &[address]))
}

fn server() -> Server {
    Server::of(sample("10.96.1.1"), &[])
}

/// Checks the server's own file, the server, and what the resolver makes of it.
fn check_of(server: &Server, resolver: SocketAddr, flags: &[&str]) -> (Value, Option<i32>) {
    let file = format!("--file={}", server.file.display());
    let direct = format!("--server={}", server.dns);
    let resolver = format!("--resolver={resolver}");
    checkup(&[&[file.as_str(), &direct, &resolver], flags].concat())
}

#[test]
fn a_server_that_answers_and_is_forwarded_to_is_green() {
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
fn variables_name_the_server_and_the_resolver() {
    let server = server();
    let upstream = server.dns;
    let resolver = start(move |_, query| forward(upstream, query));
    let file = format!("--file={}", server.file.display());
    let mut command = global_dns(&["check", "--output=json", &file]);
    command.env("GLOBAL_DNS_DNS_SERVER", upstream.to_string());
    command.env("GLOBAL_DNS_RESOLVER", resolver.to_string());
    // What explain and table ask is no name server.
    command.env("GLOBAL_DNS_SERVER", "http://127.0.0.1:9154");
    let checkup = json_of(&run(&mut command));
    for check in ["server", "forwarding"] {
        let found = finding(&checkup, check);
        assert!(found.starts_with("green: "), "{found}");
    }
}

#[test]
fn mirrors_that_two_links_write_are_asked_of_the_server_where_its_api_is_given() {
    let server = server();
    let file = format!("--file={}", server.file.display());
    let api = format!("--api=http://{}", server.api);
    let identity = |flags: &[&str]| {
        let (checkup, exit) = checkup(&[&[file.as_str()], flags].concat());
        assert_eq!(exit, Some(0), "{checkup:#}");
        finding(&checkup, "identity")
    };
    let none = "green: the server has seen no mirror become one of something else";
    assert_eq!(identity(&[&api]), none);
    // The object stays, and is the mirror of something else.
    let mut written = sample("10.96.1.1");
    let remote = "mirror.linkerd.io/remote-svc-fq-name";
    written.0[1]["metadata"]["annotations"][remote] = "db-7.db.prod.svc.cluster.local".into();
    server.rewrite(&written.text());
    server.wait_for_outcome("db-7.east.db.prod.global. A", "10.96.1.1");
    let changed = "yellow: Service/prod/db-0-east was the mirror of 'db-0' of prod/db in cluster 'east', is now of 'db-7' of \
                   prod/db in cluster 'east': do two links write it?";
    assert_eq!(identity(&[&api]), changed);
    // Who reads the same objects once does not see it, and says so.
    let unknown = "yellow: mirrors that two Links write: not checked, only a running server can know it, and --api is not \
                   given";
    assert_eq!(identity(&[]), unknown);
    let explain = |source: &str| run_global_dns(&["explain", "db.prod.global", source]).stdout;
    let asked = explain(&format!("--server=http://{}", server.api));
    assert!(asked.contains("do two links write it?"), "{asked}");
    let read = explain(&file);
    assert!(read.contains("only a running server can know"), "{read}");
    assert!(!read.contains("do two links write it?"), "{read}");
    // An API that is not there is no finding of its own.
    let found = identity(&[&format!("--api=http://127.0.0.1:{}", free_port())]);
    let start = "yellow: mirrors that two Links write: not checked, asking http://127.0.0.1:";
    assert!(found.starts_with(start), "{found}");
}

#[test]
fn every_zone_is_asked_for() {
    let zones = [
        "--zone=a.test",
        "--zone=b.test",
        "--reverse-zone=96.10.in-addr.arpa",
    ];
    let server = Server::of(sample("10.96.1.1"), &zones);
    let upstream = server.dns;
    let resolver = start(move |name, query| match name.ends_with("b.test.") {
        true => code(query, NXDOMAIN),
        false => forward(upstream, query),
    });
    let (checkup, exit) = check_of(&server, resolver, &zones);
    assert_eq!(exit, Some(0), "{checkup:#}");
    let served = findings(&checkup, "server");
    assert_eq!(served.len(), 3);
    assert!(
        served.iter().all(|one| one.starts_with("green: ")),
        "{served:?}"
    );
    let mut forwarded = findings(&checkup, "forwarding");
    forwarded.sort();
    let start = |one: &String| one.split(", and").next().unwrap().to_owned();
    let expected = [
        format!(
            "green: {resolver} forwards 96.10.in-addr.arpa. to the server: the same SOA record"
        ),
        format!("green: {resolver} forwards a.test. to the server: the same SOA record"),
        format!("yellow: {resolver} does not forward b.test. yet: it says NXDOMAIN"),
    ];
    assert_eq!(forwarded.iter().map(start).collect::<Vec<_>>(), expected);
}

#[test]
fn a_zone_that_is_not_forwarded_yet_is_yellow_whatever_the_resolver_says() {
    let server = server();
    for (rcode, said) in [
        (NXDOMAIN, "it says NXDOMAIN"),
        (REFUSED, "it says REFUSED"),
        (SERVFAIL, "it says SERVFAIL, for the root too"),
    ] {
        let resolver = start(move |_, query| code(query, rcode));
        let (checkup, exit) = check_of(&server, resolver, &[]);
        let expected = format!("yellow: {resolver} does not forward global. yet: {said}");
        assert_eq!(finding(&checkup, "forwarding"), expected);
        assert_eq!(exit, Some(0));
    }
}

#[test]
fn a_zone_that_is_forwarded_to_where_nobody_answers_is_red() {
    let server = server();
    let resolver = start(|name, query| {
        let rcode = if name == "." { NXDOMAIN } else { SERVFAIL };
        code(query, rcode)
    });
    let (checkup, exit) = check_of(&server, resolver, &[]);
    let expected = format!("red: {resolver} fails for global. alone: it says SERVFAIL");
    assert_eq!(finding(&checkup, "forwarding"), expected);
    assert_eq!(exit, Some(1));
}

#[test]
fn a_zone_that_is_forwarded_to_another_clusters_server_is_red() {
    let (server, other) = (server(), Server::of(sample("10.97.1.1"), &[]));
    let upstream = other.dns;
    let resolver = start(move |_, query| forward(upstream, query));
    let (checkup, exit) = check_of(&server, resolver, &[]);
    let expected = format!("red: {resolver} answers otherwise than the server: db.prod.global. A");
    assert_eq!(finding(&checkup, "forwarding"), expected);
    assert_eq!(exit, Some(1));
    // Another negative TTL is in the SOA record.
    let other = Server::of(sample("10.96.1.1"), &["--negative-ttl=9"]);
    let upstream = other.dns;
    let resolver = start(move |_, query| forward(upstream, query));
    let (checkup, exit) = check_of(&server, resolver, &[]);
    let expected = format!("red: {resolver} has another SOA record of global. than the server");
    assert_eq!(finding(&checkup, "forwarding"), expected);
    assert_eq!(exit, Some(1));
}

#[test]
fn an_answer_that_changed_just_now_is_compared_again_when_caches_have_forgotten() {
    let (server, before) = (server(), Server::of(sample("10.97.1.1"), &[]));
    let (now, then) = (server.dns, before.dns);
    let asked = AtomicUsize::new(0);
    // Once the old answer, out of a cache.
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
fn answers_that_are_cut_are_fetched_over_tcp() {
    let mut member = mirror("prod", "db", "east");
    for host in 0..200 {
        member = member.endpoint(&format!("db-{host}"), &[&format!("10.96.1.{host}")]);
    }
    let server = Server::of(member, &[]);
    // As its own resolver it answers over TCP too.
    let (checkup, exit) = check_of(&server, server.dns, &[]);
    let found = finding(&checkup, "forwarding");
    assert!(found.starts_with("green: "), "{found}");
    assert!(found.contains("db.prod.global. A"), "{found}");
    assert_eq!(exit, Some(0));
}

#[test]
fn a_server_that_cannot_be_used_is_red_and_nothing_is_compared_with_it() {
    let server = server();
    let closed = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let file = format!("--file={}", server.file.display());
    let resolver = format!("--resolver={}", server.dns);
    let check_at = |at: SocketAddr, flags: &[&str]| {
        let direct = format!("--server={at}");
        let (checkup, exit) = checkup(&[&[file.as_str(), &direct, &resolver], flags].concat());
        assert_eq!(exit, Some(1), "{checkup:#}");
        let found = finding(&checkup, "forwarding");
        assert!(
            found.starts_with("yellow: ") && found.contains("not checked"),
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
fn a_server_without_a_table_is_red() {
    // An API server that is not there: the server listens and has nothing to answer.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         clusters: [{{name: here, cluster: {{server: 'http://127.0.0.1:{}'}}}}]\n\
         users: [{{name: me, user: {{}}}}]\n\
         contexts: [{{name: here, context: {{cluster: here, user: me}}}}]\n",
        free_port()
    );
    std::fs::write(&path, text).unwrap();
    let flag = format!("--kubeconfig={}", path.display());
    let waiting = Server::start(folder, &[&flag], Await::Listening);
    let other = server();
    let file = format!("--file={}", other.file.display());
    let (checkup, exit) = checkup(&[&file, &format!("--server={}", waiting.dns)]);
    let dns = waiting.dns;
    let expected = format!("red: {dns} has no complete table of global. yet: SERVFAIL");
    assert_eq!(finding(&checkup, "server"), expected);
    assert_eq!(exit, Some(1));
}
