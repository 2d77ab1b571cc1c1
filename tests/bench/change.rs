//! One change in a service of 5,000 endpoints: the time from the event to the changed answer, and the CPU time of the
//! server. The event comes from a simulated API server, so that no time of a real one is measured.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use support::objects::{Mirror, mirror};
use support::process::Process;
use support::reply::Reply;
use support::standin::{Behavior, StandIn};

use crate::data::address;
use crate::freshness::query_until;
use crate::processes::{SERVER, start, wait_until_ready};
use crate::report::{Quantity, Report, median};
use crate::start::our_command;
use crate::{Binary, Effort, print_line};

/// Endpoints of the service in each of its clusters. The changed one is in the last cluster, so that an answer of that
/// cluster shows the change and is short.
const ENDPOINTS: [(&str, usize); 3] = [("east", 2_499), ("west", 2_499), ("north", 2)];
/// The changed endpoint.
const CHANGED: &str = "big-0";
/// The question whose answer shows each change.
const ASKED: &str = "north.big.prod.global. A";
/// Time between two changes, so that a slow server applies each alone.
const REST: Duration = Duration::from_millis(50);
/// Measured pairs of changes of a kind in a second of a round.
const PAIRS: u32 = 10;

/// The kinds of change. A pair of changes of a kind restores the objects.
const KINDS: [Kind; 2] = [
    Kind {
        name: "gateway down or up",
        object: |mirror, is_first| mirror.slice(CHANGED, !is_first),
        is_shown: |reply, is_first| reply.answers.len() == if is_first { 1 } else { 2 },
    },
    Kind {
        name: "other address",
        object: |mirror, is_first| mirror.endpoint_mirror(CHANGED, &[changed(is_first)]),
        is_shown: |reply, is_first| {
            let mut answers = reply.answers.iter();
            answers.any(|record| record.data == changed(is_first))
        },
    },
];

struct Kind {
    name: &'static str,
    /// The changed object of the first or the second change of a pair.
    object: fn(&Mirror, bool) -> Value,
    /// Whether a reply shows that change.
    is_shown: fn(&Reply, bool) -> bool,
}

/// A binary, with an API server of its own.
struct Side {
    binary: &'static Binary,
    api_server: StandIn,
    process: Process,
    server: SocketAddr,
}

/// Changes an endpoint of each binary in turns. Each round includes all binaries, so that other work on the machine
/// affects them equally.
///
/// # Errors
///
/// If a server does not start, or an answer does not change.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    let (changing, objects) = objects()?;
    let sides = effort.binaries.iter();
    let sides: Vec<Side> = sides
        .map(|binary| Side::start(binary, &objects))
        .collect::<Result<_>>()?;
    let mut quantities = KINDS.each_ref().map(|kind| {
        ["from event to answer", "CPU time"].map(|what| {
            let name = format!("change in 5,000 endpoints, {}: {what}", kind.name);
            Quantity::new(&name, "ms", effort.binaries).ratio_at_most(0.5)
        })
    });
    for round in 1..=effort.rounds {
        for (kind, [times, costs]) in KINDS.iter().zip(&mut quantities) {
            let mut line = format!("change: round {round} of {}, {}:", effort.rounds, kind.name);
            for (index, side) in sides.iter().enumerate() {
                let (time, cost) = side.change(kind, &changing, PAIRS * effort.seconds)?;
                line += &format!("  {} {time:.2} ms, CPU {cost:.2} ms", side.binary.name);
                times.add(index, time);
                costs.add(index, cost);
            }
            print_line(&line);
        }
    }
    let all = quantities.into_iter().flatten();
    report.figures.extend(all.flat_map(Quantity::figures));
    Ok(())
}

/// Returns the mirror of the changing endpoint, and all objects.
fn objects() -> Result<(Mirror, Vec<Value>)> {
    let mut objects = vec![];
    let mut number = 0;
    let mirror = |cluster| mirror("prod", "big", cluster).ports(&[("sql", "TCP", 26_257)]);
    for (cluster, endpoints) in ENDPOINTS {
        let mirror = mirror(cluster);
        objects.push(mirror.service());
        for endpoint in 0..endpoints {
            number += 1;
            let host = format!("big-{endpoint}");
            objects.push(mirror.endpoint_mirror(&host, &[&address(number)?]));
            objects.push(mirror.slice(&host, true));
        }
    }
    let changing = mirror("north");
    objects.push(changing.endpoint_mirror(CHANGED, &[changed(false)]));
    Ok((changing, objects))
}

/// Returns for each change whether it is the first of its pair.
fn changes(pairs: u32) -> impl Iterator<Item = bool> {
    (0..pairs).flat_map(|_| [true, false])
}

/// Returns the address of the changed endpoint after the first or the second change of a pair.
fn changed(is_first: bool) -> &'static str {
    if is_first { "10.97.0.1" } else { "10.97.0.2" }
}

/// Returns the time that all threads of a process have run, in milliseconds. The CPU time in `/proc/PID/stat` has a
/// resolution of ten.
fn run_time(process: &Process) -> Result<f64> {
    let mut nanoseconds = 0.0;
    for task in fs::read_dir(process.proc("task"))? {
        let file = task?.path().join("schedstat");
        nanoseconds += first_number(&file)?;
    }
    Ok(nanoseconds / 1e6)
}

fn first_number(file: &Path) -> Result<f64> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let number = text.split(' ').next().unwrap_or_default().parse();
    number.with_context(|| format!("no number in {}: {text:?}", file.display()))
}

// === impl Side ===

impl Side {
    fn start(binary: &'static Binary, objects: &[Value]) -> Result<Self> {
        let api_server = StandIn::start(Behavior::Normal, objects)?;
        let (command, server, ready) =
            our_command(&binary.path, SERVER, &api_server.kubeconfig, "warn")?;
        let mut process = start(binary.name, command)?;
        wait_until_ready(&mut process, ready)?;
        Ok(Self {
            binary,
            api_server,
            process,
            server,
        })
    }

    /// Makes pairs of changes. Returns the median of the time from an event to the changed answer, and the mean CPU time
    /// of a change, in milliseconds.
    fn change(&self, kind: &Kind, changing: &Mirror, pairs: u32) -> Result<(f64, f64)> {
        let mut times = vec![];
        for is_first in changes(pairs) {
            let object = (kind.object)(changing, is_first);
            let began = Instant::now();
            self.api_server.put(&object);
            let shown = query_until(self.server, ASKED, |reply| (kind.is_shown)(reply, is_first))?;
            times.push((shown - began).as_secs_f64() * 1e3);
            thread::sleep(REST);
        }
        // The same without queries, which also take CPU time.
        let before = run_time(&self.process)?;
        for is_first in changes(pairs) {
            self.api_server.put(&(kind.object)(changing, is_first));
            thread::sleep(REST);
        }
        let spent = run_time(&self.process)? - before;
        ensure!(spent > 0.0, "{} took no CPU time", self.binary.name);
        Ok((median(&times), spent / f64::from(2 * pairs)))
    }
}
