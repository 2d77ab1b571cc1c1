//! A headless service with 5,000 endpoints: 50 slices of 100, from five clusters.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::objects::{import, import_slice};
use support::output::print_line;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;
use support::wire::Transport;

use super::{start_ready, write};

const CLUSTERS: [&str; 5] = ["east", "west", "north", "south", "hub"];
const SLICES: usize = 50;
const ENDPOINTS: usize = 5_000;
/// The most octets of a message over TCP, and those of a record with a compressed owner name and an IPv4 address.
const MESSAGE: usize = 65_535;
const RECORD: usize = 16;
const NAME: &str = "db.many.svc.clusterset.local.";

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.forget_failed_prerequisite();
    steps.prerequisite("5000_endpoints_of_five_clusters_have_names", || {
        write(cluster, &objects())?;
        let server = start_ready(cluster);
        server.with_log(check(cluster, &server))
    });
}

fn check(cluster: &Cluster, server: &Server) -> Result<()> {
    eventually("all endpoints", || {
        let endpoints = endpoints(server)?;
        ensure!(endpoints == ENDPOINTS, "{endpoints} endpoints");
        Ok(())
    })?;
    for number in (0..ENDPOINTS).step_by(97) {
        check_host(server, number)?;
    }
    check_message(server)?;
    // A change of one slice.
    let changed = slice_of(7, 700..701);
    let started = Instant::now();
    cluster.put(&changed)?;
    eventually("the changed slice", || {
        let endpoints = endpoints(server)?;
        ensure!(endpoints == ENDPOINTS - 99, "{endpoints} endpoints");
        Ok(())
    })?;
    let milliseconds = started.elapsed().as_millis();
    print_line(&format!(
        "a slice of a service with 5,000 endpoints: changed after {milliseconds} ms"
    ));
    check_host(server, 700)?;
    let question = format!("db-701.{}.{NAME} A", cluster_of(7));
    let outcome = server.outcome(&question);
    ensure!(outcome == "NXDOMAIN", "{question} is {outcome}");
    Ok(())
}

/// As many records as one message over TCP has room for, without repetition. "The subset of ready endpoints may be all
/// ready endpoints, but the exact subset is implementation dependent due to … response size limit" (KEP-1645).
fn check_message(server: &Server) -> Result<()> {
    let reply = server.ask(&format!("{NAME} A"), Transport::Tcp);
    let room = (MESSAGE - 12 - (NAME.len() + 1 + 4)) / RECORD;
    let addresses: BTreeSet<&str> = reply.answers.iter().map(|one| one.data.as_str()).collect();
    ensure!(
        reply.is_truncated() && addresses.len() == room,
        "{} addresses",
        addresses.len()
    );
    ensure!(
        reply.answers.len() == room,
        "{} records",
        reply.answers.len()
    );
    let all: BTreeSet<String> = (0..ENDPOINTS)
        .map(|number| address(number).to_string())
        .collect();
    ensure!(
        addresses.iter().all(|one| all.contains(*one)),
        "an address of no endpoint"
    );
    Ok(())
}

fn check_host(server: &Server, number: usize) -> Result<()> {
    let question = format!("db-{number}.{}.{NAME} A", cluster_of(number / 100));
    let outcome = server.outcome(&question);
    ensure!(
        outcome == address(number).to_string(),
        "{question} is {outcome}"
    );
    Ok(())
}

/// Returns the number of endpoints in the table.
fn endpoints(server: &Server) -> Result<usize> {
    let table = server.try_api("/api/v1/table")?;
    let services = table["services"].as_array().context("no services")?;
    let service = services.iter().find(|one| one["namespace"] == "many");
    let endpoints = service.and_then(|service| service["endpoints"].as_array());
    Ok(endpoints.map_or(0, Vec::len))
}

// === Objects ===

fn objects() -> Vec<Value> {
    let import = import("many", "db", "Headless", &[]);
    (0..SLICES).map(slice).chain([import]).collect()
}

fn slice(number: usize) -> Value {
    slice_of(number, number * 100..(number + 1) * 100)
}

/// Returns a slice with these endpoints.
fn slice_of(number: usize, endpoints: Range<usize>) -> Value {
    let endpoint = |number| (format!("db-{number}"), address(number).to_string());
    let endpoints: Vec<_> = endpoints.map(endpoint).collect();
    let endpoints: Vec<_> = endpoints
        .iter()
        .map(|(host, ip)| (&**host, &**ip))
        .collect();
    let mut slice = import_slice("many", "db", cluster_of(number), &endpoints);
    let metadata = &mut slice["metadata"];
    metadata["name"] = json!(format!("db-{number}"));
    metadata["labels"]["endpointslice.kubernetes.io/managed-by"] =
        json!("endpointslice-mesh-controller.cilium.io");
    slice
}

fn address(number: usize) -> Ipv4Addr {
    let number = u32::try_from(number).unwrap_or_default();
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 128, 0, 0)) + number)
}

/// Returns the cluster of a slice.
fn cluster_of(slice: usize) -> &'static str {
    CLUSTERS[slice % CLUSTERS.len()]
}
