//! The soak: 500 changes and 20,000 queries per second, for an hour by default. Resident memory must not grow.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::flow::flow;
use crate::latency::ChangingCluster;
use crate::memory::resident;
use crate::print_line;
use crate::report::{Figure, Report};

/// Queries per second.
const RATE: u32 = 20_000;
/// Seconds between two measurements of memory.
const LOOK: u32 = 60;
/// Maximum ratio of memory in the last tenth to memory in the second tenth. The first tenth fills caches.
const FLAT: f64 = 1.05;

/// Runs for `minutes`.
///
/// # Errors
///
/// If the server exits, or changes do not reach it.
pub(crate) fn measure(minutes: u32, report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = ChangingCluster::start(folder.path())?;
    let ChangingCluster { server, asked, .. } = &cluster;
    let mut sizes = vec![];
    let (mut lost, mut wrong) = (0, 0);
    let began = Instant::now();
    let ((), changes) = cluster.while_changing(|| {
        while began.elapsed() < Duration::from_secs(u64::from(minutes) * 60) {
            let measured = flow(server, asked, RATE, LOOK)?;
            lost += measured.lost;
            wrong += measured.wrong;
            sizes.push(resident(&server.process, "VmRSS")?);
            print_line(&format!(
                "soak: minute {} of {minutes}: {:.1} MiB, {} lost, {} wrong, p99.9 {:.0} µs",
                sizes.len(),
                sizes[sizes.len() - 1],
                measured.lost,
                measured.wrong,
                measured.p999
            ));
        }
        Ok(())
    })?;
    let generations = server.metric("global_dns_table_generation")?;
    ensure!(generations > 1.0, "no change reached the table");
    let tenth = sizes.len().div_ceil(10);
    let early = sizes[tenth.min(sizes.len() - 1)..].iter().take(tenth);
    let early: Vec<f64> = early.copied().collect();
    let late = sizes[sizes.len() - tenth..].to_vec();
    let limit = FLAT * crate::report::median(&early);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let (lost, wrong) = (lost as f64, wrong as f64);
    let name = |what: &str| format!("{minutes} min with {changes} changes: {what}");
    report.figures.extend([
        Figure::new(&name("resident, second tenth"), early, "MiB"),
        Figure::new(&name("resident, last tenth"), late, "MiB").at_most(limit),
        Figure::new(&name("queries lost"), vec![lost], "").at_most(0.0),
        Figure::new(&name("replies wrong"), vec![wrong], "").at_most(0.0),
    ]);
    Ok(())
}
