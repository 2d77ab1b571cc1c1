//! Time from start to ready, and resident memory, on a simulated API server: no time or memory of a real one is measured.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use support::standin::{Behavior, StandIn};

use crate::Effort;
use crate::data::{Services, mirrors_with_cluster_ip};
use crate::report::Report;
use crate::servers::Server;

/// Services with ten endpoints in two clusters.
const SERVICES: Services = Services {
    prefix: "db",
    count: 1_000,
    clusters: 2,
    endpoints: 5,
    first: 0,
};
/// Memory is stable if it does not change for this time.
const SETTLED: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts each binary once in each round.
///
/// # Errors
///
/// If a server does not become ready.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    for binary in effort.binaries {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let octets = fs::metadata(&binary.path)?.len() as f64;
        report.add(
            "binary, stripped",
            "MiB",
            binary.name,
            octets / 1024.0 / 1024.0,
        );
    }
    let many = Services {
        count: 10 * SERVICES.count,
        ..SERVICES
    };
    measure_objects(
        "10,000 endpoint mirrors",
        &SERVICES.objects().0,
        effort,
        report,
    )?;
    measure_objects(
        "100,000 endpoint mirrors",
        &many.objects().0,
        effort,
        report,
    )?;
    let mirrors = mirrors_with_cluster_ip(20_000);
    measure_objects("20,000 mirrors with a cluster IP", &mirrors, effort, report)
}

fn measure_objects(
    what: &str,
    objects: &[Value],
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let api_server = StandIn::start(Behavior::Normal, objects)?;
    let source = [
        "--kubeconfig",
        api_server.kubeconfig.to_str().context("a path")?,
    ];
    for _ in 0..effort.rounds {
        for binary in effort.binaries {
            let server = Server::start(binary, source, &[])?;
            let start = server.start.as_secs_f64();
            report.add(
                &format!("{what}: from start to ready"),
                "s",
                server.name,
                start,
            );
            let settled = settled_memory(&server)?;
            report.add(&format!("{what}: resident"), "MiB", server.name, settled);
            let peak = server.memory("VmHWM")?;
            report.add(&format!("{what}: resident, peak"), "MiB", server.name, peak);
        }
    }
    Ok(())
}

/// Waits until resident memory is stable, and returns it in MiB.
fn settled_memory(server: &Server) -> Result<f64> {
    let began = Instant::now();
    let mut last = (server.memory("VmRSS")?, began);
    while last.1.elapsed() < SETTLED {
        ensure!(
            began.elapsed() < PATIENCE,
            "memory is not stable: {:.1} MiB",
            last.0
        );
        thread::sleep(Duration::from_millis(50));
        let now = server.memory("VmRSS")?;
        if (now - last.0).abs() > 0.25 {
            last = (now, Instant::now());
        }
    }
    server.memory("VmRSS")
}
