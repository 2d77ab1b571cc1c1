//! The Helm chart with Helm, a real API server with RBAC and pod security, and the binary.
//!
//! Index:
//!
//! - `values`: the matrix of values
//! - `lint`: `helm lint`, invalid values that Helm refuses by name, and the table of the README
//! - `flags`: every flag of `serve` has a value; defaults are those of `serve`
//! - `objects`: checks that no API server does: the mesh, security, selectors, permissions
//! - `listeners`: ports of the Service, the pod and the NetworkPolicy; Secrets of the encrypted listeners
//! - `monitoring`: rules and dashboard use only metrics that the server exports
//! - `dashboard`: the queries of the dashboard, and Grafana's rules for its JSON
//! - `alerts`: every alert with written series in `promtool`
//! - `admission`: each object and each template's pod in a real API server; invalid copies
//! - `installation`: `helm install` and its notes
//! - `permissions`: the server with the token of its service account

mod admission;
mod alerts;
mod dashboard;
mod flags;
mod installation;
mod lint;
mod listeners;
mod monitoring;
mod objects;
mod permissions;
mod values;

use anyhow::Result;
use support::cluster::Cluster;
use support::output::print_line;
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
        installation::run(&mut steps, &cluster);
        permissions::run(&mut steps, &cluster, &audit);
    }
    steps.finish();
}

#[test]
fn every_combination_of_values_renders_valid_objects() -> Result<()> {
    let renderings = values::matrix();
    let (mut objects, mut kinds) = (0, std::collections::BTreeSet::new());
    for (name, values) in &renderings {
        let rendered = support::helm::template(values)?;
        objects::check(name, &rendered);
        objects += rendered.objects.len();
        kinds.extend(
            rendered
                .objects
                .iter()
                .map(|object| support::helm::kind(object).to_owned()),
        );
    }
    let kinds: Vec<String> = kinds.into_iter().collect();
    print_line(&format!(
        "{} combinations of values, {objects} objects: {}",
        renderings.len(),
        kinds.join(" ")
    ));
    Ok(())
}
