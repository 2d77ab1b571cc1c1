//! OpenSSL's `s_client`: versions of TLS, sessions that are resumed, and a renegotiation that is refused.

use std::io::{Read as _, Write as _};
use std::process::Command;

use support::commands::{self, tool};
use support::process::{Process, run};
use support::query::query;
use support::reply::Reply;
use support::wire::read_framed;

use super::Method::Tls;
use super::{Encrypted, NAME, Reading, row};

/// `s_client` with these options, which trusts the server's authority.
fn command(server: &Encrypted, options: &[&str]) -> Command {
    let mut command = commands::command(tool("openssl").unwrap());
    command.args([
        "s_client",
        "-verify_return_error",
        "-alpn",
        "dot",
        "-servername",
        NAME,
    ]);
    command.args([
        "-verify_hostname",
        NAME,
        "-CAfile",
        &server.files.path("ca.crt"),
    ]);
    command.arg("-connect").arg(server.address(Tls).to_string());
    command.args(options);
    command
}

/// Connects, and ends at once: whether there was a connection, and what was printed.
fn connect(server: &Encrypted, options: &[&str]) -> (bool, String) {
    let ended = run(&mut command(server, options));
    (ended.is_success(), ended.said())
}

/// The alert that ended a connection.
fn refusal(said: &str) -> String {
    let alert = said.split(" alert ").nth(1);
    let alert = alert.unwrap_or_else(|| panic!("no alert: {said}"));
    let alert = alert.split(':').next().unwrap();
    format!("refused: alert {alert}")
}

/// Asks every question over one connection, and keeps the session in a file.
fn ask(server: &Encrypted, version: &str, session: &str) {
    server.check(Tls, &format!("openssl s_client {version}"), |cases| {
        let command = command(server, &[version, "-quiet", "-sess_out", session]);
        let mut client = Process::converse("s_client", command).unwrap();
        let (mut stdin, mut stdout) = client.pipes();
        let reading = cases.iter().map(|case| {
            stdin.write_all(&query(&case.question()).framed()).unwrap();
            let reply = read_framed(&mut stdout).unwrap();
            Reading::from(Reply::read(&reply).unwrap())
        });
        reading.collect()
    });
}

#[test]
#[ignore = "needs openssl"]
fn openssl_resumes_sessions_of_tls_1_2_and_1_3() {
    let server = Encrypted::start();
    for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let session = server.files.path(name);
        ask(&server, version, &session);
        let (succeeded, first) = connect(&server, &[version]);
        assert!(
            succeeded && first.contains(&format!("New, {name}")),
            "{first}"
        );
        assert!(first.contains("ALPN protocol: dot"), "{first}");
        let (succeeded, again) = connect(&server, &[version, "-sess_in", &session]);
        assert!(
            succeeded && again.contains(&format!("Reused, {name}")),
            "{again}"
        );
        row(
            Tls,
            &format!("openssl s_client {version} -sess_in"),
            &format!("Reused, {name}"),
        );
    }
    let (succeeded, five) = connect(&server, &["-tls1_2", "-reconnect"]);
    assert!(succeeded, "{five}");
    let count = |what: &str| five.matches(what).count();
    assert_eq!(
        (count("New, TLSv1.2"), count("Reused, TLSv1.2")),
        (1, 5),
        "{five}"
    );
    row(
        Tls,
        "openssl s_client -tls1_2 -reconnect",
        "Reused, TLSv1.2, five times",
    );
}

#[test]
#[ignore = "needs openssl"]
fn openssl_gets_neither_an_old_version_nor_another_protocol() {
    let server = Encrypted::start();
    for (what, options) in [
        ("-tls1_1", &["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"][..]),
        ("-alpn h2", &["-alpn", "h2"]),
    ] {
        let (succeeded, said) = connect(&server, options);
        assert!(!succeeded, "{what}: {said}");
        row(Tls, &format!("openssl s_client {what}"), &refusal(&said));
    }
}

#[test]
#[ignore = "needs openssl"]
fn openssl_is_refused_a_renegotiation() {
    let server = Encrypted::start();
    let command = command(&server, &["-tls1_2"]);
    let mut client = Process::converse("s_client", command).unwrap();
    // Open until it ends: it would leave at the end of its input.
    let (mut stdin, mut stdout) = client.pipes();
    stdin.write_all(b"R\n").unwrap();
    let mut said = String::new();
    stdout.read_to_string(&mut said).unwrap();
    let status = client.end().unwrap();
    said += &client.log().text();
    assert!(said.contains("RENEGOTIATING"), "{said}");
    assert!(
        !status.success() && said.contains("no renegotiation"),
        "{status} {said}"
    );
    row(
        Tls,
        "openssl s_client -tls1_2, R",
        "refused: no renegotiation",
    );
    // Whoever comes next is answered.
    ask(&server, "-tls1_2", &server.files.path("session"));
}

#[test]
#[ignore = "needs openssl"]
fn openssl_shows_a_client_certificate() {
    let server = Encrypted::with_client_certificates();
    let file = |name: &str| server.files.path(name);
    let of = |name: &str| {
        let (certificate, key) = (file(&format!("{name}.crt")), file(&format!("{name}.key")));
        ["-cert".to_owned(), certificate, "-key".to_owned(), key]
    };
    // TLS 1.2: with 1.3 the client is done before the server has seen its certificate.
    let cases: [(&str, &[String], bool); 3] = [
        ("client certificate", &of("client"), true),
        ("no certificate", &[], false),
        ("a stranger's certificate", &of("stranger"), false),
    ];
    for (which, options, is_welcome) in cases {
        let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
        options.push("-tls1_2");
        let (succeeded, said) = connect(&server, &options);
        assert_eq!(succeeded, is_welcome, "{which}: {said}");
        let told = match is_welcome {
            true => "New, TLSv1.2".to_owned(),
            false => refusal(&said),
        };
        row(Tls, &format!("openssl s_client -tls1_2, {which}"), &told);
    }
}
