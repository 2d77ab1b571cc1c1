//! The soak: 500 changes and 20,000 queries per second, for an hour by default. Resident memory must not grow, and earlier
//! tables must not need more than `--history-memory`.
//!
//! A second server without a history sees the same changes. The difference of both is the memory of earlier tables.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::flow::flow;
use crate::latency::ChangingCluster;
use crate::memory::resident;
use crate::print_line;
use crate::report::{Figure, Report, median};
use crate::servers::Server;

/// Seconds between two measurements of memory.
const LOOK: u32 = 60;
/// Maximum ratio of memory in the last tenth to memory in the second tenth. The first tenth fills caches.
const FLAT: f64 = 1.05;
const MIB: f64 = 1024.0 * 1024.0;

/// The load and its duration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Soak {
    /// Duration in minutes.
    pub(crate) minutes: u32,
    /// Changes per second.
    pub(crate) changes: u32,
    /// Queries per second. 0: none.
    pub(crate) queries: u32,
    /// Memory of earlier tables, in MiB.
    pub(crate) history_memory: u32,
}

/// Memory in MiB.
#[derive(Default)]
struct Sizes {
    /// Resident memory of the server.
    resident: Vec<f64>,
    /// The same without a history.
    without_history: Vec<f64>,
    /// Estimated memory of earlier tables.
    estimate: Vec<f64>,
}

/// Runs both servers under load.
///
/// # Errors
///
/// If a server exits, or changes do not reach it.
pub(crate) fn measure(soak: &Soak, report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let memory = format!("--history-memory={}Mi", soak.history_memory);
    let cluster = ChangingCluster::start(folder.path(), soak.changes, &[&memory])?;
    let other = cluster.start_other(&["--history-memory=0"])?;
    let server = &cluster.server;
    let mut sizes = Sizes::default();
    let (mut lost, mut wrong) = (0, 0);
    let mut last = 0.0;
    let began = Instant::now();
    let ((), changes) = cluster.while_changing(|| {
        while began.elapsed() < Duration::from_secs(u64::from(soak.minutes) * 60) {
            let mut replies = String::new();
            if soak.queries == 0 {
                sleep(Duration::from_secs(u64::from(LOOK)));
            } else {
                let measured = flow(server, &cluster.asked, soak.queries, LOOK)?;
                lost += measured.lost;
                wrong += measured.wrong;
                replies = format!(
                    "; {} lost, {} wrong, p99.9 {:.0} µs",
                    measured.lost, measured.wrong, measured.p999
                );
            }
            sizes.add(server, &other)?;
            let table = server.metric("global_dns_table_generation")?;
            ensure!(table > last, "no change reached the table in a minute");
            last = table;
            print_line(&format!(
                "soak: minute {} of {}: {}, {} tables kept, table {table}{replies}",
                sizes.resident.len(),
                soak.minutes,
                sizes.last(),
                server.metric("global_dns_history_tables")?,
            ));
        }
        Ok(())
    })?;
    let limit = f64::from(soak.history_memory);
    // The history grows until it has its memory, so the server without one shows whether memory grows.
    let flat = FLAT * median(early(&sizes.without_history));
    let of_history = sizes.of_history();
    let of_history = late(&of_history).to_vec();
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let (lost, wrong) = (lost as f64, wrong as f64);
    let name = |what: &str| format!("{} min with {changes} changes: {what}", soak.minutes);
    let figure = |what: &str, values: &[f64], unit: &'static str| {
        Figure::new(&name(what), values.to_vec(), unit)
    };
    report.figures.extend([
        figure(
            "resident without a history, second tenth",
            early(&sizes.without_history),
            "MiB",
        ),
        figure(
            "resident without a history, last tenth",
            late(&sizes.without_history),
            "MiB",
        )
        .at_most(flat),
        figure("earlier tables, estimated", late(&sizes.estimate), "MiB").at_most(limit),
        figure("earlier tables, resident", &of_history, "MiB").at_most(limit),
        figure("queries lost", &[lost], "").at_most(0.0),
        figure("replies wrong", &[wrong], "").at_most(0.0),
    ]);
    Ok(())
}

/// Returns the second tenth of some measurements.
fn early(sizes: &[f64]) -> &[f64] {
    let tenth = sizes.len().div_ceil(10);
    let start = tenth.min(sizes.len() - 1);
    &sizes[start..sizes.len().min(start + tenth)]
}

/// Returns the last tenth of some measurements.
fn late(sizes: &[f64]) -> &[f64] {
    &sizes[sizes.len() - sizes.len().div_ceil(10)..]
}

// === impl Sizes ===

impl Sizes {
    /// Measures both servers.
    fn add(&mut self, server: &Server, other: &Server) -> Result<()> {
        self.resident.push(resident(&server.process, "VmRSS")?);
        self.without_history
            .push(resident(&other.process, "VmRSS")?);
        let estimate = server.metric("global_dns_history_memory_bytes")?;
        self.estimate.push(estimate / MIB);
        Ok(())
    }

    /// Returns the resident memory of earlier tables.
    fn of_history(&self) -> Vec<f64> {
        let both = self.resident.iter().zip(&self.without_history);
        both.map(|(with, without)| with - without).collect()
    }

    /// Returns the last measurement as text.
    fn last(&self) -> String {
        let last = |sizes: &[f64]| sizes.last().copied().unwrap_or_default();
        let (with, without) = (last(&self.resident), last(&self.without_history));
        format!(
            "{with:.1} MiB, {without:.1} MiB without history, estimate {:.1} MiB",
            last(&self.estimate)
        )
    }
}
