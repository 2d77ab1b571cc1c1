//! etcd: one member in each of three clusters. They discover each other with `--discovery-srv etcd.prod.global`.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::commands::tool;
use support::multicluster::Clusters;
use support::multicluster::plan::{CLUSTERS, EAST, Member, NAMESPACE, NORTH, WEST};
use support::output::print_line;
use support::process::{Process, run_checked};
use support::wait::eventually;

use crate::databases::plan::ETCD;

/// The client URL of a member within its own pod. It is the same in all clusters.
const LOCAL_URL: &str = "http://10.244.0.10:2379";

#[derive(Default)]
pub struct Etcd {
    /// Indexes into [`Clusters::databases`].
    processes: Vec<usize>,
}

// === impl Etcd ===

impl Etcd {
    pub fn form(&mut self, clusters: &mut Clusters) -> Result<()> {
        let started = Instant::now();
        for cluster in [EAST, WEST, NORTH] {
            let member = ETCD.member(cluster, 0);
            self.start(clusters, member, "new")?;
        }
        let leader = self.wait_until_healthy(clusters, 3)?;
        clusters.make_pods_ready()?;
        let took = started.elapsed().as_secs_f64();
        print_line(&format!(
            "etcd: three members in three clusters with leader {leader} after {took:.1} s"
        ));
        put(clusters, WEST, "first", "from west")?;
        check_value(clusters, NORTH, "first", "from west")
    }

    pub fn check_without_west(&mut self, clusters: &mut Clusters) -> Result<()> {
        eventually("a write without west", || {
            put(clusters, NORTH, "second", "from north")
        })?;
        check_value(clusters, EAST, "second", "from north")?;
        // A single member is a minority, so it accepts no writes.
        let alone = put(clusters, WEST, "third", "from west");
        ensure!(alone.is_err(), "west accepts writes without a majority");
        Ok(())
    }

    pub fn check_recovery(&mut self, clusters: &mut Clusters) -> Result<()> {
        let leader = self.wait_until_healthy(clusters, 3)?;
        print_line(&format!("etcd: complete again with leader {leader}"));
        eventually("the second value in west", || {
            let mut get = etcdctl(clusters, WEST)?;
            get.args(["--endpoints", LOCAL_URL, "get", "--consistency=s", "second"]);
            let got = run_checked(get.arg("--print-value-only"))?;
            ensure!(got.trim() == "from north", "west has {got:?}");
            Ok(())
        })
    }

    pub fn add_fourth_member(&mut self, clusters: &mut Clusters) -> Result<()> {
        let member = ETCD.member(EAST, 1);
        clusters.add(&[member])?;
        clusters.write_objects()?;
        for cluster in [EAST, WEST, NORTH] {
            clusters.check_answer(cluster, &ETCD, &[EAST, WEST, NORTH])?;
        }
        let mut add = etcdctl(clusters, NORTH)?;
        add.args(["--endpoints", LOCAL_URL, "member", "add", &name_of(member)]);
        run_checked(add.arg(format!("--peer-urls={}", peer_url(member))))?;
        self.start(clusters, member, "existing")?;
        let leader = self.wait_until_healthy(clusters, 4)?;
        print_line(&format!("etcd: four members with leader {leader}"));
        put(clusters, WEST, "fourth", "from west")?;
        let mut get = etcdctl(clusters, EAST)?;
        let own = "http://10.244.0.11:2379";
        get.args(["--endpoints", own, "get", "--print-value-only", "fourth"]);
        ensure!(run_checked(&mut get)?.trim() == "from west");
        ensure!(self.processes.len() == 4);
        self.processes
            .iter()
            .try_for_each(|&index| clusters.databases[index].check())
    }

    /// Starts a member. All members have the same flags, except for name and addresses.
    fn start(&mut self, clusters: &mut Clusters, member: Member, state: &str) -> Result<()> {
        let (pod, name) = (member.pod_address(), name_of(member));
        let mut command = clusters.pod_command(member.cluster, &tool("etcd")?)?;
        command.args([
            format!("--discovery-srv=etcd.{NAMESPACE}.global"),
            format!("--initial-cluster-state={state}"),
            "--initial-cluster-token=etcd".to_owned(),
            "--peer-auto-tls".to_owned(),
            format!("--name={name}"),
            format!("--initial-advertise-peer-urls={}", peer_url(member)),
            format!("--advertise-client-urls={}", client_url(member)),
            format!("--listen-peer-urls=https://{pod}:2380"),
            format!("--listen-client-urls=http://{pod}:2379"),
            format!("--data-dir={}", clusters.directory().join(&name).display()),
        ]);
        self.processes.push(clusters.databases.len());
        let process = Process::start(name, command)?;
        clusters.databases.push(process);
        Ok(())
    }

