//! Benchmarks of global-dns, Knot, NSD, BIND, hickory-dns and CoreDNS. All servers have the same records and one core;
//! the load comes from another core. `tests/bench/run` installs the requirements and runs the benchmarks.
//! With `--old`, the sections `udp`, `tcp`, `memory`, `kinds` (memory only), `mirrors` and `change` also measure binaries of
//! other revisions, in the same rounds.
//!
//! Index:
//!
//! - `udp`: queries per second; CPU time per query, which decides if the core of the load is the limit; listeners on
//!   one
//!   address and on every address
//! - `memory`: 100,000 endpoint mirrors in a file: resident memory, time to ready; the size of the binary
//! - `mirrors`: the same with one slice each on a real API server
//! - `kinds`: an A query for each kind of service; memory with 20,000 mirrors with a cluster IP
//! - `tcp`: pipelined queries, and one query for each connection
//! - `encrypted`: TLS with persistent and with new connections, compared with CoreDNS
//! - `start`: time from start to ready on a real API server, and memory, compared with CoreDNS
//! - `freshness`: time from an acknowledged write to the changed answer, compared with CoreDNS
//! - `coredns`: queries per second compared with CoreDNS and its `kubernetes` plugin on a real API server
//! - `change`: one change in a service of 5,000 endpoints
//! - `workers`: two threads compared with one; `overload`: half a core and twice its capacity
//! - `latency`: p99.9 while endpoints change; `soak`: the same for an hour
//! - `data`: served data and questions; `servers`: the compared servers; `processes`: child processes, CPU time, memory
//! - `load`: dnsperf, and a client with a connection for each query; `flow`: queries at a fixed rate
//! - `floor`: the minimum work of a server; `stored`: objects written directly to etcd
//! - `check`: comparison of all servers' answers; `report`: tables, goals, Markdown, a chart
#![expect(clippy::print_stdout, reason = "a command that prints its results")]

use std::env;
use std::iter;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use support::output::print_line;

use crate::report::Report;
use crate::servers::OURS;
use crate::soak::Soak;

mod change;
mod check;
mod coredns;
mod data;
mod encrypted;
mod floor;
mod flow;
mod freshness;
mod kinds;
mod latency;
mod load;
mod memory;
mod mirrors;
mod overload;
mod processes;
mod report;
mod servers;
mod soak;
mod start;
mod stored;
mod tcp;
mod udp;
mod workers;

/// Measures global-dns, Knot, NSD, BIND, hickory-dns and CoreDNS: medians of interleaved rounds, ratios, goals.
#[derive(Debug, Parser)]
#[command(bin_name = "tests/bench/run", args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Sections to measure; without a section, all except `mirrors` and `soak`
    sections: Vec<Section>,
    /// Number of rounds, each with every server and every kind of question
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Duration of a round for each server and kind, in seconds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Revision to compare in `udp`, `tcp`, `memory`, `kinds`, `mirrors` and `change`; tests/bench/run builds it (repeatable)
    #[arg(long, value_name = "REVISION")]
    old: Vec<String>,
    /// Duration of `soak`, in minutes
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    minutes: u32,
    /// Changes per second in `soak`
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    changes: u32,
    /// Queries per second in `soak`; 0: none
    #[arg(long, default_value_t = 20_000)]
    queries: u32,
    /// Flag `--history-memory` of the server in `soak`, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 32)]
    history_memory: u32,
    /// Number of endpoint mirrors that `mirrors` writes; its goals apply to the default
    #[arg(long, default_value_t = 100_000)]
    mirrors: usize,
    /// Passed by cargo to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

/// A section of the benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Section {
    /// Queries per second and CPU time per query over UDP: Knot, NSD, BIND, hickory-dns and a bare loop
    Udp,
    /// Resident memory with 100,000 endpoint mirrors, time to ready; size of the binary
    Memory,
    /// CPU time of an A query for each kind of service; resident memory with 20,000 mirrors with a cluster IP
    Kinds,
    /// Resident memory with 100,000 endpoint mirrors and slices on a real API server
    Mirrors,
    /// Queries per second over TCP, pipelined and with one query for each connection: Knot and NSD
    Tcp,
    /// CPU time per query and latency over TLS, with persistent and with new connections: CoreDNS
    Encrypted,
    /// Time from start to ready, and memory, on a real API server with 10,000 endpoint mirrors: CoreDNS
    Start,
    /// Time from the API server's acknowledgment of a change to the changed answer: CoreDNS
    Freshness,
    /// One change in a service of 5,000 endpoints: from the event to the answer, and CPU time; the goal is half of the first
    /// revision of `--old`
    Change,
    /// Queries per second compared with CoreDNS and its `kubernetes` plugin on a real API server
    Coredns,
    /// Two worker threads compared with one
    Workers,
    /// Half a core, with twice the queries that it can answer
    Overload,
    /// p99.9 latency at half load, while 500 endpoints change per second
    Latency,
    /// Resident memory with 500 endpoint changes and 20,000 queries per second, and that of the history
    Soak,
}

