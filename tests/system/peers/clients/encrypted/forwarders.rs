//! Forwarders to the encrypted listeners: CoreDNS and Unbound. Each runs in a separate network, so that it cannot query other
//! servers. Tests query it over UDP, and over TCP after truncation.

use std::fs;
use std::net::SocketAddr;

use support::commands::{command, tool};
use support::networks::in_new_network;
use support::ports::free_port;
use support::process::Process;
use support::query::query;
use support::reply::Reply;
use support::wait::TIMEOUT;
use support::wire::{Transport, resolve, try_ask};
use tempfile::TempDir;

use super::Method::{self, Quic, Tls};
use super::{Encrypted, Reading};

/// Command and configuration of a forwarder. Placeholders: `{front}` and `{port}` are its listen address and port,
/// `{configuration}` is the path of its file, `{folder}` is its folder; [`Encrypted::fill`] has the others.
struct Recipe {
    method: Method,
    client: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    configuration: String,
}

/// A running forwarder.
struct Front {
    address: SocketAddr,
    process: Process,
    _folder: TempDir,
}

// === impl Front ===

impl Front {
    /// Starts the forwarder and waits until it sends any reply.
    fn start(server: &Encrypted, recipe: &Recipe) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let path = folder.path().display().to_string();
        let fill = |text: &str| {
            let text = server.fill(text).replace("{front}", &address.to_string());
            let text = text.replace("{port}", &address.port().to_string());
            text.replace("{folder}", &path)
        };
        let configuration = format!("{path}/forwarder.conf");
        fs::write(&configuration, fill(&recipe.configuration)).unwrap();
        let mut command = command(tool(recipe.program).unwrap());
        command
            .current_dir(folder.path())
            .env("HOME", folder.path());
        command.args(
            recipe
                .arguments
                .iter()
                .map(|argument| fill(&argument.replace("{configuration}", &configuration))),
        );
        let process = Process::start(recipe.program, command).unwrap();
        let mut process = process.with_children();
        process.wait_for("a reply", |_| apex(address)).unwrap();
        Self {
            address,
            process,
            _folder: folder,
        }
    }
}

/// Adds RD to a question, because resolvers otherwise answer only from their caches.
fn recursive(question: &str) -> String {
    format!("{question} +edns +rd")
}

/// Queries the SOA record of the zone. Returns `None` if the forwarder is not ready.
fn apex(address: SocketAddr) -> Option<Reply> {
    let asked = query(&recursive("global. SOA"));
    try_ask(address, &asked, Transport::Tcp, TIMEOUT).ok()
}

/// Starts a forwarder to a server and sends every question.
fn check(server: &Encrypted, recipe: &Recipe) {
    let mut front = Front::start(server, recipe);
    let address = front.address;
    let answered = front.process.wait_for("an answer", |_| {
        (apex(address)?.answers.len() == 1).then_some(())
    });
    answered.unwrap();
    server.check(recipe.method, recipe.client, |cases| {
        let reading = cases
            .iter()
            .map(|case| Reading::from(resolve(address, &recursive(&case.question()))));
        reading.collect()
    });
}

/// Returns CoreDNS with this method and these lines in the block of `forward`.
fn coredns(method: Method, lines: &[&str]) -> Recipe {
    let (name, lines) = (method.name(), lines.join("\n        "));
    Recipe {
        method,
        client: "CoreDNS",
        program: "coredns",
        arguments: &["-conf", "{configuration}"],
        configuration: format!(
            "global:{{port}} {{\n    bind 127.0.0.1\n    errors\n    forward . {name}://{{{name}}} {{\n        {lines}\n    }}\n}}\n"
        ),
    }
}

const VERIFIED: [&str; 2] = ["tls {ca}", "tls_servername {name}"];
const CERTIFIED: [&str; 2] = ["tls {certificate} {key} {ca}", "tls_servername {name}"];
const UNBOUND: &str = "server:
  directory: \"{folder}\"
  username: \"\"
  chroot: \"\"
  pidfile: \"\"
  use-syslog: no
  do-daemonize: no
  logfile: \"\"
  interface: 127.0.0.1@{port}
  access-control: 127.0.0.0/8 allow
  do-not-query-localhost: no
  module-config: \"iterator\"
  tls-cert-bundle: \"{ca}\"
forward-zone:
  name: \".\"
  forward-tls-upstream: yes
  forward-addr: 127.0.0.1@{tls-port}#{name}
remote-control:
  control-enable: no
";

#[test]
fn forwarders_get_every_answer_over_tls_and_quic() {
    in_new_network(|| {
        let server = Encrypted::start();
        for recipe in [
            coredns(Tls, &VERIFIED),
            coredns(Quic, &VERIFIED),
            Recipe {
                method: Tls,
                client: "Unbound",
                program: "unbound",
                arguments: &["-d", "-c", "{configuration}"],
                configuration: UNBOUND.to_owned(),
            },
        ] {
            check(&server, &recipe);
        }
    });
}

#[test]
fn coredns_uses_a_client_certificate() {
    in_new_network(|| {
        let server = Encrypted::with_client_certificates();
        for method in Method::ALL {
            check(&server, &coredns(method, &CERTIFIED));
            let before = server.server.requests(method.name());
            // One attempt is sufficient.
            let lines = [&VERIFIED[..], &["max_connect_attempts 1"]].concat();
            let front = Front::start(&server, &coredns(method, &lines));
            let asked = recursive("db.prod.global. A");
            let reading = Reading::from(resolve(front.address, &asked));
            let log = front.process.log().text();
            assert_eq!(reading.status, "SERVFAIL", "without a certificate: {log}");
            assert_eq!(server.server.requests(method.name()), before);
        }
    });
}
