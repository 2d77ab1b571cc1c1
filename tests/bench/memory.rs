//! Resident memory with 100,000 endpoint mirrors: stable, after a reload, and at its peak; the time from start to
//! ready; the size of the binary.

use std::fs::{self, File};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, bail};
use support::process::Process;

use crate::data::{Services, write_manifest};
use crate::report::{Figure, Report};
use crate::servers::{ONE_CORE, Server, Source};
use crate::{Effort, print_line};

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

/// Starts the server once for each round.
///
/// # Errors
///
/// If the server does not become ready, or does not reload its file.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    let size = fs::metadata(&effort.ours().path)?.len();
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let size = size as f64 / MIB;
    report
        .figures
        .push(Figure::new("release binary, stripped", vec![size], "MiB").at_most(15.0));

    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let manifest = folder.join("objects.json");
    let endpoints = write_manifest(&manifest, &[SERVICES])?;
    print_line(&format!(
        "memory: {endpoints} endpoint mirrors of {} services",
        SERVICES.count
    ));
    let (mut first, mut again, mut peak, mut ready) = (vec![], vec![], vec![], vec![]);
    for round in 1..=effort.rounds {
        let source = Source::File(&manifest);
        let (mut server, took) = Server::start_global_dns(source, ONE_CORE, &["--log-level=info"])?;
        ready.push(took.as_secs_f64());
        first.push(stable_memory(&server.process)?);
        File::options()
            .append(true)
            .open(&manifest)?
            .set_modified(SystemTime::now())?;
        server.process.wait_for("the reload of the file", |log| {
            log.text().contains("Reloaded files").then_some(())
        })?;
        again.push(stable_memory(&server.process)?);
        peak.push(resident(&server.process, "VmHWM")?);
        let all = [&ready, &first, &again, &peak].map(|values| values[values.len() - 1]);
        let [ready, first, again, peak] = all;
        print_line(&format!(
            "memory: round {round} of {}: ready after {ready:.2} s; {first:.1} MiB, {again:.1} MiB after a reload, \
             {peak:.1} MiB at the peak",
            effort.rounds
        ));
    }
    let all = "100,000 endpoint mirrors";
    report.figures.extend([
        Figure::new(&format!("{all}: resident, settled"), first, "MiB").at_most(64.0),
        Figure::new(&format!("{all}: resident, after a reload"), again, "MiB").at_most(64.0),
        Figure::new(&format!("{all}: resident, peak"), peak, "MiB"),
        Figure::new(&format!("{all}: from start to ready"), ready, "s"),
    ]);
    Ok(())
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
