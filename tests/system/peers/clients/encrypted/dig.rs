//! kdig and dig over TLS, and kdig over QUIC.

use support::commands::{command, tool};
use support::process;

use super::Method::{self, Quic, Tls};
use super::{Case, Encrypted, Reading};

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
