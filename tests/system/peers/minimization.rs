//! BIND minimizes names (RFC 9156): it asks for NS records at each name above the one that it needs. A name that waits for
//! expected clusters must not stop it on its way to the names below.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use support::commands::{command, tool};
use support::objects::{local, mirror, objects};
use support::ports::free_port;
use support::process::Process;
use support::query::query;
use support::wait::TIMEOUT;
use support::wire::{Transport, resolve, try_ask};

use crate::peers::serve;

#[test]
fn names_below_a_name_that_waits_are_resolved() {
    let west = mirror("prod", "db", "west").endpoint("db-0", &["10.96.1.2"]);
    let own = local("prod", "db").without_selector();
    let own = own.annotation(
        "global-dns/expected-clusters",
        "east+west until 2100-01-01T00:00Z",
    );
    let server = serve(objects().with(west).with(own), &[]);
    for mode in ["strict", "relaxed", "disabled"] {
        let folder = tempfile::tempdir().unwrap();
        let (bind, _process) = start(server.dns, mode, folder.path());
        for (question, expected) in [
            ("west.db.prod.global. A", "10.96.1.2"),
            ("db-0.west.db.prod.global. A", "10.96.1.2"),
            (
                "_sql._tcp.west.db.prod.global. SRV",
                "0 10 26257 db-0.west.db.prod.global.",
            ),
            ("north.db.prod.global. A", "NXDOMAIN"),
            ("db.prod.global. A", "SERVFAIL"),
            ("_sql._tcp.db.prod.global. SRV", "SERVFAIL"),
        ] {
            let reply = resolve(bind, &format!("{question} +rd"));
            assert_eq!(reply.outcome(), expected, "{mode}: {question}");
        }
    }
}

/// Starts BIND as a resolver that asks a server for the zone, and waits for an answer.
fn start(server: SocketAddr, mode: &str, folder: &Path) -> (SocketAddr, Process) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (here, port) = (folder.display(), server.port());
    // `port` is the port of the servers that BIND asks. The root servers are never needed.
    let configuration = format!(
        r#"options {{
    directory "{here}";
    port {port};
    listen-on port {own} {{ {ip}; }};
    listen-on-v6 {{ none; }};
    pid-file none;
    session-keyfile none;
    recursion yes;
    dnssec-validation no;
    qname-minimization {mode};
}};
controls {{ }};
zone "." {{ type hint; file "hints"; }};
zone "global" {{ type static-stub; server-addresses {{ {of_server}; }}; }};
"#,
        own = address.port(),
        ip = address.ip(),
        of_server = server.ip(),
    );
    let file = folder.join("named.conf");
    fs::write(&file, configuration).unwrap();
    fs::write(
        folder.join("hints"),
        ". 3600 NS a.root.\na.root. 3600 A 127.0.0.1\n",
    )
    .unwrap();
    let mut command = command(tool("named").unwrap());
    command.args(["-g", "-n", "1", "-c"]).arg(&file);
    let mut process = Process::start("bind", command).unwrap();
    let started = process.wait_for("an answer", |_| {
        let asked = query("dns-version.global. TXT +rd");
        let reply = try_ask(address, &asked, Transport::Udp, TIMEOUT).ok()?;
        (reply.answers.len() == 1).then_some(())
    });
    started.unwrap();
    (address, process)
}
