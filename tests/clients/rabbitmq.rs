//! RabbitMQ: three nodes with a static list of names.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::commands::tool;
use support::multicluster::Clusters;
use support::multicluster::plan::{CLUSTERS, EAST, Service};
use support::process::{Process, run_checked};

use crate::database::{Alone, Database, Profile, cluster_of, configuration, data, name_of};

pub struct Rabbitmq;

static SERVICES: [Service; 1] = [Service {
    name: "rabbitmq",
    port_numbers: &[("epmd", 4369), ("distribution", 25672), ("amqp", 5672)],
    first: 44,
}];

/// The folder of the scripts that run without a change of the user.
const SCRIPTS: &str = "/usr/lib/rabbitmq/bin";

/// The name of the global parameter with the value.
const PARAMETER: &str = "value";

// === impl Rabbitmq ===

impl Database for Rabbitmq {
    fn profile(&self) -> Profile {
        Profile {
            name: "rabbitmq",
            title: "RabbitMQ",
            services: &SERVICES,
            setting: "`net_ticktime` 16 s",
            alone: Alone::Splits,
            starts_with_two: true,
        }
    }

    fn version(&self) -> Result<String> {
        let mut query = Command::new(tool("dpkg-query")?);
        query.args(["--show", "--showformat=${Version}", "rabbitmq-server"]);
        let package = run_checked(&mut query)?;
        Ok(package.split('-').next().unwrap_or_default().to_owned())
    }

    fn start(&self, clusters: &Clusters, cluster: usize) -> Result<Vec<Process>> {
        let site = CLUSTERS[cluster].name;
        let cookie = clusters.directory().join(".erlang.cookie");
        if !cookie.exists() {
            fs::write(&cookie, "cookie")?;
            fs::set_permissions(&cookie, Permissions::from_mode(0o400))?;
        }
        // The nodes of one network use this process. Otherwise the first node starts it, and it stays.
        let epmd = clusters.pod_command(cluster, &tool("epmd")?)?;
        let epmd = Process::start(format!("epmd-{site}"), epmd)?;
        let server = script(clusters, cluster, "rabbitmq-server")?;
        let server = Process::start(format!("rabbitmq-{site}"), server)?;
        Ok(vec![server.with_children(), epmd])
    }

    fn join(&self, clusters: &Clusters, cluster: usize) -> Result<()> {
        let first = format!("rabbit@{}", name_of(&SERVICES[0], EAST));
        for words in [&["stop_app"][..], &["reset"], &["join_cluster", &first], &["start_app"]] {
            rabbitmqctl(clusters, cluster, words)?;
        }
        Ok(())
    }

    fn members(&self, clusters: &Clusters, viewer: usize) -> Result<BTreeSet<usize>> {
        let text = rabbitmqctl(clusters, viewer, &["cluster_status", "--formatter", "json"])?;
        let status: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        let running = status["running_nodes"].as_array().context("no list of nodes")?;
        let running = running.iter().filter_map(Value::as_str);
        Ok(running.filter_map(|node| cluster_of(&SERVICES[0], node)).collect())
    }

    fn write(&self, clusters: &Clusters, cluster: usize, value: &str) -> Result<()> {
        let value = Value::from(value).to_string();
        rabbitmqctl(clusters, cluster, &["set_global_parameter", PARAMETER, &value]).map(drop)
    }

    fn read(&self, clusters: &Clusters, cluster: usize) -> Result<String> {
        let words = ["list_global_parameters", "--formatter", "json"];
        let text = rabbitmqctl(clusters, cluster, &words)?;
        let list: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        let mut list = list.as_array().into_iter().flatten();
        let found = list.find(|parameter| parameter["name"] == PARAMETER);
        let value = found.context("no parameter")?["value"].to_string();
        Ok(value.replace(['"', '\\'], ""))
    }
}

/// Builds a command that runs a script of RabbitMQ in a pod.
fn script(clusters: &Clusters, cluster: usize, name: &str) -> Result<Command> {
    let service = &SERVICES[0];
    let folder = data(clusters, cluster)?;
    let configured = configuration(clusters, service, cluster, "rabbitmq/rabbitmq.conf")?;
    let environment = configuration(clusters, service, cluster, "rabbitmq/rabbitmq-env.conf")?;
    let plugins = folder.join("enabled_plugins");
    fs::write(&plugins, "[].\n")?;
    let program = Path::new(SCRIPTS).join(name);
    ensure!(program.exists(), "{program:?} does not exist; run tests/run clients to install it");
    let mut command = clusters.pod_command(cluster, &program)?;
    command
        // The folder of the cookie: the same one for all.
        .env("HOME", clusters.directory())
        .env("RABBITMQ_CONFIG_FILE", configured)
        .env("RABBITMQ_CONF_ENV_FILE", environment)
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", plugins)
        .env("RABBITMQ_MNESIA_BASE", folder.join("mnesia"))
        .env("RABBITMQ_LOG_BASE", folder.join("log"))
        .env("RABBITMQ_LOGS", "-");
    Ok(command)
}

fn rabbitmqctl(clusters: &Clusters, cluster: usize, words: &[&str]) -> Result<String> {
    let mut command = script(clusters, cluster, "rabbitmqctl")?;
    let node = format!("rabbit@{}", name_of(&SERVICES[0], cluster));
    command.args(["--quiet", "--longnames", "--timeout", "10", "--node", &node]);
    run_checked(command.args(words))
}
