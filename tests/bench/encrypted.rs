//! DNS over TLS: CPU time per query and latency, on persistent and on new connections. The comparison is
//! CoreDNS with its `file` plugin, the same zone and the same certificate.
//!
//! Clients offer one cipher suite (AES-128-GCM) and one group (X25519), so that both servers use the same cryptography.
//! The client is a closed loop in this crate, because dnsperf supports TLS but reports no percentiles.

pub(crate) mod client;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use support::certificates::{Identity, issue_valid};
use support::wire::Transport;

use crate::check::check_same_answers;
use crate::data::SMALL;
use crate::load::{self, Round};
use crate::processes::{LOAD, SERVER, command};
use crate::report::{Goals, KEPT, Report, Table};
use crate::servers::{COREDNS, ONE_CORE, Served, Server, Source, free_address};
use crate::{Effort, print_line};
use client::Connections;

/// A server with its TLS listener.
struct Encrypted {
    server: Server,
    tls: SocketAddr,
}

/// A kind of load.
struct Way {
    name: String,
    connections: Connections,
    /// Number of parallel connections.
    clients: u32,
    /// Number of outstanding queries on each connection.
    depth: u32,
}

/// Measures every kind of load on both servers in each round.
///
/// # Errors
///
/// If a server does not start, or the servers' answers differ.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    print_line("encrypted: starting servers");
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let served = Served::prepare(&[SMALL], folder)?;
    let asked = &served.kinds[..1];
    issue_valid().write(folder);
    let ours = Encrypted::global_dns(&served, folder)?;
    let theirs = Encrypted::coredns(&served, folder)?;
    let mut servers = vec![ours, theirs];
    check_same_answers(servers.iter().map(|one| &one.server), asked, Transport::Tcp)?;

    let title = "TLS, one core, compared with CoreDNS: A, 9 addresses";
    let mut table = Table::new("encrypted", title, Goals::HalfOfCoreDns);
    for round in 1..=effort.rounds {
        for way in ways() {
            let mut line = format!(
                "encrypted: round {round} of {}, {}:",
                effort.rounds, way.name
            );
            for one in &servers {
                let measured = way.run(one, &asked[0].file, folder, effort.seconds)?;
                line += &measured.text(one.server.name);
                table.add(&way.name, one.server.name, measured);
            }
            print_line(&line);
        }
        // The servers alternate in the first position.
        servers.reverse();
    }
    report.tables.push(table);
    Ok(())
}

/// Returns the kinds of load: eight persistent connections with eight outstanding queries each, one connection with one
/// query, and a new connection for each query.
fn ways() -> Vec<Way> {
    use Connections::{Kept, New, Resumed};
    let way = |connections: Connections, (clients, depth): (u32, u32)| {
        let connected = match connections {
            Kept => KEPT,
            New => "new",
            Resumed => "resumed",
        };
        let at_once = clients * depth;
        Way {
            name: format!("TLS {connected}, {at_once} at once"),
            connections,
            clients,
            depth,
        }
    };
    vec![
        way(Kept, (8, 8)),
        way(Kept, (1, 1)),
        way(New, (8, 1)),
        way(Resumed, (8, 1)),
    ]
}

// === impl Way ===

impl Way {
    fn run(&self, one: &Encrypted, questions: &Path, folder: &Path, seconds: u32) -> Result<Round> {
        let mut own = command(std::env::current_exe()?, LOAD)?;
        own.arg("part-encrypted");
        own.arg(format!("--server={}", one.tls));
        own.arg(format!("--connections={}", self.connections.name()));
        own.arg(format!("--clients={}", self.clients));
        own.arg(format!("--depth={}", self.depth));
        own.arg(format!("--seconds={seconds}"));
        own.arg("--certificate").arg(folder.join("tls.crt"));
        own.arg("--questions").arg(questions);
        load::measure(&one.server, vec![own]).with_context(|| self.name.clone())
    }
}

// === impl Encrypted ===

impl Encrypted {
    fn global_dns(served: &Served, folder: &Path) -> Result<Self> {
        let tls = free_address();
        let [certificate, key] = Identity::flags(folder);
        let listen = format!("--tls-listen={tls}");
        let flags = ["--log-level=warn", &listen, &certificate, &key];
        let source = Source::File(&served.manifest);
        let (server, _) = Server::start_global_dns(source, ONE_CORE, &flags)?;
        Ok(Self { server, tls })
    }

    /// Starts CoreDNS with the same records and the same certificate.
    fn coredns(served: &Served, folder: &Path) -> Result<Self> {
        let (address, tls) = (free_address(), free_address());
        let zone = format!(
            "    file {} {{\n        reload 0\n    }}",
            served.zone.display()
        );
        let path = folder.display();
        let certificate = format!("    tls {path}/tls.crt {path}/tls.key");
        let block = |scheme: &str, address: SocketAddr, certificate: &str| {
            let (ip, port) = (address.ip(), address.port());
            format!(
                "{scheme}global.:{port} {{\n    bind {ip}\n    errors\n{certificate}\n{zone}\n}}\n"
            )
        };
        let corefile = folder.join("Corefile");
        let blocks = [block("", address, ""), block("tls://", tls, &certificate)];
        fs::write(&corefile, blocks.concat())?;
        let mut command = command("coredns", SERVER)?;
        command.arg("-conf").arg(&corefile);
        let server = Server::start_with_zone(COREDNS, address, command)?;
        Ok(Self { server, tls })
    }
}
