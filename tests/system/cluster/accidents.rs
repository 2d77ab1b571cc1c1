//! What happens to an installation in its life: each accident with the number of queries that may fail on each way.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use support::manual::Section;
use support::process::run;
use support::wait::eventually;

use super::clients::Limits;
use super::installation::{RESTART_COREDNS, ROLLOUT, settle};
use super::lab::{Lab, Pod, SERVERS};

/// Readiness probes of a pod between the withdrawal of its readiness, 12 s before its end, and its end; and one more.
const PROBES_OF_STOP: u64 = 7;
/// The duration of an outage of the API server.
const OUTAGE: Duration = Duration::from_secs(120);
/// The shortest lifetime of the token of a pod.
const TOKEN_LIFETIME: Duration = Duration::from_secs(600);

/// What may fail until probes of the kubelet find that a replica does not answer: kube-proxy sends it every second try.
const UNSEEN_END: Limits = [6, 6, 8, 4];

/// Something that happens while clients ask.
pub struct Accident {
    pub name: &'static str,
    pub act: fn(&mut Lab) -> Result<()>,
    /// How many queries may fail after all tries.
    pub limits: Limits,
    /// Whether only `tests/run cluster --all` has it.
    pub is_rare: bool,
}

/// All accidents in their order. A node is lost at the end, because it does not return.
pub const ACCIDENTS: [Accident; 16] = [
    usual("rolling update", update),
    rare("rollback", roll_back),
    failing(UNSEEN_END, usual("kill -9 of a replica", kill)),
    usual("eviction of a replica", evict),
    usual("both replicas deleted", delete_both),
    rare(
        "both deleted, no node takes pods for a while",
        delete_both_without_room,
    ),
    usual("drain of a node", drain),
    rare("refused settings", refuse_settings),
    rare("image that does not exist", use_wrong_tag),
    failing(UNSEEN_END, rare("a replica is stopped", stop)),
    rare("API server away for two minutes", lose_api_server),
    rare("permissions removed and restored", remove_permissions),
    rare("CoreDNS restarted", restart_coredns),
    rare("scaled to 3, 1, 2", scale),
    rare("tokens of ten minutes", outlive_token),
    failing([20, 20, 60, 10], usual("a node is lost", lose_node)),
];

const fn usual(name: &'static str, act: fn(&mut Lab) -> Result<()>) -> Accident {
    Accident {
        name,
        act,
        limits: [0; 4],
        is_rare: false,
    }
}

const fn rare(name: &'static str, act: fn(&mut Lab) -> Result<()>) -> Accident {
    Accident {
        is_rare: true,
        ..usual(name, act)
    }
}

const fn failing(limits: Limits, accident: Accident) -> Accident {
    Accident { limits, ..accident }
}

/// Saves the values and upgrades, with the commands of the manual. The last one there rolls back.
fn upgrade(lab: &Lab, flags: &str) -> Result<()> {
    let commands = Section::read("install.md", "Upgrade and roll back")?
        .texts("sh")?
        .concat();
    let (upgrade, _) = commands
        .trim_end()
        .rsplit_once('\n')
        .context("no commands")?;
    lab.shell(&format!("{upgrade} {flags}")).map(drop)
}

fn roll_back(lab: &mut Lab) -> Result<()> {
    let commands = Section::read("install.md", "Upgrade and roll back")?
        .texts("sh")?
        .concat();
    lab.shell(commands.lines().last().context("no commands")?)?;
    settle(lab)?;
    lab.check_spread()
}

/// A pod that ends has at most a warning for each readiness probe after its readiness was withdrawn, and no other.
fn update(lab: &mut Lab) -> Result<()> {
    let old = lab.servers()?;
    upgrade(lab, "--set config.history=12h")?;
    settle(lab)?;
    for warning in old
        .iter()
        .map(|pod| lab.warnings(pod))
        .collect::<Result<String>>()?
        .lines()
    {
        let (count, text) = warning.split_once(' ').context("no number")?;
        let is_expected =
            text.starts_with("Readiness probe failed") && count.parse::<u64>()? <= PROBES_OF_STOP;
        ensure!(is_expected, "{warning}");
    }
    lab.check_spread()
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
    let Pod {
        name,
        uid,
        restarts,
        ..
    } = first_pod(lab)?;
    lab.shell(&format!(
        "for process in $(pgrep -x global-dns); do
             if grep -q pod{uid} /proc/$process/cgroup; then kill -s {signal} $process; fi
         done"
    ))?;
    eventually("a restart", || {
        let pods = lab.servers()?;
        ensure!(
            pods.iter()
                .any(|pod| pod.name == name && pod.restarts > restarts),
            "{pods:?}"
        );
        Ok(())
    })?;
    settle(lab)
}

