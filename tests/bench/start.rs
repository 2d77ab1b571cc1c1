//! Time from start to ready, and memory, on a real API server, compared with CoreDNS and its `kubernetes` plugin.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::objects;
use support::query::query;
use support::wait::TIMEOUT;
use support::wire::{Transport, try_ask};

use crate::data::{NAMESPACES, Services, namespace, read_objects, write_manifest};
use crate::memory::stable_memory;
use crate::processes::{ANY, command, start, wait_until_ready};
use crate::report::{Figure, Report, median};
use crate::servers::free_address;
use crate::{Effort, print_line};

/// A thousand services with ten endpoints each.
const SERVICES: Services = Services {
    prefix: "db",
    count: 1_000,
    clusters: 2,
    endpoints: 5,
    ports: &[("sql", 26_257)],
};
/// Number of parallel writers.
const WRITERS: usize = 8;

/// Starts each server once in each round, one after the other.
///
/// # Errors
///
/// If a program is missing, or does not become ready.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let cluster = Cluster::start()?;
    write_all(&cluster, &objects_to_write(&SERVICES, folder)?)?;
    let (mut our_times, mut our_sizes) = (vec![], vec![]);
    let (mut their_times, mut their_sizes) = (vec![], vec![]);
    for round in 1..=effort.rounds {
        let (our_time, our_size) = measure_global_dns(&effort.ours().path, &cluster.kubeconfig)?;
        let (their_time, their_size) = measure_coredns(&cluster.kubeconfig, folder)?;
        print_line(&format!(
            "start: round {round} of {}: global-dns {our_time:.2?} {our_size:.1} MiB, CoreDNS {their_time:.2?} \
             {their_size:.1} MiB",
            effort.rounds
        ));
        our_times.push(our_time.as_secs_f64());
        our_sizes.push(our_size);
        their_times.push(their_time.as_secs_f64());
        their_sizes.push(their_size);
    }
    let (time, size) = (median(&their_times), median(&their_sizes) / 8.0);
    let name =
        |who: &str, what: &str| format!("10,000 endpoint mirrors, API server: {who}, {what}");
    let (to_ready, resident) = ("start to ready", "resident");
    report.figures.extend([
        Figure::new(&name("CoreDNS", to_ready), their_times, "s"),
        Figure::new(&name("global-dns", to_ready), our_times, "s").at_most(time),
        Figure::new(&name("CoreDNS", resident), their_sizes, "MiB"),
        Figure::new(&name("global-dns", resident), our_sizes, "MiB").at_most(size),
    ]);
    Ok(())
}

/// Writes objects and their namespaces to the API server.
///
/// # Errors
///
/// If the API server rejects an object.
pub(crate) fn write_all(cluster: &Cluster, objects: &[Value]) -> Result<()> {
    let began = Instant::now();
    write_namespaces(cluster)?;
    let next = AtomicUsize::new(0);
    let write = || -> Result<()> {
        while let Some(object) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
            cluster.put(object)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        for writer in writers {
            writer.join().map_err(|_| anyhow!("a writer panicked"))??;
        }
        Ok::<_, anyhow::Error>(())
    })?;
    print_line(&format!(
        "wrote {} objects in {:.0?}",
        objects.len(),
        began.elapsed()
    ));
    Ok(())
}

/// Creates the namespaces of the services.
///
/// # Errors
///
/// If the API server rejects them.
pub(crate) fn write_namespaces(cluster: &Cluster) -> Result<()> {
    for index in 0..NAMESPACES {
        cluster.put(&objects::namespace(&namespace(index)))?;
    }
    Ok(())
}

/// Returns the objects of services in the form that an API server accepts.
///
/// # Errors
///
/// If their file cannot be written or read.
pub(crate) fn objects_to_write(services: &Services, folder: &Path) -> Result<Vec<Value>> {
    let file = folder.join("objects.json");
    write_manifest(&file, &[*services])?;
    let mut objects = read_objects(&file)?;
    for object in &mut objects {
        let metadata = object["metadata"].as_object_mut().context("an object")?;
        for own in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(own);
        }
        // The controller deletes slices that it manages and that belong to no Endpoints.
        if let Some(labels) = metadata["labels"].as_object_mut()
            && let Some(manager) = labels.get_mut("endpointslice.kubernetes.io/managed-by")
        {
            *manager = json!("bench");
        }
    }
    Ok(objects)
}

fn measure_global_dns(binary: &Path, kubeconfig: &Path) -> Result<(Duration, f64)> {
    let (command, dns, ready) = our_command(binary, ANY, kubeconfig, "warn")?;
    measure_start("global-dns", command, ready, (dns, "db999.ns49.global."))
}

fn measure_coredns(kubeconfig: &Path, folder: &Path) -> Result<(Duration, f64)> {
    let (command, dns, ready) = coredns_command(kubeconfig, ANY, folder)?;
    let last = "db999-4-west.ns49.svc.cluster.local.";
    measure_start("CoreDNS", command, ready, (dns, last))
}

/// A command, its DNS address, and its readiness page.
type Prepared = (Command, SocketAddr, (SocketAddr, &'static str));

/// Returns the command of a binary of global-dns on an API server.
///
/// # Errors
///
/// If a program is missing.
pub(crate) fn our_command(
    binary: &Path,
    cores: &str,
    kubeconfig: &Path,
    log_level: &str,
) -> Result<Prepared> {
    let (address, admin) = (free_address(), free_address());
    let mut command = command(binary, cores)?;
    command.args(["serve", "--cluster-name=hub", "--grace=0s"]);
    command.arg(format!("--log-level={log_level}"));
    command.arg(format!("--listen={address}"));
    command.arg(format!("--admin-listen={admin}"));
    command.arg(format!("--api-listen={}", free_address()));
    command.arg("--kubeconfig").arg(kubeconfig);
    Ok((command, address, (admin, "/readyz")))
}

/// Returns the command of CoreDNS with its `kubernetes` plugin on an API server. `folder` receives its Corefile.
///
/// # Errors
///
/// If CoreDNS is missing.
pub(crate) fn coredns_command(kubeconfig: &Path, cores: &str, folder: &Path) -> Result<Prepared> {
    let (address, ready) = (free_address(), free_address());
    let corefile = folder.join("Corefile");
    let text = format!(
        "cluster.local:{} {{\n    bind {}\n    errors\n    ready {ready}\n    kubernetes {{\n        \
         kubeconfig {} admin\n    }}\n}}\n",
        address.port(),
        address.ip(),
        kubeconfig.display(),
    );
    fs::write(&corefile, text)?;
    let mut command = command("coredns", cores)?;
    command.arg("-conf").arg(&corefile);
    Ok((command, address, (ready, "/ready")))
}

fn measure_start(
    name: &'static str,
    command: Command,
    ready: (SocketAddr, &str),
    (dns, last): (SocketAddr, &str),
) -> Result<(Duration, f64)> {
    let began = Instant::now();
    let mut process = start(name, command)?;
    wait_until_ready(&mut process, ready)?;
    // CoreDNS reports that it is ready before it listens.
    process.wait_for("the last service", |_| {
        let asked = query(&format!("{last} A"));
        let reply = try_ask(dns, &asked, Transport::Tcp, TIMEOUT).ok()?;
        (!reply.answers.is_empty()).then_some(())
    })?;
    let took = began.elapsed();
    Ok((took, stable_memory(&process)?))
}
