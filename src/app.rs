//! Wiring of the commands: it opens sources, binds listeners, starts tasks and shuts down.

mod api;
mod corefile;
mod diagnose;
mod events;
mod inspect;
mod no_table;
mod origin;
mod screen;
mod serve;
mod source;
mod variables;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use tracing::warn;

use serve::serve;
use source::{Source, access};

use crate::cli::{Cli, Command, DemoArgs, LogArgs, ModelArgs, ServeArgs};
use crate::log::{InvalidLogFilter, LogFilter, start_logging};
use crate::zone::{Zone, ZoneKind, ZoneName, Zones};

/// The built-in sample of `demo`.
const SAMPLE: &str = include_str!("demo.yaml");
/// The queries that `demo` suggests, each group with a heading.
const QUESTIONS: [(&str, &[&str]); 4] = [
    (
        "One service in three clusters, including this cluster:",
        &["db.prod.global", "_sql._tcp.db.prod.global SRV"],
    ),
    (
        "Its short name; the endpoints of one cluster; one endpoint:",
        &[
            "db.global",
            "east.db.prod.global",
            "db-0.west.db.prod.global",
        ],
    ),
    (
        "A service name with a dash; a service with all its gateways down, which still returns its endpoints:",
        &["db-east.shop.global", "cache.prod.global"],
    ),
    (
        "Services with cluster IPs: through gateways; in a flat network; federated:",
        &[
            "pay.shop.global",
            "_http._tcp.pay.shop.global SRV",
            "api.shop.global",
            "web.shop.global",
        ],
    ),
];

/// Runs the command of the command line.
///
/// # Errors
///
/// If the command fails. The exit code is 1 then.
pub async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Serve(args) => serve(*args, |_| Ok(())).await,
        Command::Demo(args) => demo(*args).await,
        Command::Explain(args) => inspect::explain_name(*args).await,
        Command::Table(args) => inspect::print_table(*args).await,
        Command::Events(args) => events::print_events(*args).await,
        Command::Check(args) => diagnose::check(*args).await,
        Command::Corefile(args) => corefile::print_corefile(*args).await,
        Command::Completions(args) => {
            print(&args.script())?;
            Ok(ExitCode::SUCCESS)
        }
        // `cli::read` has printed all other help.
        Command::Help(args) => {
            print(&args.flags())?;
            Ok(ExitCode::SUCCESS)
        }
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

/// Starts the log of a command that ends, and prints warnings about environment variables.
fn log_to_stderr(log: &LogArgs, default: &str) -> anyhow::Result<()> {
    start_logging(&level(log, default)?, log.log_format.into());
    variables::print_unknown();
    Ok(())
}

fn level(log: &LogArgs, default: &str) -> Result<LogFilter, InvalidLogFilter> {
    match &log.log_level {
        Some(given) => Ok(given.clone()),
        None => default.parse(),
    }
}

// === demo ===

/// Runs `serve --file` with a copy of the built-in sample. The user may edit the copy.
async fn demo(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let folder = std::env::temp_dir().join(format!("global-dns-demo-{}", std::process::id()));
    let sample = folder.join("demo.yaml");
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(&sample, SAMPLE)
    };
    write().with_context(|| format!("cannot write the sample to {}", sample.display()))?;
    let mut serve_args = ServeArgs::from(args);
    serve_args.source.file = vec![sample.clone()];
    serve_args.model.cluster_name = "hub"
        .parse()
        .context("the sample has an invalid cluster name")?;
    let done = serve(serve_args, |bound| print_hints(bound, &sample)).await;
    // If this fails, a small file remains, which is harmless.
    let _ = std::fs::remove_dir_all(&folder);
    done
}

/// Prints the commands to try with the demo.
fn print_hints(bound: &[SocketAddr], sample: &Path) -> anyhow::Result<()> {
    if let Some(address) = bound.first() {
        // The server works without the hints.
        print(&hints(*address, sample))
            .unwrap_or_else(|error| warn!(%error, "Cannot print the hints"));
    }
    Ok(())
}

/// Returns the commands to try with a demo that listens on `address`.
fn hints(address: SocketAddr, sample: &Path) -> String {
    let (ip, port) = (address.ip(), address.port());
    let command = |question: &&str| format!("  dig @{ip} -p {port} {question}\n");
    let questions = QUESTIONS.iter().map(|(heading, questions)| {
        let commands: String = questions.iter().map(command).collect();
        format!("{heading}\n{commands}")
    });
    let program = std::env::args()
        .next()
        .unwrap_or_else(|| "global-dns".to_owned());
    let sample = sample.display();
    let source = format!("--cluster-name hub --file {sample}");
    let commands = format!(
        "The explanation of an answer; the whole table:\n  \
         {program} explain db.prod.global {source}\n  {program} table {source}\n"
    );
    let end = format!("Edit {sample} and repeat a query. Ctrl-C stops the demo.\n\n");
    format!("\n{}{commands}{end}", questions.collect::<String>())
}

// === Output ===

/// Returns a value as JSON.
fn json(value: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Returns a value as YAML.
fn yaml(value: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(value)?)
}

/// Writes to standard output. Ignores a closed pipe, as with `| head`.
fn print(text: &str) -> anyhow::Result<()> {
    screen::write(text).map(|_| ())
}
