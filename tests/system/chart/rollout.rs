//! A rollout, a pod that Kubernetes creates again, and a rollback, with the controllers of Deployments and ReplicaSets.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::commands::global_dns;
use support::helm::{NAMESPACE, RELEASE, container, expanded, helm_without_values};
use support::objects::namespace;
use support::process::run_checked;
use support::wait::eventually;

use crate::chart::installation::upgrade;
use crate::chart::values::with_settings;

/// The pods of the server.
const SELECTOR: &str = "app.kubernetes.io/component=server";

#[test]
fn each_pod_keeps_the_settings_of_its_revision() -> Result<()> {
    let controllers = ["deployment-controller", "replicaset-controller"];
    let cluster = Cluster::start_with_controllers(&controllers)?;
    cluster.put(&namespace(NAMESPACE))?;
    let values = with_settings(&json!({"ttl": 7, "links": {"enabled": false}}));
    upgrade(&cluster, &values, &[])?;
    await_pods(&cluster, &[7, 7])?;
    let before = deployment(&cluster)?;

    // The new pod does not become ready, so the rollout waits.
    upgrade(&cluster, &values, &["--set", "config.ttl=10"])?;
    await_pods(&cluster, &[7, 7, 10])?;
    for pod in cluster.objects("v1", "Pod", SELECTOR)? {
        if ttl(&pod)? == 7 {
            cluster.delete(&pod)?;
            break;
        }
    }
    await_pods(&cluster, &[7, 7, 10])?;
    for pod in cluster.objects("v1", "Pod", SELECTOR)? {
        if ttl(&pod)? == 7 {
            let ready =
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
            cluster.put_status(&pod, &ready)?;
        }
    }

    let kubeconfig = cluster.kubeconfig.display().to_string();
    let place = ["--namespace", NAMESPACE, "--kubeconfig", &kubeconfig];
    let ended = helm_without_values(&[&["rollback", RELEASE, "1"][..], &place].concat())?;
    ensure!(ended.is_success(), "{}", ended.stderr);
    await_pods(&cluster, &[7, 7])?;
    ensure!(
        deployment(&cluster)? == before,
        "the rollback is incomplete"
    );
    let replica_sets = cluster.objects("apps/v1", "ReplicaSet", SELECTOR)?;
    ensure!(replica_sets.len() == 2, "the rollback makes a new revision");
    Ok(())
}

/// Waits until there are pods whose servers have these TTLs.
fn await_pods(cluster: &Cluster, expected: &[u64]) -> Result<()> {
    eventually("pods with these settings", || {
        let pods = cluster.objects("v1", "Pod", SELECTOR)?;
        let mut found = pods.iter().map(ttl).collect::<Result<Vec<_>>>()?;
        found.sort_unstable();
        ensure!(found == expected, "TTLs of the pods: {found:?}");
        Ok(())
    })
}

/// Returns the TTL that the server of a pod uses, as the server prints it.
fn ttl(pod: &Value) -> Result<u64> {
    let variable = &container(pod)?["env"][0];
    let [name, value] = ["name", "value"].map(|field| variable[field].as_str().unwrap_or_default());
    let mut command = global_dns(&["serve", "--print-settings"]);
    let printed = run_checked(command.env(name, expanded(value, &[])))?;
    let settings: Value = serde_saphyr::from_str(&printed)?;
    settings["ttl"].as_u64().context("no TTL")
}

/// Returns the template of the pods.
fn deployment(cluster: &Cluster) -> Result<Value> {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": NAMESPACE, "name": RELEASE}});
    let object = cluster.get(&object)?.context("no Deployment")?;
    Ok(object.data["spec"]["template"].clone())
}
