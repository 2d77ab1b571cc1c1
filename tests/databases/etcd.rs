//! etcd: three members that find each other by `--discovery-srv etcd.prod.global`, one in each cluster.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::commands::tool;
use support::process::{Process, finish};
use support::say::say;
use support::wait::eventually;

use crate::clusters::{Clusters, PATIENCE};
use crate::plan::{CLUSTERS, EAST, ETCD, Member, NAMESPACE, NORTH, WEST};

/// A member's own address for clients, on any pod.
const OWN: &str = "http://10.244.0.10:2379";

#[derive(Default)]
pub struct Etcd {
    /// Where its processes are among those of all databases.
    processes: Vec<usize>,
}

// === impl Etcd ===

impl Etcd {
    pub fn form(&mut self, clusters: &mut Clusters) -> Result<()> {
        let started = Instant::now();
        for cluster in [EAST, WEST, NORTH] {
            let member = Member {
                service: &ETCD,
                cluster,
                ordinal: 0,
            };
            self.start(clusters, member, "new")?;
        }
        let leader = self.wait_until_healthy(clusters, 3)?;
        clusters.make_pods_ready()?;
        let took = started.elapsed().as_secs_f64();
        say(&format!(
            "etcd: three members over three clusters, led by {leader}, after {took:.1} s"
        ));
        put(clusters, WEST, "first", "from west")?;
        is(clusters, NORTH, "first", "from west")
    }

    pub fn go_on_without_west(&mut self, clusters: &mut Clusters) -> Result<()> {
        eventually("a write without west", PATIENCE, || {
            put(clusters, NORTH, "second", "from north")
        })?;
        is(clusters, EAST, "second", "from north")?;
        // A minority of one neither reads nor writes.
        let alone = put(clusters, WEST, "third", "from west");
        ensure!(alone.is_err(), "west alone takes writes");
        Ok(())
    }

    pub fn is_whole_again(&mut self, clusters: &mut Clusters) -> Result<()> {
        let leader = self.wait_until_healthy(clusters, 3)?;
        say(&format!("etcd: whole again, led by {leader}"));
        eventually("west to catch up", PATIENCE, || {
            let mut get = etcdctl(clusters, WEST)?;
            get.args(["--endpoints", OWN, "get", "--consistency=s", "second"]);
            let got = finish(get.arg("--print-value-only"))?;
            ensure!(got.trim() == "from north", "west has {got:?}");
            Ok(())
        })
    }

    pub fn take_a_fourth_member_in(&mut self, clusters: &mut Clusters) -> Result<()> {
        let member = Member {
            service: &ETCD,
            cluster: EAST,
            ordinal: 1,
        };
        clusters.add(member)?;
        clusters.show_members()?;
        for cluster in [EAST, WEST, NORTH] {
            clusters.answer_is(cluster, &ETCD, &[EAST, WEST, NORTH])?;
        }
        let mut add = etcdctl(clusters, NORTH)?;
        add.args(["--endpoints", OWN, "member", "add", &name_of(member)]);
        finish(add.arg(format!("--peer-urls={}", peer_url(member))))?;
        self.start(clusters, member, "existing")?;
        let leader = self.wait_until_healthy(clusters, 4)?;
        say(&format!("etcd: four members, led by {leader}"));
        put(clusters, WEST, "fourth", "from west")?;
        let mut get = etcdctl(clusters, EAST)?;
        let own = "http://10.244.0.11:2379";
        get.args(["--endpoints", own, "get", "--print-value-only", "fourth"]);
        ensure!(finish(&mut get)?.trim() == "from west");
        ensure!(self.processes.len() == 4);
        self.processes
            .iter()
            .try_for_each(|&index| clusters.databases[index].check())
    }

    /// Starts a member. But for its own name and addresses, every member has the same flags.
    fn start(&mut self, clusters: &mut Clusters, member: Member, state: &str) -> Result<()> {
        let (pod, name) = (member.pod_address(), name_of(member));
        let mut command = clusters.pod(member.cluster, &tool("etcd")?)?;
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

    /// Waits until etcdctl, which finds the members by the same name, finds so many of them healthy from every
    /// cluster, and with the same data; returns the leader.
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
            let leader = eventually("a healthy cluster", PATIENCE, || {
                for &index in &self.processes {
                    clusters.databases[index].check()?;
                }
                let ask = |words: [&str; 2]| -> Result<Value> {
                    let mut command = etcdctl(clusters, cluster)?;
                    command.args([
                        &format!("--discovery-srv=etcd.{NAMESPACE}.global"),
                        "--insecure-discovery",
                        "--write-out=json",
                    ]);
                    let text = finish(command.args(words).arg("--cluster"))?;
                    serde_json::from_str(&text).with_context(|| text)
                };
                ask(["endpoint", "health"])?;
                let hashes = ask(["endpoint", "hashkv"])?;
                let hashes = hashes.as_array().context("no list of hashes")?;
                let hashes: BTreeSet<_> = hashes
                    .iter()
                    .map(|each| each["HashKV"]["hash"].to_string())
                    .collect();
                ensure!(hashes.len() == 1, "their data differ");
                let status = ask(["endpoint", "status"])?;
                leader(&status, &members)
            })?;
            leaders.insert(leader);
        }
        let leader = leaders.pop_first().context("no leader")?;
        Ok(leader)
    }
}

/// The leader that all members name, who are exactly these.
fn leader(status: &Value, members: &BTreeSet<String>) -> Result<String> {
    let each = status.as_array().context("no list of members")?;
    let url = |member: &Value| member["Endpoint"].as_str().unwrap_or_default().to_owned();
    let found: BTreeSet<String> = each.iter().map(url).collect();
    ensure!(found == *members, "members are {found:?}");
    let leaders: BTreeSet<String> = each
        .iter()
        .map(|member| member["Status"]["leader"].to_string())
        .collect();
    ensure!(leaders.len() == 1, "leaders are {leaders:?}");
    let is_leader =
        |member: &&Value| leaders.contains(&member["Status"]["header"]["member_id"].to_string());
    each.iter()
        .find(is_leader)
        .map(url)
        .context("the leader is no member")
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

/// Writes by the member of a cluster.
fn put(clusters: &Clusters, cluster: usize, key: &str, value: &str) -> Result<()> {
    finish(etcdctl(clusters, cluster)?.args(["--endpoints", OWN, "put", key, value])).map(drop)
}

/// A read by the member of a cluster, which asks its leader, gives this.
fn is(clusters: &Clusters, cluster: usize, key: &str, value: &str) -> Result<()> {
    let mut get = etcdctl(clusters, cluster)?;
    get.args(["--endpoints", OWN, "get", "--print-value-only", key]);
    let got = finish(&mut get)?;
    ensure!(got.trim() == value, "{key} is {got:?}");
    Ok(())
}

fn etcdctl(clusters: &Clusters, cluster: usize) -> Result<Command> {
    let mut command = clusters.pod(cluster, &tool("etcdctl")?)?;
    command.env("ETCDCTL_API", "3").arg("--command-timeout=3s");
    Ok(command)
}
