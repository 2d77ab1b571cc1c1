//! Kafka: three brokers that are also the controllers, without ZooKeeper. Clients know the brokers by one name.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use support::commands::tool;
use support::multicluster::Clusters;
use support::multicluster::plan::{ALL, CLUSTERS, EAST, NAMESPACE, NORTH, Service, WEST};
use support::output::print_line;
use support::process::{Process, run_checked};
use support::repository::repository;

use crate::clients::database::{
    Alone, Database, Profile, Scenario, cluster_of, configuration, data,
};
use crate::clients::jars;
use crate::clients::scenario::pod::python;

pub struct Kafka;

static SERVICES: [Service; 1] = [Service {
    name: "kafka",
    port_numbers: &[("kafka", 9092), ("controller", 9093)],
    first: 62,
}];

/// The directory of the jars.
const JARS: &str = "GLOBAL_DNS_TEST_KAFKA";

const FILE: &str = "kafka/server.properties";

/// The identity of the cluster, which all brokers share.
const CLUSTER_ID: &str = "Z2xvYmFsLWRucy1rYWZrYQ";

/// A topic of the Java clients.
const TOPIC: &str = "words";

// === impl Kafka ===

impl Database for Kafka {
    fn profile(&self) -> Profile {
        Profile {
            name: "kafka",
            title: "Kafka",
            services: &SERVICES,
            setting: "`broker.session.timeout.ms` 9 s",
            alone: Alone::Waits,
            starts_with_two: true,
        }
    }

    fn version(&self) -> Result<String> {
        jars::version(JARS, "kafka-server")
    }

    fn start(&self, clusters: &Clusters, cluster: usize) -> Result<Vec<Process>> {
        let file = configuration(clusters, &SERVICES[0], cluster, FILE)?;
        let text = fs::read_to_string(&file)?;
        fs::write(
            &file,
            text.replace("=NUMBER", &format!("={}", number(cluster))),
        )?;
        format_storage(clusters, cluster, &file)?;
        let mut command = jars::java(clusters, cluster, JARS)?;
        command.args(["-Xmx320m", "kafka.Kafka"]).arg(file);
        let name = format!("kafka-{}", CLUSTERS[cluster].name);
        Ok(vec![Process::start(name, command)?])
    }

    fn members(&self, clusters: &Clusters, viewer: usize) -> Result<BTreeSet<usize>> {
        let own = format!("{}:9092", SERVICES[0].member(viewer, 0).pod_address());
        let hosts = client(clusters, viewer, &["members", &own])?;
        let hosts = hosts.lines();
        Ok(hosts
            .filter_map(|host| cluster_of(&SERVICES[0], host))
            .collect())
    }

    fn lead(&self, clusters: &Clusters, cluster: usize) -> Result<()> {
        ensure!(cluster == WEST, "the preferred leader is in west");
        client(clusters, EAST, &["lead", &bootstrap()]).map(drop)
    }

    fn write(&self, clusters: &Clusters, cluster: usize, value: &str) -> Result<()> {
        client(clusters, cluster, &["write", &bootstrap(), value]).map(drop)
    }

    fn read(&self, clusters: &Clusters, cluster: usize) -> Result<String> {
        let text = client(clusters, cluster, &["read", &bootstrap()])?;
        Ok(text.trim().to_owned())
    }

    fn further(&self, scenario: &mut Scenario<'_>) -> Result<()> {
        scenario.clusters.set_failover(&SERVICES[0], "*")?;
        scenario.clusters.check_answer(EAST, &SERVICES[0], &ALL)?;
        use_java_clients(&scenario.clusters)?;
        lose_the_active_controller(scenario)
    }
}

