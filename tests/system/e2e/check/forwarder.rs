//! A CoreDNS that forwards to global-dns.

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
use support::wire::Transport;

use super::objects::state;
use crate::e2e::linked_clusters::NGINX;

/// A global-dns server, and a CoreDNS that forwards to it with the stanza of `coredns/Corefile`.
pub struct Forwarder {
    pub server: Server,
    pub address: SocketAddr,
    _coredns: Process,
}

impl Forwarder {
    /// Starts both servers, and waits until CoreDNS forwards.
    pub fn with_server(cluster: &Cluster) -> Result<Self> {
        cluster.apply_state(&state()?)?;
        let server = Server::ready_of_cluster(&cluster.kubeconfig, &[]);
        let (coredns, address) =
            Self::start(cluster, |address| stanza(&shipped()?, address, server.dns))?;
        eventually("CoreDNS to forward", || {
            let output = dig(address, Transport::Udp, NGINX, "A")?;
            ensure!(output.status == "NOERROR", "{}", output.status);
            Ok(())
        })?;
        Ok(Self {
            server,
            address,
            _coredns: coredns,
        })
    }

    /// Starts CoreDNS with a Corefile for its address, and waits until it answers.
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
        eventually("CoreDNS to answer", || {
            coredns.check()?;
            dig(address, Transport::Tcp, "global", "SOA").map(drop)
        })?;
        Ok((coredns, address))
    }

    pub fn server_flag(&self) -> String {
        format!("--dns={}", self.server.dns)
    }

    pub fn resolver_flag(&self) -> String {
        format!("--resolver={}", self.address)
    }
}

/// Returns the zone's server block of the shipped Corefile, with the test's port and upstream server.
pub fn stanza(shipped: &str, address: SocketAddr, server: SocketAddr) -> Result<String> {
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
                address.port(),
                address.ip()
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
        "coredns/Corefile has no server block `global:53` with `forward`"
    );
    Ok(text)
}

/// Reads `coredns/Corefile`.
pub fn shipped() -> Result<String> {
    let path = repository("coredns/Corefile");
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}
