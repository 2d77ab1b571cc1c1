//! A running Knot DNS server with one zone from a file.

use std::net::{Ipv4Addr, SocketAddr};

use support::commands::{command, tool};
use support::ports::free_port;
use support::process::Process;
use support::query::query;
use support::wait::TIMEOUT;
use support::wire::{Transport, try_ask};
use tempfile::TempDir;

use super::write;

/// A `knotd` process that is killed when dropped.
pub struct Knot {
    process: Process,
    pub address: SocketAddr,
    _folder: TempDir,
}

/// Number of attempts. A free port can be taken before its use, so each attempt has another one.
const TRIES: usize = 5;

impl Knot {
    /// Starts Knot and waits until it serves the zone.
    pub fn start(origin: &str, zone: &str) -> Self {
        for _ in 0..TRIES {
            let knot = Self::spawn(origin, zone);
            if let Some(knot) = knot.wait_until_served(origin) {
                return knot;
            }
        }
        panic!("knotd served no zone in {TRIES} attempts");
    }

    fn spawn(origin: &str, zone: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().display();
        let port = free_port();
        let file = write(folder.path(), "zone", zone);
        let config = format!(
            "server:\n  rundir: \"{here}\"\n  listen: 127.0.0.1@{port}\n\
             database:\n  storage: \"{here}\"\n\
             zone:\n  - domain: {origin}\n    file: \"{file}\"\n    zonefile-sync: -1\n    \
             zonefile-load: whole\n    journal-content: none\n"
        );
        let config = write(folder.path(), "knot.conf", &config);
        let mut command = command(tool("knotd").unwrap());
        command.args(["-c", &config]);
        Self {
            process: Process::start("knotd", command).unwrap(),
            address: (Ipv4Addr::LOCALHOST, port).into(),
            _folder: folder,
        }
    }

    /// Waits for an authoritative answer over TCP, which fails at once on a closed port. Returns `None` if the process
    /// ends or does not answer.
    fn wait_until_served(mut self, origin: &str) -> Option<Self> {
        let (address, apex) = (self.address, query(&format!("{origin}. SOA")));
        let served = self.process.wait_for("the zone", |_| {
            let reply = try_ask(address, &apex, Transport::Tcp, TIMEOUT).ok()?;
            reply.is_authoritative().then_some(())
        });
        served.ok().map(|()| self)
    }
}
