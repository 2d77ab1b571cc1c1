//! What happens to an installation in its life: each accident with the number of queries that may fail on each way.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use support::manual::Section;
use support::process::run;
use support::wait::eventually;

use super::installation::{ROLLOUT, settle};
use super::lab::{Lab, Pod, SERVERS};

/// The time before its end at which a server withdraws its readiness, and the period of the readiness probe.
const READINESS_LEAD: Duration = Duration::from_secs(12);
const PROBE_PERIOD: Duration = Duration::from_secs(2);
/// The duration of an outage of the API server.
const OUTAGE: Duration = Duration::from_secs(120);
/// The shortest lifetime of the token of a pod.
const TOKEN_LIFETIME: Duration = Duration::from_secs(600);

/// Something that happens while clients ask.
pub struct Accident {
    pub name: &'static str,
    /// Whether `tests/run all` has it.
    pub is_usual: bool,
    pub act: fn(&mut Lab) -> Result<()>,
    /// How many queries may fail after all tries: through CoreDNS with a cache, and without one; of the Service from a new port
    /// each, and from one port.
    pub limits: [usize; 4],
}

/// All accidents in their order. A node is lost at the end, because it does not return.
pub const ACCIDENTS: [Accident; 16] = [
    usual("rolling update", update, [0; 4]),
    rare("rollback", roll_back, [0; 4]),
    usual("kill -9 of a replica", kill, [6, 6, 8, 4]),
    usual("eviction of a replica", evict, [0; 4]),
    usual("both replicas deleted", delete_both, [0; 4]),
    rare(
        "both deleted, no node takes pods for a while",
        delete_both_without_room,
        [0; 4],
    ),
    usual("drain of a node", drain, [0; 4]),
    rare("refused settings", refuse_settings, [0; 4]),
    rare("image that does not exist", use_wrong_tag, [0; 4]),
    rare("a replica is stopped (SIGSTOP)", stop, [0; 4]),
    rare("API server away for two minutes", lose_api_server, [0; 4]),
    rare(
        "permissions removed and restored",
        remove_permissions,
        [0; 4],
    ),
    rare("CoreDNS restarted", restart_coredns, [0; 4]),
    rare("scaled to 3, 1, 2", scale, [0; 4]),
    rare("tokens of ten minutes", outlive_token, [0; 4]),
    usual("a node is lost", lose_node, [20, 20, 60, 10]),
];

const fn usual(
    name: &'static str,
    act: fn(&mut Lab) -> Result<()>,
    limits: [usize; 4],
) -> Accident {
    Accident {
        name,
        is_usual: true,
        act,
        limits,
    }
}

const fn rare(name: &'static str, act: fn(&mut Lab) -> Result<()>, limits: [usize; 4]) -> Accident {
    Accident {
        is_usual: false,
        ..usual(name, act, limits)
    }
}

/// Commands of the manual for a new revision: save the values, upgrade, roll back.
fn upgrade_commands() -> Result<Vec<String>> {
    let commands = Section::read("install.md", "Upgrade and roll back")?.texts("sh")?;
    let commands: Vec<String> = commands[0].lines().map(str::to_owned).collect();
    ensure!(commands.len() == 3, "{commands:?}");
    Ok(commands)
}

fn upgrade(lab: &Lab, flags: &str) -> Result<()> {
    let commands = upgrade_commands()?;
    lab.shell(&format!("{}\n{} {flags}", commands[0], commands[1]))
        .map(drop)
}

fn update(lab: &mut Lab) -> Result<()> {
    let old = lab.servers()?;
    upgrade(lab, "--set config.history=12h")?;
    settle(lab)?;
    for pod in &old {
        check_warnings_of_stop(lab, pod)?;
    }
    lab.check_spread(2)
}