/// Produces a message in each cluster, and consumes all of them in each cluster, with the clients of Kafka itself.
fn use_java_clients(clusters: &Clusters) -> Result<()> {
    let server = ["--bootstrap-server", &bootstrap()].map(str::to_owned);
    let mut create = tool_command(clusters, EAST, "TopicCommand")?;
    create.args(&server).args(["--create", "--topic", TOPIC]);
    run_checked(&mut create)?;
    let mut expected = BTreeSet::new();
    for cluster in ALL {
        let word = format!("from-{}", CLUSTERS[cluster].name);
        let file = clusters.directory().join("words");
        fs::write(&file, format!("{word}\n"))?;
        let mut produce = tool_command(clusters, cluster, "ProducerPerformance")?;
        produce.args(["--bootstrap-server", &server[1], "--topic", TOPIC]);
        produce.args(["--num-records", "1", "--throughput", "-1", "--payload-file"]);
        produce.arg(file).args(["--command-property", "acks=all"]);
        run_checked(&mut produce)?;
        expected.insert(word);
    }
    for cluster in ALL {
        let mut consume = tool_command(clusters, cluster, "consumer.ConsoleConsumer")?;
        consume
            .args(&server)
            .args(["--topic", TOPIC, "--from-beginning"]);
        consume.args(["--max-messages", "3", "--timeout-ms", "60000"]);
        let text = run_checked(&mut consume)?;
        let found: BTreeSet<String> = text.lines().map(str::to_owned).collect();
        let name = CLUSTERS[cluster].name;
        ensure!(
            found == expected,
            "{name} consumes {found:?}, expected {expected:?}"
        );
    }
    print_line("Kafka: its own clients in every cluster consume the messages of every cluster");
    Ok(())
}

/// Disconnects the cluster of the active controller, and measures the time until a write is accepted.
fn lose_the_active_controller(scenario: &mut Scenario<'_>) -> Result<()> {
    let lost = active_controller(&scenario.clusters)?;
    let others: Vec<usize> = ALL.into_iter().filter(|&cluster| cluster != lost).collect();
    let name = CLUSTERS[lost].name;
    let writer = others[0];
    let began = Instant::now();
    scenario.clusters.cut(lost)?;
    let reaction = scenario.wait_until(began, |scenario| {
        let database = scenario.database;
        let members = database.members(&scenario.clusters, writer)?;
        ensure!(!members.contains(&lost), "{name} is still a member");
        database.write(&scenario.clusters, writer, "without-the-controller")
    })?;
    print_line(&format!(
        "Kafka: the active controller was in {name}; after its loss: {reaction:?}"
    ));
    scenario.check_data(writer, "still-without-the-controller", &others)?;
    scenario.clusters.restore()?;
    scenario.wait_until(Instant::now(), |scenario| scenario.check_members(&ALL))?;
    scenario.check_data(EAST, "with-all-controllers", &ALL)
}

/// Returns the cluster of the active controller.
fn active_controller(clusters: &Clusters) -> Result<usize> {
    let mut describe = tool_command(clusters, EAST, "MetadataQuorumCommand")?;
    describe.args(["--bootstrap-server", &bootstrap(), "describe", "--status"]);
    let text = run_checked(&mut describe)?;
    let leader = text.lines().find_map(|line| line.strip_prefix("LeaderId:"));
    let leader = leader.with_context(|| text.clone())?.trim();
    let mut clusters = ALL.into_iter();
    clusters
        .find(|&cluster| number(cluster) == leader)
        .with_context(|| format!("no node {leader}"))
}

/// Returns the number of the broker in a cluster.
fn number(cluster: usize) -> &'static str {
    match cluster {
        NORTH => "1",
        EAST => "2",
        _ => "3",
    }
}

/// Returns what clients are configured with.
fn bootstrap() -> String {
    format!("{}.{NAMESPACE}.global:9092", SERVICES[0].name)
}

/// Prepares the directory of a broker, unless that is done.
fn format_storage(clusters: &Clusters, cluster: usize, file: &Path) -> Result<()> {
    if data(clusters, cluster)?
        .join("kafka/meta.properties")
        .exists()
    {
        return Ok(());
    }
    let mut format = jars::java(clusters, cluster, JARS)?;
    format.args([
        "kafka.tools.StorageTool",
        "format",
        "--cluster-id",
        CLUSTER_ID,
    ]);
    run_checked(format.arg("--config").arg(file)).map(drop)
}

/// Builds a command that runs one of Kafka's tools.
fn tool_command(clusters: &Clusters, cluster: usize, class: &str) -> Result<Command> {
    let mut command = jars::java(clusters, cluster, JARS)?;
    command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn");
    command.arg(format!("org.apache.kafka.tools.{class}"));
    Ok(command)
}

/// Runs `kafka/client.py` in a pod.
fn client(clusters: &Clusters, cluster: usize, words: &[&str]) -> Result<String> {
    let mut command = clusters.pod_command(cluster, &tool("timeout")?)?;
    command.arg("30").arg(python()?);
    command.arg(repository("tests/system/clients/kafka/client.py"));
    run_checked(command.args(words))
}
