//! Three clusters on one bridge: `east` with a real API server, `west` and `north` with manifest files.
//!
//! Each cluster is a network namespace that represents a node. Pods have the same loopback addresses in every cluster.
//! Destination NAT in the client's namespace implements cluster IPs, as with kube-proxy. It translates a synthetic
//! cluster IP to the gateway address of the other cluster, where a second NAT translates to the pod. Other packets are
//! dropped. Each cluster has a different synthetic address for the same member. Each cluster has a domain of its own, such as
//! `west.example`, which its CoreDNS serves beside `cluster.local`; in the others it is a zone of global-dns.
//!
//! - `plan`: the addresses of clusters, Services and members
//! - `mirrors`: the objects in each cluster, for an API server or a manifest file
//! - `changes`: links, addresses, failures and failover orders that change while the clusters run

mod changes;
mod mirrors;
pub mod plan;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, anyhow, ensure};
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::commands::{binary, tool};
use crate::manual::Section;
use crate::networks::{Files, Network};
use crate::objects::{namespace, node};
use crate::output::suite_name;
use crate::process::Process;
use crate::repository::repository;
use crate::settings::add_arguments;
use crate::wait::eventually;
use mirrors::{Expected, View};
use plan::{ALL, CLUSTER_DNS, CLUSTERS, EAST, Member, NAMESPACE, NORTH, Service, WEST, rules};

/// Address of the global-dns pod in every cluster.
pub const GLOBAL_DNS_POD: &str = "10.244.0.53:5353";

/// The three clusters and the databases in them.
pub struct Clusters {
    networks: [Network; CLUSTERS.len()],
    bridge: Network,
    /// The Services of the members.
    services: Vec<&'static Service>,
    /// The pods of all clusters.
    pub members: Vec<Member>,
    /// Members whose pods have ended.
    lost: Vec<Member>,
    /// The clusters that mirror each other.
    linked: BTreeSet<usize>,
    /// The cluster that is disconnected.
    disconnected: Option<usize>,
    /// The expected clusters of a Service, in every cluster.
    expected: Option<Expected>,
    /// The failover order of a Service in `east`.
    failover: Option<(&'static Service, String)>,
    api: Cluster,
    /// CoreDNS and global-dns of each cluster.
    processes: Vec<Process>,
    /// Database processes in start order.
    pub databases: Vec<Process>,
    directory: TempDir,
}

/// Creates the networks of the clusters and the bridge between them. The first one is the network of this thread.
pub fn connected_networks() -> Result<([Network; CLUSTERS.len()], Network)> {
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
    Ok((networks, bridge))
}

/// Adds a pod address in the member's own cluster, and a synthetic address in each other cluster.
pub fn connect_member(networks: &[Network; CLUSTERS.len()], member: &Member) -> Result<()> {
    let pod = member.pod_address();
    networks[member.cluster].ip(&format!("address add {pod}/32 dev lo"))?;
    let mut rulesets = ALL.map(|viewer| member.proxy_rules(viewer));
    for (index, (_, port)) in member.service.port_numbers.iter().enumerate() {
        let gateway_port = member.gateway_port(index);
        rulesets[member.cluster] += &format!(
            "add rule ip gateway prerouting iifname eth0 tcp dport {gateway_port} dnat to {pod}:{port}\n"
        );
    }
    let networks = networks.iter().zip(&rulesets);
    networks
        .filter(|(_, ruleset)| !ruleset.is_empty())
        .try_for_each(|(network, ruleset)| network.nft(ruleset))
}

// === impl Clusters ===

impl Clusters {
    /// Starts three clusters with these pods and links between some of the clusters. The databases are not running yet.
    pub fn start(members: &[Member], linked: &[usize]) -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix(&format!("global-dns-{}-", suite_name()))
            .tempdir()?;
        let (networks, bridge) = connected_networks()?;
        let mut clusters = Self {
            networks,
            bridge,
            services: Vec::new(),
            members: Vec::new(),
            lost: Vec::new(),
            linked: linked.iter().copied().collect(),
            disconnected: None,
            expected: None,
            failover: None,
            api: Cluster::start()?,
            processes: Vec::new(),
            databases: Vec::new(),
            directory,
        };
        for object in [namespace(NAMESPACE), node("node-0")] {
            clusters.api.put(&object)?;
        }
        clusters.add(members)?;
        clusters.write_objects()?;
        for cluster in 0..CLUSTERS.len() {
            clusters.start_dns(cluster)?;
        }
        Ok(clusters)
    }

