//! Load generators: dnsperf, and a client that sends each query on a separate connection.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use support::process::run_checked;

use crate::check::query;
use crate::data::read_questions;
use crate::processes::{ANY, LOAD, command, cpu_time};
use crate::servers::Server;

/// Parallel connections, if each takes one query.
const IN_FLIGHT: usize = 16;
/// Time limit of a reply on such a connection.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Transport and concurrency of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// UDP from 32 sockets, with 200 outstanding queries.
    Udp,
    /// The same from both cores, with two threads.
    UdpFromBoth,
    /// As `Udp`, by four processes, to this number of addresses from 127.0.0.1 on: one or four.
    UdpTo(u8),
    /// Eight TCP connections, with 200 outstanding queries.
    Pipelined,
    /// TCP with one query for each connection, 16 connections in parallel.
    Connections,
}

/// Figures of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Answered queries per second.
    pub(crate) rate: f64,
    /// CPU time of the server per answered query, in microseconds.
    pub(crate) cpu: f64,
    /// Queries without an answer.
    pub(crate) lost: u64,
    /// Latency, if the load generator measures it.
    pub(crate) latency: Option<Latency>,
}

/// Latency in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    /// The median.
    pub(crate) p50: f64,
    /// The 99th percentile.
    pub(crate) p99: f64,
}

// === impl Round ===

impl Round {
    /// Formats the figures for a line of output.
    pub(crate) fn text(&self, server: &str) -> String {
        let text = format!("  {server} {:.1} k/s {:.2} µs", self.rate / 1e3, self.cpu);
        match self.latency {
            None => text,
            Some(Latency { p50, p99 }) => format!("{text} (p50 {p50:.0}, p99 {p99:.0} µs)"),
        }
    }
}

/// Sends queries to a server for `seconds`.
///
/// # Errors
///
/// If the load generator fails, no query is answered, or the server has exited.
pub(crate) fn run(server: &Server, questions: &Path, seconds: u32, way: Way) -> Result<Round> {
    let address = server.address;
    let loads = match way {
        Way::Udp => vec![dnsperf(address, questions, seconds, LOAD, UDP)?],
        Way::UdpFromBoth => vec![dnsperf(address, questions, seconds, ANY, UDP_FROM_BOTH)?],
        Way::UdpTo(addresses) => {
            let addresses = (0..4).map(|number| Ipv4Addr::new(127, 0, 0, 1 + number % addresses));
            let addresses = addresses.map(|ip| SocketAddr::from((ip, address.port())));
            let loads = addresses.map(|ip| dnsperf(ip, questions, seconds, LOAD, QUARTER_OF_UDP));
            loads.collect::<Result<_>>()?
        }
        Way::Pipelined => vec![dnsperf(address, questions, seconds, LOAD, PIPELINED)?],
        Way::Connections => {
            let mut own = command(std::env::current_exe()?, LOAD)?;
            own.arg("part-connections");
            own.arg(format!("--server={address}"));
            own.arg(format!("--seconds={seconds}"));
            own.arg("--questions").arg(questions);
            vec![own]
        }
    };
    measure(server, loads)
}

/// Runs load generators that print figures in dnsperf's format.
///
/// # Errors
///
/// If one fails, no query is answered, or the server has exited.
pub(crate) fn measure(server: &Server, mut loads: Vec<Command>) -> Result<Round> {
    let before = cpu_time(&server.process)?;
    let texts: Vec<Result<String>> = thread::scope(|scope| {
        let loads: Vec<_> = loads
            .iter_mut()
            .map(|load| scope.spawn(|| run_checked(load)))
            .collect();
        let ended = loads.into_iter().map(|load| load.join());
        let text = |ended: thread::Result<_>| ended.unwrap_or_else(|panic| resume_unwind(panic));
        ended.map(text).collect()
    });
    let cpu = cpu_time(&server.process)?.saturating_sub(before);
    let texts: Vec<String> = texts
        .into_iter()
        .collect::<Result<_>>()
        .with_context(|| format!("querying {}", server.name))?;
    // The sum over all processes.
    let figure = |name: &str| {
        let figures = texts.iter().map(|text| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
            let word = line.and_then(|rest| rest.split_whitespace().next());
            let value = word.and_then(|word| word.parse::<f64>().ok());
            value.with_context(|| format!("no '{name}' in: {text}"))
        });
        figures.sum::<Result<f64>>()
    };
    let answered = figure("Queries completed:")?;
    ensure!(
        answered > 0.0,
        "{} answered no query: {texts:?}",
        server.name
    );
    let has_latency = texts.len() == 1 && texts[0].contains(P50);
    let latency = has_latency.then(|| {
        let (p50, p99) = (figure(P50)?, figure(P99)?);
        Ok::<_, anyhow::Error>(Latency { p50, p99 })
    });
    Ok(Round {
        rate: figure("Queries per second:")?,
        cpu: cpu.as_secs_f64() * 1e6 / answered,
        lost: text_number(figure("Queries lost:")?),
        latency: latency.transpose()?,
    })
}