/// A pod that ends has at most a warning for each readiness probe after its readiness was withdrawn, and no other.
fn check_warnings_of_stop(lab: &Lab, pod: &Pod) -> Result<()> {
    let probes = READINESS_LEAD.as_secs() / PROBE_PERIOD.as_secs();
    for warning in lab.warnings(pod)? {
        let is_expected = warning.message.starts_with("Readiness probe failed");
        ensure!(is_expected && warning.count <= probes + 1, "{warning:?}");
    }
    Ok(())
}

fn roll_back(lab: &mut Lab) -> Result<()> {
    lab.shell(&upgrade_commands()?[2])?;
    settle(lab)?;
    lab.check_spread(2)
}

fn kill(lab: &mut Lab) -> Result<()> {
    restart_by_signal(lab, "KILL")
}

/// The kubelet ends a stopped server after three failed probes.
fn stop(lab: &mut Lab) -> Result<()> {
    restart_by_signal(lab, "STOP")
}

/// Sends a signal to the server in the first pod, and waits until its container has restarted.
fn restart_by_signal(lab: &Lab, signal: &str) -> Result<()> {
    let pod = lab.servers()?.swap_remove(0);
    let process = lab.process_of(&pod)?;
    lab.shell(&format!("kill -s {signal} {process}"))?;
    eventually("the next process", || {
        ensure!(lab.process_of(&pod)? != process, "the same process");
        Ok(())
    })?;
    settle(lab)
}

fn evict(lab: &mut Lab) -> Result<()> {
    let name = lab.servers()?.swap_remove(0).name;
    let url = format!("/api/v1/namespaces/global-dns/pods/{name}/eviction");
    let metadata = json!({"namespace": "global-dns", "name": name});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata});
    lab.cluster.post(&url, &eviction)?;
    settle(lab)
}

fn delete_both(lab: &mut Lab) -> Result<()> {
    lab.shell(&format!(
        "kubectl -n global-dns delete pod --wait=false -l {SERVERS}"
    ))?;
    settle(lab)
}

/// While no other pod is ready, kube-proxy sends queries to pods that end, as long as they are ready: for eight seconds.
fn delete_both_without_room(lab: &mut Lab) -> Result<()> {
    lab.shell("kubectl cordon node-a node-b")?;
    lab.shell(&format!(
        "kubectl -n global-dns delete pod --wait=false -l {SERVERS}"
    ))?;
    eventually("two pods without a node", || {
        let pods = lab.servers()?;
        let waiting = pods.iter().filter(|pod| pod.node.is_empty()).count();
        ensure!(waiting == 2, "{pods:?}");
        Ok(())
    })?;
    lab.shell("kubectl uncordon node-a node-b")?;
    settle(lab)
}

/// Afterwards, both replicas are on one node until the next rollout.
fn drain(lab: &mut Lab) -> Result<()> {
    lab.shell("kubectl drain node-b --ignore-daemonsets --delete-emptydir-data --timeout=120s")?;
    settle(lab)?;
    lab.shell("kubectl uncordon node-b")?;
    spread_again(lab)
}

fn spread_again(lab: &Lab) -> Result<()> {
    lab.shell("kubectl -n global-dns rollout restart deployment global-dns")?;
    settle(lab)?;
    lab.check_spread(2)
}

/// The rollout stops, and the old pods answer.
fn refuse_settings(lab: &mut Lab) -> Result<()> {
    upgrade(
        lab,
        "--wait=false --set-json 'config.aliases={\"a/b\":[\"c/d\"],\"c/d\":[\"a/b\"]}'",
    )?;
    await_stopped_rollout(lab, "CrashLoopBackOff")
}

fn use_wrong_tag(lab: &mut Lab) -> Result<()> {
    upgrade(lab, "--wait=false --set image.tag=0.9.9")?;
    await_stopped_rollout(lab, "ImagePullBackOff")
}

fn await_stopped_rollout(lab: &mut Lab, reason: &str) -> Result<()> {
    eventually(reason, || {
        let pods = lab.shell("kubectl -n global-dns get pods")?;
        ensure!(pods.contains(reason), "{pods}");
        Ok(())
    })?;
    let rollout = lab.shell(&ROLLOUT.replace("120s", "1s"));
    ensure!(rollout.is_err(), "the rollout has ended");
    roll_back(lab)
}

