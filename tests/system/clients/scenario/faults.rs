//! Faults of DNS: a second CoreDNS in `east`, with a port for each fault. It forwards names outside of the zone `global`
//! to the first one, so that the search list of a pod works as usual. Destination NAT leads the queries of the program to
//! it.

use std::fs;

use anyhow::{Context as _, Result};
use support::commands::tool;
use support::multicluster::Clusters;
use support::multicluster::plan::{CLUSTER_DNS, EAST};
use support::networks::Files;
use support::process::Process;

/// Address of the second CoreDNS.
const ADDRESS: &str = "10.244.0.54";
const CHAINS: &str = "table ip faults {
        chain translate {
            type nat hook output priority -110
        }
        chain refuse {
            type filter hook output priority 0
        }
    }";
const SOA: &str =
    "authority \"global. 5 IN SOA ns.dns.global. hostmaster.dns.global. 1 3600 600 86400 5\"";

/// A fault: every reply is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Nxdomain = 5301,
    Servfail,
    NoRecords,
}

/// The second CoreDNS.
pub struct Faults(#[expect(dead_code, reason = "ended on drop")] Process);

// === impl Fault ===

impl Fault {
    pub const ALL: [Self; 3] = [Self::Nxdomain, Self::Servfail, Self::NoRecords];

    pub fn name(self) -> &'static str {
        match self {
            Self::Nxdomain => "NXDOMAIN",
            Self::Servfail => "SERVFAIL",
            Self::NoRecords => "no records",
        }
    }

    fn template(self) -> String {
        match self {
            Self::Nxdomain => format!("rcode NXDOMAIN\n{SOA}"),
            Self::Servfail => "rcode SERVFAIL".to_owned(),
            Self::NoRecords => format!("rcode NOERROR\n{SOA}"),
        }
    }
}

// === impl Faults ===

impl Faults {
    pub fn start(clusters: &Clusters) -> Result<Self> {
        let network = clusters.network(EAST);
        network.ip(&format!("address add {ADDRESS}/32 dev lo"))?;
        network.nft(CHAINS)?;
        let server = |fault: Fault| {
            format!(
                ".:{} {{\nbind {ADDRESS}\ntemplate ANY ANY global {{\n{}\n}}\nforward . 127.0.0.1:53\n}}\n",
                fault as u16,
                fault.template()
            )
        };
        let corefile = clusters.directory().join("Corefile-faults");
        fs::write(&corefile, Fault::ALL.map(server).concat())?;
        let mut coredns = network.command(&tool("coredns")?, &Files::default())?;
        coredns.arg("-conf").arg(&corefile);
        Ok(Self(Process::start("coredns-faults", coredns)?))
    }

    /// Starts or ends a fault.
    pub fn set(clusters: &Clusters, fault: Option<Fault>) -> Result<()> {
        let network = clusters.network(EAST);
        network.nft("flush chain ip faults translate")?;
        for protocol in ["udp", "tcp"] {
            if let Some(fault) = fault {
                network.nft(&format!(
                    "add rule ip faults translate ip daddr {CLUSTER_DNS} {protocol} dport 53 dnat to {ADDRESS}:{}",
                    fault as u16
                ))?;
            }
            // The kernel does not translate packets of flows that it tracks already. It fails if there is none.
            let mut conntrack = network.command(&tool("conntrack")?, &Files::default())?;
            conntrack.args(["-D", "-p", protocol, "--orig-dst", CLUSTER_DNS]);
            conntrack.output().context("conntrack")?;
        }
        Ok(())
    }

    /// Refuses connections over TCP to the cluster's DNS, or accepts them again.
    pub fn refuse_tcp(clusters: &Clusters, is_refused: bool) -> Result<()> {
        let network = clusters.network(EAST);
        network.nft("flush chain ip faults refuse")?;
        if is_refused {
            network.nft(&format!(
                "add rule ip faults refuse ip daddr {CLUSTER_DNS} tcp dport 53 reject with tcp reset"
            ))?;
        }
        Ok(())
    }
}
