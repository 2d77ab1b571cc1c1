//! etcd: three members that discover each other. The layer `databases` also adds members and moves a running etcd.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::commands::tool;
use support::multicluster::Clusters;
use support::multicluster::plan::{ALL, CLUSTER_DNS, CLUSTERS, EAST, Service};
use support::process::{Process, run, run_checked};
use support::wait::eventually;

use crate::clients::database::{Database, Profile, address_of, cluster_of, configuration, name_of};

pub struct Etcd;

static SERVICES: [Service; 1] = [Service {
    name: "etcd",
    port_numbers: &[("etcd-server-ssl", 2380), ("etcd-client", 2379)],
    first: 46,
}];

// === impl Etcd ===

impl Database for Etcd {
    fn profile(&self) -> Profile {
        Profile {
            name: "etcd",
            version: &["etcd", "--version"],
            services: &SERVICES,
            splits: false,
            starts_with_two: false,
        }
    }

    fn prepare(&self, clusters: &mut Clusters) -> Result<()> {
        clusters.expect_clusters(&SERVICES[0], "east+west+north")?;
        for cluster in ALL {
            let server = format!("@{CLUSTER_DNS}");
            let arguments = [&server, "+tries=1", "etcd.prod.global", "SRV"];
            eventually("the annotation", || {
                let text = clusters.network(cluster).run("dig", &arguments)?;
                ensure!(text.contains("status: SERVFAIL"), "{text}");
                Ok(())
            })?;
        }
        Ok(())
    }

    fn start(&self, clusters: &Clusters, cluster: usize) -> Result<Vec<Process>> {
        start(clusters, &SERVICES[0], cluster, "etcd/etcd.yml").map(|etcd| vec![etcd])
    }

    fn members(&self, clusters: &Clusters, viewer: usize) -> Result<BTreeSet<usize>> {
        let arguments = ["endpoint", "health", "--cluster", "--write-out=json"];
        // It fails if a member is not healthy.
        let text = run(etcdctl(clusters, viewer)?.args(arguments)).stdout;
        let list: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        let list = list.as_array().context("no list")?.iter();
        let healthy = list.filter(|each| each["health"] == true);
        let hosts = healthy.filter_map(|each| {
            let url = each["endpoint"].as_str()?.strip_prefix("http://")?;
            cluster_of(&SERVICES[0], url.strip_suffix(":2379")?)
        });
        Ok(hosts.collect())
    }

    /// Moves the leadership to the member of a cluster.
    fn lead(&self, clusters: &Clusters, cluster: usize) -> Result<()> {
        let arguments = ["endpoint", "status", "--cluster", "--write-out=json"];
        let all: Value =
            serde_json::from_str(&run_checked(etcdctl(clusters, EAST)?.args(arguments))?)?;
        let mut all = all.as_array().context("no list")?.iter();
        let url = url_of(cluster);
        let target = all.find(|each| each["Endpoint"] == url.as_str());
        let status = &target.context("no such member")?["Status"];
        let (id, leader) = (
            status["header"]["member_id"].as_u64(),
            status["leader"].as_u64(),
        );
        if id == leader {
            return Ok(());
        }
        // Only the leader can move the leadership.
        let mut transfer = etcdctl(clusters, EAST)?;
        transfer.env("ETCDCTL_ENDPOINTS", ALL.map(url_of).join(","));
        transfer.args(["move-leader", &format!("{:x}", id.context("no ID")?)]);
        run_checked(&mut transfer).map(drop)
    }

    fn write(&self, clusters: &Clusters, cluster: usize, value: &str) -> Result<()> {
        run_checked(etcdctl(clusters, cluster)?.args(["put", "value", value])).map(drop)
    }

    fn read(&self, clusters: &Clusters, cluster: usize) -> Result<String> {
        let arguments = ["get", "--print-value-only", "value"];
        let text = run_checked(etcdctl(clusters, cluster)?.args(arguments))?;
        Ok(text.trim().to_owned())
    }
}

/// Starts the member of a cluster with a configuration.
pub fn start(
    clusters: &Clusters,
    service: &'static Service,
    cluster: usize,
    file: &str,
) -> Result<Process> {
    let file = configuration(clusters, service, cluster, file)?;
    let mut command = clusters.pod_command(cluster, &tool("etcd")?)?;
    command.arg("--config-file").arg(file);
    Process::start(format!("etcd-{}", CLUSTERS[cluster].name), command)
}

fn url_of(cluster: usize) -> String {
    format!("http://{}:2379", name_of(&SERVICES[0], cluster))
}

fn etcdctl(clusters: &Clusters, cluster: usize) -> Result<Command> {
    let address = address_of(&SERVICES[0], cluster);
    let mut command = clusters.pod_command(cluster, &tool("etcdctl")?)?;
    command.env("ETCDCTL_API", "3");
    command.env("ETCDCTL_ENDPOINTS", format!("http://{address}:2379"));
    command.args(["--command-timeout=2s", "--dial-timeout=1s"]);
    Ok(command)
}
