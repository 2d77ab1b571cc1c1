//! The gateways of east and west die and come back (recording 23).
//!
//! One name has a third cluster left; the other has nothing else, and its last endpoint takes all of them back into
//! the answer.

use support::cluster::Cluster;
use support::recordings::Recording;
use support::server::Server;
use support::steps::Steps;

use crate::clusters_come_and_go::replay;

/// The recording.
pub const GATEWAYS: &str = "23-all-gateways-down-and-up";

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step(
        "a_name_whose_every_gateway_is_dead_keeps_all_its_endpoints",
        || {
            cluster.become_state(&Recording::read_writes(GATEWAYS)?.state)?;
            let server = Server::ready_of_cluster(&cluster.kubeconfig, &[]);
            let figures = "every gateway down and up, slices included";
            server.with_log(replay(cluster, &server, GATEWAYS, figures))
        },
    );
}
