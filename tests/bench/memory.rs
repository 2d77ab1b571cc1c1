//! Resident memory with 100,000 endpoint mirrors: stable, after a reload, and at its peak; the time from start to
//! ready; the size of the binary.

use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, bail};
use support::process::Process;

use crate::data::{Services, write_manifest};
use crate::report::{Quantity, Report};
use crate::servers::{ONE_CORE, Server, Source};
use crate::{Binary, Effort, print_line};

/// Ten thousand services with ten endpoints each.
const SERVICES: Services = Services {
    prefix: "db",
    count: 10_000,
    clusters: 2,
    endpoints: 5,
    ports: &[("sql", 26_257), ("http", 8_080)],
};
/// Memory is stable if it does not change for this time.
const SETTLED: Duration = Duration::from_secs(2);
const MIB: f64 = 1024.0 * 1024.0;

/// Measurements of one start: seconds, and resident memory in MiB.
struct Start {
    /// Time from start to ready.
    ready: f64,
    /// When the memory is stable.
    first: f64,
    /// When it is stable after a reload.
    again: f64,
    /// The largest value.
    peak: f64,
}

/// Starts the server of each binary once for each round.
///
/// # Errors
///
/// If the server does not become ready, or does not reload its file.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    let mut size = Quantity::new("release binary, stripped", "MiB", effort.binaries);
    for (index, binary) in effort.binaries.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        size.add(index, fs::metadata(&binary.path)?.len() as f64 / MIB);
    }
    report.figures.extend(size.figures());

    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let manifest = folder.join("objects.json");
    let endpoints = write_manifest(&manifest, &[SERVICES])?;
    print_line(&format!(
        "memory: {endpoints} endpoint mirrors of {} services",
        SERVICES.count
    ));
    let quantity = |what: &str, unit| {
        let name = format!("100,000 endpoint mirrors: {what}");
        Quantity::new(&name, unit, effort.binaries)
    };
    let mut first = quantity("resident, settled", "MiB").at_most(64.0);
    let mut again = quantity("resident, after a reload", "MiB").at_most(64.0);
    let mut peak = quantity("resident, peak", "MiB");
    let mut ready = quantity("from start to ready", "s");
    for round in 1..=effort.rounds {
        for (index, binary) in effort.binaries.iter().enumerate() {
            let start = start(binary, &manifest)?;
            print_line(&format!(
                "memory: round {round} of {}, {}: ready after {:.2} s; {:.1} MiB, {:.1} MiB after a reload, {:.1} MiB at the \
                 peak",
                effort.rounds, binary.name, start.ready, start.first, start.again, start.peak
            ));
            first.add(index, start.first);
            again.add(index, start.again);
            peak.add(index, start.peak);
            ready.add(index, start.ready);
        }
    }
    let all = [first, again, peak, ready].into_iter();
    report.figures.extend(all.flat_map(Quantity::figures));
    Ok(())
}

/// Starts a server, and lets it reload the file.
fn start(binary: &Binary, manifest: &Path) -> Result<Start> {
    let source = Source::File(manifest);
    let (mut server, ready) =
        Server::start_binary(binary, source, ONE_CORE, &["--log-level=info"])?;
    let first = stable_memory(&server.process)?;
    File::options()
        .append(true)
        .open(manifest)?
        .set_modified(SystemTime::now())?;
    server.process.wait_for("the reload of the file", |log| {
        log.text().contains("Reloaded files").then_some(())
    })?;
    Ok(Start {
        ready: ready.as_secs_f64(),
        first,
        again: stable_memory(&server.process)?,
        peak: resident(&server.process, "VmHWM")?,
    })
}

/// Waits until resident memory is stable, and returns it in MiB.
///
/// # Errors
///
/// If it does not become stable in time, or the process has exited.
pub(crate) fn stable_memory(process: &Process) -> Result<f64> {
    let began = Instant::now();
    let mut last = (resident(process, "VmRSS")?, Instant::now());
    while last.1.elapsed() < SETTLED {
        if began.elapsed() > Duration::from_secs(60) {
            bail!("resident memory is not stable: {:.1} MiB", last.0);
        }
        thread::sleep(Duration::from_millis(50));
        let now = resident(process, "VmRSS")?;
        if (now - last.0).abs() > 0.25 {
            last = (now, Instant::now());
        }
    }
    resident(process, "VmRSS")
}

/// Returns the value of a line of `/proc/PID/status` in MiB.
///
/// # Errors
///
/// If the process has exited.
pub(crate) fn resident(process: &Process, line: &str) -> Result<f64> {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let kib = process.memory(line)? as f64;
    Ok(kib / 1024.0)
}
