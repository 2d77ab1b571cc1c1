//! A CoreDNS that forwards to the server, with the stanza that users copy from `coredns/Corefile`.

use std::fs;
use std::net::SocketAddr;

use support::commands::{command, tool};
use support::ports::free_port;
use support::process::Process;
use support::query::query;
use support::repository::repository;
use support::wait::TIMEOUT;
use support::wire::{Transport, try_ask};
use tempfile::TempDir;

/// A running CoreDNS.
pub struct Front {
    pub address: SocketAddr,
    _process: Process,
    _folder: TempDir,
}

/// Starts CoreDNS as a forwarder to `server`, with these options in the block of `forward`.
pub fn start(server: SocketAddr, options: &str) -> Front {
    let folder = tempfile::tempdir().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let shipped = fs::read_to_string(repository("coredns/Corefile")).unwrap();
    let corefile = folder.path().join("Corefile");
    fs::write(&corefile, stanza(&shipped, address, server, options)).unwrap();
    let mut command = command(tool("coredns").unwrap());
    command.arg("-conf").arg(&corefile);
    let mut process = Process::start("coredns", command).unwrap();
    let answered = process.wait_for("an answer", |_| {
        let reply = try_ask(address, &query("global. SOA"), Transport::Tcp, TIMEOUT).ok()?;
        (reply.answers.len() == 1).then_some(())
    });
    answered.unwrap();
    Front {
        address,
        _process: process,
        _folder: folder,
    }
}

/// Returns the zone's block of the documented file, with the listen address of CoreDNS and the address of the server.
fn stanza(shipped: &str, front: SocketAddr, server: SocketAddr, options: &str) -> String {
    let head = "global:53 {";
    let lines = shipped.lines().skip_while(|line| *line != head);
    let stanza = lines.take_while(|line| *line != "}").map(|line| {
        if line == head {
            return format!("global:{} {{\n    bind {}", front.port(), front.ip());
        }
        if line.trim_start().starts_with("forward . ") {
            format!("    forward . {server} {{\n        {options}\n    }}")
        } else {
            line.to_owned()
        }
    });
    let stanza: Vec<String> = stanza.collect();
    let stanza = stanza.join("\n") + "\n}\n";
    let forwards = stanza.contains(&format!("forward . {server}"));
    assert!(
        forwards,
        "coredns/Corefile has no block `{head}` with `forward`"
    );
    stanza
}
