//! Redis Cluster, which cannot work: its nodes exchange addresses that are valid in one cluster only.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use support::commands::tool;
use support::multicluster::Clusters;
use support::multicluster::plan::{ALL, CLUSTERS, EAST, NORTH, Service, WEST};
use support::networks::in_new_network;
use support::output::print_line;
use support::process::{Process, run_checked};
use support::steps::Steps;
use support::wait::eventually;

use crate::clients::database::name_of;

static SERVICE: Service = Service {
    name: "redis",
    port_numbers: &[("redis", 6379), ("bus", 16379)],
    first: 58,
};

/// The nodes try to connect once a second, and give up a handshake after `cluster-node-timeout`.
const TRIES: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(100);

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
        steps.prerequisite("nodes_of_other_clusters_stay_alone", || {
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
        command.args([
            "--cluster-config-file",
            &file,
            "--cluster-node-timeout",
            "5000",
        ]);
        command.args(["--cluster-announce-hostname", &name_of(&SERVICE, cluster)]);
        Process::start(format!("redis-{}", CLUSTERS[cluster].name), command)
    };
    let nodes = ALL.into_iter().map(node).collect::<Result<Vec<_>>>()?;
    for cluster in ALL {
        eventually("a node", || redis(&clusters, cluster, &["ping"]))?;
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
    eventually("three nodes in east", || {
        let known = redis(clusters, EAST, &["cluster", "info"])?;
        ensure!(known.contains("cluster_known_nodes:3"), "{known}");
        Ok(())
    })?;
    let words = redis(clusters, EAST, &["cluster", "addslotsrange", "0", "16383"])?;
    ensure!(words.trim() == "OK", "{words}");
    // During a handshake, they know the address of the gateway as a second node.
    for cluster in [WEST, NORTH] {
        eventually("the end of the handshake", || {
            check_alone(clusters, cluster)
        })?;
    }
    let began = Instant::now();
    while began.elapsed() < TRIES {
        for cluster in [WEST, NORTH] {
            check_alone(clusters, cluster)?;
        }
        thread::sleep(PAUSE);
    }
    for cluster in [WEST, NORTH] {
        let words = redis(clusters, cluster, &["set", "key", "value"])?;
        ensure!(
            words.trim() == "CLUSTERDOWN Hash slot not served",
            "{words}"
        );
        let site = CLUSTERS[cluster].name;
        print_line(&format!(
            "Redis Cluster: {site} knows one node: {}",
            words.trim()
        ));
    }
    Ok(())
}

fn check_alone(clusters: &Clusters, cluster: usize) -> Result<()> {
    let known = redis(clusters, cluster, &["cluster", "info"])?;
    ensure!(known.contains("cluster_known_nodes:1"), "{known}");
    Ok(())
}

fn redis(clusters: &Clusters, cluster: usize, words: &[&str]) -> Result<String> {
    let address = SERVICE.member(cluster, 0).pod_address();
    let mut command = clusters.pod_command(cluster, &tool("redis-cli")?)?;
    run_checked(command.args(["-h", &address]).args(words))
}
