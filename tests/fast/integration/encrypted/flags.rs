//! Flags, metrics and log lines of the encrypted listeners.

use support::certificates::issue_valid;
use support::commands::global_dns;
use support::encrypted::{QUIC, serve};
use support::process::{run, run_global_dns};
use support::query::query;
use support::server::{Server, WaitUntil};

use super::small;

const METRIC: &str = "global_dns_certificate_expiry_timestamp_seconds";

#[test]
fn encrypted_listeners_are_off_by_default() {
    let server = Server::with_objects(small(), &[]);
    let events = server.log.events();
    let listeners = events
        .iter()
        .filter(|event| event["fields"]["message"] == "Listening")
        .map(|event| event["fields"]["listener"].as_str().unwrap());
    assert_eq!(listeners.collect::<Vec<_>>(), ["dns", "admin", "api"]);
    let page = server.admin("/metrics").body;
    assert!(!page.contains(METRIC));
    assert!(page.contains("global_dns_requests_total{proto=\"tls\",type=\"A\"} 0"));
}

#[test]
fn listeners_require_both_files_and_the_files_require_a_listener() {
    let cases: [(&[&str], &[&str]); 8] = [
        (
            &["--tls-listen=127.0.0.1:0"],
            &["--tls-cert <FILE>", "--tls-key <FILE>"],
        ),
        (
            &["--tls-listen=127.0.0.1:0", "--tls-key=k"],
            &["--tls-cert <FILE>"],
        ),
        (
            &["--tls-listen=127.0.0.1:0", "--tls-cert=c"],
            &["--tls-key <FILE>"],
        ),
        (
            &["--quic-listen=127.0.0.1:0"],
            &["--tls-cert <FILE>", "--tls-key <FILE>"],
        ),
        (
            &["--tls-cert=c", "--tls-key=k"],
            &["--tls-listen <ADDRESS>", "--quic-listen <ADDRESS>"],
        ),
        (&["--tls-client-ca=ca"], &["--tls-listen <ADDRESS>"]),
        (
            &["--tls-listen=127.0.0.1:0", "--tls-client-ca=ca"],
            &["--tls-cert <FILE>", "--tls-key <FILE>"],
        ),
        (&["--tls-listen=853"], &["'853'", "--tls-listen <ADDRESS>"]),
    ];
    for (flags, parts) in cases {
        let ended = run_global_dns(&[&["serve", "--file=x"], flags].concat());
        assert_eq!(ended.code, Some(2), "{flags:?}: {}", ended.stderr);
        for part in parts {
            assert!(ended.stderr.contains(part), "{flags:?}: {}", ended.stderr);
        }
    }
    let mut command = global_dns(&["serve", "--file=x"]);
    command.env("GLOBAL_DNS_TLS_LISTEN", "127.0.0.1:0,[::1]:0");
    let ended = run(&mut command);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("--tls-cert <FILE>"),
        "{}",
        ended.stderr
    );
}

#[test]
fn address_in_use_is_an_error_that_names_the_listener() {
    let issued = issue_valid();
    let folder = tempfile::tempdir().unwrap();
    issued.write(folder.path());
    let objects = folder.path().join("objects.yaml");
    std::fs::write(&objects, small().text()).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_too = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (tcp, udp) = (taken.local_addr(), taken_too.local_addr());
    for (listener, address) in [("tls", &tcp), ("quic", &udp)] {
        let address = address.as_ref().unwrap();
        let flags = [
            format!("--file={}", objects.display()),
            format!("--tls-cert={}/tls.crt", folder.path().display()),
            format!("--tls-key={}/tls.key", folder.path().display()),
            format!("--{listener}-listen={address}"),
            "--listen=127.0.0.1:0".to_owned(),
        ];
        let ended =
            run_global_dns(&[&["serve"], &flags.each_ref().map(String::as_str)[..]].concat());
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let expected = format!(
            "error: cannot bind the {listener} listener to {address} (--{listener}-listen): "
        );
        assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
    }
}

#[test]
fn environment_variables_set_all_flags() {
    let issued = issue_valid();
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
        ("TLS_LISTEN", "127.0.0.1:0".to_owned()),
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
    let server = Server::start_command(folder, command, WaitUntil::Ready);
    let packet = query("db.prod.global. A").0;
    let reply = issued.ask_tls(server.address("tls"), &packet).unwrap();
    assert!(reply.len() > 12);
}

fn requests(server: &Server, proto: &str, rtype: &str) -> f64 {
    server.metric(&format!(
        "global_dns_requests_total{{proto=\"{proto}\",type=\"{rtype}\"}}"
    ))
}

#[test]
fn queries_are_counted_by_transport() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &[QUIC]);
    let tls = server.address("tls");
    let packet = query("db.prod.global. A").0;
    let of_quic = [&[0, 0], &packet[2..]].concat();
    for _ in 0..3 {
        issued.ask_tls(tls, &packet).unwrap();
    }
    for _ in 0..4 {
        issued.quic(server.address("quic")).ask(&of_quic).unwrap();
    }
    for (proto, count) in [("udp", 0.0), ("tcp", 0.0), ("tls", 3.0), ("quic", 4.0)] {
        assert_eq!(requests(&server, proto, "A"), count, "{proto}");
    }
    let answered = "global_dns_responses_total{rcode=\"NOERROR\"}";
    assert_eq!(server.metric(answered), 7.0);
}

#[test]
fn malformed_queries_are_counted_but_responses_are_not() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &[]);
    let tls = server.address("tls");
    let unreadable = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x02a";
    issued.ask_tls(tls, unreadable).unwrap();
    assert_eq!(requests(&server, "tls", "other"), 1.0);
    assert_eq!(requests(&server, "tls", "A"), 0.0);
    let answered = "global_dns_responses_total{rcode=\"FORMERR\"}";
    assert_eq!(server.metric(answered), 1.0);
}

#[test]
fn queries_and_errors_of_clients_are_not_logged() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &[QUIC]);
    let tls = server.address("tls");
    server.log.wait(0, "Published table"); // this line can come after readiness
    let mark = server.log.mark();
    let packet = query("db.prod.global. A +bufsize=1232").0;
    let no_length: &[u8] =
        b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x01a\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\x02\0\x03";
    let cut: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x02a";
    for packet in [&packet, no_length, cut] {
        issued.ask_tls(tls, packet).unwrap();
        let of_quic = [&[0, 0], &packet[2..]].concat();
        let _ = issued.quic(server.address("quic")).ask(&of_quic);
    }
    for protocol in ["h2", "dot"] {
        let stranger = issue_valid();
        let _ = issued.client(&[protocol]).connect(tls);
        assert!(stranger.client(&[protocol]).connect(tls).is_err());
    }
    assert_eq!(server.log.lines()[mark..], [] as [String; 0]);
}
