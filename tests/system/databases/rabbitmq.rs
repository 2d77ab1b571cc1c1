//! RabbitMQ: one node in each of three clusters, by the own names of their pods. The settings are those of the manual.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Result, ensure};
use support::commands::tool;
use support::manual::Section;
use support::multicluster::Clusters;
use support::multicluster::plan::{EAST, Member, Service};
use support::process::{Process, run_checked};

use crate::databases::plan::RABBITMQ;
use crate::databases::{Program, Store};

/// The server of Debian's package, without a change of the user.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
/// The secret that the nodes share.
const COOKIE: &str = "cookie";

pub struct Rabbitmq;

// === impl Rabbitmq ===

impl Program for Rabbitmq {
    fn service(&self) -> &'static Service {
        &RABBITMQ
    }

    fn start(&self, clusters: &mut Clusters, member: Member) -> Result<()> {
        let name = node(member);
        let folder = clusters.directory().join(&name);
        fs::create_dir(&folder)?;
        let cookie = folder.join(".erlang.cookie");
        fs::write(&cookie, COOKIE)?;
        fs::set_permissions(&cookie, Permissions::from_mode(0o400))?;
        let section = Section::read("databases.md", "Programs that build their own names")?;
        fs::write(folder.join("rabbitmq.conf"), section.texts("ini")?.concat())?;
        // The default of `net_ticktime` is 60 s, after which a node that does not answer is lost.
        let mut environment =
            "USE_LONGNAME=true\nSERVER_ADDITIONAL_ERL_ARGS='-kernel net_ticktime 8'\n".to_owned();
        // The pods of a cluster share a network here, and with it the process that tells the ports of nodes.
        if member.ordinal == 0 {
            let epmd = clusters.pod_command(member.cluster, &tool("epmd")?)?;
            clusters.databases.push(Process::start("epmd", epmd)?);
        } else {
            environment += "NODENAME=second@$(hostname -f)\nNODE_PORT=5673\nDIST_PORT=25673\n";
        }
        fs::write(folder.join("rabbitmq-env.conf"), environment)?;
        let mut command = clusters.member_command(member, &format!("exec {SERVER}"))?;
        command
            .env("HOME", &folder)
            .env("RABBITMQ_CONF_ENV_FILE", folder.join("rabbitmq-env.conf"))
            .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("no-plugins"))
            .env("RABBITMQ_MNESIA_BASE", folder.join("mnesia"))
            .env("RABBITMQ_LOG_BASE", folder.join("log"))
            .env("RABBITMQ_LOGS", "-")
            .env("ERL_CRASH_DUMP_SECONDS", "0");
        let mut process = Process::start(name, command)?.with_children();
        if member.cluster == EAST {
            // A node that reaches no other one forms a cluster of its own, so this is the first one.
            process.wait_for("end of the start", |log| {
                log.text().contains("Server startup complete").then_some(())
            })?;
        }
        clusters.databases.push(process);
        Ok(())
    }

    fn check(&self, clusters: &Clusters, viewer: Member, members: &[Member]) -> Result<()> {
        let list = call(clusters, viewer, "rabbit_mnesia cluster_nodes [running]")?;
        let found = list.split('\'').filter(|text| text.contains('@'));
        let found: BTreeSet<String> = found.map(str::to_owned).collect();
        let expected: BTreeSet<String> = members.iter().map(|member| node(*member)).collect();
        ensure!(
            found == expected,
            "they are {found:?}, expected {expected:?}"
        );
        Ok(())
    }

    fn store(&self) -> Option<&dyn Store> {
        Some(self)
    }
}

/// The value is a global parameter, which all nodes have.
impl Store for Rabbitmq {
    fn write(&self, clusters: &Clusters, member: Member, value: &str) -> Result<()> {
        let function = format!("rabbit_runtime_parameters set_global [value,{value},test]");
        let got = call(clusters, member, &function)?;
        ensure!(got.trim() == "ok", "{got}");
        Ok(())
    }

    fn read(&self, clusters: &Clusters, member: Member) -> Result<String> {
        call(
            clusters,
            member,
            "rabbit_runtime_parameters value_global [value]",
        )
    }
}

/// Returns the name of a node. Nodes in one network have different ones before the host name.
fn node(member: Member) -> String {
    let prefix = if member.ordinal == 0 {
        "rabbit"
    } else {
        "second"
    };
    format!("{prefix}@{}", member.own_name())
}

/// Calls a function of a node, in the network of its cluster.
fn call(clusters: &Clusters, member: Member, function: &str) -> Result<String> {
    let mut call = clusters.pod_command(member.cluster, &tool("timeout")?)?;
    call.args(["5", "erl_call", "-c", COOKIE, "-n", &node(member)]);
    run_checked(call.args(["-a", function]))
}
