//! From process start to ready, with everything that was recorded in the API server.

use anyhow::{Result, ensure};

use crate::ask::{Seen, addresses_of};
use crate::cluster::Cluster;
use crate::clusters_come_and_go::{FOLLOW, NGINX};
use crate::figures::figure;
use crate::gateways_down::{DB_EAST, DB_EAST_ALL, EAST, NORTH, WEST};
use crate::harness::{eventually, say};
use crate::recordings::Recording;
use crate::server::Server;
use crate::steps::Steps;

const STARTS: usize = 5;

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step("a_started_server_is_ready_with_the_whole_table", || {
        ready_with_the_whole_table(cluster)
    });
}

fn ready_with_the_whole_table(cluster: &Cluster) -> Result<()> {
    let recording = Recording::read_writes("23-all-gateways-down-and-up")?;
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
        let server = Server::start(&cluster.kubeconfig, &[]);
        figures.push(server.wait_until_ready());
        for (name, wanted) in [
            (NGINX, Seen::addresses(&[&EAST, &WEST, &NORTH])),
            (DB_EAST, Seen::addresses(&[&DB_EAST_ALL])),
        ] {
            let seen = addresses_of(server.dns, name)?;
            ensure!(
                seen == wanted,
                "{name} is {seen} right after readiness, wanted {wanted}"
            );
        }
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
