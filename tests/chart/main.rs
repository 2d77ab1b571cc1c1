//! The Helm chart on real parts: Helm, a real API server with RBAC and pod security on, and the binary.
//!
//! Index:
//!
//! - `helm`: what Helm makes of values, and the objects and pods in it
//! - `values`: the matrix of values
//! - `lint`: `helm lint`, and wrong values that are refused with a sentence
//! - `flags`: every flag of `serve` has a value; defaults are those of `serve`
//! - `objects`: what no API server checks: the mesh, security, selectors, permissions
//! - `listeners`: ports of the Service, the pod and the NetworkPolicy; Secrets of the encrypted listeners
//! - `monitoring`: rules and dashboard name only what the server exports
//! - `admission`: each object, and the pod of each template, in a real API server; spoilt copies
//! - `installation`: `helm install`, and the notes that it prints
//! - `permissions`: the server with the token of its own service account

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub,
    missing_docs,
    reason = "tests"
)]

mod admission;
mod flags;
mod helm;
mod installation;
mod lint;
mod listeners;
mod monitoring;
mod objects;
mod permissions;
mod values;

use anyhow::Result;
use support::cluster::Cluster;
use support::say::say;
use support::steps::Steps;

use crate::permissions::Audit;

#[test]
#[ignore = "needs a real API server and Helm"]
fn in_a_real_api_server() {
    let mut steps = Steps::new("in a real API server");
    let mut started = None;
    steps.needed("the_api_server_and_its_controllers_start", || {
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
#[ignore = "needs Helm"]
fn of_every_combination_of_values() -> Result<()> {
    let renderings = values::matrix();
    let (mut objects, mut kinds) = (0, std::collections::BTreeSet::new());
    for (name, values) in &renderings {
        let rendered = helm::template(values)?;
        objects::check(name, &rendered);
        objects += rendered.objects.len();
        kinds.extend(
            rendered
                .objects
                .iter()
                .map(|object| helm::kind(object).to_owned()),
        );
    }
    let kinds: Vec<String> = kinds.into_iter().collect();
    say(&format!(
        "{} combinations of values, {objects} objects: {}",
        renderings.len(),
        kinds.join(" ")
    ));
    Ok(())
}
