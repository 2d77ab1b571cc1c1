//! The upgrade from an earlier release to this one, and the way back, under queries.
//!
//! The earlier release is a commit of this repository: its binary, its chart, and fixtures of its settings.
//!
//! Index:
//!
//! - `release`: the earlier release: its commit, binary and chart
//! - `settings`: flags and values of the earlier release are accepted, or refused with the name of the new one
//! - `helm_release`: `helm upgrade` and `helm rollback` in a real API server
//! - `rollout`: two replicas behind a real CoreDNS are replaced one after the other, forwards and back

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub,
    missing_docs,
    reason = "tests"
)]

mod helm_release;
mod release;
mod rollout;
mod settings;

use support::cluster::Cluster;
use support::networks::in_new_network;
use support::steps::Steps;

use support::node::Node;

#[test]
#[ignore = "needs Helm, a real API server, root, and the binary of the earlier release"]
fn upgrade_and_rollback() {
    in_new_network(|| {
        let mut steps = Steps::new("upgrade and rollback");
        settings::run(&mut steps);
        let mut parts = None;
        steps.prerequisite("api_server_and_node_start", || {
            let cluster = Cluster::start()?;
            let node = Node::new(&cluster)?;
            parts = Some((cluster, node));
            Ok(())
        });
        if let Some((cluster, node)) = &parts {
            helm_release::run(&mut steps, cluster);
            rollout::run(&mut steps, cluster, node);
        }
        steps.finish();
    });
}
