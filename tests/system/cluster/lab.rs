//! A Kubernetes cluster of real parts on this machine: the control plane in the network namespace of the test, and two nodes with
//! containerd, kubelet and kube-proxy in namespaces of their own. A bridge connects them.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use support::cluster::Cluster;
use support::commands::{binary, command, guarded, tool};
use support::networks::{Files, Network};
use support::process::{Process, run, run_checked};
use support::repository::repository;
use support::wait::eventually;

/// The address of the control plane, and of a name server that plays the Internet: every name is NXDOMAIN.
const CONTROL_PLANE: &str = "10.250.0.2";
const INTERNET: &str = ".:53 {\n bind 10.250.0.2\n template ANY ANY {\n  rcode NXDOMAIN\n  \
    authority \". 60 IN SOA a.root-servers.net. nstld.verisign-grs.com. 1 1800 900 604800 60\"\n }\n}\n";
/// The script that runs in a node, and removes control groups.
const SCRIPT: &str = "tests/system/cluster/node.sh";
/// Selects the pods of the server.
pub const SERVERS: &str = "app.kubernetes.io/name=global-dns,app.kubernetes.io/component=server";

/// Where a node is in the network.
struct Site {
    name: &'static str,
    address: &'static str,
    pods: &'static str,
}

const SITES: [Site; 2] = [
    Site {
        name: "a",
        address: "10.250.0.11",
        pods: "10.244.1.0/24",
    },
    Site {
        name: "b",
        address: "10.250.0.12",
        pods: "10.244.2.0/24",
    },
];

/// A running cluster. Neither node has a label of zones, as with kubeadm and kind.
pub struct Lab {
    /// The control plane.
    pub cluster: Cluster,
    /// The folder in which commands of the manual run.
    pub folder: PathBuf,
    nodes: Vec<Node>,
    _others: Vec<Process>,
}

/// A node. Without its first process, everything in it ends.
struct Node {
    network: Network,
    first: Process,
}

/// A pod of the server.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// The node that it runs on.
    pub node: String,
    uid: String,
    /// Whether it is ready and not being deleted.
    pub is_ready: bool,
}

