//! From process start to ready, with everything that was recorded in the API server.

use anyhow::{Context as _, Result, ensure};
use support::cluster::Cluster;
use support::figures::figure;
use support::moments::History;
use support::recordings::Recording;
use support::say::say;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

use crate::clusters_come_and_go::{FOLLOW, says};
use crate::gateways_down::GATEWAYS;

const STARTS: usize = 5;

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step("a_started_server_is_ready_with_the_whole_table", || {
        ready_with_the_whole_table(cluster)
    });
}

fn ready_with_the_whole_table(cluster: &Cluster) -> Result<()> {
    let recording = Recording::read_writes(GATEWAYS)?;
    cluster.become_state(&recording.state)?;
    let with_addresses = recording.state.iter().filter(|event| {
        event.object["subsets"]
            .as_array()
            .is_some_and(|subsets| !subsets.is_empty())
    });
    for event in with_addresses {
        eventually("a slice of every Endpoints", FOLLOW, || {
            ensure!(
                !cluster.slices(event.namespace(), event.name())?.is_empty(),
                "{} has none",
                event.name()
            );
            Ok(())
        })?;
    }
    let mut figures = Vec::new();
    for _ in 0..STARTS {
        let server = Server::of_cluster(&cluster.kubeconfig, &[]);
        figures.push(server.wait_until_ready());
        let told = History::of_mirrors(GATEWAYS).start;
        let told = told.iter().try_for_each(|case| says(&server, case));
        told.context("right after readiness")?;
    }
    let (services, slices) = (
        cluster.count("v1", "Service")?,
        cluster.count("discovery.k8s.io/v1", "EndpointSlice")?,
    );
    say(&format!(
        "start-up: process start to ready {}, {services} Services and {slices} slices",
        figure(&figures)
    ));
    Ok(())
}
