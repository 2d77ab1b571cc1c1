//! A Kubernetes cluster of real parts on this machine: the control plane in the network namespace of the test, and two nodes with
//! containerd, kubelet and kube-proxy in namespaces of their own (`node.sh`). A bridge connects them.

use std::collections::BTreeSet;
use std::env;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use support::cluster::Cluster;
use support::commands::{binary, command, guarded, tool};
use support::networks::{Files, Network};
use support::process::{Process, run_checked};
use support::repository::repository;
use support::wait::{eventually, eventually_within};

/// Maximum time of what happens in a cluster, on a busy machine.
pub const LONGEST: Duration = Duration::from_secs(600);
/// The address of the control plane. Node N has 10.250.0.1N, and its pods 10.244.N.0/24.
const CONTROL_PLANE: &str = "10.250.0.2";
/// The script that runs in a node, and removes control groups.
const SCRIPT: &str = "tests/system/cluster/node.sh";
/// Selects the pods of the release that the manual installs.
const SERVERS: &str = "app.kubernetes.io/instance=global-dns,app.kubernetes.io/component=server";

/// What commands beside those of the manual use.
const FUNCTIONS: &str = r#"
k() { kubectl --namespace global-dns "$@"; }

await_rollout() { # NAMESPACE WORKLOAD
    kubectl -n "$1" rollout status --timeout=600s "$2" && return
    kubectl -n "$1" get pods,events -o wide
    kubectl -n "$1" logs --tail=20 --prefix --selector app.kubernetes.io/component=server
    return 1
}

restart() { # NAMESPACE DEPLOYMENT
    kubectl -n "$1" rollout restart deployment "$2" && await_rollout "$1" "deployment/$2"
}
"#;

/// A running cluster. Neither node has a label of zones, as with kubeadm and kind.
pub struct Lab {
    /// The control plane.
    pub cluster: Cluster,
    /// Where commands find programs: those of the cluster, and the command-line program.
    path: String,
    /// The first process of each node. With it, everything in the node ends.
    pub nodes: Vec<Process>,
    /// The network of each node.
    pub networks: Vec<Arc<Network>>,
    _scheduler: Process,
}

// === impl Lab ===

impl Lab {
    /// Starts everything. Returns when both nodes are ready.
    pub fn start() -> Result<Self> {
        let machine = Network::of_this_thread();
        machine.ip("link add lan up type bridge")?;
        machine.ip(&format!("address add {CONTROL_PLANE}/24 dev lan"))?;
        let cluster = Cluster::start_for_nodes(CONTROL_PLANE)?;
        let mut scheduler = guarded(tool("kube-scheduler")?);
        scheduler.args(["--leader-elect=false", "--kubeconfig"]);
        scheduler.arg(&cluster.kubeconfig);
        let folder = cluster.directory();
        symlink(repository("charts"), folder.join("charts"))?;
        symlink(repository("coredns"), folder.join("coredns"))?;
        symlink(binary(), folder.join("global-dns"))?;
        let tools = env::var("GLOBAL_DNS_TEST_TOOLS").context("use tests/run cluster")?;
        let mut lab = Self {
            path: format!("{}:{tools}:{}", folder.display(), env::var("PATH")?),
            cluster,
            nodes: Vec::new(),
            networks: Vec::new(),
            _scheduler: Process::start("kube-scheduler", scheduler)?,
        };
        lab.start_node(1)?;
        lab.start_node(2)?;
        let ready = lab.shell(
            "for node in node/node-1 node/node-2; do
                kubectl wait --for=create --timeout=600s $node
                kubectl wait --for=condition=Ready --timeout=600s $node
            done",
        );
        lab.nodes.iter_mut().try_for_each(Process::check)?;
        ready?;
        Ok(lab)
    }

    fn start_node(&mut self, number: usize) -> Result<()> {
        let (machine, network) = (Network::of_this_thread(), Network::new()?);
        let name = format!("node-{number}");
        let route = format!("route add 10.244.{number}.0/24 via 10.250.0.1{number}");
        machine.connect(&name, &network, "eth0")?;
        machine.ip(&format!("link set {name} master lan up"))?;
        machine.ip(&route)?;
        let images = env::var("GLOBAL_DNS_TEST_IMAGES").context("use tests/run cluster")?;
        let mut node = network.command(&repository(SCRIPT), &Files::default())?;
        node.args(["run", &number.to_string(), &images]);
        node.arg(self.cluster.directory().join(&name));
        node.env("PATH", &self.path);
        node.env("KUBECONFIG", &self.cluster.kubeconfig);
        self.nodes.push(Process::start(name, node)?);
        self.networks.push(Arc::new(network));
        Ok(())
    }

    /// Runs commands in a shell outside the cluster, as the manual prints them. Returns their standard output. An error has the commands
    /// that ran.
    pub fn shell(&self, commands: &str) -> Result<String> {
        let mut shell = command("timeout");
        shell.args(["1800", "bash", "-euxo", "pipefail", "-c"]);
        shell.arg(format!("{FUNCTIONS}\n{commands}"));
        shell.current_dir(self.cluster.directory());
        shell.env("HELM_CACHE_HOME", self.cluster.directory());
        shell.env("KUBECONFIG", &self.cluster.kubeconfig);
        shell.env("PATH", &self.path).env("SERVERS", SERVERS);
        run_checked(&mut shell)
    }

    /// Runs commands again and again until they print these texts.
    pub fn await_texts(&self, commands: &str, texts: &[&str]) -> Result<()> {
        eventually_within(commands, LONGEST, || {
            let output = self.shell(commands)?;
            let has_all = texts.iter().all(|text| output.contains(text));
            ensure!(has_all, "{texts:?} are not in: {output}");
            Ok(())
        })
    }

    /// Waits until the rollout has ended, a replica is ready on each node, and its predecessors have ended.
    pub fn settle(&self) -> Result<()> {
        self.shell("await_rollout global-dns deployment/global-dns")?;
        eventually_within("a ready replica on each node", LONGEST, || {
            let mut nodes = BTreeSet::new();
            let pods = self.cluster.objects("v1", "Pod", SERVERS)?;
            for pod in &pods {
                let is_ready = pod["status"]["containerStatuses"][0]["ready"] == true;
                if is_ready && pod["metadata"]["deletionTimestamp"].is_null() {
                    nodes.insert(pod["spec"]["nodeName"].as_str());
                }
            }
            ensure!(pods.len() == 2 && nodes.len() == 2, "{pods:?}");
            Ok(())
        })
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
