//! Wiring: bind, spawn, readiness, shutdown. Decides nothing.

mod doctor;
mod inspect;
mod serve;
mod source;

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use tracing::warn;

use serve::serve;
use source::{Source, access};

use crate::cli::{Cli, Command, DemoArgs, LogArgs, ModelArgs, ServeArgs};
use crate::log::start_logging;
use crate::zone::{Zone, ZoneKind, ZoneName, Zones};

/// The built-in sample of `demo`.
const SAMPLE: &str = include_str!("demo.yaml");
/// The questions that `demo` proposes, with what they show.
const QUESTIONS: [(&str, &[&str]); 3] = [
    (
        "One service in three clusters, one of them this one:",
        &["db.prod.global", "_sql._tcp.db.prod.global SRV"],
    ),
    (
        "The same by its short name; one cluster's endpoints; one endpoint:",
        &[
            "db.global",
            "east.db.prod.global",
            "db-0.west.db.prod.global",
        ],
    ),
    (
        "A name with dashes; a cluster whose gateway is down, answered as the last resort:",
        &["db-east.shop.global", "cache.prod.global"],
    ),
];

/// Does what the command line says.
///
/// # Errors
///
/// If that cannot be done: exit code 1.
pub async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Serve(args) => serve(*args, |_| Ok(())).await,
        Command::Demo(args) => demo(*args).await,
        Command::Explain(args) => inspect::explain_name(*args).await,
        Command::Table(args) => inspect::print_table(*args).await,
        Command::Check(args) => doctor::check(*args).await,
    }
}

fn zones(model: &ModelArgs, ns_addresses: &[IpAddr]) -> Zones {
    let zone = |name: &ZoneName, kind| Zone {
        name: name.clone(),
        ttl: model.ttl,
        negative_ttl: model.negative_ttl,
        ns_addresses: ns_addresses.to_vec(),
        kind,
    };
    let names = model.zones();
    let forward = names.iter().map(|name| zone(name, ZoneKind::Forward));
    let first = names.first().cloned();
    let reverse = model.reverse_zone.iter().zip(std::iter::repeat(first));
    let reverse = reverse.filter_map(|(name, first)| Some(zone(name, ZoneKind::Reverse(first?))));
    Zones::new(forward.chain(reverse).collect())
}

fn log_to_stderr(log: &LogArgs, default: &str) -> anyhow::Result<()> {
    Ok(start_logging(level(log, default), log.log_format.into())?)
}

fn level<'l>(log: &'l LogArgs, default: &'l str) -> &'l str {
    log.log_level.as_deref().unwrap_or(default)
}

// === demo ===

/// Runs `serve --file` on a copy of the built-in sample, which may be changed to see what happens.
async fn demo(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let folder = std::env::temp_dir().join(format!("global-dns-demo-{}", std::process::id()));
    let sample = folder.join("demo.yaml");
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(&sample, SAMPLE)
    };
    write().with_context(|| format!("writing the sample to {}", sample.display()))?;
    let mut serve_args = ServeArgs::from(args);
    serve_args.source.file = vec![sample.clone()];
    serve_args.model.cluster_name = "hub".parse().context("naming the sample's cluster")?;
    let done = serve(serve_args, |bound| print_hints(bound, &sample)).await;
    // The sample is ours; that it stays behind if this fails harms nobody.
    let _ = std::fs::remove_dir_all(&folder);
    done
}

/// Prints what to try with the demo.
fn print_hints(bound: &[SocketAddr], sample: &Path) -> anyhow::Result<()> {
    if let Some(address) = bound.first() {
        // The server is what was asked for; hints that nobody can read are none.
        print(&hints(*address, sample))
            .unwrap_or_else(|error| warn!(%error, "The hints could not be printed"));
    }
    Ok(())
}

/// Returns the commands to try with a demo that listens on `address`.
fn hints(address: SocketAddr, sample: &Path) -> String {
    let (ip, port) = (address.ip(), address.port());
    let ask = |question: &&str| format!("  dig @{ip} -p {port} {question}\n");
    let questions = QUESTIONS.iter().map(|(heading, questions)| {
        let commands: String = questions.iter().map(ask).collect();
        format!("{heading}\n{commands}")
    });
    let program = std::env::args()
        .next()
        .unwrap_or_else(|| "global-dns".to_owned());
    let sample = sample.display();
    let source = format!("--cluster-name hub --file {sample}");
    let commands = format!(
        "Why an answer is what it is, and everything that is served:\n  \
         {program} explain db.prod.global {source}\n  {program} table {source}\n"
    );
    let end = format!("Change {sample} and ask again. Ctrl-C ends it.\n\n");
    format!("\n{}{commands}{end}", questions.collect::<String>())
}

// === Output ===

/// Writes a value as JSON for programs.
fn json(value: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no error.
fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("writing to standard output")
        }
        _ => Ok(()),
    }
}
