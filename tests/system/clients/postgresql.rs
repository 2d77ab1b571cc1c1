//! PostgreSQL: Patroni over etcd with one member in each cluster, and libpq with several hosts.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use support::commands::{command, tool};
use support::multicluster::Clusters;
use support::multicluster::plan::{CLUSTERS, EAST, NAMESPACE, NORTH, Service};
use support::process::{Process, run, run_checked};
use support::repository::repository;

use crate::clients::database::{
    Database, Profile, Scenario, address_of, cluster_of, configuration, data, name_of,
};
use crate::clients::etcd;
use crate::clients::scenario::pod::program;

pub struct Postgresql;

static SERVICES: [Service; 2] = [
    Service {
        name: "postgresql",
        port_numbers: &[("postgresql", 5432), ("patroni", 8008)],
        first: 48,
    },
    Service {
        name: "etcd",
        port_numbers: &[("etcd-server-ssl", 2380), ("etcd-client", 2379)],
        first: 56,
    },
];

/// The user of the server, which refuses to run as root.
const USER: &str = "postgres";

const PASSWORD: &str = "change-me";

/// Number of connections to the name with all members.
const ATTEMPTS: usize = 30;

// === impl Postgresql ===

impl Database for Postgresql {
    fn profile(&self) -> Profile {
        Profile {
            name: "postgresql",
            version: &["python", "-m", "patroni", "--version"],
            services: &SERVICES,
            splits: false,
            // etcd decides its version when it has reached all members. Patroni waits for that.
            starts_with_two: false,
        }
    }

    fn start(&self, clusters: &Clusters, cluster: usize) -> Result<Vec<Process>> {
        let [database, store] = &SERVICES;
        let site = CLUSTERS[cluster].name;
        let etcd = etcd::start(clusters, store, cluster, "postgresql/etcd.yml")?;
        let file = configuration(clusters, database, cluster, "postgresql/patroni.yml")?;
        let folder = data(clusters, cluster)?;
        for folder in [clusters.directory(), &folder] {
            fs::set_permissions(folder, Permissions::from_mode(0o755))?;
        }
        run_checked(command(tool("chown")?).arg(USER).arg(&folder))?;
        let mut patroni = clusters.pod_command(cluster, &tool("setpriv")?)?;
        patroni.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
        // Python may be in the home directory of root.
        patroni.args([
            "--inh-caps=+dac_read_search",
            "--ambient-caps=+dac_read_search",
        ]);
        patroni.args(["--pdeathsig", "KILL", "--"]);
        patroni
            .arg(program("python")?)
            .args(["-m", "patroni"])
            .arg(file);
        let patroni = Process::start(format!("patroni-{site}"), patroni)?;
        Ok(vec![patroni.with_children(), etcd])
    }

    fn members(&self, clusters: &Clusters, viewer: usize) -> Result<BTreeSet<usize>> {
        let list = members(clusters, viewer)?;
        let is_up = |member: &&Value| {
            let state = member["state"].as_str().unwrap_or_default();
            // A replica that only runs does not follow the primary.
            let expected = if member["role"] == "leader" {
                "running"
            } else {
                "streaming"
            };
            state == expected
        };
        let up = list.iter().filter(is_up);
        let names = up.filter_map(|member| member["name"].as_str());
        Ok(names
            .filter_map(|name| cluster_of(&SERVICES[0], name))
            .collect())
    }

    fn lead(&self, clusters: &Clusters, cluster: usize) -> Result<()> {
        let target = name_of(&SERVICES[0], cluster);
        let list = members(clusters, EAST)?;
        let leader = list.iter().find(|member| member["role"] == "leader");
        let leader = &leader.context("no leader")?["name"];
        if *leader == target.as_str() {
            return Ok(());
        }
        let request = serde_json::json!({"leader": leader, "candidate": target}).to_string();
        // It answers when the switchover has ended. A second request could be executed later.
        let flags = ["--data", &request, "--max-time", "120"];
        let text = rest(clusters, EAST, &flags, "switchover")?;
        bail!("{text}")
    }

    fn write(&self, clusters: &Clusters, cluster: usize, value: &str) -> Result<()> {
        let statement = format!(
            "CREATE TABLE IF NOT EXISTS facts (id int PRIMARY KEY, value text);
             INSERT INTO facts VALUES (1, '{value}') ON CONFLICT (id) DO UPDATE SET value = '{value}'"
        );
        psql(clusters, cluster, "service=primary", &statement).map(drop)
    }

    fn read(&self, clusters: &Clusters, cluster: usize) -> Result<String> {
        let address = address_of(&SERVICES[0], cluster);
        let target = format!("host={address} user=postgres dbname=postgres connect_timeout=2");
        let text = psql(
            clusters,
            cluster,
            &target,
            "SELECT value FROM facts WHERE id = 1",
        )?;
        Ok(text.trim().to_owned())
    }

    /// Proves that the name with all members is not sufficient for `target_session_attrs`.
    fn prove_further(&self, scenario: &mut Scenario<'_>) -> Result<()> {
        // The client is in `east`, and the C library prefers the address in its own cluster. Patroni in `east` cannot hand
        // over to `west`: it keeps the old address for ten minutes.
        scenario.make_leader(NORTH)?;
        // Without the order of the last event.
        let service = scenario.service();
        scenario.clusters.set_failover(service, "*")?;
        scenario.clusters.check_answer(EAST, service, &[0, 1, 2])?;
        let name = format!("{}.{NAMESPACE}.global", service.name);
        let target = |attributes: &str| {
            format!(
                "host={name} user=postgres dbname=postgres connect_timeout=2 target_session_attrs={attributes}"
            )
        };
        let mut refused = 0;
        for _ in 0..ATTEMPTS {
            psql(&scenario.clusters, EAST, &target("any"), "SELECT 1")?;
            if let Err(error) = psql(&scenario.clusters, EAST, &target("read-write"), "SELECT 1") {
                let text = format!("{error:#}");
                ensure!(text.contains("session is read-only"), "{text}");
                refused += 1;
            }
        }
        ensure!(
            refused > 0,
            "libpq tries all addresses now; change the README"
        );
        Ok(())
    }
}

/// Returns the members that Patroni lists.
fn members(clusters: &Clusters, viewer: usize) -> Result<Vec<Value>> {
    let text = rest(clusters, viewer, &[], "cluster")?;
    let cluster: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
    Ok(cluster["members"]
        .as_array()
        .context("no list of members")?
        .clone())
}

/// Sends a request to Patroni in a cluster.
fn rest(clusters: &Clusters, cluster: usize, flags: &[&str], path: &str) -> Result<String> {
    let address = address_of(&SERVICES[0], cluster);
    let url = format!("http://{address}:8008/{path}");
    let mut curl = clusters.pod_command(cluster, &tool("curl")?)?;
    curl.args(["--silent", "--show-error", "--max-time", "10"]);
    run_checked(curl.args(flags).arg(url))
}

fn psql(clusters: &Clusters, cluster: usize, target: &str, statement: &str) -> Result<String> {
    let mut command = clusters.pod_command(cluster, &tool("psql")?)?;
    command.env("PGPASSWORD", PASSWORD);
    command.env(
        "PGSERVICEFILE",
        repository("tests/system/clients/postgresql/pg_service.conf"),
    );
    command.args(["--no-psqlrc", "--tuples-only", "--no-align", "--quiet"]);
    let ended = run(command.args(["--command", statement, target]));
    ensure!(ended.is_success(), "psql {target}: {}", ended.stderr);
    Ok(ended.stdout)
}