    /// Waits until etcdctl in every cluster discovers this number of healthy members with equal data. Returns the
    /// leader.
    fn wait_until_healthy(&self, clusters: &mut Clusters, count: usize) -> Result<String> {
        let members: BTreeSet<String> = clusters
            .members
            .iter()
            .filter(|member| *member.service == ETCD)
            .map(|member| client_url(*member))
            .collect();
        ensure!(members.len() == count, "{members:?}");
        let mut leaders = BTreeSet::new();
        for cluster in [EAST, WEST, NORTH] {
            let leader = eventually("a healthy cluster", || {
                for &index in &self.processes {
                    clusters.databases[index].check()?;
                }
                let run = |subcommand: [&str; 2]| -> Result<Value> {
                    let mut command = etcdctl(clusters, cluster)?;
                    command.args([
                        &format!("--discovery-srv=etcd.{NAMESPACE}.global"),
                        "--insecure-discovery",
                        "--write-out=json",
                    ]);
                    let text = run_checked(command.args(subcommand).arg("--cluster"))?;
                    serde_json::from_str(&text).with_context(|| text)
                };
                run(["endpoint", "health"])?;
                let hashes = run(["endpoint", "hashkv"])?;
                let hashes: BTreeSet<_> = hashes
                    .as_array()
                    .context("etcdctl returned no list of hashes")?
                    .iter()
                    .map(|each| each["HashKV"]["hash"].to_string())
                    .collect();
                ensure!(hashes.len() == 1, "the data of the members differ");
                let status = run(["endpoint", "status"])?;
                leader(&status, &members)
            })?;
            leaders.insert(leader);
        }
        let leader = leaders.pop_first().context("there is no leader")?;
        Ok(leader)
    }
}

/// Returns the leader. Fails unless the status is of exactly these members, and all report the same leader.
fn leader(status: &Value, members: &BTreeSet<String>) -> Result<String> {
    let each = status
        .as_array()
        .context("etcdctl returned no list of members")?;
    let url = |member: &Value| member["Endpoint"].as_str().unwrap_or_default().to_owned();
    let found: BTreeSet<String> = each.iter().map(url).collect();
    ensure!(
        found == *members,
        "the members are {found:?}, expected {members:?}"
    );
    let leaders: BTreeSet<String> = each
        .iter()
        .map(|member| member["Status"]["leader"].to_string())
        .collect();
    ensure!(
        leaders.len() == 1,
        "the members report different leaders: {leaders:?}"
    );
    let is_leader =
        |member: &&Value| leaders.contains(&member["Status"]["header"]["member_id"].to_string());
    each.iter()
        .find(is_leader)
        .map(url)
        .context("the leader is not a member")
}

fn name_of(member: Member) -> String {
    format!("{}.{}", member.host(), CLUSTERS[member.cluster].name)
}

fn peer_url(member: Member) -> String {
    format!("https://{}:2380", member.global_name())
}

fn client_url(member: Member) -> String {
    format!("http://{}:2379", member.global_name())
}

/// Writes a value through the member of a cluster.
fn put(clusters: &Clusters, cluster: usize, key: &str, value: &str) -> Result<()> {
    run_checked(etcdctl(clusters, cluster)?.args(["--endpoints", LOCAL_URL, "put", key, value]))
        .map(drop)
}

/// Asserts a value, read through the member of a cluster. The read is linearizable.
fn check_value(clusters: &Clusters, cluster: usize, key: &str, value: &str) -> Result<()> {
    let mut get = etcdctl(clusters, cluster)?;
    get.args(["--endpoints", LOCAL_URL, "get", "--print-value-only", key]);
    let got = run_checked(&mut get)?;
    ensure!(got.trim() == value, "{key} is {got:?}, expected {value:?}");
    Ok(())
}

fn etcdctl(clusters: &Clusters, cluster: usize) -> Result<Command> {
    let mut command = clusters.pod_command(cluster, &tool("etcdctl")?)?;
    command.env("ETCDCTL_API", "3").arg("--command-timeout=20s");
    Ok(command)
}
