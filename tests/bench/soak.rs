//! The soak: 500 changes and 20,000 queries per second, for an hour by default. Resident memory must not grow, and no query
//! may be lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use support::standin::{Behavior, StandIn};

use crate::Effort;
use crate::data::{Services, address};
use crate::queries::dnsperf;
use crate::report::{Report, median};
use crate::servers::Server;

const SERVICES: Services = Services {
    prefix: "db",
    count: 1_000,
    clusters: 3,
    endpoints: 3,
    first: 0,
};
/// Time between two changes.
const PAUSE: Duration = Duration::from_millis(2);
/// Flags of dnsperf, with the queries per second.
const LOAD: &str = "-m udp -c 32 -q 200 -Q 20000";
/// Seconds between two measurements of memory.
const LOOK: u32 = 20;
/// Maximum ratio of memory in the last tenth to memory in the second tenth. The first tenth fills caches and the history.
const FLAT: f64 = 1.05;

/// Measures the binary of this source.
///
/// # Errors
///
/// If the server exits, memory grows, or a query is lost.
pub(crate) fn measure(effort: Effort, minutes: u32, report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let questions = SERVICES.questions(folder.path(), "", "A")?;
    let api_server = StandIn::start(Behavior::Normal, &SERVICES.objects().0)?;
    let source = [
        "--kubeconfig",
        api_server.kubeconfig.to_str().context("a path")?,
    ];
    // The history is full after a few minutes.
    let server = Server::start(&effort.binaries[0], source, &[])?;
    let is_over = AtomicBool::new(false);
    let (mut sizes, mut lost) = (Vec::new(), 0.0);
    thread::scope(|scope| {
        scope.spawn(|| change_until(&is_over, &api_server));
        let measured = (0..minutes * 60 / LOOK).try_for_each(|_| {
            lost += dnsperf(server.address, &questions, LOAD, LOOK)?.lost;
            sizes.push(server.memory("VmRSS")?);
            report.add("soak: resident", "MiB", server.name, sizes[sizes.len() - 1]);
            Ok::<_, anyhow::Error>(())
        });
        is_over.store(true, Ordering::Relaxed);
        measured
    })?;
    let tenth = sizes.len().div_ceil(10);
    let (early, late) = (
        &sizes[tenth.min(sizes.len() - 1)..],
        &sizes[sizes.len() - tenth..],
    );
    let (early, late) = (median(&early[..tenth.min(early.len())]), median(late));
    ensure!(
        late <= FLAT * early,
        "memory grew from {early:.1} MiB to {late:.1} MiB"
    );
    ensure!(lost == 0.0, "{lost} queries were lost");
    Ok(())
}

/// Changes addresses of endpoint mirrors.
fn change_until(is_over: &AtomicBool, api_server: &StandIn) {
    let began = Instant::now();
    for (change, number) in (0_u32..).zip((500_000..1_000_000).cycle()) {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        thread::sleep((PAUSE * change).saturating_sub(began.elapsed()));
        let mirror = SERVICES.mirror(number % SERVICES.count, "east");
        let host = format!("{}-0", mirror.service_name());
        api_server.put(&mirror.endpoint_mirror(&host, &[&address(number)]));
    }
}
