//! What happens to an installation in its life: each accident with the number of queries that may fail on each way.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::clients::Limits;
use super::installation::{check_warnings, commands};
use super::lab::Lab;

/// The duration of an outage of the API server.
const OUTAGE: Duration = Duration::from_secs(120);

/// What may fail until probes of the kubelet find that a replica does not answer: kube-proxy sends it every second try.
const UNSEEN_END: Limits = [6, 6, 8, 4];

/// Something that happens while clients ask.
pub struct Accident {
    pub name: &'static str,
    /// The cause, in a shell.
    commands: &'static str,
    /// Waits for the end, and checks what is true then. By default, one replica is ready on each node.
    end: fn(&mut Lab) -> Result<()>,
    /// How many queries may fail after all tries.
    pub limits: Limits,
    /// Whether only `tests/run cluster --all` has it.
    pub is_rare: bool,
}

/// What commands use beside `upgrade` and `roll_back`, which are commands of the manual.
const FUNCTIONS: &str = r#"
signal() { # SIGNAL, to the server in the first pod; returns when its container has restarted
    read -r pod uid restarts < <(k get pods -l $SERVERS --no-headers \
        -o custom-columns=:.metadata.name,:.metadata.uid,:.status.containerStatuses[0].restartCount)
    for process in $(pgrep -x global-dns); do
        if grep -q "pod$uid" "/proc/$process/cgroup"; then kill -s "$1" "$process"; fi
    done
    await_value .status.containerStatuses[0].restartCount $((restarts + 1)) "pod/$pod"
}

await_stopped_rollout() { # REASON of the newest pod
    await_value .status.replicas 3 deployment/global-dns
    await_value .status.containerStatuses[0].state.waiting.reason "$1" \
        "$(k get pods -l $SERVERS --sort-by=.metadata.creationTimestamp -o name | tail -n 1)"
    ! k rollout status --timeout=1s deployment/global-dns
}

await_value() { # FIELD VALUE OBJECT
    k wait --for="jsonpath={$1}=$2" --timeout=600s "$3"
}

await_text() { # TEXT COMMAND…
    until "${@:2}" | grep "$1"; do sleep 1; done
}
"#;

/// Nothing happens.
pub const NOTHING: Accident = usual("nothing", "");

