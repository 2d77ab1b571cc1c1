//! A CoreDNS in front of a server of ours.

use std::fs;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use support::cluster::Cluster;
use support::commands::{guarded, tool};
use support::dig::dig;
use support::ports::free_port;
use support::process::Process;
use support::repository::repository;
use support::server::Server;
use support::wait::eventually;
use support::wire::Over;

use super::START;
use crate::clusters_come_and_go::{NGINX, state_after_the_recordings};

/// A server of ours, and a CoreDNS that forwards to it by the stanza that users copy.
pub struct Front {
    pub server: Server,
    pub address: SocketAddr,
    _coredns: Process,
}

impl Front {
    pub fn forwarding_to_a_server(cluster: &Cluster) -> Result<Self> {
        cluster.become_state(&state_after_the_recordings()?)?;
        let server = Server::ready_of_cluster(&cluster.kubeconfig, &[]);
        let (coredns, address) =
            Self::start(cluster, |front| stanza(&shipped()?, front, server.dns))?;
        eventually("CoreDNS to forward", START, || {
            let dug = dig(address, Over::Udp, NGINX, "A")?;
            ensure!(dug.status == "NOERROR", "{}", dug.status);
            Ok(())
        })?;
        Ok(Self {
            server,
            address,
            _coredns: coredns,
        })
    }

    /// Starts a CoreDNS with a Corefile made for its address; returns when it answers anything.
    pub fn start(
        cluster: &Cluster,
        corefile: impl FnOnce(SocketAddr) -> Result<String>,
    ) -> Result<(Process, SocketAddr)> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let path = cluster
            .directory()
            .join(format!("Corefile-{}", address.port()));
        fs::write(&path, corefile(address)?)?;
        let mut coredns = guarded(tool("coredns")?);
        coredns.arg("-conf").arg(&path);
        let mut coredns = Process::start("coredns", coredns)?;
        eventually("CoreDNS to answer", START, || {
            coredns.check()?;
            dig(address, Over::Tcp, "global", "SOA").map(drop)
        })?;
        Ok((coredns, address))
    }

    pub fn server_flag(&self) -> String {
        format!("--server={}", self.server.dns)
    }

    pub fn api_flag(&self) -> String {
        format!("--api=http://{}", self.server.api)
    }

    pub fn resolver_flag(&self) -> String {
        format!("--resolver={}", self.address)
    }
}

/// The block of the zone in the shipped file, moved to our port and pointed at our server.
pub fn stanza(shipped: &str, front: SocketAddr, server: SocketAddr) -> Result<String> {
    let mut depth = 0;
    let mut stanza = Vec::new();
    for line in shipped
        .lines()
        .skip_while(|line| !line.starts_with("global:53 {"))
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["global:53", "{"] => stanza.push(format!(
                "global:{} {{\n    bind {}",
                front.port(),
                front.ip()
            )),
            ["forward", ".", _, rest @ ..] => {
                stanza.push(format!("    forward . {server} {}", rest.join(" ")))
            }
            _ => stanza.push(line.to_owned()),
        }
        depth += line.matches('{').count();
        depth -= line.matches('}').count();
        if depth == 0 {
            break;
        }
    }
    let text = stanza.join("\n");
    ensure!(
        text.contains(&format!("forward . {server}")),
        "coredns/Corefile has no block `global:53` that forwards"
    );
    Ok(text)
}

pub fn shipped() -> Result<String> {
    let path = repository("coredns/Corefile");
    fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}