fn first_pod(lab: &Lab) -> Result<Pod> {
    lab.servers()?.into_iter().next().context("no pod")
}

fn evict(lab: &mut Lab) -> Result<()> {
    let name = first_pod(lab)?.name;
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
    lab.shell("kubectl cordon node-1 node-2")?;
    lab.shell(&format!(
        "kubectl -n global-dns delete pod --wait=false -l {SERVERS}"
    ))?;
    eventually("two pods without a node", || {
        let pods = lab.servers()?;
        ensure!(
            pods.iter().filter(|pod| pod.node.is_empty()).count() == 2,
            "{pods:?}"
        );
        Ok(())
    })?;
    lab.shell("kubectl uncordon node-1 node-2")?;
    settle(lab)
}

/// Afterwards, both replicas are on one node until the next rollout.
fn drain(lab: &mut Lab) -> Result<()> {
    lab.shell("kubectl drain node-2 --ignore-daemonsets --delete-emptydir-data --timeout=120s")?;
    settle(lab)?;
    lab.shell("kubectl uncordon node-2")?;
    spread_again(lab)
}

fn spread_again(lab: &Lab) -> Result<()> {
    lab.shell("kubectl -n global-dns rollout restart deployment global-dns")?;
    settle(lab)?;
    lab.check_spread()
}

/// The rollout stops, and the old pods answer.
fn refuse_settings(lab: &mut Lab) -> Result<()> {
    upgrade(
        lab,
        r#"--wait=false --set-json 'config.aliases={"a/b":["c/d"],"c/d":["a/b"]}'"#,
    )?;
    await_stopped_rollout(lab, "CrashLoopBackOff")
}

fn use_wrong_tag(lab: &mut Lab) -> Result<()> {
    upgrade(lab, "--wait=false --set image.tag=0.9.9")?;
    await_stopped_rollout(lab, "ImagePullBackOff")
}

fn await_stopped_rollout(lab: &mut Lab, reason: &str) -> Result<()> {
    said(lab, "kubectl -n global-dns get pods", reason)?;
    let rollout = lab.shell(&ROLLOUT.replace("120s", "1s"));
    ensure!(rollout.is_err(), "the rollout has ended");
    roll_back(lab)
}

/// Waits until a command prints a text.
fn said(lab: &Lab, command: &str, text: &str) -> Result<()> {
    eventually(text, || {
        let output = lab.shell(command)?;
        ensure!(output.contains(text), "{output}");
        Ok(())
    })
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
    let log = format!("kubectl -n global-dns logs {}", first_pod(lab)?.name);
    lab.shell("kubectl get clusterrolebinding global-dns -o yaml >binding.yaml && kubectl delete -f binding.yaml")?;
    said(lab, &log, "403")?;
    lab.shell("kubectl create -f binding.yaml")?;
    said(lab, &log, "Problem is over")
}

fn restart_coredns(lab: &mut Lab) -> Result<()> {
    lab.shell(RESTART_COREDNS).map(drop)
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
    let seen = said(lab, "global-dns explain db.prod -o json", "\"ttl\": 7");
    lab.shell("kubectl -n prod annotate service db global-dns/ttl-")?;
    seen
}

/// Only one of two replicas answers until the node counts as lost, after less than a minute. Until then, kube-proxy sends each
/// second try to the lost one, so that one of eight direct queries fails. CoreDNS finds the other one; a SERVFAIL of the moment
/// between stays in its cache for five seconds.
fn lose_node(lab: &mut Lab) -> Result<()> {
    lab.check_spread()?;
    lab.lose_second_node();
    said(lab, "kubectl get nodes", "NotReady")?;
    let output = run(&mut lab.command("global-dns check")?).stdout;
    ensure!(
        output.contains("node-2"),
        "check does not name the lost node: {output}"
    );
    Ok(())
}
