//! What the clients of gRPC share: the servers, and the output of the clients.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use support::multicluster::plan::{CLUSTERS, EAST, NAMESPACE, Service};
use support::process::Process;

use crate::clients::scenario::client::{Event, Profile, Running, View};
use crate::clients::scenario::pod::Pod;

/// The Go program `tests/system/clients/grpc_go`.
pub const GO_PROGRAM: &str = "grpc_go";

/// A client that prints the servers of its calls.
pub struct Client {
    pub process: Process,
}

const REASON: &str = "asks again only after the end of a connection";
const BLIND: &[(Event, &str)] = &[(Event::SecondCluster, REASON)];
/// A question that the minimum interval delayed may follow the loss of a gateway, up to 30 s later.
const UNCERTAIN: &[(Event, &str)] = &[(Event::GatewayUp, REASON), (Event::Failover, REASON)];

/// Returns the two ways to use the name: servers with and without a maximum age of connections. `keepalive` and `interval`
/// are the settings that decide how fast each one is.
fn views(keepalive: &'static str, interval: &'static str) -> Vec<View> {
    vec![
        View {
            blind: BLIND,
            uncertain: UNCERTAIN,
            ..View::addresses("round_robin", keepalive)
        },
        View::addresses("round_robin, servers with MaxConnectionAge", interval),
    ]
}

/// Returns the targets of both views.
pub fn targets(service: &Service) -> Vec<String> {
    let target =
        |(_, port): &(&str, u16)| format!("dns:///{}.{NAMESPACE}.global:{port}", service.name);
    service.port_numbers[1..].iter().map(target).collect()
}

/// Returns the profile of a client, with the settings of its two views.
pub fn profile(
    name: &'static str,
    title: &'static str,
    [keepalive, interval]: [&'static str; 2],
) -> Profile {
    Profile {
        // Clients ask at most every 30 s.
        fault: Duration::from_secs(35),
        ..Profile::new(name, title, views(keepalive, interval))
    }
}

/// Starts the servers of a cluster.
pub fn start_server(pod: &Pod<'_>, cluster: usize) -> Result<Process> {
    let name = CLUSTERS[cluster].name;
    let mut command = pod.command_in(cluster, GO_PROGRAM)?;
    command.args(["serve", name]);
    Process::start(format!("grpc-server-{name}"), command)
}

// === impl Client ===

impl Running for Client {
    /// Reads the last complete line. Servers count only if no call to another one fails.
    fn seen(&mut self, pod: &Pod<'_>, view: &View) -> Result<BTreeSet<String>> {
        let line = self.process.log().events().pop().context("no output yet")?;
        let index = usize::from(view.blind.is_empty());
        let pods = line[index]["pods"].as_array().context("no list of pods")?;
        let failed = &line[index]["failed"];
        ensure!(
            pods.is_empty() || *failed == 0,
            "{failed} calls fail; {pods:?} reply"
        );
        let address = |server: &serde_json::Value| {
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

    fn process(&mut self) -> Option<&mut Process> {
        Some(&mut self.process)
    }
}