/// Warnings of a kubelet about a pod that have one text.
#[derive(Debug)]
pub struct Warning {
    /// The text.
    pub message: String,
    /// How often it was said.
    pub count: u64,
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
        let directory = cluster.directory().to_owned();
        let mut scheduler = guarded(tool("kube-scheduler")?);
        scheduler.arg(format!("--kubeconfig={}", cluster.kubeconfig.display()));
        scheduler.arg("--leader-elect=false");
        let corefile = directory.join("internet");
        fs::write(&corefile, INTERNET)?;
        let mut internet = guarded(tool("coredns")?);
        internet.arg("-conf").arg(&corefile);
        let folder = directory.join("manual");
        fs::create_dir(&folder)?;
        std::os::unix::fs::symlink(repository("charts"), folder.join("charts"))?;
        std::os::unix::fs::symlink(repository("coredns"), folder.join("coredns"))?;
        std::os::unix::fs::symlink(binary(), folder.join("global-dns"))?;
        let mut lab = Self {
            cluster,
            folder,
            nodes: Vec::new(),
            _others: vec![
                Process::start("kube-scheduler", scheduler)?,
                Process::start("internet", internet)?,
            ],
        };
        for site in &SITES {
            let node = lab.start_node(site)?;
            lab.nodes.push(node);
        }
        eventually("two ready nodes", || {
            lab.nodes
                .iter_mut()
                .try_for_each(|node| node.first.check())?;
            let nodes = lab.cluster.objects("v1", "Node", "")?;
            let ready = nodes.iter().filter(|node| is_ready(node)).count();
            ensure!(ready == SITES.len(), "{ready} nodes are ready");
            Ok(())
        })?;
        Ok(lab)
    }

    fn start_node(&self, site: &Site) -> Result<Node> {
        let (machine, network) = (Network::of_this_thread(), Network::new()?);
        let end = format!("node-{}", site.name);
        machine.connect(&end, &network, "eth0")?;
        machine.ip(&format!("link set {end} master lan up"))?;
        machine.ip(&format!("route add {} via {}", site.pods, site.address))?;
        network.ip(&format!("address add {}/24 dev eth0", site.address))?;
        network.ip("link set eth0 up")?;
        network.ip(&format!("route add default via {CONTROL_PLANE}"))?;
        for other in SITES.iter().filter(|other| other.name != site.name) {
            network.ip(&format!("route add {} via {}", other.pods, other.address))?;
        }
        let folder = self.cluster.directory().join(&end);
        let images =
            env::var_os("GLOBAL_DNS_TEST_IMAGES").context("no images; run tests/run cluster")?;
        let mut first = network.command(&tool("unshare")?, &Files::default())?;
        first.args([
            "--mount",
            "--pid",
            "--uts",
            "--ipc",
            "--fork",
            "--kill-child",
        ]);
        first.args(["--mount-proc", "--propagation", "private", "--", "bash"]);
        first
            .arg(repository(SCRIPT))
            .args(["run", site.name, site.address, site.pods]);
        first.arg(folder).arg(&self.cluster.kubeconfig).arg(images);
        first.env("PATH", self.path()?);
        let first = Process::start(end, first)?;
        Ok(Node { network, first })
    }

    /// The second node has no power any more.
    pub fn lose_second_node(&mut self) -> Result<String> {
        let mut node = self.nodes.pop().context("no node")?;
        node.first.kill();
        Ok(format!("node-{}", SITES[1].name))
    }

    /// Returns the network of the first node.
    pub fn network(&self) -> &Network {
        &self.nodes[0].network
    }

    /// Returns the PATH of commands: with the programs of the cluster and the command-line program.
    fn path(&self) -> Result<String> {
        let tools =
            env::var("GLOBAL_DNS_TEST_TOOLS").context("no programs; run tests/run cluster")?;
        let path = env::var("PATH")?;
        Ok(format!("{}:{tools}:{path}", self.folder.display()))
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
        let in_namespace = |pod: &&Value| pod["metadata"]["namespace"] == "global-dns";
        let own = pods.iter().filter(in_namespace);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pod = |pod: &Value| Pod {
            name: text(&pod["metadata"]["name"]),
            node: text(&pod["spec"]["nodeName"]),
            uid: text(&pod["metadata"]["uid"]),
            is_ready: is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null(),
        };
        Ok(own.map(pod).collect())
    }

    /// Returns the warnings about a pod.
    pub fn warnings(&self, pod: &Pod) -> Result<Vec<Warning>> {
        let selector = format!(
            "fieldSelector=type=Warning,involvedObject.name={}",
            pod.name
        );
        let path = format!("/api/v1/namespaces/global-dns/events?{selector}");
        let events = self.cluster.read(&path)?;
        let events = events["items"].as_array().into_iter().flatten();
        let warning = |event: &Value| Warning {
            message: event["message"].as_str().unwrap_or_default().to_owned(),
            count: event["count"].as_u64().unwrap_or(1),
        };
        Ok(events.map(warning).collect())
    }

    /// Returns what Kubernetes says about an installation, for an error.
    pub fn describe(&self, namespace: &str) -> String {
        let commands = format!(
            "kubectl -n {namespace} get pods,events -o wide
             kubectl -n {namespace} logs --tail=20 --prefix --selector app.kubernetes.io/component=server"
        );
        let described = self
            .command(&commands)
            .map(|mut command| run(&mut command).output());
        described.unwrap_or_else(|error| error.to_string())
    }

    /// Fails unless so many pods of the server are ready, on different nodes.
    pub fn check_spread(&self, count: usize) -> Result<()> {
        let pods = self.servers()?;
        let ready = pods.iter().filter(|pod| pod.is_ready);
        let mut nodes: Vec<&str> = ready.map(|pod| &*pod.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        ensure!(pods.len() == count && nodes.len() == count, "{pods:?}");
        Ok(())
    }

    /// Returns the process of the server in a pod, as this machine sees it.
    pub fn process_of(&self, pod: &Pod) -> Result<String> {
        let of_pod = format!("pod{}", pod.uid);
        for process in fs::read_dir("/proc")?.flatten() {
            let read =
                |file: &str| fs::read_to_string(process.path().join(file)).unwrap_or_default();
            if read("cgroup").contains(&of_pod) && read("comm").trim() == "global-dns" {
                return Ok(process.file_name().to_string_lossy().into_owned());
            }
        }
        bail!("no process in {}", pod.name)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.nodes.clear();
        let remove = || {
            let mut remove = command("unshare");
            remove.args(["--mount", "--propagation", "private", "bash"]);
            run_checked(remove.arg(repository(SCRIPT)).arg("remove"))
        };
        // The processes in the control groups end asynchronously.
        if let Err(error) = eventually("the end of all processes of the nodes", remove) {
            eprintln!("cannot remove the control groups: {error:#}");
        }
    }
}

/// Returns whether a node or a pod has the condition Ready.
fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let mut ready = conditions.filter(|one| one["type"] == "Ready");
    ready.any(|one| one["status"] == "True")
}
