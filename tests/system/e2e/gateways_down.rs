//! The gateways of east and west go down and recover (recording 23).
//!
//! One service has endpoints in a third cluster. The other has none, so when its last gateway goes down, all its
//! endpoints are returned again.

use support::cluster::Cluster;
use support::recordings::Recording;
use support::server::Server;
use support::steps::Steps;

use crate::e2e::linked_clusters::replay;

/// The name of the recording.
pub const GATEWAYS: &str = "23-all-gateways-down-and-up";

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step(
        "all_endpoints_are_returned_if_all_gateways_are_down",
        || {
            cluster.apply_state(&Recording::read_mirror_writes(GATEWAYS)?.state)?;
            let server = Server::ready_of_cluster(&cluster.kubeconfig, &[]);
            server.with_log(replay(cluster, &server, GATEWAYS))
        },
    );
}
