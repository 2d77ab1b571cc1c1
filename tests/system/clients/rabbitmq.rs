//! RabbitMQ: three nodes with a static list of names.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::commands::tool;
use support::multicluster::Clusters;
use support::multicluster::plan::{CLUSTERS, EAST, Service};
use support::process::{Process, run_checked};

use crate::clients::database::{Database, Profile, cluster_of, configuration, data, name_of};

pub struct Rabbitmq;

static SERVICES: [Service; 1] = [Service {
    name: "rabbitmq",
    port_numbers: &[("epmd", 4369), ("distribution", 25672), ("amqp", 5672)],
    first: 44,
}];

/// The folder of the scripts that run without a change of the user.
const SCRIPTS: &str = "/usr/lib/rabbitmq/bin";

/// The secret that the nodes share.
const COOKIE: &str = "cookie";

/// A global parameter, which all nodes have.
const PARAMETER: &str = "global-parameters/value";

// === impl Rabbitmq ===

impl Database for Rabbitmq {
    fn profile(&self) -> Profile {
        Profile {
            name: "rabbitmq",
            version: &["dpkg-query", "--show", "rabbitmq-server"],
            services: &SERVICES,
            splits: true,
            starts_with_two: true,
        }
    }

    fn start(&self, clusters: &Clusters, cluster: usize) -> Result<Vec<Process>> {
        let site = CLUSTERS[cluster].name;
        let cookie = clusters.directory().join(".erlang.cookie");
        if !cookie.exists() {
            fs::write(&cookie, COOKIE)?;
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
        let node = format!("rabbit@{}", name_of(&SERVICES[0], cluster));
        for words in [
            "stop_app",
            "reset",
            &format!("join_cluster {first}"),
            "start_app",
        ] {
            let mut command = script(clusters, cluster, "rabbitmqctl")?;
            command.args(["--quiet", "--longnames", "--node", &node]);
            run_checked(command.args(words.split(' ')))?;
        }
        Ok(())
    }

    fn members(&self, clusters: &Clusters, viewer: usize) -> Result<BTreeSet<usize>> {
        let node = format!("rabbit@{}", name_of(&SERVICES[0], viewer));
        // The HTTP API asks every other node first, which takes long if one is lost.
        let mut call = clusters.pod_command(viewer, &tool("timeout")?)?;
        call.args(["5", "erl_call", "-c", COOKIE, "-n", &node]);
        let text = run_checked(call.args(["-a", "rabbit_mnesia cluster_nodes [running]"]))?;
        let names = text.split('\'');
        Ok(names
            .filter_map(|name| cluster_of(&SERVICES[0], name))
            .collect())
    }

    fn write(&self, clusters: &Clusters, cluster: usize, value: &str) -> Result<()> {
        let body = json!({"name": "value", "value": value});
        request(clusters, cluster, PARAMETER, Some(&body)).map(drop)
    }

    fn read(&self, clusters: &Clusters, cluster: usize) -> Result<String> {
        let found = request(clusters, cluster, PARAMETER, None)?;
        Ok(found["value"].as_str().context("no value")?.to_owned())
    }
}

/// Sends a request to the API of the node in a cluster: PUT with a body, GET without.
fn request(clusters: &Clusters, cluster: usize, path: &str, body: Option<&Value>) -> Result<Value> {
    let mut curl = clusters.pod_command(cluster, &tool("curl")?)?;
    curl.args(["--silent", "--show-error", "--fail", "--max-time", "5"]);
    curl.args(["--user", "guest:guest"]);
    if let Some(body) = body {
        curl.args(["--request", "PUT", "--data", &body.to_string()]);
    }
    let text = run_checked(curl.arg(format!("http://127.0.0.1:15672/api/{path}")))?;
    match text.trim() {
        "" => Ok(Value::Null),
        text => serde_json::from_str(text).with_context(|| text.to_owned()),
    }
}

/// Builds a command that runs a script of RabbitMQ in a pod.
fn script(clusters: &Clusters, cluster: usize, name: &str) -> Result<Command> {
    let service = &SERVICES[0];
    let folder = data(clusters, cluster)?;
    let configured = configuration(clusters, service, cluster, "rabbitmq/rabbitmq.conf")?;
    let environment = configuration(clusters, service, cluster, "rabbitmq/rabbitmq-env.conf")?;
    let plugins = folder.join("enabled_plugins");
    fs::write(&plugins, "[rabbitmq_management].\n")?;
    let program = Path::new(SCRIPTS).join(name);
    ensure!(
        program.exists(),
        "{program:?} does not exist; run tests/run clients to install it"
    );
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
