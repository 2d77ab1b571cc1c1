//! Dry runs of each object and of each template's pod in a real API server, which must reject invalid copies.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::definitions::define_monitoring;
use support::objects::namespace;
use support::output::print_line;
use support::steps::Steps;
use support::wait::eventually;

use crate::chart::values::{matrix, with};
use support::helm::{NAMESPACE, kind, template};

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.prerequisite("namespaces_and_crds_exist", || prepare(cluster));
    steps.step("api_server_accepts_every_object_and_pod", || {
        check_all_accepted(cluster)
    });
    steps.step("api_server_rejects_invalid_copies", || {
        check_invalid_copies(cluster)
    });
}

/// Creates a namespace that enforces pod security, namespaces for Roles, and the CRDs of the Prometheus Operator.
fn prepare(cluster: &Cluster) -> Result<()> {
    let labels = json!({
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/enforce-version": "latest",
    });
    let mut enforcing = namespace(NAMESPACE);
    enforcing["metadata"]["labels"] = labels;
    cluster.put(&enforcing)?;
    for name in [
        "prod",
        "shop",
        "linkerd-multicluster",
        "multicluster",
        "links",
        "1234",
    ] {
        cluster.put(&namespace(name))?;
    }
    define_monitoring(cluster)?;
    let values = with(json!({"serviceMonitor": {"enabled": true}, "alerts": {"enabled": true}}));
    let rendered = template(&values)?;
    for kind in ["ServiceMonitor", "PrometheusRule"] {
        let object = rendered.only(kind)?;
        eventually(kind, || cluster.dry_run(object))?;
    }
    Ok(())
}

fn check_all_accepted(cluster: &Cluster) -> Result<()> {
    let (mut objects, mut pods) = (0, 0);
    for (name, values) in matrix() {
        let rendered = template(&values)?;
        for object in rendered
            .objects
            .iter()
            .filter(|object| kind(object) != "Pod")
        {
            cluster
                .dry_run(object)
                .with_context(|| format!("{name}: {}", kind(object)))?;
            objects += 1;
        }
        let made = rendered.pods();
        ensure!(made.len() == 2, "{name}: {} pods", made.len());
        for pod in made {
            cluster
                .dry_run(&pod)
                .with_context(|| format!("{name}: pod"))?;
            pods += 1;
        }
    }
    print_line(&format!(
        "{objects} objects and {pods} pods accepted under pod security restricted"
    ));
    Ok(())
}

/// A dry run must find what these copies have: the pod security level, the fields of a kind, and the schema of a CRD.
fn check_invalid_copies(cluster: &Cluster) -> Result<()> {
    let values = with(json!({"serviceMonitor": {"enabled": true}}));
    let rendered = template(&values)?;
    for pod in rendered.pods() {
        let escalation = "/spec/containers/0/securityContext/allowPrivilegeEscalation";
        let expected = "allowPrivilegeEscalation != false";
        check_rejected(cluster, &pod, escalation, &json!(true), expected)?;
        let expected = "host namespaces";
        check_rejected(cluster, &pod, "/spec/hostNetwork", &json!(true), expected)?;
    }
    for (kind, pointer) in [
        ("Deployment", "/spec/template/spec/noSuchField"),
        ("ServiceMonitor", "/spec/endpoints/0/noSuchField"),
    ] {
        let object = rendered.only(kind)?;
        check_rejected(cluster, object, pointer, &json!(1), "unknown field")?;
    }
    Ok(())
}

fn check_rejected(
    cluster: &Cluster,
    object: &Value,
    pointer: &str,
    value: &Value,
    expected: &str,
) -> Result<()> {
    let mut spoilt = object.clone();
    let (parent, field) = pointer
        .rsplit_once('/')
        .context("an invalid JSON pointer")?;
    let parent = spoilt
        .pointer_mut(parent)
        .with_context(|| format!("the object has no {pointer}"))?;
    parent[field] = value.clone();
    match cluster.dry_run(&spoilt) {
        Ok(()) => anyhow::bail!(
            "the API server accepts {} with {pointer} = {value}",
            kind(object)
        ),
        Err(error) => {
            let text = format!("{error:#}");
            ensure!(
                text.contains(expected),
                "{pointer} = {value}: the error lacks '{expected}': {text}"
            );
            Ok(())
        }
    }
}
