//! A running Knot DNS that serves one zone from a file.

use std::net::{Ipv4Addr, SocketAddr};

use support::commands::{command, tool};
use support::ports::free_port;
use support::process::Process;
use support::query::query;
use support::wait::PATIENCE;
use support::wire::{Over, try_ask};
use tempfile::TempDir;

use super::write;

/// `knotd`, killed when dropped.
pub struct Knot {
    process: Process,
    pub address: SocketAddr,
    _folder: TempDir,
}

/// Ports that were free a moment ago may be taken; each try has a fresh one.
const TRIES: usize = 5;

impl Knot {
    /// Starts it and waits until it serves the zone.
    pub fn start(origin: &str, zone: &str) -> Self {
        for _ in 0..TRIES {
            let knot = Self::spawn(origin, zone);
            if let Some(knot) = knot.served(origin) {
                return knot;
            }
        }
        panic!("knotd served nothing in {TRIES} tries");
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

    /// Waits for an authoritative answer over TCP, where nobody at home is told at once; `None` if it ends or stays silent.
    fn served(mut self, origin: &str) -> Option<Self> {
        let (address, apex) = (self.address, query(&format!("{origin}. SOA")));
        let served = self.process.wait_for("the zone", |_| {
            let reply = try_ask(address, &apex, Over::Tcp, PATIENCE).ok()?;
            reply.is_authoritative().then_some(())
        });
        served.ok().map(|()| self)
    }
}
