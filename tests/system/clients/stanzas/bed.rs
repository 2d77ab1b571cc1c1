//! Two replicas of the server behind one cluster IP, and one CoreDNS with all stanzas, in one network.
//!
//! A NAT rule implements the cluster IP, as with kube-proxy: each new flow goes to a random replica. Two further cluster
//! IPs have one replica each. A silent replica is one whose packets are dropped, as those of a node that is lost.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, ensure};
use support::certificates::{Authority, Identity};
use support::commands::{binary, tool};
use support::networks::{Files, Network};
use support::objects::{Manifest, mirror};
use support::process::Process;
use support::settings::add_arguments;
use support::wait::eventually;
use tempfile::TempDir;

use super::BUSY;
use super::load::{Stream, ask};
use super::settings::Stanza;

/// The name that is asked once.
pub const IDLE: &str = "idle.prod.global";

/// The addresses of the replicas.
const REPLICAS: [&str; 2] = ["10.244.0.53", "10.244.0.54"];

/// Number of names of hosts. Each is asked every 2.5 seconds, so that half of the queries find it in a cache of 5 seconds.
const HOSTS: u8 = 100;

/// A fault of the second replica, or of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process ends. Its address answers with errors.
    Ended,
    Silent,
    AllSilent,
}

pub struct Bed {
    network: Network,
    replicas: [Process; REPLICAS.len()],
    _coredns: Process,
    /// The address of each stanza.
    servers: Vec<SocketAddr>,
    /// The last octets of the addresses of `app-0` and `idle-0`.
    octets: [u8; 2],
    folder: TempDir,
}

/// Returns the names of the hosts.
pub fn hosts() -> Vec<String> {
    let name = |host| format!("hosts-{host}.east.hosts.prod.global");
    (0..HOSTS).map(name).collect()
}

// === impl Bed ===

impl Bed {
    pub fn start(stanzas: &[Stanza]) -> Result<Self> {
        let network = Network::of_this_thread();
        for address in ["10.244.0.1", "10.96.0.10", REPLICAS[0], REPLICAS[1]] {
            network.ip(&format!("address add {address}/32 dev lo"))?;
        }
        network.ip("route add 10.96.0.0/16 dev lo src 10.244.0.1")?;
        network.nft(RULES)?;
        route(&network, &REPLICAS)?;
        let folder = TempDir::with_prefix("global-dns-stanzas-")?;
        let authority = Authority::new("stanzas");
        authority.issue_server().write(folder.path());
        fs::write(folder.path().join("ca.crt"), &authority.certificate)?;
        let octets = [1, 1];
        fs::write(folder.path().join("objects.yaml"), manifest(octets))?;
        let replicas = [
            start_replica(&network, &folder, REPLICAS[0])?,
            start_replica(&network, &folder, REPLICAS[1])?,
        ];
        let corefile = folder.path().join("Corefile");
        fs::write(&corefile, corefile_of(stanzas, &folder))?;
        let mut coredns = network.command(&tool("coredns")?, &Files::default())?;
        coredns.arg("-conf").arg(&corefile);
        let ports = (0..stanzas.len()).map(port);
        Ok(Self {
            _coredns: Process::start("coredns", coredns)?,
            servers: ports
                .map(|port| SocketAddr::from(([10, 96, 0, 10], port)))
                .collect(),
            network,
            replicas,
            octets,
            folder,
        })
    }

    /// Returns the address of each stanza.
    pub fn servers(&self) -> &[SocketAddr] {
        &self.servers
    }

    /// Waits until every stanza and every replica answers every name.
    pub fn wait_until_complete(&mut self) -> Result<()> {
        let replicas = REPLICAS.map(|address| format!("{address}:53").parse());
        let [first, second] = replicas;
        let all = [&self.servers[..], &[first?, second?]].concat();
        for server in all {
            for name in hosts().iter().map(String::as_str).chain([BUSY, IDLE]) {
                eventually("an answer of each server", || ask(server, name))?;
            }
        }
        self.replicas.iter_mut().try_for_each(Process::check)
    }

    /// Starts a stream of queries for names to each stanza.
    pub fn streams(&self, names: &[String]) -> Result<Vec<Stream>> {
        let servers = self.servers.iter();
        servers
            .map(|server| Stream::start(*server, names))
            .collect()
    }

    /// Changes an address of the busy name. Returns the new address as soon as both replicas answer it.
    pub fn change_busy(&mut self, round: u8) -> Result<Ipv4Addr> {
        self.octets[0] = 100 + round;
        self.write(BUSY, Ipv4Addr::new(10, 96, 1, self.octets[0]))
    }

    /// Changes the address of the idle name. Returns the new address as soon as both replicas answer it.
    pub fn change_idle(&mut self) -> Result<Ipv4Addr> {
        self.octets[1] += 1;
        self.write(IDLE, Ipv4Addr::new(10, 96, 2, self.octets[1]))
    }

