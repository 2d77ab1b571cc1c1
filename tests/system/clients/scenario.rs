//! The scenario of all programs: events in three clusters, and the time until the program sees each one.
//!
//! - `client`: the traits that a program implements, and what it declares
//! - `pod`: where the program runs
//! - `backends`: HTTP servers in the pods of the other clusters
//! - `recorder`: a DNS proxy in front of CoreDNS that records the questions and injects faults
//! - `stages`: the stages of the scenario
//! - `outcome`: the results and their file

pub mod backends;
pub mod client;
pub mod outcome;
pub mod pod;
pub mod recorder;
mod stages;

use anyhow::{Context as _, Result};
use support::multicluster::plan::Service;
use support::networks::in_new_network;
use support::steps::Steps;

use self::client::{Client, Event};
use self::stages::Scenario;

/// The Service behind most programs: two pods in `west`, one in `north`, none in `east`.
pub const WEB: Service = Service {
    name: "web",
    port_numbers: &[("http", 8080), ("grpc", 50051), ("grpc-aged", 50052)],
    first: 30,
};

/// A Service with as many pods as [`MANY_PODS`], half of them in `west`, half in `north`.
pub const MANY: Service = Service {
    name: "many",
    port_numbers: WEB.port_numbers,
    first: 180,
};

pub const MANY_PODS: u8 = 60;

/// Runs the scenario with a program, and writes its results.
pub fn prove(client: &(dyn Client + Sync)) {
    in_new_network(|| {
        let profile = client.profile();
        let mut steps = Steps::new(profile.title);
        let mut scenario = None;
        steps.prerequisite(&format!("{}: three_clusters_start", profile.name), || {
            scenario = Some(Scenario::start(client)?);
            Ok(())
        });
        let Some(scenario) = &mut scenario else {
            return steps.finish();
        };
        let mut step = |fact: &str, stage: &mut dyn FnMut(&mut Scenario<'_>) -> Result<()>| {
            let fact = format!("{}: {fact}", profile.name);
            steps.prerequisite(&fact, || {
                let result = stage(scenario);
                scenario.with_logs(result)
            });
        };
        step("starts_before_any_cluster_is_linked", &mut |scenario| {
            scenario.start_without_clusters()
        });
        for event in Event::ALL {
            step(event.fact(), &mut |scenario| {
                scenario.measure(event).context(event.title())
            });
        }
        for fault in recorder::Fault::ANSWERS {
            step(&format!("runs_while_dns_{}", fault.fact()), &mut |s| {
                s.measure_fault(fault)
            });
        }
        for fault in recorder::Fault::AT_START {
            step(&format!("starts_while_dns_{}", fault.fact()), &mut |s| {
                s.measure_start(fault)
            });
        }
        if profile.many.is_some() {
            step("uses_many_endpoints", &mut |scenario| {
                scenario.measure_many()
            });
        }
        step("further_statements_are_true", &mut |scenario| {
            scenario.prove_further()
        });
        step("results_are_written", &mut |scenario| {
            scenario.write_outcome()
        });
        steps.finish();
    });
}