/// Flags of dnsperf: transport, threads, sockets, and outstanding queries.
type Flags = &'static str;
const UDP: Flags = "-m udp -T 1 -c 32 -q 200";
const UDP_FROM_BOTH: Flags = "-m udp -T 2 -c 32 -q 200";
const QUARTER_OF_UDP: Flags = "-m udp -T 1 -c 8 -q 50";
const PIPELINED: Flags = "-m tcp -T 1 -c 8 -q 200";

/// Additional figures of the load generators in this crate, in microseconds.
const P50: &str = "Latency p50:";
const P99: &str = "Latency p99:";

fn dnsperf(
    server: SocketAddr,
    questions: &Path,
    seconds: u32,
    cores: &str,
    flags: Flags,
) -> Result<Command> {
    let mut dnsperf = command("dnsperf", cores)?;
    dnsperf.arg("-e").args(flags.split(' '));
    dnsperf.args(["-s", &server.ip().to_string()]);
    dnsperf.args(["-p", &server.port().to_string()]);
    dnsperf.args(["-l", &seconds.to_string()]);
    dnsperf.arg("-d").arg(questions);
    Ok(dnsperf)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an integer that dnsperf printed"
)]
fn text_number(count: f64) -> u64 {
    count as u64
}

/// Sends each query on a separate connection, some in parallel, and prints figures in dnsperf's format.
///
/// # Errors
///
/// If the questions cannot be read, or a client fails.
pub(crate) fn ask_in_connections(server: SocketAddr, questions: &Path, seconds: u32) -> Result<()> {
    let questions = read_questions(questions)?;
    let queries: Vec<Vec<u8>> = questions
        .iter()
        .map(|question| query(question).framed())
        .collect();
    let started = Instant::now();
    let deadline = started + Duration::from_secs(seconds.into());
    let queries = &queries;
    let ask = |client: usize| {
        let (mut answered, mut lost) = (0_u32, 0_u32);
        let mut reply = Vec::new();
        for query in queries.iter().cycle().skip(client * 37) {
            if Instant::now() > deadline {
                break;
            }
            match ask_once(server, query, &mut reply) {
                Ok(()) => answered += 1,
                Err(_) if lost < 1_000 => lost += 1,
                Err(error) => return Err(error.context("a thousand connections failed")),
            }
        }
        Ok((answered, lost))
    };
    let (mut answered, mut lost) = (0, 0);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..IN_FLIGHT)
            .map(|client| scope.spawn(move || ask(client)))
            .collect();
        for client in clients {
            let ended = client.join().map_err(|_| anyhow!("a client panicked"))?;
            let (more, fewer) = ended?;
            answered += more;
            lost += fewer;
        }
        Ok::<_, anyhow::Error>(())
    })?;
    print_figures(answered.into(), lost.into(), started.elapsed(), None);
    Ok(())
}

/// Prints the figures for [`measure`].
pub(crate) fn print_figures(answered: u64, lost: u64, took: Duration, latency: Option<Latency>) {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let rate = answered as f64 / took.as_secs_f64();
    println!("Queries completed: {answered}\nQueries lost: {lost}\nQueries per second: {rate:.3}");
    if let Some(Latency { p50, p99 }) = latency {
        println!("{P50} {p50:.1}\n{P99} {p99:.1}");
    }
}

fn ask_once(server: SocketAddr, query: &[u8], reply: &mut Vec<u8>) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(query)?;
    reply.resize(65_537, 0);
    let mut read = 0;
    loop {
        read += match stream.read(&mut reply[read..])? {
            0 => bail!("the server closed the connection within a reply"),
            more => more,
        };
        if read >= 2 && read >= 2 + usize::from(u16::from_be_bytes([reply[0], reply[1]])) {
            return Ok(());
        }
    }
}