    fn write(&self, name: &str, new: Ipv4Addr) -> Result<Ipv4Addr> {
        let file = self.folder.path().join("objects.yaml");
        let temporary = file.with_extension("new");
        fs::write(&temporary, manifest(self.octets))?;
        fs::rename(temporary, file)?;
        for replica in REPLICAS {
            let server = format!("{replica}:53").parse()?;
            eventually("the new address", || {
                ensure!(ask(server, name)?.contains(&new));
                Ok(())
            })?;
        }
        Ok(new)
    }

    pub fn begin(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Ended => self.replicas[1].kill(),
            Fault::Silent => self.drop_packets(&REPLICAS[1..])?,
            Fault::AllSilent => self.drop_packets(&REPLICAS)?,
        }
        Ok(())
    }

    /// Removes the second replica from the Service, as kube-proxy does: also from existing UDP flows. If both are silent,
    /// they answer again instead.
    pub fn remove(&self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Ended | Fault::Silent => route(&self.network, &REPLICAS[..1]),
            Fault::AllSilent => self.drop_packets(&[]),
        }
    }

    pub fn end(&mut self, fault: Fault) -> Result<()> {
        if fault == Fault::Ended {
            self.replicas[1] = start_replica(&self.network, &self.folder, REPLICAS[1])?;
        }
        self.drop_packets(&[])?;
        route(&self.network, &REPLICAS)
    }

    fn drop_packets(&self, replicas: &[&str]) -> Result<()> {
        self.network.nft("flush chain ip faults input")?;
        for replica in replicas {
            let rule = format!("add rule ip faults input ip daddr {replica} drop");
            self.network.nft(&rule)?;
        }
        Ok(())
    }
}

const RULES: &str = "table ip proxy {
        chain output {
            type nat hook output priority -100
        }
    }
    table ip faults {
        chain input {
            type filter hook input priority 0
        }
    }";

/// Sets the replicas of the Service, and those of the two Services with one replica each.
fn route(network: &Network, replicas: &[&str]) -> Result<()> {
    let rule = "add rule ip proxy output ip daddr";
    let service = match replicas {
        [one] => format!("{rule} 10.96.0.53 dnat to {one}"),
        _ => format!(
            "{rule} 10.96.0.53 dnat to numgen random mod 2 map {{ 0 : {}, 1 : {} }}",
            REPLICAS[0], REPLICAS[1]
        ),
    };
    let [first, second] = REPLICAS;
    network.nft(&format!(
        "flush chain ip proxy output\n{service}\n{rule} 10.96.0.61 dnat to {first}\n{rule} 10.96.0.62 dnat to {second}"
    ))?;
    // conntrack fails if there is no flow.
    let mut conntrack = network.command(&tool("conntrack")?, &Files::default())?;
    conntrack.args(["-D", "-p", "udp", "--orig-dst", "10.96.0.53"]);
    conntrack.output().context("conntrack")?;
    Ok(())
}

fn start_replica(network: &Network, folder: &TempDir, address: &str) -> Result<Process> {
    let mut serve = network.command(&binary(), &Files::default())?;
    serve
        .arg("serve")
        .arg("--file")
        .arg(folder.path().join("objects.yaml"));
    let arguments = [
        &*format!("--listen={address}:53"),
        &*format!("listen.tls=['{address}:853']"),
        &*format!("--admin-listen={address}:9153"),
        "--cluster-name=hub",
    ];
    add_arguments(&mut serve, &arguments);
    add_arguments(&mut serve, &Identity::settings(folder.path()));
    // The API is only needed by people.
    serve.arg(format!("--api-listen={address}:9154"));
    Process::start(format!("global-dns-{address}"), serve)
}

fn port(index: usize) -> u16 {
    5_400 + u16::try_from(index).expect("less than 60,000 stanzas")
}

fn corefile_of(stanzas: &[Stanza], folder: &TempDir) -> String {
    let ca = folder.path().join("ca.crt").display().to_string();
    let blocks = stanzas.iter().enumerate().map(|(index, stanza)| {
        let body = stanza.body.replace("CA\n", &format!("{ca}\n"));
        format!("global:{} {{\n{body}\n}}\n", port(index))
    });
    blocks.collect()
}

/// Returns the objects. The octets are those of [`Bed`].
fn manifest([busy, idle]: [u8; 2]) -> String {
    let app = mirror("prod", "app", "east")
        .endpoint("app-0", &[&format!("10.96.1.{busy}")])
        .endpoint("app-1", &["10.96.1.2"])
        .endpoint("app-2", &["10.96.1.3"]);
    let idle = mirror("prod", "idle", "east").endpoint("idle-0", &[&format!("10.96.2.{idle}")]);
    let hosts = (0..HOSTS).fold(mirror("prod", "hosts", "east"), |hosts, host| {
        hosts.endpoint(&format!("hosts-{host}"), &[&format!("10.96.3.{host}")])
    });
    Manifest::default().with(app).with(idle).with(hosts).list()
}
