//! A running Knot DNS that serves one zone from a file.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::write;
use crate::support::binary::{path_of_tools, spawn};
use crate::support::free_port;

/// `knotd`, killed when dropped.
pub struct Knot {
    child: Child,
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
        let mut command = Command::new("knotd");
        command.args(["-c", &config]).env("PATH", path_of_tools());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self {
            child: spawn(command),
            address: (Ipv4Addr::LOCALHOST, port).into(),
            _folder: folder,
        }
    }

    /// Waits for an authoritative answer; `None` if it ends or stays silent.
    fn served(mut self, origin: &str) -> Option<Self> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if self.child.try_wait().unwrap().is_some() {
                return None;
            }
            if is_serving(self.address, origin) {
                return Some(self);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

/// Asks for the SOA record over TCP, where nobody at home is told at once.
fn is_serving(address: SocketAddr, origin: &str) -> bool {
    if std::net::TcpStream::connect(address).is_err() {
        return false;
    }
    let question = crate::support::ask::question(&format!("{origin}. SOA"));
    question
        .ask(address, crate::support::ask::Over::Tcp)
        .flags
        .contains("aa")
}

impl Drop for Knot {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
