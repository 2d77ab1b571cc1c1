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

/// Step name, recording, title of the times.
const RECORDINGS: [(&str, &str); 9] = [
    (
        "each_kind_of_service_has_one_name_15",
        "15-flat-federated-clusterip",
    ),
    (
        "kinds_come_from_two_clusters_25",
        "25-kinds-come-from-east-then-west",
    ),
    (
        "dead_gateway_omits_mirrors_with_a_cluster_ip_26",
        "26-clusterip-gateway-down-and-up-west",
    ),
    (
        "cluster_without_a_ready_pod_is_omitted_27",
        "27-clusterip-scaled-to-zero-and-back-east",
    ),
    (
        "mirror_changes_its_kind_in_place_28",
        "28-export-changes-from-gateway-to-flat-and-back-north",
    ),
    (
        "members_of_a_federation_change_no_answer_29",
        "29-federated-member-leaves-and-returns-west",
    ),
    (
        "exported_services_of_this_cluster_join_30",
        "30-local-members-join-in-hub",
    ),
    (
        "unexported_services_of_all_kinds_disappear_33",
        "33-unexport-all-kinds-north",
    ),
    (
        "this_cluster_joins_a_federation_34",
        "34-federated-with-this-cluster-in-hub",
    ),
];

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    for (fact, recording) in RECORDINGS {
        steps.step(fact, || {
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
