//! Resident memory on a real API server, with endpoint mirrors that have one slice each: stable, and during relists.

use std::time::Instant;

use anyhow::{Result, ensure};
use support::cluster::Cluster;
use support::process::Process;
use support::watches::WATCHES;

use crate::data::Services;
use crate::memory::{resident, stable_memory};
use crate::processes::{ANY, reset_peak, start, wait_until_ready};
use crate::report::{Figure, Report};
use crate::start::{objects_to_write, our_command, write_namespaces};
use crate::stored::store;
use crate::{Effort, print_line};

/// Endpoints of a service in all clusters together.
const ENDPOINTS: usize = 10;
/// Number of endpoint mirrors that the goals apply to.
const ALL: usize = 100_000;
/// Relist interval, much shorter than in production.
const RELIST: &str = "--relist=10s";
/// Log level that prints a line for each list.
const LOG_LEVEL: &str = "warn,global_dns::source=debug";

/// Starts the server once for each round, on an API server with this number of endpoint mirrors.
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
    let (mut ready, mut settled, mut peak, mut after) = (vec![], vec![], vec![], vec![]);
    for round in 1..=effort.rounds {
        let (mut command, _, page) =
            our_command(&effort.ours().path, ANY, &cluster.kubeconfig, LOG_LEVEL)?;
        command.arg(RELIST);
        let began = Instant::now();
        let mut process = start("global-dns", command)?;
        wait_until_ready(&mut process, page)?;
        ready.push(began.elapsed().as_secs_f64());
        settled.push(stable_memory(&process)?);
        reset_peak(&process)?;
        let lists = |process: &Process| process.log().text().matches("Listed").count();
        let before = lists(&process);
        let began = Instant::now();
        // Each watch is listed once before the peak is read.
        while lists(&process) < before + WATCHES.len() {
            ensure!(
                began.elapsed().as_secs() < 300,
                "not all watches were relisted in time"
            );
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        peak.push(resident(&process, "VmHWM")?);
        after.push(resident(&process, "VmRSS")?);
        let all = [&ready, &settled, &peak, &after].map(|values| values[values.len() - 1]);
        let [ready, settled, peak, after] = all;
        print_line(&format!(
            "mirrors: round {round} of {}: ready after {ready:.2} s; {settled:.1} MiB, {peak:.1} MiB at the peak of \
             relists, {after:.1} MiB after them",
            effort.rounds
        ));
    }
    let name = |what: &str| format!("{mirrors} endpoint mirrors with a slice each: {what}");
    let is_all = mirrors == ALL;
    let goal = |figure: Figure, most: f64| if is_all { figure.at_most(most) } else { figure };
    report.figures.extend([
        Figure::new(&name("from start to ready"), ready, "s"),
        goal(
            Figure::new(&name("resident, settled"), settled, "MiB"),
            64.0,
        ),
        goal(
            Figure::new(&name("resident, during relists"), peak, "MiB"),
            80.0,
        ),
        Figure::new(&name("resident, after relists"), after, "MiB"),
    ]);
    Ok(())
}
