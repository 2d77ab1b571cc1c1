//! The table of owner names, with objects that a real API server accepted. Its controllers write the slices of mirrors.

use anyhow::{Result, ensure};
use support::cluster::Cluster;
use support::names::{Case, FLAGS, cases, services};
use support::objects::namespace;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

/// API server flag: allocates cluster IPs of both address families.
pub const FAMILIES: &str = "--service-cluster-ip-range=10.96.0.0/16,2001:db8::/108";

const NAMESPACES: [&str; 3] = ["prod", "shop", "spare"];

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step("every_owner_name_has_the_records_of_the_table", || {
        check_every_name(cluster)
    });
    steps.step("services_of_the_table_are_deleted", || {
        NAMESPACES.iter().try_for_each(|name| cluster.empty(name))
    });
}

fn check_every_name(cluster: &Cluster) -> Result<()> {
    for name in NAMESPACES {
        cluster.put(&namespace(name))?;
    }
    for object in services().iter().flat_map(|service| service.writes()) {
        cluster.put(&object)?;
    }
    // The first flag sets the cluster name, which every server in this suite has by default.
    let server = Server::ready_of_cluster(&cluster.kubeconfig, &FLAGS[1..]);
    let cases = cases();
    let answered = eventually("the answers of the table", || {
        let difference = |case: &Case| case.ask(server.dns);
        let differences: Vec<String> = cases.iter().filter_map(difference).collect();
        ensure!(differences.is_empty(), "{}", differences.join("\n    "));
        Ok(())
    });
    server.with_log(answered)
}
