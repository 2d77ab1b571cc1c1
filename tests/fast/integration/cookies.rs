//! DNS cookies: a client with a valid cookie is not rate-limited over UDP.

use std::net::UdpSocket;
use std::path::Path;

use support::objects::{Manifest, mirror, objects};
use support::process::run_global_dns;
use support::query::query;
use support::server::Server;
use support::wait::{TIMEOUT, wait_for};
use support::wire::{Transport, exchange};

const CLIENT: &[u8] = b"12345678";
const ONE: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
const TWO: &str = "dd3bdf9344b678b185a6f5cb60fca715";
const RELOADED: &str = "Reloaded the cookie secrets";
const KEPT: &str = "Kept the last cookie secrets: a file cannot be used";

fn sample() -> Manifest {
    objects().with(mirror("prod", "db", "east").endpoint("db-0", &["192.0.2.1"]))
}

/// Starts a server that limits each client to one reply per second.
fn serve(flags: &[&str]) -> Server {
    let limited = ["--trusted=192.0.2.0/24", "--rate-limit=1"];
    Server::with_objects(sample(), &[&limited, flags].concat())
}

fn serve_with(secrets: &Path) -> Server {
    serve(&[&format!("--cookie-secret-file={}", secrets.display())])
}

/// Returns a query with a cookie. Its OPT record comes last and has no other option.
fn packet_with(cookie: &[u8]) -> Vec<u8> {
    let mut packet = query("db.prod.global A +bufsize=1232").0;
    let length = cookie.len() as u8;
    packet.truncate(packet.len() - 2);
    packet.extend([0, length + 4, 0, 10, 0, length]);
    packet.extend(cookie);
    packet
}

/// Returns the cookie that the server gives to the client.
fn cookie_of(server: &Server) -> Vec<u8> {
    let reply = exchange(server.dns, &packet_with(CLIENT), Transport::Tcp, TIMEOUT).unwrap();
    let option = [&[0, 10, 0, 24], CLIENT].concat();
    let at = reply
        .windows(option.len())
        .position(|octets| octets == option);
    reply[at.unwrap() + 4..][..24].to_vec()
}

/// Returns whether a cookie lifts the rate limit. Without a valid cookie, most of many consecutive queries get no
/// complete answer.
fn is_accepted(server: &Server, cookie: &[u8]) -> bool {
    const QUERIES: usize = 40;
    let dropped =
        || server.metric("global_dns_limited_requests_total{action=\"dropped\"}") as usize;
    let before = dropped();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.dns).unwrap();
    for _ in 0..QUERIES {
        socket.send(&packet_with(cookie)).unwrap();
    }
    socket.set_nonblocking(true).unwrap();
    let (mut whole, mut cut) = (0, 0);
    wait_for("each query to be answered or counted", || {
        let mut reply = [0; 2048];
        while socket.recv(&mut reply).is_ok() {
            let is_cut = reply[2] & 2 != 0;
            (whole, cut) = (whole + usize::from(!is_cut), cut + usize::from(is_cut));
        }
        (whole + cut + dropped() - before >= QUERIES).then_some(())
    });
    whole == QUERIES
}

#[test]
fn replicas_with_shared_secrets_accept_each_others_cookies() {
    let folder = tempfile::tempdir().unwrap();
    let secrets = folder.path().join("secrets");
    std::fs::write(&secrets, format!("{ONE}\n")).unwrap();
    let (one, other) = (serve_with(&secrets), serve_with(&secrets));
    let (stranger, another) = (serve(&[]), serve(&[]));
    let cookie = cookie_of(&one);
    assert!(is_accepted(&one, &cookie) && is_accepted(&other, &cookie));
    assert!(!is_accepted(&stranger, &cookie));
    // Without a file, each replica has its own secret.
    let cookie = cookie_of(&stranger);
    assert!(is_accepted(&stranger, &cookie));
    assert!(!is_accepted(&another, &cookie) && !is_accepted(&one, &cookie));
    // A forged cookie is not accepted, either.
    let forged = [CLIENT, &[1, 0, 0, 0], &cookie[12..16], &[7; 8]].concat();
    assert!(!is_accepted(&stranger, &forged));
}

#[test]
fn first_secret_creates_cookies_and_all_secrets_verify_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (secrets, second) = (file("secrets"), file("second"));
    std::fs::write(&second, TWO).unwrap();
    std::fs::write(&secrets, ONE).unwrap();
    let server = serve_with(&secrets);
    let with_second = serve_with(&second);
    let rewrite = |text: &str, summary: &str| {
        let mark = server.log.mark();
        std::fs::write(&secrets, text).unwrap();
        let fields = server.log.wait(mark, RELOADED);
        assert_eq!(fields["summary"], summary);
    };
    let old = cookie_of(&server);
    // All replicas accept a new secret before the first one creates cookies with it.
    rewrite(&format!("{ONE}\n{TWO}\n"), "secrets: 2");
    assert!(is_accepted(&server, &cookie_of(&with_second)));
    assert!(!is_accepted(&with_second, &cookie_of(&server)));
    rewrite(&format!("{TWO}\n{ONE}\n"), "secrets: 2");
    assert!(is_accepted(&server, &old));
    assert!(is_accepted(&with_second, &cookie_of(&server)));
    rewrite(&format!("{TWO}\n"), "secrets: 1");
    assert!(!is_accepted(&server, &old));
    assert!(is_accepted(&server, &cookie_of(&server)));
}

#[test]
fn invalid_secrets_file_is_an_error_at_start_and_ignored_later() {
    let folder = tempfile::tempdir().unwrap();
    let secrets = folder.path().join("secrets");
    let flag = format!("--cookie-secret-file={}", secrets.display());
    let bad = [
        (String::new(), "the file has no secret"),
        (
            ONE[1..].to_owned(),
            "line 1: a secret is 32 hexadecimal digits",
        ),
        (
            format!("{ONE}\nsecret\n"),
            "line 2: a secret is 32 hexadecimal digits",
        ),
    ];
    let objects = folder.path().join("objects.yaml");
    std::fs::write(&objects, sample().text()).unwrap();
    let file = format!("--file={}", objects.display());
    for (text, message) in &bad {
        std::fs::write(&secrets, text).unwrap();
        let ended = run_global_dns(&["serve", &file, &flag, "--listen=127.0.0.1:0"]);
        let sentence = format!("error: cannot use {}: {message}", secrets.display());
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(&sentence), "{}", ended.stderr);
        assert!(!ended.stderr.contains(&ONE[1..]), "{}", ended.stderr);
    }
    let ended = run_global_dns(&["serve", &file, "--cookie-secret-file=/no/such/file"]);
    let sentence = "error: cannot read /no/such/file: No such file or directory";
    assert!(ended.stderr.contains(sentence), "{}", ended.stderr);

    std::fs::write(&secrets, ONE).unwrap();
    let server = serve_with(&secrets);
    let cookie = cookie_of(&server);
    for (text, message) in &bad {
        let mark = server.log.mark();
        std::fs::write(&secrets, text).unwrap();
        let fields = server.log.wait(mark, KEPT);
        let error = fields["error"].as_str().unwrap();
        assert!(error.contains(message), "{error}");
        assert!(!error.contains(&ONE[1..]), "{error}");
    }
    let mark = server.log.mark();
    std::fs::remove_file(&secrets).unwrap();
    let fields = server.log.wait(mark, KEPT);
    assert!(fields["error"].as_str().unwrap().contains("No such file"));
    assert!(is_accepted(&server, &cookie));
}
