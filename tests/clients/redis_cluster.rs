//! Redis Cluster, which cannot work: its nodes exchange addresses that are valid in one cluster only.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use support::commands::tool;
use support::multicluster::Clusters;
use support::multicluster::plan::{ALL, CLUSTERS, EAST, NORTH, Service, WEST};
use support::networks::in_new_network;
use support::output::print_line;
use support::process::{Process, run_checked};
use support::steps::Steps;
use support::wait::eventually;

use crate::database::name_of;

static SERVICE: Service = Service {
    name: "redis",
    port_numbers: &[("redis", 6379), ("bus", 16379)],
    first: 58,
};

/// The nodes try to connect once a second, and give up a handshake after `cluster-node-timeout`.
const TRIES: std::time::Duration = std::time::Duration::from_secs(30);

pub fn prove() {
    in_new_network(|| {
        let mut steps = Steps::new("Redis Cluster");
        let mut started = None;
        steps.prerequisite("three_nodes_start", || {
            started = Some(start()?);
            Ok(())
        });
        let Some((nodes, clusters)) = started else {
            return steps.finish();
        };
        let with_logs = |result: Result<()>| {
            let logs: Vec<String> = nodes.iter().map(Process::log_tail).collect();
            clusters.with_logs(result).with_context(|| logs.join("\n"))
        };
        steps.prerequisite("cluster_meet_refuses_names", || {
            with_logs(meet_by_name(&clusters))
        });
        steps.prerequisite("addresses_of_one_cluster_are_spread_to_others", || {
            with_logs(meet_by_address(&clusters))
        });
        steps.finish();
    });
}

fn start() -> Result<(Vec<Process>, Clusters)> {
    let members = ALL.map(|cluster| SERVICE.member(cluster, 0));
    let clusters = Clusters::start(&members, &ALL)?;
    for viewer in ALL {
        clusters.check_answer(viewer, &SERVICE, &ALL)?;
    }
    let node = |cluster: usize| {
        let mut command = clusters.pod_command(cluster, &tool("redis-server")?)?;
        let file = format!("nodes-{}.conf", CLUSTERS[cluster].name);
        command.args(["--cluster-enabled", "yes", "--protected-mode", "no"]);
        command.arg("--dir").arg(clusters.directory());
        command.args(["--cluster-config-file", &file, "--cluster-node-timeout", "5000"]);
        command.args(["--cluster-announce-hostname", &name_of(&SERVICE, cluster)]);
        Process::start(format!("redis-{}", CLUSTERS[cluster].name), command)
    };
    let nodes = ALL.into_iter().map(node).collect::<Result<Vec<_>>>()?;
    for cluster in ALL {
        eventually("a node", TRIES, || redis(&clusters, cluster, &["ping"]))?;
    }
    Ok((nodes, clusters))
}

fn meet_by_name(clusters: &Clusters) -> Result<()> {
    let name = name_of(&SERVICE, WEST);
    let words = redis(clusters, EAST, &["cluster", "meet", &name, "6379"])?;
    ensure!(
        words.trim() == format!("ERR Invalid node address specified: {name}:6379"),
        "{words}"
    );
    print_line(&format!("Redis Cluster: {}", words.trim()));
    Ok(())
}

fn meet_by_address(clusters: &Clusters) -> Result<()> {
    for cluster in [WEST, NORTH] {
        let address = SERVICE.member(cluster, 0).synthetic_address(EAST);
        let words = redis(clusters, EAST, &["cluster", "meet", &address, "6379"])?;
        ensure!(words.trim() == "OK", "{words}");
    }
    // The address of north in east, as west hears it.
    let foreign = SERVICE.member(NORTH, 0).synthetic_address(EAST);
    let began = Instant::now();
    let mut heard = None;
    while began.elapsed() < TRIES {
        for cluster in [WEST, NORTH] {
            let connected = nodes(clusters, cluster)?
                .iter()
                .filter(|line| !line.contains("myself") && line.contains(" connected"))
                .count();
            ensure!(connected < 2, "{} is complete", CLUSTERS[cluster].name);
        }
        let lines = nodes(clusters, WEST)?;
        let line = lines.into_iter().find(|line| line.contains(&foreign));
        heard = line.or(heard);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let heard = heard.context("west has not heard of north")?;
    ensure!(heard.contains("disconnected"), "{heard}");
    print_line(&format!("Redis Cluster: in west: {heard}"));
    Ok(())
}

/// Returns the nodes that a node knows.
fn nodes(clusters: &Clusters, cluster: usize) -> Result<Vec<String>> {
    let text = redis(clusters, cluster, &["cluster", "nodes"])?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn redis(clusters: &Clusters, cluster: usize, words: &[&str]) -> Result<String> {
    let address = SERVICE.member(cluster, 0).pod_address();
    let mut command = clusters.pod_command(cluster, &tool("redis-cli")?)?;
    run_checked(command.args(["-h", &address]).args(words))
}
