//! Whose cookies are accepted: of a client that returns one, no query is limited over UDP.

use std::net::UdpSocket;
use std::path::Path;

use support::objects::{Manifest, mirror, objects};
use support::process::run_global_dns;
use support::query::query;
use support::server::Server;
use support::wait::{PATIENCE, wait_for};
use support::wire::{Over, exchange};

const CLIENT: &[u8] = b"12345678";
const ONE: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
const TWO: &str = "dd3bdf9344b678b185a6f5cb60fca715";
const RELOADED: &str = "Reloaded the cookie secrets";
const KEPT: &str = "Kept the last cookie secrets: the file cannot be used";

fn sample() -> Manifest {
    objects().with(mirror("prod", "db", "east").endpoint("db-0", &["192.0.2.1"]))
}

/// Limits everybody to one reply a second.
fn serve(flags: &[&str]) -> Server {
    let limited = ["--trusted=192.0.2.0/24", "--rate-limit=1"];
    Server::of(sample(), &[&limited, flags].concat())
}

fn serve_with(secrets: &Path) -> Server {
    serve(&[&format!("--cookie-secret-file={}", secrets.display())])
}

/// A query with a cookie in its OPT record, which is the last and empty.
fn packet_with(cookie: &[u8]) -> Vec<u8> {
    let mut packet = query("db.prod.global A +bufsize=1232").0;
    let length = cookie.len() as u8;
    packet.truncate(packet.len() - 2);
    packet.extend([0, length + 4, 0, 10, 0, length]);
    packet.extend(cookie);
    packet
}

/// The cookie that a client gets.
fn cookie_of(server: &Server) -> Vec<u8> {
    let reply = exchange(server.dns, &packet_with(CLIENT), Over::Tcp, PATIENCE).unwrap();
    let option = [&[0, 10, 0, 24], CLIENT].concat();
    let at = reply
        .windows(option.len())
        .position(|octets| octets == option);
    reply[at.unwrap() + 4..][..24].to_vec()
}

/// Whether a cookie lifts the limit: without one, hardly any of many queries in a row gets a whole answer.
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
fn replicas_that_share_secrets_accept_each_others_cookies() {
    let folder = tempfile::tempdir().unwrap();
    let secrets = folder.path().join("secrets");
    std::fs::write(&secrets, format!("{ONE}\n")).unwrap();
    let (one, other) = (serve_with(&secrets), serve_with(&secrets));
    let (stranger, another) = (serve(&[]), serve(&[]));
    let cookie = cookie_of(&one);
    assert!(is_accepted(&one, &cookie) && is_accepted(&other, &cookie));
    assert!(!is_accepted(&stranger, &cookie));
    // Without a file each has a secret of its own.
    let cookie = cookie_of(&stranger);
    assert!(is_accepted(&stranger, &cookie));
    assert!(!is_accepted(&another, &cookie) && !is_accepted(&one, &cookie));
    // Nor is what is made up.
    let forged = [CLIENT, &[1, 0, 0, 0], &cookie[12..16], &[7; 8]].concat();
    assert!(!is_accepted(&stranger, &forged));
}

#[test]
fn the_first_secret_of_a_file_makes_cookies_and_all_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (secrets, second) = (file("secrets"), file("second"));
    std::fs::write(&second, TWO).unwrap();
    std::fs::write(&secrets, ONE).unwrap();
    let server = serve_with(&secrets);
    let with_second = serve_with(&second);
    let rewrite = |text: &str, count: u64| {
        let mark = server.log.mark();
        std::fs::write(&secrets, text).unwrap();
        let fields = server.log.wait(mark, RELOADED);
        assert_eq!(fields["secrets"], count);
    };
    let old = cookie_of(&server);
    // It is accepted everywhere before the first replica makes cookies with it.
    rewrite(&format!("{ONE}\n{TWO}\n"), 2);
    assert!(is_accepted(&server, &cookie_of(&with_second)));
    assert!(!is_accepted(&with_second, &cookie_of(&server)));
    rewrite(&format!("{TWO}\n{ONE}\n"), 2);
    assert!(is_accepted(&server, &old));
    assert!(is_accepted(&with_second, &cookie_of(&server)));
    rewrite(&format!("{TWO}\n"), 1);
    assert!(!is_accepted(&server, &old));
    assert!(is_accepted(&server, &cookie_of(&server)));
}

#[test]
fn a_file_that_is_no_good_ends_the_start_and_later_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let secrets = folder.path().join("secrets");
    let flag = format!("--cookie-secret-file={}", secrets.display());
    let bad = [
        (String::new(), "holds no secret"),
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
    for (text, said) in &bad {
        std::fs::write(&secrets, text).unwrap();
        let ended = run_global_dns(&["serve", &file, &flag, "--listen=127.0.0.1:0"]);
        let sentence = format!("error: {}: {said}", secrets.display());
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(&sentence), "{}", ended.stderr);
        assert!(!ended.stderr.contains(&ONE[1..]), "{}", ended.stderr);
    }
    let ended = run_global_dns(&["serve", &file, "--cookie-secret-file=/no/such/file"]);
    let sentence = "error: reading /no/such/file: No such file or directory";
    assert!(ended.stderr.contains(sentence), "{}", ended.stderr);

    std::fs::write(&secrets, ONE).unwrap();
    let server = serve_with(&secrets);
    let cookie = cookie_of(&server);
    for (text, said) in &bad {
        let mark = server.log.mark();
        std::fs::write(&secrets, text).unwrap();
        let fields = server.log.wait(mark, KEPT);
        let error = fields["error"].as_str().unwrap();
        assert!(error.contains(said), "{error}");
        assert!(!error.contains(&ONE[1..]), "{error}");
    }
    let mark = server.log.mark();
    std::fs::remove_file(&secrets).unwrap();
    let fields = server.log.wait(mark, KEPT);
    assert!(fields["error"].as_str().unwrap().contains("No such file"));
    assert!(is_accepted(&server, &cookie));
}
