//! Commands find a replica through a real API server. A kubelet of `support::kubelet` forwards the port.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::commands::global_dns;
use support::kubelet::Kubelet;
use support::objects::{node, pod_status, replica, workload};
use support::process::{self, ProcessOutput};
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

use crate::e2e::linked_clusters::state_after_recordings;

/// A user without other permissions.
const USER: &str = "stranger";
/// The namespace of the replica.
const NAMESPACE: &str = "default";
/// A zone that is not the default, so that the origin of an output is visible.
const FLAGS: [&str; 3] = [
    "--zone",
    "g.test",
    // The table does not change when the Links are known.
    "links.enabled=false",
];

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step(
        "replica_is_queried_through_the_port_forward_of_the_api_server",
        || check_with_replica(cluster, check_administrator),
    );
    steps.step(
        "documented_permissions_are_sufficient_to_query_a_replica",
        || check_with_replica(cluster, check_permissions),
    );
}

/// Runs a check while a replica is ready.
fn check_with_replica(cluster: &Cluster, check: fn(&Cluster, &Server) -> Result<()>) -> Result<()> {
    cluster.apply_state(&state_after_recordings()?)?;
    let server = Server::ready_of_cluster(&cluster.kubeconfig, &FLAGS);
    let kubelet = Kubelet::start()?;
    cluster.put(&node("node-0"))?;
    cluster.put_status(&node("node-0"), &kubelet.node_status())?;
    let release = workload("Deployment", NAMESPACE, "global-dns");
    cluster.put(&release)?;
    let pod = replica(NAMESPACE, "dns-0", server.api.port());
    cluster.put(&pod)?;
    cluster.put_status(&pod, &pod_status("192.0.2.1", true))?;
    let checked = server.with_log(check(cluster, &server));
    cluster.delete(&pod)?;
    cluster.delete(&release)?;
    checked
}

fn check_administrator(cluster: &Cluster, server: &Server) -> Result<()> {
    let table = query(cluster, "admin", &["table", "--output=json"]);
    ensure!(table.is_success() && table.stderr.is_empty(), "{table:#?}");
    let table: Value = serde_json::from_str(&table.stdout)?;
    ensure!(
        table["items"] == json!(server.try_items("table")?),
        "{table:#}"
    );
    let explained = query(cluster, "admin", &["explain", "nginx.default"]);
    ensure!(
        explained
            .stdout
            .starts_with("answered by pod default/dns-0\n\nnginx.default.g.test.\n"),
        "{explained:#?}"
    );
    Ok(())
}

/// The permissions of the manual: for all namespaces, and for `--server-namespace`. Without them, the command names what it lacks.
fn check_permissions(cluster: &Cluster, _: &Server) -> Result<()> {
    let in_namespace = vec![
        rule("", "pods", &["list"]),
        rule("", "pods/portforward", &["get", "create"]),
    ];
    let workloads = vec![
        rule("apps", "deployments", &["list"]),
        rule("apps", "daemonsets", &["list"]),
    ];
    let all = [workloads, in_namespace.clone()].concat();
    let everywhere = &["table"][..];
    let in_one = &["table", "--server-namespace", NAMESPACE][..];
    for (rules, kind, arguments, missing) in [
        (&all[..], "ClusterRole", everywhere, None),
        (&all, "Role", everywhere, Some("in all namespaces")),
        (&[], "Role", in_one, Some("list pods in namespace default")),
        (&in_namespace, "Role", in_one, None),
    ] {
        let (role, binding) = grant(kind, rules);
        cluster.put(&role)?;
        cluster.put(&binding)?;
        let checked = eventually("the effect of a grant", || {
            let ended = query(cluster, USER, arguments);
            match missing {
                None => ensure!(ended.is_success() && ended.stderr.is_empty(), "{ended:#?}"),
                Some(action) => {
                    for part in [action, "403", "is forbidden", "grant \""] {
                        ensure!(ended.stderr.contains(part), "no {part}: {ended:#?}");
                    }
                }
            }
            Ok(())
        });
        cluster.delete(&binding)?;
        cluster.delete(&role)?;
        checked?;
    }
    Ok(())
}

fn query(cluster: &Cluster, context: &str, arguments: &[&str]) -> ProcessOutput {
    let mut command = global_dns(arguments);
    command.arg("--kubeconfig").arg(&cluster.kubeconfig);
    process::run(command.args(["--context", context]))
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

/// Returns a role and its binding to the user: in the namespace of the replica, or in all.
fn grant(kind: &str, rules: &[Value]) -> (Value, Value) {
    let metadata = match kind {
        "Role" => json!({"name": "finder", "namespace": NAMESPACE}),
        _ => json!({"name": "finder"}),
    };
    let group = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": metadata, "rules": rules});
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": format!("{kind}Binding"), "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": kind, "name": "finder"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
    });
    (role, binding)
}
