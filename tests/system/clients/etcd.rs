//! etcd: three members that discover each other, a learner, and a member that is replaced.

use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::commands::{command, find, tool};
use support::multicluster::Clusters;
use support::multicluster::plan::{ALL, CLUSTER_DNS, CLUSTERS, EAST, Member, NORTH, Service};
use support::output::print_line;
use support::process::{Process, run, run_checked};
use support::wait::eventually;

use crate::clients::database::{
    Alone, Database, Profile, Scenario, cluster_of, configuration, data,
};

pub struct Etcd;

static SERVICES: [Service; 1] = [Service {
    name: "etcd",
    port_numbers: &[("etcd-server-ssl", 2380), ("etcd-client", 2379)],
    first: 46,
}];

const FILE: &str = "etcd/etcd.yml";

// === impl Etcd ===

impl Database for Etcd {
    fn profile(&self) -> Profile {
        Profile {
            name: "etcd",
            title: "etcd",
            services: &SERVICES,
            setting: "`election-timeout` 1 s; new address: keepalive of TCP, fixed",
            alone: Alone::Waits,
            starts_with_two: false,
        }
    }

    fn version(&self) -> Result<String> {
        let text = run_checked(command(program()?).arg("--version"))?;
        let version = text
            .lines()
            .find_map(|line| line.strip_prefix("etcd Version: "));
        Ok(version.context("no version")?.to_owned())
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
        let file = configuration(clusters, &SERVICES[0], cluster, FILE)?;
        let mut command = clusters.pod_command(cluster, &program()?)?;
        command.arg("--config-file").arg(file);
        let name = format!("etcd-{}", CLUSTERS[cluster].name);
        Ok(vec![Process::start(name, command)?])
    }

    fn members(&self, clusters: &Clusters, viewer: usize) -> Result<BTreeSet<usize>> {
        healthy(clusters, viewer, &SERVICES[0])
    }

    fn lead(&self, clusters: &Clusters, cluster: usize) -> Result<()> {
        lead(clusters, cluster, &SERVICES[0])
    }

    fn write(&self, clusters: &Clusters, cluster: usize, value: &str) -> Result<()> {
        etcdctl(clusters, cluster, &["put", "value", value]).map(drop)
    }

    fn read(&self, clusters: &Clusters, cluster: usize) -> Result<String> {
        let text = etcdctl(clusters, cluster, &["get", "--print-value-only", "value"])?;
        Ok(text.trim().to_owned())
    }

    fn further(&self, scenario: &mut Scenario<'_>) -> Result<()> {
        // Discovery needs all members.
        scenario.clusters.set_failover(&SERVICES[0], "*")?;
        scenario.clusters.check_answer(EAST, &SERVICES[0], &ALL)?;
        replace_member(scenario)?;
        add_learner(scenario)
    }
}

/// Replaces the member of `north`, which has lost its data.
fn replace_member(scenario: &mut Scenario<'_>) -> Result<()> {
    let began = Instant::now();
    let member = SERVICES[0].member(NORTH, 0);
    scenario.running[NORTH].clear();
    let folder = data(&scenario.clusters, NORTH)?;
    fs::remove_dir_all(folder.join("etcd"))?;
    let old = id_of(&scenario.clusters, EAST, member)?;
    scenario.wait_until(began, |scenario| {
        // It fails during an election, and if an earlier attempt was late.
        let _ = etcdctl(&scenario.clusters, EAST, &["member", "remove", &old]);
        let left = id_of(&scenario.clusters, EAST, member);
        ensure!(left.is_err(), "it is still a member");
        list(&scenario.clusters, EAST).map(drop)
    })?;
    add_member(scenario, member, &[])?;
    let file = folder.join("etcd.yml");
    let text = fs::read_to_string(&file)?;
    fs::write(
        file,
        text.replace("cluster-state: new", "cluster-state: existing"),
    )?;
    scenario.start_member(NORTH)?;
    scenario.wait_until(began, |scenario| scenario.check_members(&ALL))?;
    let new = id_of(&scenario.clusters, EAST, member)?;
    ensure!(new != old, "the member still has the ID {old}");
    scenario.check_data(NORTH, "replaced", &ALL)?;
    let seconds = began.elapsed().as_secs_f64();
    print_line(&format!(
        "etcd: a member without data was replaced in {seconds:.1} s"
    ));
    Ok(())
}

