//! The version matrix: Kubernetes with its CoreDNS, Helm, and objects of several versions of Linkerd.
//!
//! Index:
//!
//! - `kubernetes`: the versions of Kubernetes, each with the CoreDNS that kubeadm installs
//! - `helm_versions`: each Helm installs, upgrades, rolls back and removes the chart
//! - `linkerd`: mirrors, Endpoints and Links as each version of Linkerd writes them
//! - `answers`: the server watches these objects, and CoreDNS forwards to it
//! - `outcome`: what was run, in `target/versions`
//! - `table`: the tables of the manual, made of these results

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub,
    missing_docs,
    reason = "tests"
)]

mod answers;
mod helm_versions;
mod kubernetes;
mod linkerd;
mod outcome;
mod table;

use support::networks::in_new_network;
use support::steps::Steps;

use crate::kubernetes::{Kubernetes, VERSIONS};
use crate::outcome::Outcome;
use support::node::Node;

#[test]
#[ignore = "needs Helm 3 and 4, API servers and CoreDNS of several versions, and root"]
fn versions() {
    let mut steps = Steps::new("versions");
    for kubernetes in &VERSIONS {
        // Each has a network of its own: the addresses and rules of the node end with it.
        in_new_network(|| run(&mut steps, kubernetes));
    }
    steps.finish();
}

fn run(steps: &mut Steps, kubernetes: &Kubernetes) {
    steps.forget_failed_prerequisite();
    let mut outcome = Outcome::new(kubernetes);
    let title = |what: &str| format!("kubernetes_{}_{what}", kubernetes.minor);
    let mut parts = None;
    steps.prerequisite(&title("starts"), || {
        let cluster = kubernetes.start()?;
        outcome.kubernetes = kubernetes.version(&cluster)?;
        let node = Node::new(&cluster)?;
        parts = Some((cluster, node));
        Ok(())
    });
    if let Some((cluster, node)) = &parts {
        for helm in &helm_versions::VERSIONS {
            steps.step(&title(&format!("installs_with_{}", helm.program)), || {
                let version = helm_versions::check(cluster, helm)?;
                outcome.helm.push(version);
                Ok(())
            });
        }
        let mut coredns = None;
        steps.step(&title("coredns_starts"), || {
            coredns = Some(answers::start_coredns(kubernetes, cluster, node)?);
            outcome.coredns = kubernetes.coredns_version()?;
            Ok(())
        });
        for linkerd in &linkerd::VERSIONS {
            steps.step(&title(&format!("with_linkerd_{}", linkerd.name)), || {
                answers::check(cluster, node, coredns.as_mut(), linkerd)?;
                outcome.linkerd.push(linkerd.name.to_owned());
                Ok(())
            });
        }
    }
    steps.step(&title("result_is_written"), || outcome.write());
}
