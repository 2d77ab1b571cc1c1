//! Clients of DNS over TLS and QUIC, with a running server. Each test prints one line: method, client and
//! result. The server's counters prove that all queries used this method.

mod dig;
mod forwarders;

use std::fs;
use std::net::SocketAddr;

use support::certificates::Authority;
use support::reply::Reply;
use support::server::Server;
use tempfile::TempDir;

use super::{APP, manifest};
use crate::peers::serve;

/// Name in the server's certificate, in addition to `localhost` and 127.0.0.1.
const NAME: &str = "dns.example.net";

/// An encrypted transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Tls,
    Quic,
}

// === impl Method ===

impl Method {
    const ALL: [Self; 2] = [Self::Tls, Self::Quic];

    /// Returns the name in log events and metrics.
    fn name(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Quic => "quic",
        }
    }
}

/// A reply as read by a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reading {
    status: String,
    /// Data of the answer section, sorted.
    records: Vec<String>,
}

/// A question and its answer.
struct Case {
    name: &'static str,
    rtype: &'static str,
    reading: Reading,
}

// === impl Case ===

impl Case {
    /// Returns the question in the format of the test clients.
    fn question(&self) -> String {
        format!("{} {}", self.name, self.rtype)
    }
}

/// Returns one question of each kind. `app` has too many addresses for a datagram.
fn cases() -> Vec<Case> {
    let case = |name, rtype, status: &str, records: Vec<String>| Case {
        name,
        rtype,
        reading: Reading::new(status, records),
    };
    let db = ["10.96.1.1", "10.96.1.2", "10.96.2.1", "192.0.2.1"].map(str::to_owned);
    let targets = [
        ("27017", "db-0.east"),
        ("27017", "db-1.east"),
        ("27017", "db-0.hub"),
        ("27018", "db-0.west"),
    ]
    .map(|(port, target)| format!("0 10 {port} {target}.db.prod.global."));
    let app = (1..=APP).map(|n| format!("10.97.0.{n}")).collect();
    vec![
        case("db.prod.global.", "A", "NOERROR", db.into()),
        case(
            "db.prod.global.",
            "AAAA",
            "NOERROR",
            vec!["2001:db8::1:1".to_owned()],
        ),
        case(
            "_mongodb._tcp.db.prod.global.",
            "SRV",
            "NOERROR",
            targets.into(),
        ),
        case("app.prod.global.", "A", "NOERROR", app),
        case("db.prod.global.", "TXT", "NOERROR", Vec::new()),
        case("nope.prod.global.", "A", "NXDOMAIN", Vec::new()),
    ]
}

// === impl Reading ===

impl Reading {
    fn new(status: impl Into<String>, records: impl IntoIterator<Item = String>) -> Self {
        let mut records: Vec<String> = records.into_iter().collect();
        records.sort();
        Self {
            status: status.into(),
            records,
        }
    }
}

impl From<Reply> for Reading {
    fn from(reply: Reply) -> Self {
        let records = reply.data().into_iter().map(str::to_owned);
        Self::new(reply.status(), records)
    }
}

/// A running `global-dns serve` with all encrypted listeners.
struct Encrypted {
    server: Server,
    files: TempDir,
}

// === impl Encrypted ===

impl Encrypted {
    /// Starts a server that requires no client certificate.
    fn start() -> Self {
        Self::with(tempfile::tempdir().unwrap(), &[])
    }

    /// Starts a server that requires a client certificate.
    fn with_client_certificates() -> Self {
        let files = tempfile::tempdir().unwrap();
        let flag = format!("tls.clientCa={}", path(&files, "ca.crt"));
        Self::with(files, &[&flag])
    }

    fn with(files: TempDir, further: &[&str]) -> Self {
        let authority = Authority::new("ca");
        fs::write(path(&files, "ca.crt"), &authority.certificate).unwrap();
        let names = [NAME, "localhost", "127.0.0.1"];
        authority
            .issue_server_for(&names)
            .write_as(files.path(), "server");
        authority.issue_client().write_as(files.path(), "client");
        let certificate = format!("tls.certificate={}", path(&files, "server.crt"));
        let key = format!("tls.key={}", path(&files, "server.key"));
        let flags = [
            "listen.tls=['127.0.0.1:0']",
            "listen.quic=['127.0.0.1:0']",
            &certificate,
            &key,
        ];
        let server = serve(manifest(), &[&flags, further].concat());
        Self { server, files }
    }

    fn address(&self, method: Method) -> SocketAddr {
        self.server.address(method.name())
    }

    /// Replaces placeholders in options and configurations of clients: `{tls}` and `{quic}` by addresses,
    /// `{tls-port}` and similar ones by ports, `{name}` by the server's name, `{ca}`, `{certificate}` and `{key}` by
    /// files.
    fn fill(&self, template: &str) -> String {
        let mut text = template.replace("{name}", NAME);
        for method in Method::ALL {
            let (name, address) = (method.name(), self.address(method));
            text = text.replace(&format!("{{{name}}}"), &address.to_string());
            text = text.replace(&format!("{{{name}-port}}"), &address.port().to_string());
        }
        for (word, file) in [
            ("{ca}", "ca.crt"),
            ("{certificate}", "client.crt"),
            ("{key}", "client.key"),
        ] {
            text = text.replace(word, &path(&self.files, file));
        }
        text
    }

    /// Sends every question with a client. Fails if an answer is wrong or a query used another method.
    fn check(&self, method: Method, client: &str, ask: impl FnOnce(&[Case]) -> Vec<Reading>) {
        let requests = || {
            let transports = ["udp", "tcp", "tls", "quic"];
            transports.map(|transport| (transport, self.server.requests(transport)))
        };
        let before = requests();
        let cases = cases();
        let readings = ask(&cases);
        assert_eq!(readings.len(), cases.len(), "{client}: {readings:?}");
        for (case, reading) in cases.iter().zip(&readings) {
            assert_eq!(
                *reading, case.reading,
                "{client}: {} {}",
                case.name, case.rtype
            );
        }
        for ((transport, before), (_, after)) in before.into_iter().zip(requests()) {
            let came = after - before;
            if transport == method.name() {
                // Some clients send additional queries, for example health checks.
                assert!(
                    came >= cases.len() as u64,
                    "{client}: {came} queries over {transport}"
                );
            } else {
                assert_eq!(came, 0, "{client}: queries over {transport}");
            }
        }
        let result =
            cases
                .iter()
                .zip(&readings)
                .map(|(case, reading)| match reading.status.as_str() {
                    "NOERROR" => format!("{} {}", reading.records.len(), case.rtype),
                    status => status.to_owned(),
                });
        row(method, client, &result.collect::<Vec<_>>().join(", "));
    }
}

fn path(folder: &TempDir, file: &str) -> String {
    folder.path().join(file).display().to_string()
}

/// Prints a line of the table.
fn row(method: Method, client: &str, result: &str) {
    println!("peers: {:<5} | {client:<56} | {result}", method.name());
}
