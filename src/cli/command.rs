//! The subcommands.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::check::CheckArgs;
use super::corefile::CorefileArgs;
use super::serve::{DemoArgs, ServeArgs};
use super::view::{EventsArgs, ExplainArgs, TableArgs};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// One DNS name for a headless service that lives in many linked clusters
#[derive(Debug, Parser)]
#[command(name = "global-dns", version, styles = STYLES, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer DNS queries for the mirrors in a cluster or in files
    Serve(Box<ServeArgs>),
    /// Try the server with built-in sample data of three clusters, at 127.0.0.1:1053
    Demo(Box<DemoArgs>),
    /// Explain the answer for a name, or why there is none
    Explain(Box<ExplainArgs>),
    /// Print the table: every endpoint, every skipped object, every conflict
    Table(Box<TableArgs>),
    /// Print the last changes of the answers, as a running server recorded them
    Events(Box<EventsArgs>),
    /// Diagnose an installation, with a hint for each problem
    Check(Box<CheckArgs>),
    /// Print the setting that makes the DNS of a platform forward the zones to the server; writes nothing to the cluster
    Corefile(Box<CorefileArgs>),
    /// Print a script that completes commands and flags in a shell
    Completions(CompletionsArgs),
    /// Print this help, the help of a command, or a table of all flags of serve
    Help(HelpArgs),
}

/// Flags of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell to complete in
    pub shell: Shell,
}

/// Flags of `help`.
#[derive(Debug, Args)]
pub struct HelpArgs {
    /// Command to describe, or flags: a table of all flags of serve [default: the program itself]
    pub topic: Option<Topic>,

    /// Format of the table of flags
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub output: HelpOutput,
}

/// The topics of `help`: the commands, and the table of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Topic {
    /// The server
    Serve,
    /// The server with built-in sample data
    Demo,
    /// The explanation of an answer
    Explain,
    /// The table that is served
    Table,
    /// The last changes of the answers
    Events,
    /// The diagnosis of an installation
    Check,
    /// The setting of the cluster's DNS
    Corefile,
    /// The script that completes commands and flags in a shell
    Completions,
    /// This command
    Help,
    /// The table of all flags of serve
    Flags,
}

/// `--output` of `help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HelpOutput {
    /// Plain text
    Text,
    /// A Markdown document
    Markdown,
}
