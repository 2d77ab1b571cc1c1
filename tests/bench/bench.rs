//! Benchmarks of global-dns: this source, other revisions with `--old`, and Knot. All servers have the same records and one
//! core; the load comes from another core. `tests/bench/run` installs the requirements and runs the benchmarks.
//!
//! Index:
//!
//! - `queries`: queries per second and CPU time per query over UDP, TCP and TLS
//! - `start`: time from start to ready, and memory, with 10,000 and 100,000 endpoint mirrors
//! - `change`: time from an event to the changed answer, and its CPU time
//! - `soak`: memory and lost queries while endpoints change, for an hour
//! - `data`: objects and questions; `servers`: processes on one core; `report`: medians and ratios
#![expect(clippy::print_stdout, reason = "a command that prints its results")]

use std::env;
use std::fs;
use std::iter;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, ValueEnum};

use crate::report::Report;

mod change;
mod data;
mod queries;
mod report;
mod servers;
mod soak;
mod start;

/// Measures global-dns and Knot: medians of interleaved rounds, with least and greatest value, and ratios.
#[derive(Debug, Parser)]
#[command(bin_name = "tests/bench/run")]
struct Arguments {
    /// Sections to measure; without a section, all except `soak`
    sections: Vec<Section>,
    /// Number of rounds, each with every server
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Duration of a round for each server and kind of question, in seconds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Revision to compare; tests/bench/run builds it (repeatable)
    #[arg(long, value_name = "REVISION")]
    old: Vec<String>,
    /// Duration of `soak`, in minutes
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    minutes: u32,
    /// Passed by cargo to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// A section of the benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Section {
    /// Queries per second and CPU time per query over UDP, TCP and TLS
    Queries,
    /// Time from start to ready and resident memory, on a simulated API server
    Start,
    /// One change in a service of 5,000 endpoints and among 20,000 services: from the event to the answer, and CPU time
    Change,
    /// Resident memory and lost queries with 500 endpoint changes and 20,000 queries per second
    Soak,
}

/// A binary of global-dns.
#[derive(Debug)]
struct Binary {
    /// Name in the table: `global-dns`, or the revision.
    name: &'static str,
    /// Absolute path.
    path: PathBuf,
}

/// What a section measures, and how long.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// Rounds over all servers.
    rounds: u32,
    /// Duration of a round for one server and kind.
    seconds: u32,
    /// That of this source first, then those of other revisions.
    binaries: &'static [Binary],
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    ensure!(
        std::thread::available_parallelism()?.get() > 1,
        "benchmarks need two cores: one for the server, one for the load"
    );
    let folder = output()?;
    let binary = |name: &'static str, file: String| -> Result<Binary> {
        let path = folder.join(file);
        ensure!(path.is_file(), "{path:?} is missing; use tests/bench/run");
        Ok(Binary { name, path })
    };
    let old = arguments.old.iter().map(|revision| {
        let name: &'static str = revision.clone().leak();
        binary(name, format!("global-dns-{revision}"))
    });
    let ours = iter::once(binary("global-dns", "global-dns".to_owned()));
    let effort = Effort {
        rounds: arguments.rounds,
        seconds: arguments.seconds,
        binaries: ours.chain(old).collect::<Result<Vec<_>>>()?.leak(),
    };
    let mut report = Report::default();
    for section in Section::value_variants() {
        let is_wanted = match &arguments.sections[..] {
            [] => *section != Section::Soak,
            some => some.contains(section),
        };
        if !is_wanted {
            continue;
        }
        match section {
            Section::Queries => queries::measure(effort, &mut report)?,
            Section::Start => start::measure(effort, &mut report)?,
            Section::Change => change::measure(effort, &mut report)?,
            Section::Soak => soak::measure(effort, arguments.minutes, &mut report)?,
        }
    }
    let text = report.text();
    println!("\n{text}");
    fs::write(folder.join("report.md"), text).context("writing report.md")
}

/// Returns the output directory: `bench` in cargo's target directory. `tests/bench/run` copies the binaries there.
fn output() -> Result<PathBuf> {
    let own = env::current_exe()?;
    // target/TRIPLE/PROFILE/deps/bench
    let target = own.ancestors().nth(4);
    let target = target.context("the benchmark is not in cargo's target directory")?;
    Ok(target.join("bench"))
}