fn lose_api_server(lab: &mut Lab) -> Result<()> {
    lab.cluster.kill_api_server();
    lab.cluster.stop_controllers();
    thread::sleep(OUTAGE);
    lab.cluster.restart_api_server()?;
    lab.cluster.restart_controllers()?;
    settle(lab)
}

/// The last table answers, and watches go on when the permissions are back.
fn remove_permissions(lab: &mut Lab) -> Result<()> {
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "global-dns"}});
    let binding = lab.cluster.get(&binding)?.context("no binding")?;
    let mut binding = serde_json::to_value(binding)?;
    binding["metadata"] = json!({"name": "global-dns"});
    let pod = lab.servers()?.swap_remove(0).name;
    let said = |lab: &Lab, text: &str| {
        eventually(text, || {
            let log = lab.shell(&format!("kubectl -n global-dns logs {pod}"))?;
            ensure!(log.contains(text), "{log}");
            Ok(())
        })
    };
    lab.cluster.delete(&binding)?;
    said(lab, "403")?;
    lab.cluster.put(&binding)?;
    said(lab, "Problem is over")
}

/// Its new pods are on the first node, beside the clients, so that the loss of the second one is not that of the cluster's DNS.
fn restart_coredns(lab: &mut Lab) -> Result<()> {
    lab.shell(
        "kubectl cordon node-b
         kubectl -n kube-system rollout restart deployment coredns
         kubectl -n kube-system rollout status --timeout=120s deployment coredns
         kubectl uncordon node-b",
    )
    .map(drop)
}

fn scale(lab: &mut Lab) -> Result<()> {
    for count in [3, 1, 2] {
        lab.shell(&format!(
            "kubectl -n global-dns scale deployment global-dns --replicas={count}\n{ROLLOUT}"
        ))?;
    }
    spread_again(lab)
}

/// A kubelet renews a token when four fifths of its time are over. The server must read the new one: afterwards, it still sees
/// changes.
fn outlive_token(lab: &mut Lab) -> Result<()> {
    let token = json!({"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_LIFETIME.as_secs()}});
    let authority = json!({"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}});
    let field = json!({"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}});
    let sources = json!([token, authority, {"downwardAPI": {"items": [field]}}]);
    let volumes = json!([{"name": "account", "projected": {"sources": sources}}]);
    let mounts =
        json!([{"name": "account", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]);
    upgrade(
        lab,
        &format!("--set-json 'extraVolumes={volumes}' --set-json 'extraVolumeMounts={mounts}'"),
    )?;
    settle(lab)?;
    thread::sleep(TOKEN_LIFETIME);
    lab.shell("kubectl -n prod annotate service db global-dns/ttl=7")?;
    let seen = eventually("the changed TTL", || {
        let explained = lab.shell("global-dns explain db.prod -o json")?;
        ensure!(explained.contains("\"ttl\": 7"), "{explained}");
        Ok(())
    });
    lab.shell("kubectl -n prod annotate service db global-dns/ttl-")?;
    seen
}

/// Only one of two replicas answers until the node counts as lost, after less than a minute. Until then, kube-proxy sends each
/// second try to the lost one, so that one of eight direct queries fails. CoreDNS finds the other one; a SERVFAIL of the moment
/// between stays in its cache for five seconds.
fn lose_node(lab: &mut Lab) -> Result<()> {
    lab.check_spread(2)?;
    let node = lab.lose_second_node()?;
    eventually("the node counts as lost", || {
        let nodes = lab.shell("kubectl get nodes")?;
        ensure!(nodes.contains("NotReady"), "{nodes}");
        Ok(())
    })?;
    let mut check = lab.command("global-dns check")?;
    let output = run(&mut check).stdout;
    ensure!(
        output.contains(&node),
        "check does not name the lost node: {output}"
    );
    Ok(())
}
