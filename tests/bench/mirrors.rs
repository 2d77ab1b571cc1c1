//! Resident memory on a real API server, with endpoint mirrors that have one slice each.

use std::time::Instant;

use anyhow::{Result, ensure};
use support::cluster::Cluster;

use crate::data::Services;
use crate::memory::{resident, stable_memory};
use crate::processes::{ANY, start, wait_until_ready};
use crate::report::{Quantity, Report};
use crate::start::{objects_to_write, our_command, write_namespaces};
use crate::stored::store;
use crate::{Binary, Effort, print_line};

/// Endpoints of a service in all clusters together.
const ENDPOINTS: usize = 10;
/// Number of endpoint mirrors that the goals apply to.
const ALL: usize = 100_000;
const LOG_LEVEL: &str = "warn";

/// Measurements of one start: seconds, and resident memory in MiB.
struct Start {
    /// Time from start to ready.
    ready: f64,
    /// When the memory is stable.
    settled: f64,
    /// The largest value.
    peak: f64,
}

/// Starts the server of each binary once for each round, on an API server with this number of endpoint mirrors.
///
/// # Errors
///
/// If a program is missing, or does not become ready.
pub(crate) fn measure(mirrors: usize, effort: Effort, report: &mut Report) -> Result<()> {
    ensure!(
        (ENDPOINTS..=ALL).contains(&mirrors),
        "invalid number of mirrors {mirrors}; use {ENDPOINTS} to {ALL}"
    );
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    // The largest permitted range. The last value of a flag takes precedence.
    let cluster = Cluster::start_with(&["--service-cluster-ip-range=10.96.0.0/12".to_owned()])?;
    let services = Services {
        prefix: "db",
        count: mirrors / ENDPOINTS,
        clusters: 2,
        endpoints: ENDPOINTS / 2,
        ports: &[("sql", 26_257), ("http", 8_080)],
    };
    write_namespaces(&cluster)?;
    store(cluster.etcd(), objects_to_write(&services, folder)?)?;
    let quantity = |what: &str, unit| {
        let name = format!("{mirrors} endpoint mirrors with a slice each: {what}");
        Quantity::new(&name, unit, effort.binaries)
    };
    let with_goal = |quantity: Quantity, most| {
        if mirrors == ALL {
            quantity.at_most(most)
        } else {
            quantity
        }
    };
    let mut ready = quantity("from start to ready", "s");
    let mut settled = with_goal(quantity("resident, settled", "MiB"), 66.0);
    let mut peak = with_goal(quantity("resident, at most", "MiB"), 90.0);
    for round in 1..=effort.rounds {
        for (index, binary) in effort.binaries.iter().enumerate() {
            let start = start_once(binary, &cluster)?;
            print_line(&format!(
                "mirrors: round {round} of {}, {}: ready after {:.2} s; {:.1} MiB, at most {:.1} MiB",
                effort.rounds, binary.name, start.ready, start.settled, start.peak
            ));
            ready.add(index, start.ready);
            settled.add(index, start.settled);
            peak.add(index, start.peak);
        }
    }
    let all = [ready, settled, peak].into_iter();
    report.figures.extend(all.flat_map(Quantity::figures));
    Ok(())
}

/// Starts a server, and waits until its memory is stable.
fn start_once(binary: &Binary, cluster: &Cluster) -> Result<Start> {
    let (command, _, page) = our_command(&binary.path, ANY, &cluster.kubeconfig, LOG_LEVEL)?;
    let began = Instant::now();
    let mut process = start(binary.name, command)?;
    wait_until_ready(&mut process, page)?;
    Ok(Start {
        ready: began.elapsed().as_secs_f64(),
        settled: stable_memory(&process)?,
        peak: resident(&process, "VmHWM")?,
    })
}
