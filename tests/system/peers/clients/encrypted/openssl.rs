//! OpenSSL's `s_client`: TLS versions, session resumption, and refused renegotiation.

use std::io::{Read as _, Write as _};
use std::process::Command;

use support::commands::{self, tool};
use support::process::{Process, run};
use support::query::query;
use support::reply::Reply;
use support::wire::read_framed;

use super::Method::Tls;
use super::{Encrypted, NAME, Reading, row};

/// Returns `s_client` with these options and the server's certificate authority.
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

/// Connects and disconnects. Returns whether the connection succeeded, and the output.
fn connect(server: &Encrypted, options: &[&str]) -> (bool, String) {
    let ended = run(&mut command(server, options));
    (ended.is_success(), ended.output())
}

/// Returns the alert that closed a connection.
fn refusal(output: &str) -> String {
    let alert = output.split(" alert ").nth(1);
    let alert = alert.unwrap_or_else(|| panic!("no alert in the output: {output}"));
    let alert = alert.split(':').next().unwrap();
    format!("refused: alert {alert}")
}

/// Sends every question over one connection, and saves the session to a file.
fn ask(server: &Encrypted, version: &str, session: &str) {
    server.check(Tls, &format!("openssl s_client {version}"), |cases| {
        let command = command(server, &[version, "-quiet", "-sess_out", session]);
        let mut client = Process::start_with_pipes("s_client", command).unwrap();
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
fn old_tls_versions_and_other_protocols_are_refused() {
    let server = Encrypted::start();
    for (what, options) in [
        ("-tls1_1", &["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"][..]),
        ("-alpn h2", &["-alpn", "h2"]),
    ] {
        let (succeeded, output) = connect(&server, options);
        assert!(!succeeded, "{what}: {output}");
        row(Tls, &format!("openssl s_client {what}"), &refusal(&output));
    }
}

#[test]
fn renegotiation_is_refused() {
    let server = Encrypted::start();
    let command = command(&server, &["-tls1_2"]);
    let mut client = Process::start_with_pipes("s_client", command).unwrap();
    // The input stays open, because s_client exits at its end.
    let (mut stdin, mut stdout) = client.pipes();
    stdin.write_all(b"R\n").unwrap();
    let mut output = String::new();
    stdout.read_to_string(&mut output).unwrap();
    let status = client.end().unwrap();
    output += &client.log().text();
    assert!(output.contains("RENEGOTIATING"), "{output}");
    assert!(
        !status.success() && output.contains("no renegotiation"),
        "{status} {output}"
    );
    row(
        Tls,
        "openssl s_client -tls1_2, R",
        "refused: no renegotiation",
    );
    // The server answers the next client.
    ask(&server, "-tls1_2", &server.files.path("session"));
}

#[test]
fn openssl_uses_a_client_certificate() {
    let server = Encrypted::with_client_certificates();
    let file = |name: &str| server.files.path(name);
    let of = |name: &str| {
        let (certificate, key) = (file(&format!("{name}.crt")), file(&format!("{name}.key")));
        ["-cert".to_owned(), certificate, "-key".to_owned(), key]
    };
    // TLS 1.2, because with TLS 1.3 the client finishes before the server has checked its certificate.
    let cases: [(&str, &[String], bool); 3] = [
        ("client certificate", &of("client"), true),
        ("no certificate", &[], false),
        ("an untrusted certificate", &of("stranger"), false),
    ];
    for (which, options, is_accepted) in cases {
        let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
        options.push("-tls1_2");
        let (succeeded, output) = connect(&server, &options);
        assert_eq!(succeeded, is_accepted, "{which}: {output}");
        let result = if is_accepted {
            "New, TLSv1.2".to_owned()
        } else {
            refusal(&output)
        };
        row(Tls, &format!("openssl s_client -tls1_2, {which}"), &result);
    }
}
