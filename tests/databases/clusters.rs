//! Three clusters on one bridge: `east` with a real API server, `west` and `north` with manifest files.
//!
//! Each cluster is a network namespace that represents a node. Pods have the same loopback addresses in every cluster.
//! Destination NAT in the client's namespace implements cluster IPs, as with kube-proxy. It translates a synthetic
//! cluster IP to the gateway address of the other cluster, where a second NAT translates to the pod. Other packets are
//! dropped. Each cluster has a different synthetic address for the same member.

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

/// Maximum time of any event on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The three clusters and the databases in them.
pub struct Clusters {
    networks: [Network; CLUSTERS.len()],
    bridge: Network,
    pub members: Vec<Member>,
    /// The cluster that is disconnected.
    disconnected: Option<usize>,
    api: Cluster,
    /// CoreDNS and global-dns of each cluster.
    processes: Vec<Process>,
    /// Database processes in start order.
    pub databases: Vec<Process>,
    directory: TempDir,
}

// === impl Clusters ===

impl Clusters {
    /// Starts three clusters with one pod for each database. The databases are not running yet.
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
            // Addresses of the node, CoreDNS and the global-dns pod, and a route for cluster IPs before NAT.
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
            disconnected: None,
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
        clusters.write_objects()?;
        for cluster in 0..CLUSTERS.len() {
            clusters.start_dns(cluster)?;
        }
        Ok(clusters)
    }

    /// Adds a member: its pod address in its own cluster, and a synthetic address in each other cluster.
    pub fn add(&mut self, member: Member) -> Result<()> {
        let own_network = &self.networks[member.cluster];
        let pod = member.pod_address();
        own_network.ip(&format!("address add {pod}/32 dev lo"))?;
        for (index, (_, port)) in member.service.port_numbers.iter().enumerate() {
            let gateway_port = member.gateway_port(index);
            own_network.nft(&format!(
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

    /// Writes the objects of all members in every cluster, as Kubernetes and Linkerd would.
    pub fn write_objects(&self) -> Result<()> {
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
            let temporary = file.with_extension("new");
            fs::write(&temporary, self.view(cluster).manifest())?;
            fs::rename(temporary, file)?;
        }
        Ok(())
    }

    /// Sets the pods to ready, as a kubelet does after successful probes.
    pub fn make_pods_ready(&self) -> Result<()> {
        for (pod, status) in self.view(EAST).pods(true) {
            self.api.put_status(&pod, &status)?;
        }
        Ok(())
    }

    /// Asserts that the names of members are the same in every cluster, and that their addresses are those of the
    /// cluster.
    pub fn check_names_and_addresses(&self) -> Result<()> {
        for viewer in ALL {
            for service in &SERVICES {
                self.check_answer(viewer, service, &ALL)?;
            }
        }
        for (viewer, member) in self.views_of_members() {
            let (name, port) = member.service.port_numbers[0];
            let queried = format!("_{name}._tcp.{}.{NAMESPACE}.global", member.service.name);
            let target = format!("0 10 {port} {}.", member.global_name());
            let records = self.dig(viewer, &queried, "SRV")?;
            ensure!(
                records.contains(&target) && records.len() == CLUSTERS.len(),
                "{queried} in {}: {records:?}",
                CLUSTERS[viewer].name
            );
        }
        self.check_member_names()
    }

    /// Disconnects a cluster from the network. Gateway probes in all clusters detect it.
    pub fn disconnect(&mut self, cluster: usize) -> Result<()> {
        self.check_reachability(cluster)?;
        self.bridge
            .ip(&format!("link set {} down", CLUSTERS[cluster].name))?;
        self.disconnected = Some(cluster);
        self.write_objects()?;
        for service in &SERVICES {
            for viewer in ALL {
                let alive: Vec<usize> = ALL
                    .into_iter()
                    .filter(|&other| !self.is_gateway_down(viewer, other))
                    .collect();
                self.check_answer(viewer, service, &alive)?;
            }
        }
        self.check_member_names()
    }

    /// Reconnects the disconnected cluster.
    pub fn reconnect(&mut self) -> Result<()> {
        let cluster = self
            .disconnected
            .take()
            .context("no cluster is disconnected")?;
        self.bridge
            .ip(&format!("link set {} up", CLUSTERS[cluster].name))?;
        self.write_objects()?;
        for viewer in ALL {
            for service in &SERVICES {
                self.check_answer(viewer, service, &ALL)?;
            }
        }
        Ok(())
    }

    /// Asserts that the answer for a service in a cluster has exactly the members of these clusters.
    pub fn check_answer(&self, viewer: usize, service: &Service, clusters: &[usize]) -> Result<()> {
        let members = self.members.iter();
        let members = members
            .filter(|member| member.service == service && clusters.contains(&member.cluster));
        let expected: BTreeSet<String> = members.map(|member| member.address_in(viewer)).collect();
        let name = format!("{}.{NAMESPACE}.global", service.name);
        eventually(
            &format!("{name} in {}", CLUSTERS[viewer].name),
            TIMEOUT,
            || {
                let got = self.dig(viewer, &name, "A")?;
                ensure!(got == expected, "it is {got:?}, expected {expected:?}");
                Ok(())
            },
        )
    }

    /// Asserts that the host name of every member resolves in every cluster, even if its gateway is down.
    fn check_member_names(&self) -> Result<()> {
        for (viewer, member) in self.views_of_members() {
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

    /// Asserts that members of another cluster are reachable at their synthetic addresses, and at no other address.
    fn check_reachability(&self, cluster: usize) -> Result<()> {
        let gateway = CLUSTERS[cluster].gateway;
        let connect = |address: &str, port| -> Result<TcpStream> {
            let address = SocketAddr::new(address.parse()?, port);
            // Long enough for a bridge. Dropped packets get no reply.
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
                "{gateway}:{port} accepts connections"
            );
        }
        Ok(())
    }

    /// Returns the data of the records in an answer of CoreDNS.
    fn dig(&self, cluster: usize, name: &str, kind: &str) -> Result<BTreeSet<String>> {
        let server = format!("@{CLUSTER_DNS}");
        let arguments = [&server, "+short", "+tries=1", "+time=2", name, kind];
        let text = self.networks[cluster].run("dig", &arguments)?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Builds a command in a pod: in the network of its cluster, with the `resolv.conf` of a pod.
    pub fn pod_command(&self, cluster: usize, program: &Path) -> Result<Command> {
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

    /// Adds the last lines of all logs to an error.
    pub fn with_logs<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            let processes = self.processes.iter().chain(&self.databases);
            let logs: Vec<String> = processes.map(Process::log_tail).collect();
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

        eventually("an answer through CoreDNS", TIMEOUT, || {
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

    /// Returns whether the gateway of a cluster is down for a viewer. For a disconnected viewer, all other gateways
    /// are.
    fn is_gateway_down(&self, viewer: usize, cluster: usize) -> bool {
        viewer != cluster
            && self
                .disconnected
                .is_some_and(|disconnected| disconnected == viewer || disconnected == cluster)
    }

    /// Returns all pairs of a viewing cluster and a member.
    fn views_of_members(&self) -> impl Iterator<Item = (usize, &Member)> {
        (0..CLUSTERS.len())
            .flat_map(|viewer| self.members.iter().map(move |member| (viewer, member)))
    }
}
