//! The command line: every flag with its default and its help. Only this module uses `clap`.
//!
//! Values leave this module typed and checked. Every flag has an environment variable: `GLOBAL_DNS_` and the name of the
//! flag. Commas separate the items of lists. The manual's table of flags is generated from the definitions here.

mod access;
mod check;
mod command;
mod completions;
mod encrypted;
mod environment;
mod examples;
mod failover;
mod fleet;
mod groups;
mod help;
mod history;
mod links;
mod model;
mod parse;
mod program;
mod serve;
mod values;
mod variables;
mod view;

pub use access::AccessArgs;
pub use check::CheckArgs;
pub use command::{Cli, Command, CompletionsArgs, HelpArgs};
pub use encrypted::EncryptedArgs;
pub use environment::{UnknownVariable, unknown_variables};
pub use failover::{DelayArgs, ServiceSetting};
pub use fleet::FleetArgs;
pub use groups::{ColorArgs, KubeconfigArgs, ListenArgs, LogArgs, SourceArgs};
pub use model::ModelArgs;
pub use serve::{DemoArgs, ServeArgs};
pub use values::{Output, ZoneArg, parse_zone};
pub use view::{EventsArgs, ExplainArgs, ServerArgs, TableArgs, ViewArgs};

use parse::parse;

/// Reads the command line. Ends the process with exit code 2 if the command line is invalid, and with exit code 0 after
/// `help`, except for the table of flags.
pub fn read() -> Cli {
    let cli = parse(std::env::args_os().collect());
    if let Command::Help(args) = &cli.command
        && let Some(help) = args.clap_help()
    {
        help.exit();
    }
    cli
}

#[cfg(test)]
mod tests;
