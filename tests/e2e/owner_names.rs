//! The one table of owner names, from objects that a real API server has accepted; slices of mirrors are its controllers' own.

use anyhow::{Result, ensure};
use support::cluster::Cluster;
use support::names::{Case, FLAGS, cases, services};
use support::objects::namespace;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

use crate::clusters_come_and_go::FOLLOW;

/// The API server has to give cluster IPs of both families.
pub const FAMILIES: &str = "--service-cluster-ip-range=10.96.0.0/16,2001:db8::/108";

const NAMESPACES: [&str; 3] = ["prod", "shop", "spare"];

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step("every_owner_name_answers_what_the_table_says", || {
        every_name(cluster)
    });
    steps.step("the_services_of_the_table_leave", || {
        NAMESPACES.iter().try_for_each(|name| cluster.empty(name))
    });
}

fn every_name(cluster: &Cluster) -> Result<()> {
    for name in NAMESPACES {
        cluster.put(&namespace(name))?;
    }
    for object in services().iter().flat_map(|service| service.writes()) {
        cluster.put(&object)?;
    }
    // The cluster's own name is what every server here has.
    let server = Server::ready_of_cluster(&cluster.kubeconfig, &FLAGS[1..]);
    let cases = cases();
    let answered = eventually("the table", FOLLOW, || {
        let asked = |case: &Case| case.ask(server.dns);
        let differences: Vec<String> = cases.iter().filter_map(asked).collect();
        ensure!(differences.is_empty(), "{}", differences.join("\n    "));
        Ok(())
    });
    server.with_log(answered)
}
