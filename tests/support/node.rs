//! A simulated Kubernetes node in the network namespace of the thread: cluster IPs as with kube-proxy, CoreDNS at one
//! of them, and the `resolv.conf` of a pod.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster::Cluster;
use crate::commands::{command, tool};
use crate::networks::{Files, Network};
use crate::process::{Process, run, run_checked};
use anyhow::Result;

/// The cluster IP of CoreDNS in the recipes.
pub const CLUSTER_DNS: &str = "10.96.0.10";
/// The cluster IP of global-dns in the recipes.
pub const GLOBAL_DNS: &str = "10.96.0.53";
/// The address of the DNS cache on the node.
pub const NODE_CACHE: &str = "169.254.20.10";
/// The address of CoreDNS behind the node's cache.
pub const BEHIND_THE_CACHE: &str = "10.96.0.11";
/// The address of Unbound.
pub const UNBOUND: &str = "10.96.0.12";
/// The address of dnsmasq.
pub const DNSMASQ: &str = "10.96.0.13";
/// The address of BIND.
pub const BIND: &str = "10.96.0.14";
/// The address of a root server.
pub const ROOT: &str = "192.0.2.1";
/// Addresses of the global-dns pods.
pub const PODS: [&str; 2] = ["10.244.0.53", "10.244.0.54"];

/// The simulated node.
pub struct Node {
    network: Network,
    directory: PathBuf,
}

// === impl Node ===

impl Node {
    /// Adds the addresses to the namespace, and a cluster IP for the API server.
    pub fn new(cluster: &Cluster) -> Result<Self> {
        let network = Network::of_this_thread();
        for address in [
            "10.244.0.1",
            CLUSTER_DNS,
            BEHIND_THE_CACHE,
            UNBOUND,
            DNSMASQ,
            BIND,
            NODE_CACHE,
            ROOT,
        ]
        .iter()
        .chain(&PODS)
        {
            network.ip(&format!("address add {address}/32 dev lo"))?;
        }
        network.ip("route add 10.96.0.0/16 dev lo src 10.244.0.1")?;
        let api_server = cluster.address()?;
        let [first, second] = PODS;
        network.nft(&format!(
            "table ip kube-proxy {{
                chain pod-0 {{
                    meta l4proto {{ tcp, udp }} dnat to {first}:5353
                }}
                chain pod-1 {{
                    meta l4proto {{ tcp, udp }} dnat to {second}:5353
                }}
                chain global-dns {{
                }}
                chain output {{
                    type nat hook output priority -100
                    ip daddr 10.96.0.1 tcp dport 443 dnat to {api_server}
                    ip daddr {GLOBAL_DNS} meta l4proto {{ tcp, udp }} th dport 53 jump global-dns
                }}
            }}"
        ))?;
        Ok(Self {
            network,
            directory: cluster.directory().to_owned(),
        })
    }

    /// Sets the endpoints of the global-dns Service, as kube-proxy does. It replaces the rules, then deletes UDP flows
    /// to removed pods. TCP connections keep their pod.
    pub fn set_endpoints(&self, pods: &[usize]) -> Result<()> {
        let choices: Vec<String> = pods
            .iter()
            .enumerate()
            .map(|(number, pod)| format!("{number} : goto pod-{pod}"))
            .collect();
        self.network.nft(&format!(
            "flush chain ip kube-proxy global-dns
             add rule ip kube-proxy global-dns numgen random mod {} vmap {{ {} }}",
            choices.len(),
            choices.join(", ")
        ))?;
        for (number, address) in PODS.iter().enumerate() {
            if !pods.contains(&number) {
                let mut delete = command(tool("conntrack")?);
                delete.args(["-D", "-p", "udp", "--orig-dst", GLOBAL_DNS]);
                // The command fails if there is no such flow.
                run(delete.args(["--dst-nat", address]));
            }
        }
        Ok(())
    }

    /// Creates a directory for use as `/etc` of a program. Its `resolv.conf` names an unreachable server.
    pub fn create_etc(&self, name: &str) -> Result<PathBuf> {
        let etc = self.directory.join(format!("etc-{name}"));
        fs::create_dir_all(etc.join("coredns/custom"))?;
        fs::write(etc.join("resolv.conf"), "nameserver 192.0.2.53\n")?;
        Ok(etc)
    }

    /// Starts CoreDNS as in its Deployment, with `/etc/coredns/Corefile` and the API server from the environment.
    pub fn start_coredns(&self, name: &str, etc: &Path, cluster: &Cluster) -> Result<Process> {
        self.start_coredns_program("coredns", name, etc, cluster)
    }

    /// Starts another version of CoreDNS.
    pub fn start_coredns_program(
        &self,
        program: &str,
        name: &str,
        etc: &Path,
        cluster: &Cluster,
    ) -> Result<Process> {
        let run = self.directory.join("run");
        let secrets = run.join("secrets/kubernetes.io/serviceaccount");
        // Written once, because a running CoreDNS may read these files at the same time.
        if !secrets.exists() {
            fs::create_dir_all(&secrets)?;
            fs::write(secrets.join("token"), "token-of-admin")?;
            fs::copy(cluster.certificate(), secrets.join("ca.crt"))?;
        }
        let bound = vec![
            (etc.to_owned(), PathBuf::from("/etc")),
            (run, PathBuf::from("/run")),
        ];
        let mut coredns = self.network.command(&tool(program)?, &Files { bound })?;
        coredns.args(["-conf", "/etc/coredns/Corefile"]);
        coredns.env("KUBERNETES_SERVICE_HOST", "10.96.0.1");
        coredns.env("KUBERNETES_SERVICE_PORT", "443");
        Process::start(name, coredns)
    }

    /// Builds a command in the namespace, with the files of the machine.
    pub fn command(&self, program: &str) -> Result<Command> {
        self.network.command(&tool(program)?, &Files::default())
    }

    /// Runs `nslookup` for a name, as in a pod that uses this name server.
    pub fn nslookup(&self, server: SocketAddr, name: &str) -> Result<String> {
        let mut nslookup = self.pod_command("nslookup", &server.ip().to_string())?;
        run_checked(nslookup.arg(name))
    }

    /// Builds a shell of a pod that uses the CoreDNS of the cluster.
    pub fn shell(&self) -> Result<Command> {
        self.pod_command("sh", CLUSTER_DNS)
    }

    /// Builds a command with the `resolv.conf` of a pod.
    fn pod_command(&self, program: &str, server: &str) -> Result<Command> {
        let file = self.directory.join(format!("resolv.conf-{server}"));
        fs::write(
            &file,
            format!(
                "search default.svc.cluster.local svc.cluster.local cluster.local\nnameserver {server}\noptions ndots:5\n"
            ),
        )?;
        let bound = vec![(file, PathBuf::from("/etc/resolv.conf"))];
        self.network.command(&tool(program)?, &Files { bound })
    }

    /// Returns the directory of its files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Returns port 53 of an address.
pub fn dns(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), 53)
}

/// Returns the Corefile of a new cluster. On AKS and k3s, users cannot change it, and it has two imports: in its block, and after it.
pub fn new_corefile(hosts: &str, within: &str, after: &str) -> String {
    format!(
        ".:53 {{\n errors\n health\n ready\n kubernetes cluster.local in-addr.arpa ip6.arpa {{\n pods insecure\n \
         fallthrough in-addr.arpa ip6.arpa\n }}\n {hosts}\n prometheus :9153\n forward . /etc/resolv.conf\n cache 30\n \
         loop\n reload\n loadbalance\n {within}\n}}\n{after}\n"
    )
}
