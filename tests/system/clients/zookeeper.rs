//! ZooKeeper: an ensemble of three members with a static list of names.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use support::commands::tool;
use support::multicluster::Clusters;
use support::multicluster::plan::{ALL, CLUSTERS, EAST, NORTH, Service};
use support::process::{Process, run_checked};

use crate::clients::database::{Database, Profile, address_of, configuration, data, name_of};
use crate::clients::java::security;

pub struct Zookeeper;

static SERVICES: [Service; 1] = [Service {
    name: "zookeeper",
    port_numbers: &[("client", 2181), ("quorum", 2888), ("election", 3888)],
    first: 42,
}];

/// The class path of Debian's package.
const CLASS_PATH: &str = "/etc/zookeeper/conf:/usr/share/java/zookeeper.jar";
/// The flag in `zookeeper/java.env`.
const NOTIFICATIONS: &str = "-Dzookeeper.fastleader.maxNotificationInterval=5000";
const NODE: &str = "/value";

// === impl Zookeeper ===

impl Database for Zookeeper {
    fn profile(&self) -> Profile {
        Profile {
            name: "zookeeper",
            version: &["dpkg-query", "--show", "zookeeper"],
            services: &SERVICES,
            splits: false,
            starts_with_two: true,
        }
    }

    fn start(&self, clusters: &Clusters, cluster: usize) -> Result<Vec<Process>> {
        let file = configuration(clusters, &SERVICES[0], cluster, "zookeeper/zoo.cfg")?;
        let text = fs::read_to_string(&file)?;
        fs::write(
            &file,
            text.replace(&name_of(&SERVICES[0], cluster), "0.0.0.0"),
        )?;
        let number = match cluster {
            NORTH => "1",
            EAST => "2",
            // The member with the largest number leads.
            _ => "3",
        };
        fs::write(data(clusters, cluster)?.join("myid"), number)?;
        let mut command = java(clusters, cluster)?;
        command.args([NOTIFICATIONS, &security()]);
        command
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(file);
        let name = format!("zookeeper-{}", CLUSTERS[cluster].name);
        Ok(vec![Process::start(name, command)?])
    }

    /// Each member of the quorum serves clients, and only these.
    fn members(&self, clusters: &Clusters, viewer: usize) -> Result<BTreeSet<usize>> {
        let is_member = |&cluster: &usize| {
            let addresses = clusters.addresses(viewer, &SERVICES[0], &[cluster]);
            let mut members = addresses.iter();
            !addresses.is_empty()
                && members.all(|address| check_role(clusters, viewer, address).is_ok())
        };
        Ok(ALL.into_iter().filter(is_member).collect())
    }

    fn write(&self, clusters: &Clusters, cluster: usize, value: &str) -> Result<()> {
        // Fails if the node exists already.
        let _ = shell(clusters, cluster, &["create", NODE, "new"]);
        let text = shell(clusters, cluster, &["set", NODE, value])?;
        ensure!(!text.contains("KeeperErrorCode"), "{text}");
        Ok(())
    }

    fn read(&self, clusters: &Clusters, cluster: usize) -> Result<String> {
        let text = shell(clusters, cluster, &["get", NODE])?;
        let value = text.lines().rev().find(|line| !line.trim().is_empty());
        Ok(value.context("no value")?.to_owned())
    }
}

/// Builds a command that runs a class in a pod.
fn java(clusters: &Clusters, cluster: usize) -> Result<Command> {
    let mut command = clusters.pod_command(cluster, &tool("java")?)?;
    command.args([
        "-Xmx128m",
        "-Dzookeeper.root.logger=INFO,CONSOLE",
        "-cp",
        CLASS_PATH,
    ]);
    Ok(command)
}

/// Runs a command in the shell of ZooKeeper.
fn shell(clusters: &Clusters, cluster: usize, words: &[&str]) -> Result<String> {
    let mut command = java(clusters, cluster)?;
    let server = format!("{}:2181", address_of(&SERVICES[0], cluster));
    command.arg("org.apache.zookeeper.ZooKeeperMain");
    command.args(["-waitforconnection", "-timeout", "5000", "-server", &server]);
    run_checked(command.args(words))
}

/// Asks a member for its role. Fails if it is not in a quorum.
fn check_role(clusters: &Clusters, viewer: usize, address: &str) -> Result<()> {
    let script = format!("exec 3<>/dev/tcp/{address}/2181 && echo srvr >&3 && cat <&3");
    let mut command = clusters.pod_command(viewer, &tool("timeout")?)?;
    let text = run_checked(command.args(["1", "bash", "-c", &script]))?;
    ensure!(text.contains("Mode: "), "{text}");
    Ok(())
}
