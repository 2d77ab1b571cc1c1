//! Latency at half load, without changes and with 500 endpoint changes per second. The latency of the bare loop shows
//! the share of the machine.
//!
//! The changes come from a simulated API server, because a real one would use the core of the load generator.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;
use support::standin::{Behavior, StandIn};

use crate::data::{SMALL, kinds, read_objects, write_manifest};
use crate::flow::{Flow, flow};
use crate::load::{Way, run};
use crate::report::{Figure, Report, median};
use crate::servers::{ONE_CORE, Server, Source};
use crate::{Effort, print_line};

/// Changes per second.
const CHANGES: u32 = 500;

/// global-dns and a simulated API server that changes endpoints on request.
pub(crate) struct ChangingCluster {
    /// The server.
    pub(crate) server: Server,
    /// File with the questions.
    pub(crate) asked: PathBuf,
    standin: StandIn,
    objects: Vec<Value>,
    /// Changes per second.
    rate: u32,
}

/// Sends half of the server's maximum rate, alternately without and with changes.
///
/// # Errors
///
/// If the server does not start, or changes do not reach it.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let cluster = ChangingCluster::start(folder, CHANGES, &[])?;
    let ChangingCluster { server, asked, .. } = &cluster;
    let floor = Server::start_floor(server.address, asked)?;
    let capacity = run(server, asked, effort.seconds, Way::Udp)?.rate;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "tens of thousands"
    )]
    let half = (capacity / 2.0) as u32;
    let (mut quiet, mut busy, mut least) = (vec![], vec![], vec![]);
    for round in 1..=effort.rounds {
        let bare = flow(&floor, asked, half, effort.seconds)?;
        let calm = flow(server, asked, half, effort.seconds)?;
        let before = server.metric("global_dns_table_generation")?;
        let (moved, changes) =
            cluster.while_changing(|| flow(server, asked, half, effort.seconds))?;
        let generations = server.metric("global_dns_table_generation")? - before;
        ensure!(generations > 0.0, "no change reached the table");
        print_line(&format!(
            "latency: round {round} of {}, {half} queries per second: bare loop {}; quiet {}; {changes} changes, {generations} \
             tables: {}",
            effort.rounds,
            text(&bare),
            text(&calm),
            text(&moved)
        ));
        least.push(bare.p999);
        quiet.push(calm.p999);
        busy.push(moved.p999);
    }
    let limit = 2.0 * median(&quiet);
    let name = |what: &str| format!("p99.9 latency at half load: {what}");
    report.figures.extend([
        Figure::new(&name("bare loop"), least, "µs"),
        Figure::new(&name("quiet"), quiet, "µs"),
        Figure::new(&name("500 changes per second"), busy, "µs").at_most(limit),
    ]);
    Ok(())
}

// === impl ChangingCluster ===

impl ChangingCluster {
    /// Starts both servers and writes the questions. `rate` is the number of changes per second.
    ///
    /// # Errors
    ///
    /// If the server does not become ready.
    pub(crate) fn start(folder: &Path, rate: u32, flags: &[&str]) -> Result<Self> {
        let manifest = folder.join("objects.json");
        write_manifest(&manifest, &[SMALL])?;
        let objects = read_objects(&manifest)?;
        let standin = StandIn::start(Behavior::Normal, &objects)?;
        let server = start_server(&standin, flags)?;
        let asked = kinds(folder)?.swap_remove(0).file;
        Ok(Self {
            server,
            asked,
            standin,
            objects,
            rate,
        })
    }

    /// Starts another server that sees the same changes.
    ///
    /// # Errors
    ///
    /// If it does not become ready.
    pub(crate) fn start_other(&self, flags: &[&str]) -> Result<Server> {
        start_server(&self.standin, flags)
    }

    /// Calls `act` while endpoints change. Returns its result and the number of changes.
    ///
    /// # Errors
    ///
    /// If `act` fails.
    pub(crate) fn while_changing<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<(T, u32)> {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let changing = scope.spawn(|| self.change(&is_over));
            let outcome = act();
            is_over.store(true, Ordering::Relaxed);
            let changes = changing.join();
            let changes = changes.map_err(|_| anyhow::anyhow!("the writer panicked"))?;
            Ok((outcome?, changes))
        })
    }

    /// Changes addresses of endpoint mirrors until `is_over`. Returns the number of changes.
    fn change(&self, is_over: &AtomicBool) -> u32 {
        let mirrors: Vec<&Value> = self
            .objects
            .iter()
            .filter(|object| object["kind"] == "Service" && object["spec"]["clusterIP"] != "None")
            .collect();
        // Continues after the last call's number, so that each write changes the object.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let started = Instant::now();
        let mut done = 0;
        for (number, mirror) in (0_u32..).zip(mirrors.iter().cycle()) {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let due = Duration::from_secs(1) / self.rate * number;
            thread::sleep(due.saturating_sub(started.elapsed()));
            let mut changed = (*mirror).clone();
            // An address above the range of the others, which is different in each pass over the mirrors.
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            let [_, high, middle, low] = next.to_be_bytes();
            let address = Value::from(format!("10.{}.{middle}.{low}", 112 + high % 16));
            changed["spec"]["clusterIPs"] = Value::from(vec![address.clone()]);
            changed["spec"]["clusterIP"] = address;
            self.standin.put(&changed);
            done = number + 1;
        }
        done
    }
}

fn start_server(standin: &StandIn, flags: &[&str]) -> Result<Server> {
    let source = Source::Kubeconfig(&standin.kubeconfig);
    let flags = [&["--log-level=warn"], flags].concat();
    let (server, _) = Server::start_global_dns(source, ONE_CORE, &flags)?;
    Ok(server)
}

fn text(flow: &Flow) -> String {
    let Flow {
        p50,
        p99,
        p999,
        lost,
        ..
    } = flow;
    format!("p50 {p50:.0} µs, p99 {p99:.0} µs, p99.9 {p999:.0} µs, {lost} lost")
}
