//! etcd: one member in each of three clusters. They discover each other with `--discovery-srv etcd.prod.global`, or each has a
//! list of the own names of all pods, and advertises `hostname -f`.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::commands::tool;
use support::manual::Section;
use support::multicluster::Clusters;
use support::multicluster::plan::{Member, NAMESPACE, NORTH, Service};
use support::process::{Process, run_checked};

use crate::databases::{Program, Store};

/// The names by which members know each other.
#[derive(Clone, Copy)]
pub enum Names {
    /// Those in the zone of all clusters.
    Global,
    /// Those that Kubernetes gives the pods.
    Own,
}

pub struct Etcd {
    pub service: &'static Service,
    pub names: Names,
}

// === impl Etcd ===

impl Program for Etcd {
    fn service(&self) -> &'static Service {
        self.service
    }

    /// Starts a member with the flags of the manual. All members have the same, except for name and addresses.
    fn start(&self, clusters: &mut Clusters, member: Member) -> Result<()> {
        let (name, pod) = (self.name(member), member.pod_address());
        let state = if member.ordinal == 0 {
            "new"
        } else {
            let mut add = etcdctl(clusters, self.service.member(NORTH, 0))?;
            add.args(["member", "add", &name]);
            run_checked(add.arg(format!("--peer-urls=https://{name}:2380")))?;
            "existing"
        };
        let command = clusters.member_command(
            member,
            &format!(
                "exec {} {} --initial-cluster-state={state} --initial-cluster-token={} --peer-auto-tls \
                 --listen-peer-urls=https://{pod}:2380 --listen-client-urls=http://{pod}:2379 --data-dir={}",
                tool("etcd")?.display(),
                self.flags(clusters, member)?,
                self.service.name,
                clusters.directory().join(&name).display(),
            ),
        )?;
        clusters.databases.push(Process::start(name, command)?);
        Ok(())
    }

    /// Asserts that etcdctl in a cluster finds exactly these members, which are healthy and have equal data.
    fn check(&self, clusters: &Clusters, viewer: Member, members: &[Member]) -> Result<()> {
        let run = |subcommand: &str| -> Result<Vec<Value>> {
            let mut command = etcdctl(clusters, viewer)?;
            if let Names::Global = self.names {
                let name = format!("{}.{NAMESPACE}.global", self.service.name);
                command.env_remove("ETCDCTL_ENDPOINTS");
                command.args(["--discovery-srv", &name, "--insecure-discovery"]);
            }
            command.args(["endpoint", subcommand, "--cluster", "--write-out=json"]);
            let text = run_checked(&mut command)?;
            serde_json::from_str(&text).with_context(|| text)
        };
        let health = run("health")?;
        let found = health.iter().filter_map(|each| each["endpoint"].as_str());
        let found: BTreeSet<&str> = found.collect();
        let urls = members.iter().map(|member| self.client_url(*member));
        let urls: Vec<String> = urls.collect();
        let expected: BTreeSet<&str> = urls.iter().map(String::as_str).collect();
        ensure!(
            found == expected,
            "they are {found:?}, expected {expected:?}"
        );
        let hashes = run("hashkv")?;
        let hashes: BTreeSet<String> = hashes
            .iter()
            .map(|each| each["HashKV"]["hash"].to_string())
            .collect();
        ensure!(hashes.len() == 1, "the data of the members differ");
        Ok(())
    }

    fn store(&self) -> Option<&dyn Store> {
        Some(self)
    }
}

impl Store for Etcd {
    fn write(&self, clusters: &Clusters, member: Member, value: &str) -> Result<()> {
        run_checked(etcdctl(clusters, member)?.args(["put", "value", value])).map(drop)
    }

    /// Reads the value. The read is linearizable.
    fn read(&self, clusters: &Clusters, member: Member) -> Result<String> {
        run_checked(etcdctl(clusters, member)?.args(["get", "--print-value-only", "value"]))
    }
}

impl Etcd {
    /// Returns the flags of the manual, with the way to the other members.
    fn flags(&self, clusters: &Clusters, member: Member) -> Result<String> {
        let section = Section::read("databases.md", "Programs that build their own names")?;
        let text = section.texts("sh")?.concat();
        let flags = text.trim().strip_prefix("etcd ").context("no etcd")?;
        if let Names::Global = self.names {
            let flags = flags.replace("$(hostname -f)", &member.global_name());
            let service = self.service.name;
            return Ok(format!(
                "{flags} --discovery-srv={service}.{NAMESPACE}.global"
            ));
        }
        let mut list = Vec::new();
        for member in &clusters.members {
            if member.service == self.service {
                let name = member.own_name();
                list.push(format!("{name}=https://{name}:2380"));
            }
        }
        Ok(format!("{flags} --initial-cluster={}", list.join(",")))
    }

    fn name(&self, member: Member) -> String {
        match self.names {
            Names::Global => member.global_name(),
            Names::Own => member.own_name(),
        }
    }

    fn client_url(&self, member: Member) -> String {
        format!("http://{}:2379", self.name(member))
    }
}

/// Builds a command that asks a member, in the network of its cluster.
fn etcdctl(clusters: &Clusters, member: Member) -> Result<Command> {
    let mut command = clusters.pod_command(member.cluster, &tool("etcdctl")?)?;
    let url = format!("http://{}:2379", member.pod_address());
    command
        .env("ETCDCTL_API", "3")
        .env("ETCDCTL_ENDPOINTS", url);
    command.arg("--command-timeout=5s");
    Ok(command)
}
