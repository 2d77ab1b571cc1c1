//! The subcommands.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use super::check::CheckArgs;
use super::fleet::FleetArgs;
use super::serve::{DemoArgs, ServeArgs};
use super::view::{EventsArgs, ExplainArgs, TableArgs};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// DNS server: one name for a service in several linked clusters
#[derive(Debug, Parser)]
#[command(name = "global-dns", version, styles = STYLES, max_term_width = 100)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the DNS server
    Serve(Box<ServeArgs>),
    /// Try the server with built-in sample data of three clusters, at 127.0.0.1:1053
    Demo(Box<DemoArgs>),
    /// Explain the answer for a name, or why there is none
    Explain(Box<ExplainArgs>),
    /// Print what is wrong, and all services, those with trouble first
    Table(Box<TableArgs>),
    /// Print the last changes of the answers
    Events(Box<EventsArgs>),
    /// Diagnose an installation, with a hint for each problem
    Check(Box<CheckArgs>),
    /// Compare the servers of several clusters, and print every difference
    Fleet(Box<FleetArgs>),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
}

/// Flags of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell that runs the script
    pub shell: Shell,
}
