//! Three clusters on one bridge: `east`, which has a real API server, and `west` and `north`, which have files.
//!
//! Each is a network namespace that stands for a node. Pods have the same addresses in every cluster and are on
//! loopback; cluster IPs are played by destination NAT in the client's namespace, as kube-proxy plays them. A synthetic
//! cluster IP leads to the other cluster's gateway address, and from there by a second NAT to the pod; nothing else is
//! let in. Every cluster sees the same member at another synthetic address.

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use support::cluster::Cluster;
use support::commands::{binary, tool};
use support::networks::{Files, Network};
use support::objects::{namespace, node};
use support::process::Process;
use support::repository::repository;
use support::wait::eventually;
use tempfile::TempDir;

use crate::mirrors::View;
use crate::plan::{
    ALL, CLUSTER_DNS, CLUSTERS, EAST, Member, NAMESPACE, NORTH, SERVICES, Service, WEST, rules,
};

/// How long things may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Clusters {
    networks: [Network; CLUSTERS.len()],
    bridge: Network,
    pub members: Vec<Member>,
    /// The cluster that is cut off.
    lost: Option<usize>,
    api: Cluster,
    /// CoreDNS and global-dns of each.
    processes: Vec<Process>,
    /// The databases', in the order in which they were started.
    pub databases: Vec<Process>,
    directory: TempDir,
}

// === impl Clusters ===

