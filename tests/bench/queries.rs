//! Queries per second, and CPU time per query, which decides if the core of the load is the limit: over UDP and TCP
//! compared with Knot, and over TLS.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use support::certificates::{Identity, issue_valid};
use support::commands::tool;
use support::process::run_checked;
use support::query::query;
use support::reply::Record;
use support::wait::TIMEOUT;
use support::wire::{Transport, try_ask};

use crate::data::Services;
use crate::report::Report;
use crate::servers::{LOAD, Server, command, free_address};
use crate::{Binary, Effort};

/// Services with nine endpoints in three clusters.
const SMALL: Services = Services {
    prefix: "db",
    count: 1_000,
    clusters: 3,
    endpoints: 3,
    first: 0,
};
/// Services with ninety endpoints.
const LARGE: Services = Services {
    prefix: "big",
    count: 100,
    endpoints: 30,
    first: 9_000,
    ..SMALL
};
/// Number of compared questions of a kind.
const SAMPLE: usize = 25;
/// Flags of dnsperf: transport, sockets or connections, and outstanding queries.
const UDP: &str = "-m udp -c 32 -q 200";
const TCP: &str = "-m tcp -c 8 -q 200";
const TLS: &str = "-m dot -c 8 -q 64";

/// Results of dnsperf.
pub(crate) struct Load {
    /// Answered queries per second.
    pub(crate) rate: f64,
    pub(crate) answered: f64,
    pub(crate) lost: f64,
}

/// Measures all kinds. Each round includes all servers, so that other work on the machine affects them equally.
///
/// # Errors
///
/// If a server does not start, or the servers' answers differ.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let objects = folder.join("objects.json");
    fs::write(&objects, SMALL.objects().with(LARGE.objects()).list())?;
    let zone = folder.join("global.zone");
    fs::write(&zone, zone_of(&effort.binaries[0], &objects)?)?;
    issue_valid().write(folder);
    let [certificate, key] = Identity::settings(folder);
    let source = ["--file", objects.to_str().context("a path")?];
    let (mut servers, mut encrypted) = (Vec::new(), Vec::new());
    for binary in effort.binaries {
        let tls = free_address();
        let listen = format!("listen.tls=['{tls}']");
        servers.push(Server::start(
            binary,
            source,
            &[&listen, &certificate, &key],
        )?);
        encrypted.push(tls);
    }
    servers.push(Server::start_knot(&zone, folder)?);
    let kinds = [
        ("A, 9 addresses", SMALL.questions(folder, "", "A")?),
        ("A, 90", LARGE.questions(folder, "", "A")?),
        ("SRV, 9", SMALL.questions(folder, "_sql._tcp.", "SRV")?),
        ("NXDOMAIN", SMALL.questions(folder, "no-", "A")?),
    ];
    for (_, questions) in &kinds {
        check_same_answers(&servers, questions)?;
    }
    for _ in 0..effort.rounds {
        for server in &servers {
            for (kind, questions) in &kinds {
                let what = format!("UDP, {kind}");
                run(
                    &what,
                    server,
                    server.address,
                    questions,
                    UDP,
                    effort,
                    report,
                )?;
            }
            let questions = &kinds[0].1;
            let what = "TCP, pipelined, A, 9 addresses";
            run(what, server, server.address, questions, TCP, effort, report)?;
        }
        for (server, tls) in servers.iter().zip(&encrypted) {
            let what = "TLS, pipelined, A, 9 addresses";
            run(what, server, *tls, &kinds[0].1, TLS, effort, report)?;
        }
    }
    Ok(())
}

fn run(
    what: &str,
    server: &Server,
    address: SocketAddr,
    questions: &Path,
    flags: &str,
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let before = server.cpu_time()?;
    let load = dnsperf(address, questions, flags, effort.seconds)?;
    let spent = server.cpu_time()?.saturating_sub(before);
    report.add(what, "k/s", server.name, load.rate / 1e3);
    let cost = spent.as_secs_f64() * 1e6 / load.answered;
    report.add(what, "µs CPU", server.name, cost);
    Ok(())
}

/// Sends queries with dnsperf from the core of the load.
///
/// # Errors
///
/// If dnsperf fails, or no query is answered.
pub(crate) fn dnsperf(
    server: SocketAddr,
    questions: &Path,
    flags: &str,
    seconds: u32,
) -> Result<Load> {
    let mut dnsperf = command(&tool("dnsperf")?, LOAD)?;
    dnsperf.args(["-e", "-T", "1"]).args(flags.split(' '));
    dnsperf.args(["-s", &server.ip().to_string()]);
    dnsperf.args(["-p", &server.port().to_string()]);
    dnsperf
        .args(["-l", &seconds.to_string(), "-d"])
        .arg(questions);
    let text = run_checked(&mut dnsperf)?;
    let figure = |name: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
        let word = line.and_then(|rest| rest.split_whitespace().next());
        let value = word.and_then(|word| word.parse::<f64>().ok());
        value.with_context(|| format!("no '{name}' in: {text}"))
    };
    let answered = figure("Queries completed:")?;
    ensure!(answered > 0.0, "no query was answered: {text}");
    Ok(Load {
        rate: figure("Queries per second:")?,
        answered,
        lost: figure("Queries lost:")?,
    })
}

/// Returns the zone of a file of objects, as global-dns prints it.
fn zone_of(binary: &Binary, objects: &Path) -> Result<String> {
    let mut table = command(&binary.path, LOAD)?;
    table.args(["table", "--cluster-name=hub", "--output=zone", "--file"]);
    run_checked(table.arg(objects))
}

/// Compares answers, because speed can only be compared for equal answers.
fn check_same_answers(servers: &[Server], questions: &Path) -> Result<()> {
    let text = fs::read_to_string(questions)?;
    let questions: Vec<&str> = text.lines().collect();
    for question in questions.iter().step_by(questions.len() / SAMPLE) {
        let ask = |server: &Server| -> Result<(u16, Vec<Record>)> {
            let asked = query(&format!("{question} +rd +bufsize=4096"));
            let reply = try_ask(server.address, &asked, Transport::Udp, TIMEOUT)?;
            ensure!(!reply.is_truncated(), "a reply is truncated");
            let mut records = reply.in_lower_case().answers;
            records.sort_unstable();
            Ok((reply.rcode, records))
        };
        let first = ask(&servers[0])?;
        for server in &servers[1..] {
            let other = ask(server)?;
            ensure!(
                first == other,
                "{question}: {first:?}, {}: {other:?}",
                server.name
            );
        }
    }
    Ok(())
}
