//! The shares of connections that clusters with weights get from real programs (rule K5w).
//!
//! The programs ask the server itself, so that no cache is between the two. Each test writes its results to
//! `target/clients/shares`; `tests/system/clients/table` makes the tables from these files.
//!
//! Index:
//!
//! - `bed`: the server, and three clusters that count the requests
//! - `outcome`: the results and their files
//! - `spread`: the shares behind the cache of CoreDNS
//! - `tables`: the tables in the README and in the manual
//! - all others: programs

mod bed;
mod envoy;
mod go;
mod haproxy;
mod java;
mod nginx;
mod outcome;
mod spread;
mod tables;
mod worker;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use support::networks::in_new_network;
use support::output::print_line;
use support::steps::Steps;

use bed::{Bed, Counts, Order};
use outcome::{Shares, WayShares};

/// The requests of each way.
const REQUESTS: usize = 2_000;

/// The maximum difference of a share, in points. It is more than four standard deviations of 2,000 draws.
const TOLERANCE: f64 = 3.0;

/// The number of requests after which an order counts as used, if all of them go to its only cluster.
const BATCH: usize = 20;

/// The maximum time until a new order is used. The JVM has the longest cache, of 30 seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program whose connections are counted.
trait Program {
    /// Returns the name of the program's directory.
    fn name(&self) -> &'static str;

    /// Returns the name for readers.
    fn title(&self) -> &'static str;

    fn version(&self) -> Result<String>;

    fn ways(&self) -> Vec<Way>;

    /// Starts the program for one of its ways, without a cache where that is possible.
    fn start(&self, bed: &Bed, way: &Way) -> Result<Box<dyn Running>>;
}

/// A program that runs.
trait Running {
    /// Sends requests through the program. Each one uses a name that the program has looked up since the one before,
    /// if the program can do that.
    fn send(&mut self, bed: &Bed, requests: usize) -> Result<()>;
}

/// One way in which a program uses a name with weights.
#[derive(Clone, Copy, Debug)]
struct Way {
    name: &'static str,
    /// The setting that decides the shares.
    setting: &'static str,
    /// The type of the records that the program asks for.
    rtype: &'static str,
    /// The number of parts of the program that ask for the name, each for itself.
    askers: u64,
    order: Order,
    result: Expected,
}

/// What becomes of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Expected {
    /// The shares are those of the weights, from one draw for each request.
    Drawn,
    /// The shares are those of the weights, because the program has all clusters with their weights.
    Weighted,
    /// All clusters that are not drained have the same share.
    Equal,
    /// All requests go to the cluster of one look-up.
    One,
}

#[test]
fn envoy() {
    prove(&envoy::Envoy);
}

#[test]
fn go() {
    prove(&go::Go);
}

#[test]
fn haproxy() {
    prove(&haproxy::Haproxy);
}

#[test]
fn java() {
    prove(&java::Java);
}

#[test]
fn nginx() {
    prove(&nginx::Nginx);
}

#[test]
fn coredns() {
    spread::measure();
}

/// Measures the shares in each way, and writes the results.
fn prove(program: &(dyn Program + Sync)) {
    in_new_network(|| {
        let mut steps = Steps::new("shares");
        let mut bed = None;
        steps.prerequisite(&format!("{}: server_answers", program.name()), || {
            bed = Some(Bed::start("10.96.0.10:53")?);
            Ok(())
        });
        let Some(bed) = &mut bed else {
            return steps.finish();
        };
        let mut ways = Vec::new();
        for way in program.ways() {
            let fact = format!("{}: {} has the expected shares", program.name(), way.name);
            steps.step(&fact, || {
                let shares = measure(program, bed, &way);
                ways.push(bed.with_log(shares)?);
                Ok(())
            });
        }
        steps.prerequisite(&format!("{}: results_are_written", program.name()), || {
            let shares = Shares {
                program: program.name().to_owned(),
                title: program.title().to_owned(),
                version: program.version()?,
                ways,
            };
            shares.write()
        });
        steps.finish();
    });
}

fn measure(program: &dyn Program, bed: &mut Bed, way: &Way) -> Result<WayShares> {
    bed.set_order(way.order)?;
    let mut running = program.start(bed, way)?;
    // The start of the program is not counted.
    running.send(bed, 1)?;
    bed.take_counts();
    let asked = bed.look_ups(way.rtype)?;
    running.send(bed, REQUESTS)?;
    let look_ups = (bed.look_ups(way.rtype)? - asked) / way.askers;
    let counts = bed.take_counts();
    print_line(&format!(
        "{}, {}: {counts:?} of {}, {look_ups} look-ups of {}",
        program.title(),
        way.name,
        way.order,
        way.rtype
    ));
    check(way, counts, look_ups)?;
    let moved_after = match way.result {
        Expected::One => None,
        Expected::Drawn | Expected::Weighted | Expected::Equal => {
            Some(move_all(bed, &mut *running)?)
        }
    };
    Ok(WayShares::new(way, counts, look_ups, moved_after))
}

fn check(way: &Way, counts: Counts, look_ups: u64) -> Result<()> {
    let total: usize = counts.iter().sum();
    ensure!(total == REQUESTS, "{total} requests instead of {REQUESTS}");
    let (shares, weights) = (bed::percent(counts), way.order.percent());
    let names = way.order.drawn().count() as f64;
    for (share, weight) in shares.into_iter().zip(weights) {
        let expected = match way.result {
            Expected::Drawn | Expected::Weighted => weight,
            Expected::Equal if weight > 0.0 => 100.0 / names,
            Expected::Equal => 0.0,
            // The cluster is a random one, but never one that is drained.
            Expected::One if weight > 0.0 && share > 0.0 => 100.0,
            Expected::One => 0.0,
        };
        // No tolerance for a cluster that is drained.
        let tolerance = if weight > 0.0 { TOLERANCE } else { 0.0 };
        ensure!(
            (share - expected).abs() <= tolerance,
            "{share:.1} % instead of {expected:.1} %: {counts:?}"
        );
    }
    let draws = REQUESTS as u64;
    match way.result {
        Expected::Drawn => ensure!(look_ups >= draws, "only {look_ups} look-ups"),
        Expected::Weighted | Expected::Equal | Expected::One => {}
    }
    Ok(())
}

/// Moves all load to `west` while the program runs. Returns the seconds until it is there.
fn move_all(bed: &mut Bed, running: &mut dyn Running) -> Result<f64> {
    bed.set_order(Order::MOVED)?;
    let began = Instant::now();
    loop {
        let seconds = began.elapsed().as_secs_f64();
        bed.take_counts();
        running.send(bed, BATCH)?;
        let counts = bed.take_counts();
        if counts == [0, BATCH, 0] {
            return Ok(seconds);
        }
        ensure!(
            began.elapsed() < PATIENCE,
            "the order {} is not used: {counts:?}",
            Order::MOVED
        );
    }
}
