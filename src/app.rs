//! Wiring of the commands: it opens sources, binds listeners, starts tasks and shuts down.

mod api;
mod corefile;
mod demo;
mod diagnose;
mod events;
mod first_table;
mod inspect;
mod origin;
mod screen;
mod serve;
mod source;
mod thread;
mod variables;

use std::net::IpAddr;
use std::process::ExitCode;

use serve::serve;
use source::{Source, access};

use crate::cli::{Cli, Command, LogArgs, ModelArgs};
use crate::log::{InvalidLogFilter, LogFilter, start_logging};
use crate::table::Profile;
use crate::zone::{Zone, ZoneKind, ZoneName, Zones};

/// Runs the command of the command line.
///
/// # Errors
///
/// If the command fails. The exit code is 1 then.
pub async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Serve(args) => serve(*args, |_| {}).await,
        Command::Demo(args) => demo::demo(*args).await,
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
    let given = model.zones();
    let forward = given.iter().map(|given| match given.profile {
        Profile::Global => zone(&given.name, ZoneKind::Forward),
        Profile::ClusterSet => zone(&given.name, ZoneKind::ClusterSet),
    });
    let pointers = std::iter::repeat(model.zone_of_pointers());
    let reverse = model.reverse_zone.iter().zip(pointers);
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
