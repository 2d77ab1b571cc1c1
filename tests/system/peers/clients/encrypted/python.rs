//! dnspython: TLS with Python's ssl, QUIC with aioquic.

use serde_json::Value;
use support::commands::command;
use support::process::run;
use support::repository::repository;

use super::Method::{self, Quic, Tls};
use super::{Case, Encrypted, Reading, cases, row};
use crate::peers::clients::python;

const WAYS: [(Method, &str); 2] = [
    (Tls, "dnspython query.tls"),
    (Quic, "dnspython query.quic (aioquic)"),
];

const OWN: [&str; 2] = ["--certificate={certificate}", "--key={key}"];
const STRANGE: [&str; 2] = [
    "--certificate={stranger-certificate}",
    "--key={stranger-key}",
];

/// Sends all questions with one process. Returns the replies, or its error output.
fn ask(
    server: &Encrypted,
    method: Method,
    options: &[&str],
    cases: &[Case],
) -> Result<Vec<Reading>, String> {
    let mut command = command(python("dns, aioquic"));
    command.arg("-I").arg(repository(
        "tests/system/peers/clients/encrypted/encrypted.py",
    ));
    command.arg(method.name());
    command.arg(server.address(method).port().to_string());
    command.arg(server.files.path("ca.crt"));
    command.args(options.iter().map(|option| server.fill(option)));
    command.args(
        cases
            .iter()
            .map(|case| format!("{}/{}", case.name, case.rtype)),
    );
    let ended = run(&mut command);
    if !ended.is_success() {
        return Err(ended.stderr);
    }
    let readings: Vec<Value> = serde_json::from_str(&ended.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let reading = |value: &Value| {
        let records = value["records"].as_array().unwrap().iter();
        Reading::new(text(&value["status"]), records.map(text))
    };
    Ok(readings.iter().map(reading).collect())
}

#[test]
fn dnspython_reads_every_answer_over_tls_and_quic() {
    let server = Encrypted::start();
    for (method, client) in WAYS {
        server.check(method, client, |cases| {
            ask(&server, method, &[], cases).unwrap()
        });
    }
}

#[test]
fn dnspython_uses_a_client_certificate() {
    let server = Encrypted::with_client_certificates();
    for (method, client) in WAYS {
        let label = format!("{client}, client certificate");
        server.check(method, &label, |cases| {
            ask(&server, method, &OWN, cases).unwrap()
        });
        let before = server.server.requests(method.name());
        let refused: [(&str, &[&str]); 2] = [
            ("no certificate", &[]),
            ("an untrusted certificate", &STRANGE),
        ];
        for (which, options) in refused {
            // aioquic gets the refusal at once, but dnspython waits for its timeout.
            let options = [&["--patience=3"][..], options].concat();
            let error = ask(&server, method, &options, &cases()[..1]).unwrap_err();
            let last = error.lines().last().unwrap_or_default();
            row(
                method,
                &format!("{client}, {which}"),
                &format!("refused: {last}"),
            );
        }
        assert_eq!(server.server.requests(method.name()), before, "{client}");
    }
}