    /// Adds members: a pod address in the member's own cluster, and a synthetic address in each other cluster.
    pub fn add(&mut self, members: &[Member]) -> Result<()> {
        for member in members {
            connect_member(&self.networks, member)?;
            if !self.services.contains(&member.service) {
                self.services.push(member.service);
            }
            self.members.push(*member);
        }
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
            for service in &self.services {
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

    /// Returns the addresses of a service's pods in these clusters, from the view of a cluster.
    pub fn addresses(
        &self,
        viewer: usize,
        service: &Service,
        clusters: &[usize],
    ) -> BTreeSet<String> {
        let members = self.members.iter();
        let members = members
            .filter(|member| member.service == service && clusters.contains(&member.cluster));
        members.map(|member| member.address_in(viewer)).collect()
    }

    /// Asserts that the answer for a service in a cluster has exactly the members of these clusters.
    pub fn check_answer(&self, viewer: usize, service: &Service, clusters: &[usize]) -> Result<()> {
        let expected = self.addresses(viewer, service, clusters);
        let name = format!("{}.{NAMESPACE}.global", service.name);
        eventually(&format!("{name} in {}", CLUSTERS[viewer].name), || {
            let got = self.dig(viewer, &name, "A")?;
            ensure!(got == expected, "it is {got:?}, expected {expected:?}");
            Ok(())
        })
    }

    /// Asserts that both names of every member resolve in every cluster, even if its gateway is down.
    fn check_member_names(&self) -> Result<()> {
        for (viewer, member) in self.views_of_members() {
            for name in [member.global_name(), member.own_name()] {
                let got = self.dig(viewer, &name, "A")?;
                ensure!(
                    got == BTreeSet::from([member.address_in(viewer)]),
                    "{name} in {}: {got:?}",
                    CLUSTERS[viewer].name
                );
            }
        }
        Ok(())
    }

    /// Returns the data of the records in an answer of CoreDNS.
    fn dig(&self, cluster: usize, name: &str, kind: &str) -> Result<BTreeSet<String>> {
        let server = format!("@{CLUSTER_DNS}");
        let arguments = [&server, "+short", "+tries=1", "+time=10", name, kind];
        let text = self.networks[cluster].run("dig", &arguments)?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Builds a command in a pod: in the network of its cluster, with the `resolv.conf` of a pod.
    pub fn pod_command(&self, cluster: usize, program: &Path) -> Result<Command> {
        let bound = vec![self.resolver("cluster.local")?];
        self.networks[cluster].command(program, &Files { bound })
    }

    /// Builds a command that runs a shell script in the pod of a member: with its host name and, as kubelet writes them, its
    /// `resolv.conf` and `hosts` (`managedHostsFileContent` in `pkg/kubelet/kubelet_pods.go`). So `hostname -f` prints the
    /// member's own name.
    pub fn member_command(&self, member: Member, script: &str) -> Result<Command> {
        let (name, host) = (member.own_name(), member.host());
        let file = self.directory.path().join(format!("hosts-{name}"));
        let text = format!(
            "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
             fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n\
             {}\t{name}\t{host}\n",
            member.pod_address()
        );
        fs::write(&file, text)?;
        let resolver = self.resolver(&CLUSTERS[member.cluster].domain())?;
        let bound = vec![resolver, (file, PathBuf::from("/etc/hosts"))];
        let network = &self.networks[member.cluster];
        let mut command = network.command(&tool("unshare")?, &Files { bound })?;
        let script = format!("hostname {host} && {script}");
        command.args(["--uts", "--", "sh", "-c", &script]);
        Ok(command)
    }

    /// Writes the `resolv.conf` of the pods of a cluster with this domain. Returns it with its mount point.
    fn resolver(&self, domain: &str) -> Result<(PathBuf, PathBuf)> {
        let file = self.directory.path().join(format!("resolv.conf-{domain}"));
        fs::write(
            &file,
            format!(
                "search {NAMESPACE}.svc.{domain} svc.{domain} {domain}\n\
                 nameserver {CLUSTER_DNS}\noptions ndots:5\n"
            ),
        )?;
        Ok((file, PathBuf::from("/etc/resolv.conf")))
    }

    /// Returns the network of a cluster. That of `east` is the network of the test's thread.
    pub fn network(&self, cluster: usize) -> &Network {
        &self.networks[cluster]
    }

    /// Returns the directory of all files of the clusters.
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
        let others = CLUSTERS.iter().filter(|other| other.name != site.name);
        let own_names = Section::read("forwarding.md", "Own names of another cluster")?;
        let own_names = own_names.texts("corefile")?.concat();
        let (mut zones, mut stanzas) = ("global".to_owned(), String::new());
        for other in others {
            let (name, domain) = (other.name, other.domain());
            zones += &format!(", {{name: svc.{domain}, cluster: {name}}}");
            stanzas += &own_names.replace("west.example", &domain);
        }
        let arguments = [
            "serve",
            "--listen",
            GLOBAL_DNS_POD,
            "--cluster-name",
            site.name,
            &format!("zones=[{zones}]"),
            // CoreDNS sends from the address of the gateway, which is one for documentation.
            "limits.allow=[0.0.0.0/0]",
        ];
        add_arguments(&mut serve, &arguments);
        if cluster == EAST {
            serve.arg("--kubeconfig").arg(&self.api.kubeconfig);
        } else {
            serve.arg("--file").arg(self.manifest(cluster));
        }
        let name = format!("global-dns-{}", site.name);
        self.processes.push(Process::start(name, serve)?);

        let own_services = if cluster == EAST {
            let kubeconfig = self.api.kubeconfig.display();
            format!("kubernetes {{\n        kubeconfig {kubeconfig} admin\n    }}")
        } else {
            format!("file {}", self.write_own_zone(cluster)?.display())
        };
        let stanza = fs::read_to_string(repository("coredns/Corefile"))?;
        let corefile = self
            .directory
            .path()
            .join(format!("Corefile-{}", site.name));
        fs::write(
            &corefile,
            format!(
                "cluster.local:53 {}:53 {{\n    errors\n    {own_services}\n}}\n{stanza}\n{stanzas}",
                site.domain()
            ),
        )?;
        let mut coredns = network.command(&tool("coredns")?, &Files::default())?;
        coredns.arg("-conf").arg(&corefile);
        let name = format!("coredns-{}", site.name);
        self.processes.push(Process::start(name, coredns)?);

        eventually("an answer through CoreDNS", || {
            let processes = &mut self.processes;
            processes.iter_mut().try_for_each(Process::check)?;
            // Not through the cluster IP: tests translate that address later, and the kernel does not translate packets of
            // connections that it has tracked before.
            let arguments = ["@127.0.0.1", "+tries=1", "+time=10", "global", "SOA"];
            let text = self.networks[cluster].run("dig", &arguments)?;
            ensure!(text.contains("status: NOERROR"), "{text}");
            Ok(())
        })
    }

    /// Writes the zone of a cluster without API server: what the plugin `kubernetes` of its CoreDNS would answer about the
    /// members. The names are relative to the domain.
    fn write_own_zone(&self, cluster: usize) -> Result<PathBuf> {
        let file = self.directory.path().join(CLUSTERS[cluster].domain());
        let own = self.members.iter();
        let records = own
            .filter(|member| member.cluster == cluster)
            .map(|member| {
                let (host, service) = (member.host(), member.service.name);
                let address = member.pod_address();
                format!("{host}.{service}.{NAMESPACE}.svc 5 IN A {address}\n")
            });
        let head = "@ 5 IN SOA ns.dns hostmaster 1 7200 1800 86400 5\n@ 5 IN NS ns.dns\n";
        fs::write(&file, head.to_owned() + &records.collect::<String>())?;
        Ok(file)
    }

    fn manifest(&self, cluster: usize) -> PathBuf {
        let name = format!("objects-{}.yaml", CLUSTERS[cluster].name);
        self.directory.path().join(name)
    }

    fn view(&self, viewer: usize) -> View<'_> {
        View {
            viewer,
            services: &self.services,
            members: &self.members,
            is_linked: ALL.map(|cluster| {
                cluster != viewer && self.linked.contains(&cluster) && self.linked.contains(&viewer)
            }),
            expected: self.expected.as_ref(),
            failover: self.failover.as_ref().filter(|_| viewer == EAST),
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
