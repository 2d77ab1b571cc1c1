//! Services of all kinds: gateway, flat, federated and local ones appear, change, lose their endpoints and disappear.
//!
//! The test writes the Services and slices of the recordings. Each recording starts with its own state. No controller
//! changes these slices, so that each answer belongs to one recorded event.

use std::collections::BTreeSet;

use anyhow::Result;
use support::cluster::Cluster;
use support::expectations::{Expectations, Names};
use support::objects::namespace;
use support::recordings::{Event, Recording};
use support::server::Server;
use support::steps::Steps;

use crate::e2e::linked_clusters::write_and_observe;

/// The recordings, each with its own state.
const RECORDINGS: [&str; 9] = [
    "15-flat-federated-clusterip",
    "25-kinds-come-from-east-then-west",
    "26-clusterip-gateway-down-and-up-west",
    "27-clusterip-scaled-to-zero-and-back-east",
    "28-export-changes-from-gateway-to-flat-and-back-north",
    "29-federated-member-leaves-and-returns-west",
    "30-local-members-join-in-hub",
    "33-unexport-all-kinds-north",
    "34-federated-with-this-cluster-in-hub",
];

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    for recording in RECORDINGS {
        steps.step(recording, || {
            let recorded = Recording::read_member_writes(recording)?;
            let replayed = replay(cluster, &recorded, recording);
            let all = recorded.state.iter().chain(&recorded.events);
            let deleted = all.map(|event| cluster.delete(&event.object));
            replayed.and(deleted.collect())
        });
    }
}

/// Writes a recording, and compares the answers after each event with the table of expectations.
fn replay(cluster: &Cluster, recorded: &Recording, name: &str) -> Result<()> {
    let all = recorded.state.iter().chain(&recorded.events);
    let namespaces: BTreeSet<&str> = all.map(Event::namespace).collect();
    for name in namespaces {
        cluster.put(&namespace(name))?;
    }
    for event in &recorded.state {
        cluster.write(event)?;
    }
    let server = Server::ready_of_cluster(&cluster.kubeconfig, &[]);
    let expectations = Expectations::of_recording(name, Names::Canonical);
    let followed = write_and_observe(cluster, &server, &recorded.events, &expectations);
    server.with_log(followed)
}
