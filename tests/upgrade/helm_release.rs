//! `helm upgrade` from the chart of the earlier release, and `helm rollback`, in a real API server.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::objects::namespace;
use support::process::ProcessOutput;
use support::steps::Steps;

use crate::release;
use support::helm::{NAMESPACE, RELEASE, chart, helm, helm_without_values};

/// Address of the Service. CoreDNS forwards to it, so it must not change.
const ADDRESS: &str = "10.96.0.77";

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step("helm_upgrades_and_rolls_back", || {
        upgrade_and_roll_back(cluster)
    });
}

fn upgrade_and_roll_back(cluster: &Cluster) -> Result<()> {
    for name in [NAMESPACE, "linkerd-multicluster"] {
        cluster.put(&namespace(name))?;
    }
    let folder = tempfile::tempdir()?;
    let earlier = release::chart(folder.path())?;
    let values = json!({"clusterName": "hub", "image": {"repository": "localhost/global-dns"},
        "service": {"clusterIP": ADDRESS}});

    helm_succeeds(upgrade(cluster, &earlier, &["--install"], &values)?)?;
    let before = deployment(cluster)?;
    helm_succeeds(upgrade(cluster, Path::new(&chart()), &[], &values)?)?;
    let after = deployment(cluster)?;
    ensure!(before != after, "the upgrade changed nothing");
    let selector = |deployment: &Value| deployment["spec"]["selector"].clone();
    ensure!(selector(&before) == selector(&after));
    // Helm merges the defaults of the earlier chart into the values.
    let reused = upgrade_without_values(cluster, &["--reuse-values"])?;
    ensure!(reused.code == Some(0), "{}", reused.stderr);
    check_address(cluster)?;

    roll_back(cluster, 1)?;
    let back = deployment(cluster)?;
    ensure!(
        back["spec"]["template"] == before["spec"]["template"],
        "{} is not {}",
        back["spec"]["template"],
        before["spec"]["template"]
    );
    check_address(cluster)?;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"namespace": "linkerd-multicluster", "name": format!("{RELEASE}-links")}});
    ensure!(cluster.get(&role)?.is_none(), "the rollback left a Role");

    // The last revision is that of the earlier chart: now its defaults are those that Helm reuses.
    let reused = upgrade_without_values(cluster, &["--reuse-values"])?;
    ensure!(
        reused.code != Some(0) && reused.stderr.contains("prometheusRule is now alerts"),
        "{}",
        reused.output()
    );
    helm_succeeds(upgrade_without_values(
        cluster,
        &["--reset-then-reuse-values"],
    )?)?;
    ensure!(deployment(cluster)?["spec"]["template"] == after["spec"]["template"]);
    ensure!(cluster.get(&role)?.is_some(), "the upgrade made no Role");
    check_address(cluster)?;

    let kubeconfig = cluster.kubeconfig.display().to_string();
    let what = [
        "uninstall",
        RELEASE,
        "--namespace",
        NAMESPACE,
        "--kubeconfig",
        &kubeconfig,
    ];
    helm_succeeds(helm_without_values(&what)?)
}

fn upgrade(
    cluster: &Cluster,
    chart: &Path,
    flags: &[&str],
    values: &Value,
) -> Result<ProcessOutput> {
    let kubeconfig = cluster.kubeconfig.display().to_string();
    let place = chart.display().to_string();
    let what = [
        "upgrade",
        RELEASE,
        &place,
        "--namespace",
        NAMESPACE,
        "--kubeconfig",
        &kubeconfig,
    ];
    helm(&[&what[..], flags].concat(), values)
}

fn upgrade_without_values(cluster: &Cluster, flags: &[&str]) -> Result<ProcessOutput> {
    let (kubeconfig, place) = (cluster.kubeconfig.display().to_string(), chart());
    let what = [
        "upgrade",
        RELEASE,
        &place,
        "--namespace",
        NAMESPACE,
        "--kubeconfig",
        &kubeconfig,
    ];
    helm_without_values(&[&what[..], flags].concat())
}

fn roll_back(cluster: &Cluster, revision: usize) -> Result<()> {
    let (kubeconfig, revision) = (
        cluster.kubeconfig.display().to_string(),
        revision.to_string(),
    );
    let what = [
        "rollback",
        RELEASE,
        &revision,
        "--namespace",
        NAMESPACE,
        "--kubeconfig",
        &kubeconfig,
    ];
    helm_succeeds(helm_without_values(&what)?)
}

fn helm_succeeds(ended: ProcessOutput) -> Result<()> {
    ensure!(ended.code == Some(0), "helm: {}", ended.output());
    Ok(())
}

fn deployment(cluster: &Cluster) -> Result<Value> {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": NAMESPACE, "name": RELEASE}});
    Ok(cluster.get(&object)?.context("no Deployment")?.data)
}

fn check_address(cluster: &Cluster) -> Result<()> {
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": NAMESPACE, "name": RELEASE}});
    let service = cluster.get(&service)?.context("no Service")?;
    let address = &service.data["spec"]["clusterIP"];
    ensure!(address == ADDRESS, "the address is {address}");
    Ok(())
}
