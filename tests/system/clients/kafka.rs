//! Kafka: three brokers that are also the controllers, without ZooKeeper. Clients know the brokers by one name.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use support::commands::tool;
use support::multicluster::Clusters;
use support::multicluster::plan::{CLUSTERS, EAST, NORTH, Service, WEST};
use support::process::{Process, run_checked};
use support::repository::repository;

use crate::clients::database::{Database, Profile, address_of, cluster_of, configuration, data};
use crate::clients::java::security;
use crate::clients::scenario::pod::{installed, program};

pub struct Kafka;

static SERVICES: [Service; 1] = [Service {
    name: "kafka",
    port_numbers: &[("kafka", 9092), ("controller", 9093)],
    first: 62,
}];

/// Script of sed that prints the versions in a file of Maven.
const VERSION: &str = "s/.*<version>\\(.*[.].*\\)<.version>/\\1/p";
/// The identity of the cluster, which all brokers share.
const CLUSTER_ID: &str = "Z2xvYmFsLWRucy1rYWZrYQ";
/// What clients are configured with.
const BOOTSTRAP: &str = "kafka.prod.global:9092";

// === impl Kafka ===

impl Database for Kafka {
    fn profile(&self) -> Profile {
        Profile {
            name: "kafka",
            version: &["sed", "-n", VERSION, "tools/kafka/pom.xml"],
            services: &SERVICES,
            splits: false,
            starts_with_two: true,
        }
    }

    fn start(&self, clusters: &Clusters, cluster: usize) -> Result<Vec<Process>> {
        let file = configuration(clusters, &SERVICES[0], cluster, "kafka/server.properties")?;
        let number = match cluster {
            NORTH => "=1",
            EAST => "=2",
            _ => "=3",
        };
        let text = fs::read_to_string(&file)?;
        fs::write(&file, text.replace("=NUMBER", number))?;
        if !data(clusters, cluster)?
            .join("kafka/meta.properties")
            .exists()
        {
            let mut format = java(clusters, cluster)?;
            format.args([
                "kafka.tools.StorageTool",
                "format",
                "--cluster-id",
                CLUSTER_ID,
            ]);
            run_checked(format.arg("--config").arg(&file))?;
        }
        let mut command = java(clusters, cluster)?;
        command.args(["-Xmx320m", "kafka.Kafka"]).arg(file);
        let name = format!("kafka-{}", CLUSTERS[cluster].name);
        Ok(vec![Process::start(name, command)?])
    }

    fn members(&self, clusters: &Clusters, viewer: usize) -> Result<BTreeSet<usize>> {
        let own = format!("{}:9092", address_of(&SERVICES[0], viewer));
        let hosts = client(clusters, viewer, &["members", &own])?;
        let hosts = hosts.lines();
        Ok(hosts
            .filter_map(|host| cluster_of(&SERVICES[0], host))
            .collect())
    }

    fn lead(&self, clusters: &Clusters, cluster: usize) -> Result<()> {
        ensure!(cluster == WEST, "the preferred leader is in west");
        client(clusters, EAST, &["lead", BOOTSTRAP]).map(drop)
    }

    fn write(&self, clusters: &Clusters, cluster: usize, value: &str) -> Result<()> {
        client(clusters, cluster, &["write", BOOTSTRAP, value]).map(drop)
    }

    fn read(&self, clusters: &Clusters, cluster: usize) -> Result<String> {
        let text = client(clusters, cluster, &["read", BOOTSTRAP])?;
        Ok(text.trim().to_owned())
    }
}

/// Builds a command that runs Java in a pod, with the jars of Kafka.
fn java(clusters: &Clusters, cluster: usize) -> Result<Command> {
    let mut command = clusters.pod_command(cluster, &tool("java")?)?;
    command.args([&security(), "-XX:+UseSerialGC", "-cp"]);
    command.arg(installed("GLOBAL_DNS_TEST_KAFKA")?.join("*"));
    Ok(command)
}

/// Runs `kafka/client.py` in a pod.
fn client(clusters: &Clusters, cluster: usize, words: &[&str]) -> Result<String> {
    let mut command = clusters.pod_command(cluster, &tool("timeout")?)?;
    command.arg("30").arg(program("python")?);
    command.arg(repository("tests/system/clients/kafka/client.py"));
    run_checked(command.args(words))
}
