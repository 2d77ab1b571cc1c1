//! The Helm chart with Helm, a real API server with RBAC and pod security, and the binary.
//!
//! Index:
//!
//! - `values`: combinations of values
//! - `lint`: `helm lint`, and invalid values that Helm refuses by name
//! - `settings`: the pods get the value `config`, and `serve` accepts it
//! - `objects`: checks that no API server does: the mesh, security, selectors, permissions
//! - `listeners`: ports of the Service, the pod and the NetworkPolicy; Secrets of the encrypted listeners
//! - `monitoring`: rules and dashboard use only metrics that the server exports
//! - `alerts`: every alert with written series in `promtool`
//! - `admission`: each object and each template's pod in a real API server; invalid copies
//! - `permissions`: the server with the token of its service account

mod admission;
mod alerts;
mod lint;
mod listeners;
mod monitoring;
mod objects;
mod permissions;
mod settings;
mod values;

use anyhow::Result;
use support::cluster::Cluster;
use support::steps::Steps;

use crate::chart::permissions::Audit;

#[test]
fn chart_works_in_a_real_api_server() {
    let mut steps = Steps::new("the chart in a real API server");
    let mut started = None;
    steps.prerequisite("the_api_server_and_its_controllers_start", || {
        let audit = Audit::prepare()?;
        started = Some((Cluster::start_with(&audit.arguments())?, audit));
        Ok(())
    });
    if let Some((cluster, audit)) = started {
        admission::run(&mut steps, &cluster);
        permissions::run(&mut steps, &cluster, &audit);
    }
    steps.finish();
}

#[test]
fn every_combination_of_values_renders_valid_objects() -> Result<()> {
    for (name, values) in values::matrix() {
        objects::check(&name, &support::helm::template(&values)?);
    }
    Ok(())
}
