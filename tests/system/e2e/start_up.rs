//! A server that starts is ready with the complete table.

use anyhow::{Context as _, Result, ensure};
use support::cluster::Cluster;
use support::expectations::Expectations;
use support::recordings::Recording;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

use crate::e2e::gateways_down::GATEWAYS;
use crate::e2e::linked_clusters::check_case;

const STARTS: usize = 5;

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step("started_server_is_ready_with_the_complete_table", || {
        is_ready_with_complete_table(cluster)
    });
}

fn is_ready_with_complete_table(cluster: &Cluster) -> Result<()> {
    let recording = Recording::read_mirror_writes(GATEWAYS)?;
    cluster.apply_state(&recording.state)?;
    let with_addresses = recording.state.iter().filter(|event| {
        event.object["subsets"]
            .as_array()
            .is_some_and(|subsets| !subsets.is_empty())
    });
    for event in with_addresses {
        eventually("a slice of every Endpoints object", || {
            ensure!(
                !cluster.slices(event.namespace(), event.name())?.is_empty(),
                "{} has no slice",
                event.name()
            );
            Ok(())
        })?;
    }
    for _ in 0..STARTS {
        let server = Server::of_cluster(&cluster.kubeconfig, &[]);
        server.wait_until_ready();
        let cases = Expectations::of_mirrors(GATEWAYS).start;
        let checked = cases.iter().try_for_each(|case| check_case(&server, case));
        checked.context("immediately after readiness")?;
    }
    Ok(())
}
