//! A Kubernetes cluster of real parts on this machine: the control plane in the network namespace of the test, and two nodes with
//! containerd, kubelet and kube-proxy in namespaces of their own (`node.sh`). A bridge connects them.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::cluster::Cluster;
use support::commands::{binary, command, guarded, tool};
use support::networks::{Files, Network};
use support::process::{Process, run_checked};
use support::repository::repository;
use support::wait::eventually;

/// The address of the control plane. Node N has 10.250.0.1N, and its pods 10.244.N.0/24.
const CONTROL_PLANE: &str = "10.250.0.2";
const NODES: [usize; 2] = [1, 2];
/// The script that runs in a node, and removes control groups.
const SCRIPT: &str = "tests/system/cluster/node.sh";
/// Selects the pods of the server.
pub const SERVERS: &str = "app.kubernetes.io/name=global-dns,app.kubernetes.io/component=server";

/// A running cluster. Neither node has a label of zones, as with kubeadm and kind.
pub struct Lab {
    /// The control plane.
    pub cluster: Cluster,
    /// The folder in which commands of the manual run.
    pub folder: PathBuf,
    /// The first process of each node. With it, everything in the node ends.
    nodes: Vec<Process>,
    networks: Vec<Network>,
    _scheduler: Process,
}

/// A pod of the server.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The node that it runs on.
    pub node: String,
    /// Whether it is ready and not being deleted.
    pub is_ready: bool,
    /// How often its container has restarted.
    pub restarts: u64,
}

// === impl Lab ===

impl Lab {
    /// Starts everything. Returns when both nodes are ready.
    pub fn start() -> Result<Self> {
        let machine = Network::of_this_thread();
        machine.ip("link add lan type bridge")?;
        machine.ip(&format!("address add {CONTROL_PLANE}/24 dev lan"))?;
        machine.ip("link set lan up")?;
        let cluster = Cluster::start_for_nodes(CONTROL_PLANE)?;
        let mut scheduler = guarded(tool("kube-scheduler")?);
        scheduler.arg(format!("--kubeconfig={}", cluster.kubeconfig.display()));
        scheduler.arg("--leader-elect=false");
        let folder = cluster.directory().join("manual");
        fs::create_dir(&folder)?;
        symlink(repository("charts"), folder.join("charts"))?;
        symlink(repository("coredns"), folder.join("coredns"))?;
        symlink(binary(), folder.join("global-dns"))?;
        let mut lab = Self {
            cluster,
            folder,
            nodes: Vec::new(),
            networks: Vec::new(),
            _scheduler: Process::start("kube-scheduler", scheduler)?,
        };
        for number in NODES {
            lab.start_node(number)?;
        }
        eventually("two ready nodes", || {
            lab.nodes.iter_mut().try_for_each(Process::check)?;
            let nodes = lab.cluster.objects("v1", "Node", "")?;
            ensure!(
                nodes.iter().filter(|node| is_ready(node)).count() == 2,
                "{nodes:?}"
            );
            Ok(())
        })?;
        Ok(lab)
    }

    fn start_node(&mut self, number: usize) -> Result<()> {
        let (machine, network) = (Network::of_this_thread(), Network::new()?);
        let end = format!("node-{number}");
        machine.connect(&end, &network, "eth0")?;
        let route = format!("route add 10.244.{number}.0/24 via 10.250.0.1{number}");
        machine.ip(&format!("link set {end} master lan up"))?;
        machine.ip(&route)?;
        let images = env::var("GLOBAL_DNS_TEST_IMAGES").context("use tests/run cluster")?;
        let mut node = network.command(&repository(SCRIPT), &Files::default())?;
        node.args(["run", &number.to_string(), &images]);
        node.arg(self.cluster.directory().join(&end));
        node.env("PATH", self.path()?);
        node.env("KUBECONFIG", &self.cluster.kubeconfig);
        self.nodes.push(Process::start(end, node)?);
        self.networks.push(network);
        Ok(())
    }

    /// The second node has no power any more.
    pub fn lose_second_node(&mut self) {
        self.nodes[1].kill();
    }

    /// Returns the network of the first node.
    pub fn network(&self) -> &Network {
        &self.networks[0]
    }

    /// Returns the PATH of commands: with the programs of the cluster and the command-line program.
    fn path(&self) -> Result<String> {
        let tools =
            env::var("GLOBAL_DNS_TEST_TOOLS").context("no programs; run tests/run cluster")?;
        Ok(format!(
            "{}:{tools}:{}",
            self.folder.display(),
            env::var("PATH")?
        ))
    }

    /// Runs commands in a shell outside the cluster, as the manual prints them. Returns their standard output.
    pub fn shell(&self, commands: &str) -> Result<String> {
        run_checked(&mut self.command(commands)?)
    }

    /// Returns the command of a shell, which may fail.
    pub fn command(&self, commands: &str) -> Result<Command> {
        let mut shell = command("bash");
        shell.args(["-euo", "pipefail", "-c", commands]);
        shell.current_dir(&self.folder).env("PATH", self.path()?);
        shell.env("KUBECONFIG", &self.cluster.kubeconfig);
        shell.env("HELM_CACHE_HOME", &self.folder);
        Ok(shell)
    }

    /// Returns the pods of the server in namespace `global-dns`, also those that end.
    pub fn servers(&self) -> Result<Vec<Pod>> {
        let pods = self.cluster.objects("v1", "Pod", SERVERS)?;
        let own = pods
            .iter()
            .filter(|pod| pod["metadata"]["namespace"] == "global-dns");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pod = |pod: &Value| Pod {
            name: text(&pod["metadata"]["name"]),
            uid: text(&pod["metadata"]["uid"]),
            node: text(&pod["spec"]["nodeName"]),
            is_ready: is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null(),
            restarts: pod["status"]["containerStatuses"][0]["restartCount"]
                .as_u64()
                .unwrap_or(0),
        };
        Ok(own.map(pod).collect())
    }

    /// Returns the warnings about a pod: a line for each text, with its number.
    pub fn warnings(&self, pod: &Pod) -> Result<String> {
        let selector = format!("type=Warning,involvedObject.name={}", pod.name);
        let line = "{range .items[*]}{.count} {.message}{\"\\n\"}{end}";
        self.shell(&format!(
            "kubectl -n global-dns get events --field-selector {selector} -o jsonpath='{line}'"
        ))
    }

    /// Returns what Kubernetes says about an installation, for an error.
    pub fn describe(&self, namespace: &str) -> String {
        let described = self.shell(&format!(
            "kubectl -n {namespace} get pods,events -o wide
             kubectl -n {namespace} logs --tail=20 --prefix --selector app.kubernetes.io/component=server"
        ));
        described.unwrap_or_else(|error| format!("{error:#}"))
    }

    /// Fails unless there are two pods of the server, which are ready and on different nodes.
    pub fn check_spread(&self) -> Result<()> {
        let pods = self.servers()?;
        let ready = pods.iter().filter(|pod| pod.is_ready);
        let nodes: BTreeSet<&str> = ready.map(|pod| pod.node.as_str()).collect();
        ensure!(pods.len() == 2 && nodes.len() == 2, "{pods:?}");
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.nodes.clear();
        let remove = || run_checked(command(repository(SCRIPT)).arg("remove"));
        // The processes in the control groups end asynchronously.
        if let Err(error) = eventually("the end of all processes of the nodes", remove) {
            eprintln!("cannot remove the control groups: {error:#}");
        }
    }
}

/// Returns whether a node or a pod has the condition Ready.
fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let is_met = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
    conditions.is_some_and(|all| all.iter().any(is_met))
}
