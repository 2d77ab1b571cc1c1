//! A real CoreDNS in front, with the stanza that users copy from `coredns/Corefile`.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use tempfile::TempDir;

use crate::support::message::{SOA, question};
use crate::support::process::{Daemon, tool};
use crate::support::{free_port, repository};

/// CoreDNS, running.
pub struct Front {
    pub address: SocketAddr,
    _daemon: Daemon,
    _folder: TempDir,
}

/// Starts it in front of `server`, with these options in the block of `forward`.
pub fn start(server: SocketAddr, options: &str) -> Front {
    let folder = tempfile::tempdir().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let shipped = fs::read_to_string(repository("coredns/Corefile")).unwrap();
    let corefile = folder.path().join("Corefile");
    fs::write(&corefile, stanza(&shipped, address, server, options)).unwrap();
    let mut command = Command::new(tool("coredns"));
    command.arg("-conf").arg(&corefile);
    let mut daemon = Daemon::start("coredns", command, folder.path());
    daemon.wait_for("an answer", |_| {
        let reply = question("global.", SOA).try_ask(address)?;
        (reply.answers.len() == 1).then_some(())
    });
    Front {
        address,
        _daemon: daemon,
        _folder: folder,
    }
}

/// The block of the zone in the shipped file, moved to our port and pointed at our server.
fn stanza(shipped: &str, front: SocketAddr, server: SocketAddr, options: &str) -> String {
    let head = "global:53 {";
    let lines = shipped.lines().skip_while(|line| *line != head);
    let stanza = lines.take_while(|line| *line != "}").map(|line| {
        if line == head {
            return format!("global:{} {{\n    bind {}", front.port(), front.ip());
        }
        match line.trim_start().starts_with("forward . ") {
            true => format!("    forward . {server} {{\n        {options}\n    }}"),
            false => line.to_owned(),
        }
    });
    let stanza: Vec<String> = stanza.collect();
    let stanza = stanza.join("\n") + "\n}\n";
    let forwards = stanza.contains(&format!("forward . {server}"));
    assert!(
        forwards,
        "coredns/Corefile has no block `{head}` that forwards"
    );
    stanza
}
