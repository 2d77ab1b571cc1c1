//! Forwarders to the encrypted listeners: CoreDNS, Unbound, dnsdist, Knot Resolver, Stubby. Each runs in a separate
//! network, so that it cannot query other servers. Tests query it over UDP, and over TCP after truncation.

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
use super::{Encrypted, Reading, file, row};

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
        // Stubby parses a file as YAML only if its name ends in .yml.
        let configuration = file(&folder, "forwarder.yml", fill(&recipe.configuration));
        let configuration = configuration.display().to_string();
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

/// Returns CoreDNS with this upstream address and these lines in the block of `forward`.
fn coredns(method: Method, client: &'static str, to: &str, lines: &[&str]) -> Recipe {
    let lines = lines.join("\n        ");
    Recipe {
        method,
        client,
        program: "coredns",
        arguments: &["-conf", "{configuration}"],
        configuration: format!(
            "global:{{port}} {{\n    bind 127.0.0.1\n    errors\n    forward . {to} {{\n        {lines}\n    }}\n}}\n"
        ),
    }
}

const VERIFIED: [&str; 2] = ["tls {ca}", "tls_servername {name}"];
const CERTIFIED: [&str; 2] = ["tls {certificate} {key} {ca}", "tls_servername {name}"];
const STRANGE: [&str; 2] = [
    "tls {stranger-certificate} {stranger-key} {ca}",
    "tls_servername {name}",
];

#[test]
fn coredns_forwards_over_tls_and_quic() {
    in_new_network(|| {
        let server = Encrypted::start();
        for recipe in [
            coredns(Tls, "CoreDNS forward . tls://", "tls://{tls}", &VERIFIED),
            coredns(
                Quic,
                "CoreDNS forward . quic://",
                "quic://{quic}",
                &VERIFIED,
            ),
        ] {
            check(&server, &recipe);
        }
    });
}

#[test]
fn coredns_uses_a_client_certificate() {
    in_new_network(|| {
        let server = Encrypted::with_client_certificates();
        for (method, client, to) in [
            (
                Tls,
                "CoreDNS forward . tls://, client certificate",
                "tls://{tls}",
            ),
            (
                Quic,
                "CoreDNS forward . quic://, client certificate",
                "quic://{quic}",
            ),
        ] {
            check(&server, &coredns(method, client, to, &CERTIFIED));
            for (which, lines) in [
                ("no certificate", VERIFIED),
                ("an untrusted certificate", STRANGE),
            ] {
                let before = server.server.requests(method.name());
                // One attempt is sufficient.
                let lines = [lines[0], lines[1], "max_connect_attempts 1"];
                let front = Front::start(&server, &coredns(method, client, to, &lines));
                let asked = recursive("db.prod.global. A");
                let reading = Reading::from(resolve(front.address, &asked));
                assert_eq!(
                    reading.status,
                    "SERVFAIL",
                    "{client}, {which}: {}",
                    front.process.log().text()
                );
                assert_eq!(
                    server.server.requests(method.name()),
                    before,
                    "{client}, {which}"
                );
                let scheme = method.name();
                let log = front.process.log().text();
                let error = log.lines().find(|line| line.starts_with("[ERROR]"));
                // [ERROR] plugin/errors: 2 global. SOA: CAUSE
                let error = error.and_then(|line| line.splitn(6, ' ').last());
                row(
                    method,
                    &format!("CoreDNS {scheme}://, {which}"),
                    &format!("refused: {}", error.unwrap_or(&log)),
                );
            }
        }
    });
}

#[test]
fn unbound_forwards_over_tls() {
    // Unbound does not support client certificates.
    in_new_network(|| {
        let configuration = "server:\n  directory: \"{folder}\"\n  username: \"\"\n  chroot: \"\"\n  pidfile: \"\"\n  \
             use-syslog: no\n  do-daemonize: no\n  logfile: \"\"\n  interface: 127.0.0.1@{port}\n  \
             access-control: 127.0.0.0/8 allow\n  do-not-query-localhost: no\n  module-config: \"iterator\"\n  \
             tls-cert-bundle: \"{ca}\"\nforward-zone:\n  name: \".\"\n  forward-tls-upstream: yes\n  \
             forward-addr: 127.0.0.1@{tls-port}#{name}\nremote-control:\n  control-enable: no\n";
        let recipe = Recipe {
            method: Tls,
            client: "unbound forward-tls-upstream",
            program: "unbound",
            arguments: &["-d", "-c", "{configuration}"],
            configuration: configuration.to_owned(),
        };
        check(&Encrypted::start(), &recipe);
    });
}

#[test]
fn dnsdist_forwards_over_tls() {
    in_new_network(|| {
        let configuration = "setLocal('{front}')\nsetSecurityPollSuffix('')\nnewServer({address='{tls}', tls='openssl', \
             caStore='{ca}', subjectName='{name}', checkName='global.', checkType='SOA', mustResolve=true, \
             checkTimeout=20000, maxCheckFailures=10})\n";
        let recipe = Recipe {
            method: Tls,
            client: "dnsdist newServer tls=openssl",
            program: "dnsdist",
            arguments: &["--supervised", "--disable-syslog", "-C", "{configuration}"],
            configuration: configuration.to_owned(),
        };
        check(&Encrypted::start(), &recipe);
    });
}

#[test]
fn knot_resolver_forwards_over_tls() {
    in_new_network(|| {
        let configuration = "net.listen('127.0.0.1', {port}, { kind = 'dns' })\nmodules.unload('priming')\n\
             modules.unload('detect_time_skew')\ntrust_anchors.remove('.')\ncache.size = 10 * MB\n\
             policy.add(policy.all(policy.TLS_FORWARD({{'127.0.0.1@{tls-port}', hostname='{name}', ca_file='{ca}'}})))\n";
        let recipe = Recipe {
            method: Tls,
            client: "Knot Resolver policy.TLS_FORWARD",
            program: "kresd",
            arguments: &["-n", "-c", "{configuration}", "{folder}"],
            configuration: configuration.to_owned(),
        };
        check(&Encrypted::start(), &recipe);
    });
}

#[test]
fn stubby_forwards_over_tls() {
    in_new_network(|| {
        let configuration = "resolution_type: GETDNS_RESOLUTION_STUB\ndns_transport_list:\n  - GETDNS_TRANSPORT_TLS\n\
             tls_authentication: GETDNS_AUTHENTICATION_REQUIRED\ntls_ca_file: \"{ca}\"\n\
             tls_query_padding_blocksize: 128\nappdata_dir: \"{folder}\"\nlisten_addresses:\n  - 127.0.0.1@{port}\n\
             upstream_recursive_servers:\n  - address_data: 127.0.0.1\n    tls_port: {tls-port}\n    \
             tls_auth_name: \"{name}\"\n";
        let recipe = Recipe {
            method: Tls,
            client: "stubby",
            program: "stubby",
            arguments: &["-C", "{configuration}"],
            configuration: configuration.to_owned(),
        };
        check(&Encrypted::start(), &recipe);
    });
}
