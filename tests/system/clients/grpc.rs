//! gRPC: `dns:///` with round robin, in Go and in Python, which has the C core. The servers are in Go.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use support::multicluster::plan::{CLUSTERS, EAST};
use support::process::Process;
use support::repository::repository;

use crate::clients::scenario::pod::{Pod, program};
use crate::clients::scenario::{Client, Event, Profile, View};

/// A client that prints the servers of its calls.
pub struct Grpc {
    name: &'static str,
    version: &'static [&'static str],
}

/// The Go program `tests/system/clients/grpc_go`: client and server.
const PROGRAM: &str = "grpc_go";

pub fn go() -> Grpc {
    Grpc {
        name: PROGRAM,
        version: &[PROGRAM, "--version"],
    }
}

pub fn python() -> Grpc {
    Grpc {
        name: "grpc_python",
        version: &["python", "-c", "import grpc; print(grpc.__version__)"],
    }
}

/// Servers with and without a maximum age of connections. Without it, the client asks again only after the end of a
/// connection.
const VIEWS: [View; 2] = [
    View {
        blind: &[Event::SecondCluster, Event::GatewayUp, Event::Failover],
        ..View::new("round_robin")
    },
    View::new("round_robin, servers with MaxConnectionAge"),
];

// === impl Grpc ===

impl Client for Grpc {
    fn profile(&self) -> Profile {
        Profile {
            // Clients ask at most every 30 s.
            fault: Duration::from_secs(35),
            ..Profile::new(self.name, self.version, &VIEWS)
        }
    }

    fn start_server(&self, pod: &Pod<'_>, cluster: usize) -> Result<Option<Process>> {
        let name = CLUSTERS[cluster].name;
        let mut command = pod.clusters.pod_command(cluster, &program(PROGRAM)?)?;
        command.args(["serve", name]);
        Process::start(format!("grpc-server-{name}"), command).map(Some)
    }

    fn start(&mut self, pod: &Pod<'_>) -> Result<Vec<Process>> {
        let mut command = if self.name == PROGRAM {
            let mut command = pod.command(PROGRAM)?;
            command.arg("call");
            command
        } else {
            let mut command = pod.command("python")?;
            command.arg(repository("tests/system/clients/grpc_python/client.py"));
            command
        };
        for (_, port) in &pod.service.port_numbers[1..] {
            command.arg(format!("dns:///{}:{port}", pod.name()));
        }
        Ok(vec![Process::start(self.name, command)?])
    }

    /// Reads the last complete line. Servers count only if no call to another one fails.
    fn seen(
        &mut self,
        pod: &Pod<'_>,
        processes: &[Process],
        view: &View,
    ) -> Result<BTreeSet<String>> {
        let process = processes.first().context("not started")?;
        let line = process.log().events().pop().context("no output yet")?;
        let result = &line[usize::from(view.blind.is_empty())];
        let pods = result["pods"].as_array().context("no list of pods")?;
        ensure!(pods.is_empty() || result["failed"] == 0, "{result}");
        let address = |server: &Value| {
            let (cluster, pod_address) = server.as_str()?.split_once('/')?;
            let mut members = pod.clusters.members.iter();
            let member = members.find(|member| {
                CLUSTERS[member.cluster].name == cluster && member.pod_address() == pod_address
            });
            Some(member?.address_in(EAST))
        };
        pods.iter()
            .map(|server| address(server).with_context(|| format!("unknown pod {server}")))
            .collect()
    }
}
