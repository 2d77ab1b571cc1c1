//! Benchmarks: global-dns beside Knot, NSD, BIND, hickory-dns and CoreDNS, all with the same records, on one core each;
//! the load comes from another one. `tests/bench/run` installs what this needs and runs it.
//!
//! Index:
//!
//! - `udp`: queries per second, and CPU time per query, which decides where the load's core is the limit; listeners of one
//!   address and of every address
//! - `memory`: a hundred thousand endpoint mirrors in a file: resident memory, time to ready; the size of the binary
//! - `mirrors`: the same with a slice each on a real API server, and while they are relisted
//! - `tcp`: pipelined queries, and one query for each connection
//! - `encrypted`: TLS and HTTPS, with kept connections and with new ones, beside CoreDNS
//! - `start`: from start to ready on a real API server, and memory, beside CoreDNS
//! - `freshness`: from an acknowledged write to the changed answer, beside CoreDNS
//! - `coredns`: queries per second beside CoreDNS with its `kubernetes` plugin on a real API server
//! - `workers`: two threads beside one; `overload`: half a core, and twice the load that it can take
//! - `latency`: p99.9 while endpoints change; `soak`: an hour of that
//! - `data`: what is served and asked; `servers`: who serves it; `processes`: child processes, their CPU time and memory
//! - `load`: dnsperf, and a client with a connection for each query; `flow`: queries at a fixed rate; `floor`: the least that a server can do
//! - `check`: that all servers give the same answers; `report`: tables, goals, Markdown, a chart
#![expect(
    clippy::print_stdout,
    reason = "a command whose output is what it is for"
)]

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use support::say::say;

use crate::report::Report;

mod check;
mod coredns;
mod data;
mod encrypted;
mod floor;
mod flow;
mod freshness;
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

/// Measures global-dns beside Knot, NSD, BIND, hickory-dns and CoreDNS: medians of interleaved rounds, ratios, goals.
#[derive(Debug, Parser)]
#[command(bin_name = "tests/bench/run", args_conflicts_with_subcommands = true)]
struct Arguments {
    /// What to measure; everything but `mirrors` and `soak` if none is named
    sections: Vec<Section>,
    /// How often each server is asked each kind of question, or started
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long a round lasts for each server and kind, in seconds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// How long `soak` lasts
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    minutes: u32,
    /// How many endpoint mirrors `mirrors` writes; its goals are for all of them
    #[arg(long, default_value_t = 100_000)]
    mirrors: usize,
    /// What cargo tells every benchmark
    #[arg(long, hide = true)]
    bench: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Section {
    /// Queries per second and CPU time per query over UDP, beside Knot, NSD, BIND, hickory-dns and a bare loop
    Udp,
    /// Resident memory with 100,000 endpoint mirrors, time to ready; size of the binary
    Memory,
    /// Resident memory with 100,000 endpoint mirrors and slices on a real API server, and while they are relisted
    Mirrors,
    /// Queries per second over TCP, pipelined and with one query for each connection, beside Knot and NSD
    Tcp,
    /// CPU time per query and latency over TLS and HTTPS, with kept connections and with new ones, beside CoreDNS
    Encrypted,
    /// From start to ready, and memory, on a real API server with 10,000 endpoint mirrors, beside CoreDNS
    Start,
    /// From the API server's acknowledgement of a change to the changed answer, beside CoreDNS
    Freshness,
    /// Queries per second beside CoreDNS with its `kubernetes` plugin on a real API server
    Coredns,
    /// Two threads that answer beside one
    Workers,
    /// Held to half a core, and offered twice what it can answer
    Overload,
    /// p99.9 latency at half load, while 500 endpoints change per second
    Latency,
    /// Resident memory while 500 endpoints change, and 20,000 queries are asked, per second
    Soak,
}

/// What the benchmark starts as child processes of its own, on cores of their own.
#[derive(Debug, Subcommand)]
#[command(hide = true)]
enum Part {
    /// Answers a fixed set of questions with what another server answers to them
    #[command(name = "part-floor", hide = true)]
    Floor {
        /// Where to answer
        #[arg(long)]
        listen: SocketAddr,
        /// Whose answers
        #[arg(long)]
        from: SocketAddr,
        /// Names and types, one question in a line
        #[arg(long)]
        questions: PathBuf,
    },
    /// Asks at a fixed rate
    #[command(name = "part-flow", hide = true)]
    Flow {
        /// Whom to ask
        #[arg(long)]
        server: SocketAddr,
        /// Names and types, one question in a line
        #[arg(long)]
        questions: PathBuf,
        /// Queries in a second
        #[arg(long)]
        rate: u32,
        /// How long
        #[arg(long)]
        seconds: u32,
    },
    /// Asks over TLS or HTTPS
    #[command(name = "part-encrypted", hide = true)]
    Encrypted(encrypted::client::Load),
    /// Asks each question in a connection of its own
    #[command(name = "part-connections", hide = true)]
    Connections {
        /// Whom to ask
        #[arg(long)]
        server: SocketAddr,
        /// Names and types, one question in a line
        #[arg(long)]
        questions: PathBuf,
        /// How long
        #[arg(long)]
        seconds: u32,
    },
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// Rounds over all servers.
    rounds: u32,
    /// Length of a round for one server and kind.
    seconds: u32,
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
    let effort = Effort {
        rounds: arguments.rounds,
        seconds: arguments.seconds,
    };
    if std::thread::available_parallelism()?.get() < 2 {
        bail!("a core for the server and one for the load are needed");
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
            Section::Mirrors => mirrors::measure(arguments.mirrors, effort, &mut report)?,
            Section::Tcp => tcp::measure(effort, &mut report)?,
            Section::Encrypted => encrypted::measure(effort, &mut report)?,
            Section::Start => start::measure(effort, &mut report)?,
            Section::Freshness => freshness::measure(effort, &mut report)?,
            Section::Coredns => coredns::measure(effort, &mut report)?,
            Section::Workers => workers::measure(effort, &mut report)?,
            Section::Overload => overload::measure(effort, &mut report)?,
            Section::Latency => latency::measure(effort, &mut report)?,
            Section::Soak => soak::measure(arguments.minutes, &mut report)?,
        }
    }
    println!("\n{}", report.text());
    // What is measured in part leaves the report of the whole alone.
    let name = arguments
        .sections
        .iter()
        .filter_map(Section::to_possible_value);
    let name = name.fold("report".to_owned(), |name, section| {
        format!("{name}-{}", section.get_name())
    });
    report.write(&output()?, &name)
}

/// Where results go: `bench` where cargo builds. The script puts the binary there, because what cargo builds beside a
/// benchmark has features that only tests need.
fn output() -> Result<PathBuf> {
    let own = env::current_exe()?; // release/deps/bench-…
    let target = own.ancestors().nth(3);
    Ok(target
        .context("a program in cargo's directories")?
        .join("bench"))
}

/// The binary that is measured.
fn binary() -> Result<PathBuf> {
    let binary = output()?.join("global-dns");
    ensure!(
        binary.is_file(),
        "{} is missing: tests/bench/run makes it",
        binary.display()
    );
    Ok(binary)
}
