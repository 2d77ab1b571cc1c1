//! Flags, metrics, shutdown.

use super::small;
use crate::support::ask::question;
use crate::support::binary::{Await, Server, global_dns, run, run_command};
use crate::support::encrypted::{issue_good, post, serve};
use crate::support::wait_for;

const METRIC: &str = "global_dns_certificate_expiry_timestamp_seconds";

#[test]
fn encrypted_listeners_are_off_until_asked_for() {
    let server = Server::of(small(), &[]);
    let events = server.log.events();
    let listeners = events
        .iter()
        .filter(|event| event["fields"]["message"] == "Listening")
        .map(|event| event["fields"]["listener"].as_str().unwrap());
    assert_eq!(listeners.collect::<Vec<_>>(), ["dns", "admin", "api"]);
    let page = server.admin("/metrics").body;
    assert!(!page.contains(METRIC));
    assert!(page.contains("global_dns_requests_total{proto=\"https\",type=\"A\"} 0"));
}

#[test]
fn a_listener_needs_both_files_and_the_files_need_a_listener() {
    let cases: [(&[&str], &[&str]); 6] = [
        (
            &["--tls-listen=127.0.0.1:0"],
            &["--tls-cert <FILE>", "--tls-key <FILE>"],
        ),
        (
            &["--https-listen=127.0.0.1:0", "--tls-key=k"],
            &["--tls-cert <FILE>"],
        ),
        (
            &["--https-listen=127.0.0.1:0", "--tls-cert=c"],
            &["--tls-key <FILE>"],
        ),
        (
            &["--tls-cert=c", "--tls-key=k"],
            &["--tls-listen <ADDRESS>", "--https-listen <ADDRESS>"],
        ),
        (&["--tls-listen=853"], &["'853'", "--tls-listen <ADDRESS>"]),
        (
            &["--https-path=dns-query"],
            &["'dns-query'", "--https-path <PATH>", "starts with '/'"],
        ),
    ];
    for (flags, said) in cases {
        let ended = run(&[&["serve", "--file=x"], flags].concat());
        assert_eq!(ended.code, Some(2), "{flags:?}: {}", ended.stderr);
        for part in said {
            assert!(ended.stderr.contains(part), "{flags:?}: {}", ended.stderr);
        }
    }
    let mut command = global_dns(&["serve", "--file=x"]);
    command.env("GLOBAL_DNS_TLS_LISTEN", "127.0.0.1:0,[::1]:0");
    let ended = run_command(command);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("--tls-cert <FILE>"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_address_in_use_is_an_error_that_names_the_listener() {
    let issued = issue_good();
    let folder = tempfile::tempdir().unwrap();
    issued.write(folder.path());
    let objects = folder.path().join("objects.yaml");
    std::fs::write(&objects, small().text()).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for listener in ["tls", "https"] {
        let flags = [
            format!("--file={}", objects.display()),
            format!("--tls-cert={}/tls.crt", folder.path().display()),
            format!("--tls-key={}/tls.key", folder.path().display()),
            format!("--{listener}-listen={address}"),
            "--listen=127.0.0.1:0".to_owned(),
        ];
        let ended = run(&[&["serve"], &flags.each_ref().map(String::as_str)[..]].concat());
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let wanted = format!("error: binding the {listener} listener on {address}: ");
        assert!(ended.stderr.contains(&wanted), "{}", ended.stderr);
    }
}

#[test]
fn everything_can_be_said_by_variables() {
    let issued = issue_good();
    let folder = tempfile::tempdir().unwrap();
    issued.write(folder.path());
    let objects = folder.path().join("objects.yaml");
    std::fs::write(&objects, small().text()).unwrap();
    let mut command = global_dns(&["serve", "--log-format=json"]);
    for (name, value) in [
        ("FILE", objects.display().to_string()),
        ("LISTEN", "127.0.0.1:0".to_owned()),
        ("ADMIN_LISTEN", "127.0.0.1:0".to_owned()),
        ("API_LISTEN", "127.0.0.1:0".to_owned()),
        ("HTTPS_LISTEN", "127.0.0.1:0".to_owned()),
        ("HTTPS_PATH", "/ask".to_owned()),
        (
            "TLS_CERT",
            folder.path().join("tls.crt").display().to_string(),
        ),
        (
            "TLS_KEY",
            folder.path().join("tls.key").display().to_string(),
        ),
    ] {
        command.env(format!("GLOBAL_DNS_{name}"), value);
    }
    let server = Server::start_command(folder, command, Await::Ready);
    let packet = question("db.prod.global. A").packet();
    let reply = issued.request(server.address("https"), post("/ask"), &packet);
    assert!(reply.message().len() > 12);
}

#[test]
fn queries_are_counted_by_transport() {
    let issued = issue_good();
    let server = serve(small(), &issued, &[]);
    let packet = question("db.prod.global. A").packet();
    for times in 1..=3 {
        issued.ask_tls(server.address("tls"), &packet).unwrap();
        for (proto, count) in [
            ("udp", 0.0),
            ("tcp", 0.0),
            ("tls", f64::from(times)),
            ("https", 0.0),
        ] {
            let name = format!("global_dns_requests_total{{proto=\"{proto}\",type=\"A\"}}");
            assert_eq!(server.metric(&name), count, "{proto}");
        }
    }
    issued.ask_https(server.address("https"), &packet).message();
    let name = "global_dns_requests_total{proto=\"https\",type=\"A\"}";
    assert_eq!(server.metric(name), 1.0);
    assert_eq!(
        server.metric("global_dns_responses_total{rcode=\"NOERROR\"}"),
        4.0
    );
}

#[test]
fn answers_go_on_during_the_grace_period_and_the_end_is_clean() {
    let issued = issue_good();
    let mut server = serve(small(), &issued, &["--grace=2s"]);
    let mut idle = issued.connect(server.address("tls"), "dot").unwrap();
    server.signal("TERM");
    wait_for("503", || {
        Some(server.admin("/readyz")).filter(|page| page.status == 503)
    });
    let packet = question("db.prod.global. A").packet();
    issued.ask_tls(server.address("tls"), &packet).unwrap();
    issued.ask_https(server.address("https"), &packet).message();
    crate::support::encrypted::send(&mut idle, &packet).unwrap();
    crate::support::wire::read_framed(&mut idle).unwrap();
    assert!(!server.has_ended());
    // An idle connection does not keep it.
    assert_eq!(server.end(), Some(0));
    server.log.wait(0, "Stopped");
}
