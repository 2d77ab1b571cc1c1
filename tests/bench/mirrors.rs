//! Resident memory on a real API server, with endpoint mirrors that have one slice each: stable, and during relists.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use support::cluster::Cluster;
use support::process::Process;

use crate::data::Services;
use crate::memory::{resident, stable_memory};
use crate::processes::{ANY, reset_peak, start, wait_until_ready};
use crate::report::{Quantity, Report};
use crate::start::{objects_to_write, our_command, write_namespaces};
use crate::stored::store;
use crate::{Binary, Effort, print_line};

/// Endpoints of a service in all clusters together.
const ENDPOINTS: usize = 10;
/// Number of endpoint mirrors that the goals apply to.
const ALL: usize = 100_000;
/// Relist interval, much shorter than in production.
const RELIST: &str = "--relist=10s";
/// Log level that prints a line for each list.
const LOG_LEVEL: &str = "warn,global_dns::source=debug";

/// Measurements of one start: seconds, and resident memory in MiB.
struct Start {
    /// Time from start to ready.
    ready: f64,
    /// When the memory is stable.
    settled: f64,
    /// The largest value during relists.
    peak: f64,
    /// After relists.
    after: f64,
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
    let mut peak = with_goal(quantity("resident, during relists", "MiB"), 90.0);
    let mut after = quantity("resident, after relists", "MiB");
    for round in 1..=effort.rounds {
        for (index, binary) in effort.binaries.iter().enumerate() {
            let start = start_and_relist(binary, &cluster)?;
            print_line(&format!(
                "mirrors: round {round} of {}, {}: ready after {:.2} s; {:.1} MiB, {:.1} MiB at the peak of relists, {:.1} MiB \
                 after them",
                effort.rounds, binary.name, start.ready, start.settled, start.peak, start.after
            ));
            ready.add(index, start.ready);
            settled.add(index, start.settled);
            peak.add(index, start.peak);
            after.add(index, start.after);
        }
    }
    let all = [ready, settled, peak, after].into_iter();
    report.figures.extend(all.flat_map(Quantity::figures));
    Ok(())
}

/// Starts a server, and waits until it has listed each watch again.
fn start_and_relist(binary: &Binary, cluster: &Cluster) -> Result<Start> {
    let (mut command, _, page) = our_command(&binary.path, ANY, &cluster.kubeconfig, LOG_LEVEL)?;
    command.arg(RELIST);
    let began = Instant::now();
    let mut process = start(binary.name, command)?;
    wait_until_ready(&mut process, page)?;
    let ready = began.elapsed().as_secs_f64();
    let lists = |process: &Process| process.log().text().matches("Listed").count();
    // Other revisions have another number of watches. Each watch has been listed, most of them once.
    let watches = lists(&process);
    let settled = stable_memory(&process)?;
    reset_peak(&process)?;
    let (before, began) = (lists(&process), Instant::now());
    while lists(&process) < before + watches {
        ensure!(
            began.elapsed().as_secs() < 300,
            "not all watches were relisted in time"
        );
        thread::sleep(Duration::from_millis(200));
    }
    Ok(Start {
        ready,
        settled,
        peak: resident(&process, "VmHWM")?,
        after: resident(&process, "VmRSS")?,
    })
}