/// Adds a second member in `east` as a learner, and promotes it.
fn add_learner(scenario: &mut Scenario<'_>) -> Result<()> {
    let began = Instant::now();
    let member = SERVICES[0].member(EAST, 1);
    scenario.clusters.add(&[member])?;
    scenario.clusters.write_objects()?;
    scenario.clusters.check_answer(EAST, &SERVICES[0], &ALL)?;
    add_member(scenario, member, &["--learner"])?;
    let folder = data(&scenario.clusters, EAST)?;
    let text = fs::read_to_string(folder.join("etcd.yml"))?;
    let first = SERVICES[0].member(EAST, 0);
    let text = text
        .replace(&first.global_name(), &member.global_name())
        .replace(&first.pod_address(), &member.pod_address())
        .replace("cluster-state: new", "cluster-state: existing")
        .replace("/etcd\n", "/learner\n");
    let file = folder.join("learner.yml");
    fs::write(&file, text)?;
    let mut start = scenario.clusters.pod_command(EAST, &program()?)?;
    start.arg("--config-file").arg(file);
    let mut learner = Process::start("etcd-learner", start)?;
    let id = id_of(&scenario.clusters, EAST, member)?;
    scenario
        .wait_until(began, |scenario| {
            etcdctl(&scenario.clusters, EAST, &["member", "promote", &id]).map(drop)
        })
        .with_context(|| learner.log_tail())?;
    learner.check()?;
    let voters = list(&scenario.clusters, EAST)?;
    let voters = voters.iter().filter(|member| member["isLearner"] != true);
    ensure!(voters.count() == 4, "not four voters");
    let seconds = began.elapsed().as_secs_f64();
    print_line(&format!(
        "etcd: a learner was promoted after {seconds:.1} s"
    ));
    scenario.check_data(EAST, "four", &ALL)
}

fn add_member(scenario: &mut Scenario<'_>, member: Member, flags: &[&str]) -> Result<()> {
    let name = member.global_name();
    let url = format!("--peer-urls=https://{name}:2380");
    let words = [&["member", "add", &name, &url], flags].concat();
    scenario.wait_until(Instant::now(), |scenario| {
        // It fails during an election, and if an earlier attempt was late.
        let _ = etcdctl(&scenario.clusters, EAST, &words);
        id_of(&scenario.clusters, EAST, member).map(drop)
    })?;
    Ok(())
}

/// Returns the clusters with healthy members, as the member of a cluster lists them.
pub fn healthy(
    clusters: &Clusters,
    viewer: usize,
    service: &'static Service,
) -> Result<BTreeSet<usize>> {
    let arguments = ["endpoint", "health", "--cluster", "--write-out=json"];
    // It fails if a member is not healthy.
    let text = run(control(clusters, viewer, service)?.args(arguments)).stdout;
    let list: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
    let list = list.as_array().context("no list")?.iter();
    let healthy = list.filter(|each| each["health"] == true);
    let hosts = healthy.filter_map(|each| {
        let url = each["endpoint"].as_str()?.strip_prefix("http://")?;
        cluster_of(service, url.strip_suffix(":2379")?)
    });
    Ok(hosts.collect())
}

/// Moves the leadership to the member of a cluster.
pub fn lead(clusters: &Clusters, cluster: usize, service: &'static Service) -> Result<()> {
    let mut status = control(clusters, EAST, service)?;
    let text = run_checked(status.args(["endpoint", "status", "--cluster", "--write-out=json"]))?;
    let all: Value = serde_json::from_str(&text)?;
    let mut all = all.as_array().context("no list")?.iter();
    let name = service.member(cluster, 0).global_name();
    let is_of = |url: &Value| url.as_str().is_some_and(|url| url.contains(&name));
    let target = all
        .find(|each| is_of(&each["Endpoint"]))
        .context("no such member")?;
    let (id, leader) = (
        target["Status"]["header"]["member_id"]
            .as_u64()
            .context("no ID")?,
        target["Status"]["leader"].as_u64().context("no leader")?,
    );
    if id == leader {
        return Ok(());
    }
    // Only the leader can move the leadership.
    let mut transfer = control(clusters, EAST, service)?;
    let endpoints =
        ALL.map(|cluster| format!("http://{}:2379", service.member(cluster, 0).global_name()));
    transfer.env("ETCDCTL_ENDPOINTS", endpoints.join(","));
    run_checked(transfer.args(["move-leader", &format!("{id:x}")])).map(drop)
}

fn id_of(clusters: &Clusters, viewer: usize, member: Member) -> Result<String> {
    let url = format!("https://{}:2380", member.global_name());
    let members = list(clusters, viewer)?;
    let mut members = members.iter();
    let found = members.find(|each| each["peerURLs"][0] == url.as_str());
    let id = found.context("no such member")?["ID"].as_u64();
    Ok(format!("{:x}", id.context("no ID")?))
}

fn list(clusters: &Clusters, viewer: usize) -> Result<Vec<Value>> {
    let text = etcdctl(clusters, viewer, &["member", "list", "--write-out=json"])?;
    let list: Value = serde_json::from_str(&text)?;
    Ok(list["members"].as_array().context("no list")?.clone())
}

fn etcdctl(clusters: &Clusters, cluster: usize, words: &[&str]) -> Result<String> {
    run_checked(control(clusters, cluster, &SERVICES[0])?.args(words))
}

fn control(
    clusters: &Clusters,
    cluster: usize,
    service: &'static Service,
) -> Result<std::process::Command> {
    let address = service.member(cluster, 0).pod_address();
    let mut command = clusters.pod_command(cluster, &tool("etcdctl")?)?;
    command
        .env("ETCDCTL_API", "3")
        .env("ETCDCTL_ENDPOINTS", format!("http://{address}:2379"));
    command.args(["--command-timeout=2s", "--dial-timeout=1s"]);
    Ok(command)
}

/// Returns the program of the tested release, which is newer than the one of the API server.
pub fn program() -> Result<std::path::PathBuf> {
    find("etcd_3_6").context("etcd 3.6 is not installed; run tests/run clients to install it")
}
