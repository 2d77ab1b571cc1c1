//! kdig and dig over TLS, and kdig over QUIC: with names of certificates, and with client certificates.

use support::commands::{command, tool};
use support::process;

use super::Method::{self, Quic, Tls};
use super::{Case, Encrypted, Reading, cases};

/// A command: program, method, options. In kdig, options about certificates imply `+tls`, so that `+quic` must be the last
/// option.
type Way<'w> = (&'w str, Method, &'w [&'w str]);

const CA: &str = "+tls-ca={ca}";
const NAME: &str = "+tls-hostname={name}";

const WAYS: [Way<'_>; 5] = [
    ("kdig", Tls, &["+tls"]),
    ("kdig", Tls, &["+tls", "+padding"]),
    ("kdig", Tls, &[CA, NAME, "+tls"]),
    ("kdig", Quic, &[CA, NAME, "+quic"]),
    ("dig", Tls, &[CA, NAME, "+tls"]),
];

/// Sends all questions with one process. Returns the answers. The exit code of dig does not show a failure.
fn ask(server: &Encrypted, (program, method, options): Way<'_>, cases: &[Case]) -> Vec<Reading> {
    let address = server.address(method);
    let mut command = command(tool(program).unwrap());
    command.arg(format!("@{}", address.ip()));
    command.arg("-p").arg(address.port().to_string());
    command.args(["+noauthority", "+noadditional"]);
    command.args(options.iter().map(|option| server.fill(option)));
    for case in cases {
        command.args([case.name, case.rtype]);
    }
    readings(&process::run(&mut command).output())
}

/// Parses the output of dig or kdig.
fn readings(printed: &str) -> Vec<Reading> {
    let replies = printed.split(";; ->>HEADER<<-").skip(1);
    let reading = |reply: &str| {
        let status = reply.split("status: ").nth(1).unwrap();
        let lines = reply.lines().skip(1);
        let records = lines.filter(|line| !line.is_empty() && !line.starts_with(';'));
        let data = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().skip(4).collect();
            fields.join(" ")
        };
        Reading::new(status.split([',', ';']).next().unwrap(), records.map(data))
    };
    replies.map(reading).collect()
}

#[test]
fn dig_and_kdig_read_every_answer() {
    let server = Encrypted::start();
    for way in WAYS {
        let client = format!("{} {}", way.0, way.2.join(" "));
        server.check(way.1, &client, |cases| ask(&server, way, cases));
    }
}

#[test]
fn dig_and_kdig_reject_a_certificate_for_another_name() {
    let server = Encrypted::start();
    let other = "+tls-hostname=other.example.net";
    let ways: [Way<'_>; 3] = [
        ("kdig", Tls, &[CA, other, "+tls"]),
        ("kdig", Quic, &[CA, other, "+quic"]),
        ("dig", Tls, &[CA, other, "+tls"]),
    ];
    for way in ways {
        assert_eq!(ask(&server, way, &cases()[..1]), [], "{way:?}");
    }
    let asked = Method::ALL.map(|method| server.server.requests(method.name()));
    assert_eq!(asked, [0, 0]);
}

#[test]
fn dig_and_kdig_use_a_client_certificate() {
    let server = Encrypted::with_client_certificates();
    let own = ["+tls-certfile={certificate}", "+tls-keyfile={key}"];
    let strange = [
        "+tls-certfile={stranger-certificate}",
        "+tls-keyfile={stranger-key}",
    ];
    // kdig waits for its timeout, although QUIC reports the close.
    let once = ["+timeout=3", "+retry=0"];
    for (program, method, on) in [
        ("kdig", Tls, "+tls"),
        ("kdig", Quic, "+quic"),
        ("dig", Tls, "+tls"),
    ] {
        let with = |further: &[&'static str]| [&[CA, NAME], further, &[on]].concat();
        let options = with(&own);
        let client = format!("{program} {on}, client certificate");
        server.check(method, &client, |cases| {
            ask(&server, (program, method, &options), cases)
        });
        for options in [with(&once), with(&[strange, once].concat())] {
            let way = (program, method, &options[..]);
            assert_eq!(ask(&server, way, &cases()[..1]), [], "{way:?}");
        }
    }
}
