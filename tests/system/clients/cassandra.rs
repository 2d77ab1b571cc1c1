//! Cassandra, which cannot work: its nodes exchange addresses that are valid in one cluster only.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use support::multicluster::Clusters;
use support::multicluster::plan::{ALL, CLUSTERS, EAST, Service, WEST};
use support::networks::in_new_network;
use support::output::print_line;
use support::process::{Process, run_checked};
use support::repository::repository;
use support::steps::Steps;
use support::wait::eventually;

use crate::clients::database::{configuration, data, name_of};
use crate::clients::jars;

static SERVICE: Service = Service {
    name: "cassandra",
    port_numbers: &[("storage", 7000), ("cql", 9042)],
    first: 70,
};

/// The directory of the jars.
const JARS: &str = "GLOBAL_DNS_TEST_CASSANDRA";

/// Maximum time of a start.
const START: Duration = Duration::from_secs(200);

/// What a node says that serves clients.
const STARTED: &str = "Startup complete";

/// What a node says that got no reply from its seed.
const WORDS: &str = "Unable to gossip with any peers";

pub fn prove() {
    in_new_network(|| {
        let mut steps = Steps::new("Cassandra");
        let mut started = None;
        steps.prerequisite("the_first_node_starts", || {
            started = Some(start()?);
            Ok(())
        });
        let Some((node, clusters)) = started else {
            return steps.finish();
        };
        steps.prerequisite(
            "a_node_of_another_cluster_finds_the_seed_and_gets_no_reply",
            || {
                let result = join(&clusters);
                clusters.with_logs(result).with_context(|| node.log_tail())
            },
        );
        steps.prerequisite("the_first_node_stays_alone", || {
            let result = check_alone(&clusters);
            clusters.with_logs(result).with_context(|| node.log_tail())
        });
        steps.finish();
    });
}

fn start() -> Result<(Process, Clusters)> {
    print_line(&format!(
        "Cassandra: {}",
        jars::version(JARS, "cassandra-all")?
    ));
    let members = ALL.map(|cluster| SERVICE.member(cluster, 0));
    let clusters = Clusters::start(&members, &ALL)?;
    clusters.make_pods_ready()?;
    for viewer in ALL {
        clusters.check_answer(viewer, &SERVICE, &ALL)?;
    }
    let mut node = start_node(&clusters, EAST)?;
    let is_started = eventually("the first node", || {
        node.check()?;
        let lines = node.log().lines();
        let is_started = lines.iter().any(|line| line.contains(STARTED));
        ensure!(is_started, "no {STARTED:?}");
        Ok(())
    });
    is_started.with_context(|| node.log_tail())?;
    let nodes = status(&clusters)?;
    print_line(&format!("Cassandra: east: {}", nodes.join("; ")));
    Ok((node, clusters))
}

/// Starts a node in `west`, and waits for its end.
fn join(clusters: &Clusters) -> Result<()> {
    let (began, mut node) = (Instant::now(), start_node(clusters, WEST)?);
    let seed = SERVICE.member(EAST, 0).synthetic_address(WEST);
    let mut is_connected = false;
    while !node.has_ended() {
        let arguments = ["-Htn", "state", "established", "dst", &seed];
        is_connected |= !clusters
            .network(WEST)
            .run("ss", &arguments)?
            .trim()
            .is_empty();
        ensure!(
            began.elapsed() < START,
            "it still runs\n{}",
            node.log_tail()
        );
    }
    ensure!(is_connected, "no connection to {seed}\n{}", node.log_tail());
    let lines = node.log().lines();
    let line = lines.iter().find(|line| line.contains(WORDS));
    let line = line.with_context(|| node.log_tail())?;
    let seconds = began.elapsed().as_secs_f64();
    print_line(&format!(
        "Cassandra: west was connected to {seed}, and ended after {seconds:.0} s: {line}"
    ));
    Ok(())
}

fn check_alone(clusters: &Clusters) -> Result<()> {
    let nodes = status(clusters)?;
    ensure!(nodes.len() == 1, "{nodes:?}");
    Ok(())
}

fn start_node(clusters: &Clusters, cluster: usize) -> Result<Process> {
    let file = configuration(clusters, &SERVICE, cluster, "cassandra/cassandra.yaml")?;
    let text = fs::read_to_string(&file)?;
    fs::write(&file, text.replace("SEED", &name_of(&SERVICE, EAST)))?;
    let mut command = java(clusters, cluster)?;
    command
        .arg(format!("-Dcassandra.config=file://{}", file.display()))
        .arg(format!(
            "-Dcassandra.storagedir={}",
            data(clusters, cluster)?.display()
        ))
        .arg("-Dcassandra.jmx.local.port=7199")
        .arg("org.apache.cassandra.service.CassandraDaemon");
    let name = format!("cassandra-{}", CLUSTERS[cluster].name);
    Process::start(name, command)
}

/// Returns the nodes that the node in `east` knows.
fn status(clusters: &Clusters) -> Result<Vec<String>> {
    let mut tool = java(clusters, EAST)?;
    tool.args(["org.apache.cassandra.tools.NodeTool", "status"]);
    let text = run_checked(&mut tool)?;
    let nodes = text
        .lines()
        .filter(|line| line.starts_with(['U', 'D']) && line.contains("10."));
    let nodes: Vec<String> = nodes
        .map(|line| {
            line.split_whitespace()
                .take(2)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    ensure!(!nodes.is_empty(), "{text}");
    Ok(nodes)
}

fn java(clusters: &Clusters, cluster: usize) -> Result<Command> {
    let mut command = jars::java(clusters, cluster, JARS)?;
    let options = repository("tests/system/clients/cassandra/jvm.options");
    // The syntax of the file is that of Java.
    command.arg(format!("@{}", options.display()));
    Ok(command)
}
