//! The scenario of all programs: events in three clusters, and the time until the program sees each one.
//!
//! - this file: what a program declares, and the order of the stages
//! - `pod`: where the program runs
//! - `backends`: HTTP servers in the pods of the other clusters
//! - `faults`: faults of DNS
//! - `stages`: the stages

mod backends;
mod faults;
pub mod pod;
mod stages;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use support::multicluster::plan::Service;
use support::networks::in_new_network;
use support::process::Process;
use support::steps::Steps;

use faults::Fault;
use pod::Pod;
use stages::Scenario;

/// The Service behind all programs: two pods in `west`, one in `north`, none in `east`.
static WEB: Service = Service {
    name: "web",
    port_numbers: &[("http", 8080), ("grpc", 50051), ("grpc-aged", 50052)],
    first: 30,
};

/// A Service with as many pods as [`MANY_PODS`], half of them in `west`, half in `north`.
static MANY: Service = Service {
    name: "many",
    port_numbers: WEB.port_numbers,
    first: 180,
};

const MANY_PODS: u8 = 60;

/// A program that resolves a global name.
pub trait Client: Send {
    /// Returns what is fixed about the program.
    fn profile(&self) -> Profile;

    /// Starts the program, or a process for each view. Without processes, each lookup is a process of its own.
    fn start(&mut self, pod: &Pod<'_>) -> Result<Vec<Process>>;

    /// Returns the addresses that the program uses now in a view: by its API, or the connections that it has. An error
    /// means that it has no answer yet. By default, the program prints lines of JSON with the addresses of each view.
    fn seen(
        &mut self,
        _pod: &Pod<'_>,
        processes: &[Process],
        view: &View,
    ) -> Result<BTreeSet<String>> {
        let printed = processes.iter().find_map(|process| {
            let mut line: Value = serde_json::from_str(&process.log().lines().pop()?).ok()?;
            line.get_mut(view.name).map(Value::take)
        });
        let printed = printed.context("no line yet")?;
        // Anything but a list is an error of the program.
        let addresses = printed.as_array().into_iter().flatten();
        Ok(addresses
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect())
    }

    /// Starts the server of all pods of a cluster, if the HTTP servers of the scenario are not sufficient.
    fn start_server(&self, _pod: &Pod<'_>, _cluster: usize) -> Result<Option<Process>> {
        Ok(None)
    }

    /// Proves further statements of the program's README, while all clusters are linked.
    fn prove_further(&self, _pod: &Pod<'_>) -> Result<()> {
        Ok(())
    }
}

/// What is fixed about a program.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The name of the directory.
    pub name: &'static str,
    /// The command that prints the version.
    pub version: &'static [&'static str],
    pub views: &'static [View],
    /// Duration of a fault of DNS while the program runs: longer than its caches and the pauses between its questions.
    pub fault: Duration,
}

/// One way in which a program uses the name, for example by A or by SRV records.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub name: &'static str,
    /// Whether it uses only one of the addresses.
    pub uses_one: bool,
    /// Events that the program may not see.
    pub blind: &'static [Event],
}

/// The events of the scenario, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    FirstCluster,
    SecondCluster,
    NewAddress,
    GatewayDown,
    GatewayUp,
    Failover,
}

/// Runs the scenario with a program, and writes its results.
pub fn prove(client: &mut dyn Client) {
    in_new_network(|| {
        let profile = client.profile();
        let mut steps = Steps::new(profile.name);
        let mut scenario = None;
        steps.prerequisite("three clusters start", || {
            scenario = Some(Scenario::start(client)?);
            Ok(())
        });
        let Some(scenario) = &mut scenario else {
            return steps.finish();
        };
        let mut step = |fact: &str, stage: &mut dyn FnMut(&mut Scenario<'_>) -> Result<()>| {
            steps.prerequisite(&format!("{}: {fact}", profile.name), || {
                let result = stage(scenario);
                scenario.with_logs(result)
            });
        };
        step("starts before any cluster is linked", &mut |scenario| {
            scenario.start_without_clusters()
        });
        for event in Event::ALL {
            step(event.title(), &mut |scenario| scenario.measure(event));
        }
        for fault in Fault::ALL {
            let name = fault.name();
            step(&format!("runs: {name}"), &mut |s| s.measure_fault(fault));
            step(&format!("starts: {name}"), &mut |s| s.measure_start(fault));
        }
        step("uses many endpoints", &mut |scenario| {
            scenario.measure_many()
        });
        step("further statements are true", &mut |scenario| {
            scenario.prove_further()
        });
        step("results are written", &mut |scenario| {
            scenario.results.write(&pod::version(profile.version)?)
        });
        steps.finish();
    });
}

// === impl Profile, impl View ===

impl Profile {
    pub fn new(
        name: &'static str,
        version: &'static [&'static str],
        views: &'static [View],
    ) -> Self {
        Self {
            name,
            version,
            views,
            fault: Duration::from_secs(20),
        }
    }
}

impl View {
    /// Returns a view of all addresses.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            uses_one: false,
            blind: &[],
        }
    }
}

// === impl Event ===

impl Event {
    pub const ALL: [Self; 6] = [
        Self::FirstCluster,
        Self::SecondCluster,
        Self::NewAddress,
        Self::GatewayDown,
        Self::GatewayUp,
        Self::Failover,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Self::FirstCluster => "first cluster",
            Self::SecondCluster => "second cluster",
            Self::NewAddress => "new address",
            Self::GatewayDown => "gateway down",
            Self::GatewayUp => "gateway up",
            Self::Failover => "failover",
        }
    }
}