/// All accidents in their order. A node is lost at the end, because it does not return.
pub const ACCIDENTS: [Accident; 16] = [
    usual("rolling update", "upgrade --set config.history=12h").ending(check_stopped_pods),
    rare("rollback", "roll_back"),
    usual("kill -9 of a replica", "signal KILL").failing(UNSEEN_END),
    usual(
        "eviction of a replica",
        r#"pod=$(k get pods -l $SERVERS -o jsonpath='{.items[0].metadata.name}')
        eviction='{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": "global-dns", "name": "'$pod'"}}'
        kubectl create --raw "/api/v1/namespaces/global-dns/pods/$pod/eviction" -f - <<<"$eviction""#,
    ),
    usual(
        "both replicas deleted",
        "k delete pod --wait=false -l $SERVERS",
    ),
    // While no other pod is ready, kube-proxy sends queries to pods that end, as long as they are ready: for eight seconds.
    rare(
        "both deleted, no node takes pods for a while",
        "kubectl cordon node-1 node-2
        k delete pod --wait=false -l $SERVERS
        until (($(k get pods --field-selector spec.nodeName= -o name | wc -l) == 2)); do sleep 0.1; done
        kubectl uncordon node-1 node-2
        await_rollout global-dns deployment/global-dns
        restart global-dns global-dns",
    ),
    // Afterwards, both replicas are on one node until the next rollout.
    usual(
        "drain of a node",
        "kubectl drain node-2 --ignore-daemonsets --delete-emptydir-data --timeout=600s
        await_rollout global-dns deployment/global-dns
        kubectl uncordon node-2
        restart global-dns global-dns",
    ),
    // The rollout stops, and the old pods answer.
    rare(
        "refused settings",
        r#"upgrade --wait=false --set-json 'config.aliases={"a/b":["c/d"],"c/d":["a/b"]}'
        await_stopped_rollout CrashLoopBackOff
        roll_back"#,
    ),
    rare(
        "image that does not exist",
        "upgrade --wait=false --set image.tag=0.9.9
        await_stopped_rollout ImagePullBackOff
        roll_back",
    ),
    // The kubelet ends a stopped server after three failed probes.
    rare("a replica is stopped", "signal STOP").failing(UNSEEN_END),
    rare("API server away for two minutes", "").ending(lose_api_server),
    // The last table answers, and watches go on when the permissions are back.
    rare(
        "permissions removed and restored",
        "log='k logs deployment/global-dns --since-time='$(date -u +%FT%TZ)
        kubectl get clusterrolebinding global-dns -o yaml >binding.yaml
        kubectl delete -f binding.yaml
        await_text 403 $log
        kubectl create -f binding.yaml
        await_text 'Problem is over' $log",
    ),
    rare("CoreDNS restarted", "restart kube-system coredns"),
    rare(
        "scaled to 3, 1, 2",
        "for count in 3 1 2; do
            k scale deployment global-dns --replicas=$count
            await_rollout global-dns deployment/global-dns
        done
        restart global-dns global-dns",
    ),
    // A kubelet renews a token when four fifths of its time are over; ten minutes are the shortest. The server must read the new
    // one: afterwards, it still sees changes.
    rare(
        "tokens of ten minutes",
        r#"upgrade --values - <<V
extraVolumes: [{name: account, projected: {sources: [
  {serviceAccountToken: {path: token, expirationSeconds: 600}}, {configMap: {name: kube-root-ca.crt}},
  {downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}}]}}]
extraVolumeMounts: [{name: account, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]
V
        sleep 600
        kubectl -n prod annotate service db global-dns/ttl=7
        await_text '"ttl": 7' global-dns explain db.prod -o json
        kubectl -n prod annotate service db global-dns/ttl-"#,
    ),
    // Only one of two replicas answers until the node counts as lost, after less than a minute. Until then, kube-proxy sends each
    // second try to the lost one, so that one of eight direct queries fails. CoreDNS finds the other one; a SERVFAIL of the moment
    // between stays in its cache for five seconds.
    usual("a node is lost", "")
        .failing([20, 20, 60, 10])
        .ending(lose_node),
];

const fn usual(name: &'static str, commands: &'static str) -> Accident {
    Accident {
        name,
        commands,
        end: |lab| lab.settle(),
        limits: [0; 4],
        is_rare: false,
    }
}

const fn rare(name: &'static str, commands: &'static str) -> Accident {
    Accident {
        is_rare: true,
        ..usual(name, commands)
    }
}

// === impl Accident ===

impl Accident {
    const fn failing(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    const fn ending(self, end: fn(&mut Lab) -> Result<()>) -> Self {
        Self { end, ..self }
    }

    /// Lets it happen.
    pub fn happen(&self, lab: &mut Lab) -> Result<()> {
        let manual = commands("install.md", "Upgrade and roll back")?;
        let (upgrade, roll_back) = manual.trim_end().rsplit_once('\n').context("no commands")?;
        let functions = format!(
            "{FUNCTIONS}\nupgrade() {{\n{upgrade} \"$@\"\n}}\nroll_back() {{\n{roll_back}\n}}"
        );
        lab.shell(&format!("{functions}\n{}", self.commands))?;
        (self.end)(lab)
    }
}

/// A pod that ends has at most a warning for each readiness probe in the 12 s after its readiness was withdrawn, and one more.
fn check_stopped_pods(lab: &mut Lab) -> Result<()> {
    lab.settle()?;
    check_warnings(lab, "sed '/: [1-7] Readiness probe failed/d'")
}

fn lose_api_server(lab: &mut Lab) -> Result<()> {
    lab.cluster.kill_api_server();
    lab.cluster.stop_controllers();
    thread::sleep(OUTAGE);
    lab.cluster.restart_api_server()?;
    lab.cluster.restart_controllers()?;
    lab.settle()
}

fn lose_node(lab: &mut Lab) -> Result<()> {
    lab.nodes[1].kill();
    lab.shell("kubectl wait --for=condition=Ready=Unknown --timeout=600s node/node-2")?;
    lab.await_texts("global-dns check || true", &["node-2"])
}
