//! The Multi-Cluster Services API: ServiceImports and slices of Cilium and Submariner on a real API server, the definition
//! of ServiceImports that comes and goes, permissions, many endpoints, and mistakes in the objects.
//!
//! - `comparison`: the same names from CoreDNS with its option `multicluster`
//! - `definition`: the definition is missing, appears, and is deleted while the server runs; permissions
//! - `many`: 5,000 endpoints
//! - `mistakes`: objects that contradict each other

mod comparison;
mod definition;
mod many;
mod mistakes;

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::objects::namespace;
use support::repository::repository;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

/// All versions of the definition. The last one is stored.
const VERSIONS: [&str; 2] = ["v1alpha1", "v1beta1"];
const FIXTURES: [&str; 6] = [
    "cilium-headless",
    "cilium-clustersetip",
    "submariner-headless",
    "submariner-clustersetip",
    "dual-stack",
    "conflicting-ports",
];
/// Flags of all servers. They look for a missing definition each second.
const FLAGS: [&str; 7] = [
    "--mcs",
    "--zone",
    "clusterset.local=mcs",
    "--zone",
    "global",
    "--relist",
    "1s",
];

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    definition::run_before(steps, cluster);
    comparison::run(steps, cluster);
    mistakes::run(steps, cluster);
    many::run(steps, cluster);
    definition::run_after(steps, cluster);
}

// === Objects ===

/// Returns the objects of a fixture. Their owners do not exist, so that Kubernetes would delete them: owners are removed.
fn fixture(name: &str) -> Result<Vec<Value>> {
    let file = repository(&format!("tests/fixtures/mcs/{name}.yaml"));
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text)?;
    for object in &mut objects {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("ownerReferences");
        }
    }
    Ok(objects)
}

/// Returns the objects of all fixtures.
fn fixtures() -> Result<Vec<Value>> {
    let all: Result<Vec<_>> = FIXTURES.iter().map(|name| fixture(name)).collect();
    Ok(all?.concat())
}

/// Returns the definition of ServiceImports with these versions, of which the last one is stored.
fn definition(versions: &[&str]) -> Result<Value> {
    let text = support::definitions::definition("multicluster.x-k8s.io_serviceimports")?;
    let options = serde_saphyr::options! { budget: None };
    let mut definition: Value = serde_saphyr::from_str_with_options(&text, options)?;
    let all = definition["spec"]["versions"].as_array_mut();
    let all = all.context("the definition has no versions")?;
    all.retain(|version| versions.iter().any(|name| version["name"] == **name));
    for version in &mut *all {
        version["storage"] = json!(version["name"] == **versions.last().context("no version")?);
    }
    ensure!(all.len() == versions.len(), "{} versions", all.len());
    Ok(definition)
}

/// Creates the definition. Returns when the API server lists its objects.
fn install(cluster: &Cluster, versions: &[&str]) -> Result<()> {
    cluster.put(&definition(versions)?)?;
    for version in versions {
        let version = format!("multicluster.x-k8s.io/{version}");
        eventually("the new kind", || cluster.count(&version, "ServiceImport"))?;
    }
    Ok(())
}

/// Deletes the definition, and with it all ServiceImports.
fn uninstall(cluster: &Cluster) -> Result<()> {
    let definition = definition(&VERSIONS)?;
    cluster.delete(&definition)?;
    eventually("the end of the definition", || {
        ensure!(cluster.get(&definition)?.is_none(), "it still exists");
        Ok(())
    })
}

/// Creates objects, their namespaces, and the status of ServiceImports.
fn write(cluster: &Cluster, objects: &[Value]) -> Result<()> {
    for object in objects {
        if let Some(name) = object["metadata"]["namespace"].as_str() {
            cluster.put(&namespace(name))?;
        }
        // A new ServiceImport: a custom resource is not replaced without its resource version.
        cluster.delete(object)?;
        cluster.put(object)?;
        if object["status"].is_object() {
            cluster.put_status(object, &object["status"])?;
        }
    }
    Ok(())
}

fn erase(cluster: &Cluster, objects: &[Value]) -> Result<()> {
    objects
        .iter()
        .try_for_each(|object| cluster.delete(object).map(drop))
}

fn is_import(object: &Value) -> bool {
    object["kind"] == "ServiceImport"
}

// === Servers ===

/// Starts a server with additional flags, without waiting for readiness.
fn start(cluster: &Cluster, further: &[&str]) -> Server {
    Server::of_cluster(&cluster.kubeconfig, &[&FLAGS[..], further].concat())
}

fn start_ready(cluster: &Cluster) -> Server {
    let server = start(cluster, &[]);
    server.wait_until_ready();
    server
}