impl Clusters {
    /// Three clusters with one pod of each database, of which only the addresses exist.
    pub fn start() -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("global-dns-databases-")
            .tempdir()?;
        let networks = [Network::of_this_thread(), Network::new()?, Network::new()?];
        let bridge = Network::new()?;
        bridge.ip("link add bridge type bridge")?;
        bridge.ip("link set bridge up")?;
        for (network, site) in networks.iter().zip(&CLUSTERS) {
            network.connect("eth0", &bridge, site.name)?;
            bridge.ip(&format!("link set {} master bridge up", site.name))?;
            network.ip(&format!("address add {}/24 dev eth0", site.gateway))?;
            network.ip("link set eth0 up")?;
            // The node's own, CoreDNS's cluster IP, global-dns's pod; and where cluster IPs go to before NAT.
            for address in ["10.244.0.1", CLUSTER_DNS, "10.244.0.53"] {
                network.ip(&format!("address add {address}/32 dev lo"))?;
            }
            network.ip("route add 10.96.0.0/16 dev eth0")?;
            network.nft(&rules(site))?;
        }
        let mut clusters = Self {
            networks,
            bridge,
            members: Vec::new(),
            lost: None,
            api: Cluster::start()?,
            processes: Vec::new(),
            databases: Vec::new(),
            directory,
        };
        for object in [namespace(NAMESPACE), node("node-0")] {
            clusters.api.put(&object)?;
        }
        for service in &SERVICES {
            for cluster in 0..CLUSTERS.len() {
                clusters.add(Member {
                    service,
                    cluster,
                    ordinal: 0,
                })?;
            }
        }
        clusters.show_members()?;
        for cluster in 0..CLUSTERS.len() {
            clusters.start_dns(cluster)?;
        }
        Ok(clusters)
    }

    /// Gives a member its addresses: the pod's at home, a synthetic one in each other cluster.
    pub fn add(&mut self, member: Member) -> Result<()> {
        let home = &self.networks[member.cluster];
        let pod = member.pod_address();
        home.ip(&format!("address add {pod}/32 dev lo"))?;
        for (index, (_, port)) in member.service.port_numbers.iter().enumerate() {
            let gateway_port = member.gateway_port(index);
            home.nft(&format!(
                "add rule ip gateway prerouting iifname eth0 tcp dport {gateway_port} dnat to {pod}:{port}"
            ))?;
            for (viewer, network) in self.networks.iter().enumerate() {
                if viewer != member.cluster {
                    let (synthetic, gateway) = (
                        member.synthetic_address(viewer),
                        CLUSTERS[member.cluster].gateway,
                    );
                    network.nft(&format!(
                        "add rule ip proxy output ip daddr {synthetic} tcp dport {port} dnat to {gateway}:{gateway_port}"
                    ))?;
                }
            }
        }
        self.members.push(member);
        Ok(())
    }

    /// Shows every cluster what there is now: what Kubernetes and Linkerd would write.
    pub fn show_members(&self) -> Result<()> {
        for object in self.view(EAST).objects() {
            self.api.put(&object)?;
        }
        for (pod, status) in self.view(EAST).pods(false) {
            if self.api.get(&pod)?.is_none() {
                self.api.put(&pod)?;
                self.api.put_status(&pod, &status)?;
            }
        }
        for cluster in [WEST, NORTH] {
            let file = self.manifest(cluster);
            let aside = file.with_extension("new");
            fs::write(&aside, self.view(cluster).manifest())?;
            fs::rename(aside, file)?;
        }
        Ok(())
    }

    /// What a kubelet says once the probes of its pods succeed.
    pub fn make_pods_ready(&self) -> Result<()> {
        for (pod, status) in self.view(EAST).pods(true) {
            self.api.put_status(&pod, &status)?;
        }
        Ok(())
    }

    /// Every cluster has the same names for the members, and an address of its own for each.
    pub fn names_are_the_same_and_addresses_are_not(&self) -> Result<()> {
        for viewer in ALL {
            for service in &SERVICES {
                self.answer_is(viewer, service, &ALL)?;
            }
        }
        for (viewer, member) in self.seen() {
            let (name, port) = member.service.port_numbers[0];
            let asked = format!("_{name}._tcp.{}.{NAMESPACE}.global", member.service.name);
            let target = format!("0 10 {port} {}.", member.global_name());
            let records = self.dig(viewer, &asked, "SRV")?;
            ensure!(
                records.contains(&target) && records.len() == CLUSTERS.len(),
                "{asked} in {}: {records:?}",
                CLUSTERS[viewer].name
            );
        }
        self.members_resolve()
    }

    /// Cuts a cluster off, as the loss of its network does; the gateway probes of all sides notice.
    pub fn lose(&mut self, lost: usize) -> Result<()> {
        self.only_synthetic_addresses_lead_to(lost)?;
        self.bridge
            .ip(&format!("link set {} down", CLUSTERS[lost].name))?;
        self.lost = Some(lost);
        self.show_members()?;
        for service in &SERVICES {
            for viewer in ALL {
                let alive: Vec<usize> = ALL
                    .into_iter()
                    .filter(|&cluster| !self.is_gateway_down(viewer, cluster))
                    .collect();
                self.answer_is(viewer, service, &alive)?;
            }
        }
        self.members_resolve()
    }

    /// Connects it again.
    pub fn find(&mut self) -> Result<()> {
        let lost = self.lost.take().context("none is lost")?;
        self.bridge
            .ip(&format!("link set {} up", CLUSTERS[lost].name))?;
        self.show_members()?;
        for viewer in ALL {
            for service in &SERVICES {
                self.answer_is(viewer, service, &ALL)?;
            }
        }
        Ok(())
    }

    /// What a name's answer is in a cluster: the members of these clusters, and no other.
    pub fn answer_is(&self, viewer: usize, service: &Service, clusters: &[usize]) -> Result<()> {
        let members = self.members.iter();
        let members = members
            .filter(|member| member.service == service && clusters.contains(&member.cluster));
        let wanted: BTreeSet<String> = members.map(|member| member.address_in(viewer)).collect();
        let name = format!("{}.{NAMESPACE}.global", service.name);
        eventually(
            &format!("{name} in {}", CLUSTERS[viewer].name),
            PATIENCE,
            || {
                let got = self.dig(viewer, &name, "A")?;
                ensure!(got == wanted, "it is {got:?}, wanted {wanted:?}");
                Ok(())
            },
        )
    }

    /// A member's own name resolves everywhere, whatever its gateway does.
    fn members_resolve(&self) -> Result<()> {
        for (viewer, member) in self.seen() {
            let name = member.global_name();
            let got = self.dig(viewer, &name, "A")?;
            ensure!(
                got == BTreeSet::from([member.address_in(viewer)]),
                "{name} in {}: {got:?}",
                CLUSTERS[viewer].name
            );
        }
        Ok(())
    }

    /// The databases in another cluster are reached by what the names say, and by nothing else.
    fn only_synthetic_addresses_lead_to(&self, cluster: usize) -> Result<()> {
        let gateway = CLUSTERS[cluster].gateway;
        let connect = |address: &str, port| -> Result<TcpStream> {
            let address = SocketAddr::new(address.parse()?, port);
            // Long enough for a bridge, and what is dropped is not answered at all.
            Ok(TcpStream::connect_timeout(
                &address,
                Duration::from_secs(1),
            )?)
        };
        for member in self
            .members
            .iter()
            .filter(|member| member.cluster == cluster)
        {
            let (_, port) = member.service.port_numbers[1];
            let address = member.synthetic_address(EAST);
            connect(&address, port).with_context(|| format!("{address}:{port}"))?;
            ensure!(
                connect(gateway, port).is_err(),
                "{gateway}:{port} is open to everybody"
            );
        }
        Ok(())
    }

    /// The data of the records that CoreDNS of a cluster answers.
    fn dig(&self, cluster: usize, name: &str, kind: &str) -> Result<BTreeSet<String>> {
        let server = format!("@{CLUSTER_DNS}");
        let arguments = [&server, "+short", "+tries=1", "+time=2", name, kind];
        let text = self.networks[cluster].run("dig", &arguments)?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// A database's command in a pod: in its cluster, with a pod's `resolv.conf`.
    pub fn pod(&self, cluster: usize, program: &Path) -> Result<Command> {
        let file = self.directory.path().join("resolv.conf");
        fs::write(
            &file,
            format!(
                "search {NAMESPACE}.svc.cluster.local svc.cluster.local cluster.local\n\
                 nameserver {CLUSTER_DNS}\noptions ndots:5\n"
            ),
        )?;
        let bound = vec![(file, PathBuf::from("/etc/resolv.conf"))];
        self.networks[cluster].command(program, &Files { bound })
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Adds the ends of all logs to a failure.
    pub fn with_logs<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            let processes = self.processes.iter().chain(&self.databases);
            let logs: Vec<String> = processes.map(Process::last_words).collect();
            anyhow!("{error:#}\n{}", logs.join("\n"))
        })
    }

    /// Starts global-dns and CoreDNS, and waits for their first answer.
    fn start_dns(&mut self, cluster: usize) -> Result<()> {
        let (site, network) = (&CLUSTERS[cluster], &self.networks[cluster]);
        let mut serve = network.command(&binary(), &Files::default())?;
        serve.args([
            "serve",
            "--listen",
            "10.244.0.53:5353",
            "--cluster-name",
            site.name,
        ]);
        if cluster == EAST {
            serve.arg("--kubeconfig").arg(&self.api.kubeconfig);
        } else {
            serve.arg("--file").arg(self.manifest(cluster));
        }
        let name = format!("global-dns-{}", site.name);
        self.processes.push(Process::start(name, serve)?);

        let cluster_local = match cluster {
            EAST => format!(
                "kubernetes {{\n        kubeconfig {} admin\n    }}",
                self.api.kubeconfig.display()
            ),
            _ => "template ANY ANY {\n        rcode NXDOMAIN\n    }".to_owned(),
        };
        let stanza = fs::read_to_string(repository("coredns/Corefile"))?;
        let corefile = self
            .directory
            .path()
            .join(format!("Corefile-{}", site.name));
        fs::write(
            &corefile,
            format!("cluster.local:53 {{\n    errors\n    {cluster_local}\n}}\n{stanza}"),
        )?;
        let mut coredns = network.command(&tool("coredns")?, &Files::default())?;
        coredns.arg("-conf").arg(&corefile);
        let name = format!("coredns-{}", site.name);
        self.processes.push(Process::start(name, coredns)?);

        eventually("an answer by way of CoreDNS", PATIENCE, || {
            let processes = &mut self.processes;
            processes.iter_mut().try_for_each(Process::check)?;
            let server = format!("@{CLUSTER_DNS}");
            let arguments = [&server, "+tries=1", "+time=2", "global", "SOA"];
            let text = self.networks[cluster].run("dig", &arguments)?;
            ensure!(text.contains("status: NOERROR"), "{text}");
            Ok(())
        })
    }

    fn manifest(&self, cluster: usize) -> PathBuf {
        let name = format!("objects-{}.yaml", CLUSTERS[cluster].name);
        self.directory.path().join(name)
    }

    fn view(&self, viewer: usize) -> View<'_> {
        View {
            viewer,
            members: &self.members,
            is_down: ALL.map(|cluster| self.is_gateway_down(viewer, cluster)),
        }
    }

    /// Who is cut off sees everybody else behind dead gateways.
    fn is_gateway_down(&self, viewer: usize, cluster: usize) -> bool {
        viewer != cluster
            && self
                .lost
                .is_some_and(|lost| lost == viewer || lost == cluster)
    }

    /// Every member, seen from every cluster.
    fn seen(&self) -> impl Iterator<Item = (usize, &Member)> {
        (0..CLUSTERS.len())
            .flat_map(|viewer| self.members.iter().map(move |member| (viewer, member)))
    }
}