/// A child process of the benchmark, on a separate core.
#[derive(Debug, Subcommand)]
#[command(hide = true)]
enum Part {
    /// Answers a fixed set of questions with the replies of another server
    #[command(name = "part-floor", hide = true)]
    Floor {
        /// Listen address
        #[arg(long)]
        listen: SocketAddr,
        /// Server that provides the replies
        #[arg(long)]
        from: SocketAddr,
        /// File of names and types, one question per line
        #[arg(long)]
        questions: PathBuf,
    },
    /// Sends queries at a fixed rate
    #[command(name = "part-flow", hide = true)]
    Flow {
        /// Server address
        #[arg(long)]
        server: SocketAddr,
        /// File of names and types, one question per line
        #[arg(long)]
        questions: PathBuf,
        /// Queries per second
        #[arg(long)]
        rate: u32,
        /// Duration in seconds
        #[arg(long)]
        seconds: u32,
    },
    /// Sends queries over TLS
    #[command(name = "part-encrypted", hide = true)]
    Encrypted(encrypted::client::Load),
    /// Sends each query on a separate connection
    #[command(name = "part-connections", hide = true)]
    Connections {
        /// Server address
        #[arg(long)]
        server: SocketAddr,
        /// File of names and types, one question per line
        #[arg(long)]
        questions: PathBuf,
        /// Duration in seconds
        #[arg(long)]
        seconds: u32,
    },
}

/// Amount of measurement.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// Rounds over all servers.
    rounds: u32,
    /// Duration of a round for one server and kind.
    seconds: u32,
    /// That of this source first, then those of other revisions.
    binaries: &'static [Binary],
}

/// A binary of global-dns.
#[derive(Debug)]
struct Binary {
    /// Name in the tables: `global-dns`, or the revision.
    name: &'static str,
    /// Absolute path.
    path: PathBuf,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.part {
        None => measure(&arguments),
        Some(Part::Floor {
            listen,
            from,
            questions,
        }) => floor::serve(listen, from, &questions),
        Some(Part::Flow {
            server,
            questions,
            rate,
            seconds,
        }) => flow::send(server, &questions, rate, seconds),
        Some(Part::Encrypted(load)) => encrypted::client::ask(&load),
        Some(Part::Connections {
            server,
            questions,
            seconds,
        }) => load::ask_in_connections(server, &questions, seconds),
    }
}

fn measure(arguments: &Arguments) -> Result<()> {
    let old = arguments.old.iter().map(|revision| Binary::old(revision));
    let binaries: Result<Vec<_>> = iter::once(Binary::ours()).chain(old).collect();
    let effort = Effort {
        rounds: arguments.rounds,
        seconds: arguments.seconds,
        binaries: binaries?.leak(),
    };
    if std::thread::available_parallelism()?.get() < 2 {
        bail!("benchmarks need two cores: one for the server, one for the load");
    }
    let mut report = Report::default();
    for section in Section::value_variants() {
        let is_wanted = match &arguments.sections[..] {
            [] => !matches!(section, Section::Mirrors | Section::Soak),
            some => some.contains(section),
        };
        if !is_wanted {
            continue;
        }
        match section {
            Section::Udp => udp::measure(effort, &mut report)?,
            Section::Memory => memory::measure(effort, &mut report)?,
            Section::Kinds => kinds::measure(effort, &mut report)?,
            Section::Mirrors => mirrors::measure(arguments.mirrors, effort, &mut report)?,
            Section::Tcp => tcp::measure(effort, &mut report)?,
            Section::Encrypted => encrypted::measure(effort, &mut report)?,
            Section::Start => start::measure(effort, &mut report)?,
            Section::Freshness => freshness::measure(effort, &mut report)?,
            Section::Change => change::measure(effort, &mut report)?,
            Section::Coredns => coredns::measure(effort, &mut report)?,
            Section::Workers => workers::measure(effort, &mut report)?,
            Section::Overload => overload::measure(effort, &mut report)?,
            Section::Latency => latency::measure(effort, &mut report)?,
            Section::Soak => soak::measure(&arguments.soak(), &mut report)?,
        }
    }
    println!("\n{}", report.text());
    // A partial run does not overwrite the complete report.
    let name = arguments
        .sections
        .iter()
        .filter_map(Section::to_possible_value);
    let name = name.fold("report".to_owned(), |name, section| {
        format!("{name}-{}", section.get_name())
    });
    report.write(&output()?, &name)
}

/// Returns the output directory: `bench` in cargo's target directory. `tests/bench/run` copies the binary there,
/// because cargo builds a benchmark's binary with features that only tests need.
fn output() -> Result<PathBuf> {
    let own = env::current_exe()?; // TRIPLE/dist/deps/bench-…
    let target = own.ancestors().nth(4);
    Ok(target
        .context("the benchmark is not in cargo's target directory")?
        .join("bench"))
}

// === impl Arguments ===

impl Arguments {
    fn soak(&self) -> Soak {
        Soak {
            minutes: self.minutes,
            changes: self.changes,
            queries: self.queries,
            history_memory: self.history_memory,
        }
    }
}

// === impl Effort ===

impl Effort {
    /// Returns the binary of this source.
    fn ours(&self) -> &'static Binary {
        &self.binaries[0]
    }
}

// === impl Binary ===

impl Binary {
    /// Returns the binary of this source.
    fn ours() -> Result<Self> {
        Self::find(OURS, "global-dns")
    }

    /// Returns the binary of another revision.
    fn old(revision: &str) -> Result<Self> {
        let name = revision.to_owned().leak();
        Self::find(name, &format!("global-dns-{revision}"))
    }

    fn find(name: &'static str, file: &str) -> Result<Self> {
        let path = output()?.join(file);
        ensure!(
            path.is_file(),
            "{} is missing; use tests/bench/run, which builds it",
            path.display()
        );
        Ok(Self { name, path })
    }
}
