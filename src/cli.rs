//! The command line: every flag with its default and its help. Only this module uses `clap`.
//!
//! Values leave this module typed and checked. Every flag has an environment variable: `GLOBAL_DNS_` and the name of the
//! flag. Commas separate the items of lists.

mod api;
mod check;
mod cluster;
mod command;
mod completions;
mod environment;
mod examples;
mod fleet;
mod groups;
mod parse;
mod print;
mod program;
mod serve;
mod settings;
mod time;
mod values;
mod variables;
mod view;

pub use api::Api;
pub use check::CheckArgs;
pub use cluster::{Cluster, ConnectError, Credentials, KubeAccess, Replica, ReplicaError};
pub use command::{Cli, Command};
pub use environment::unknown_variables;
pub use fleet::FleetArgs;
pub use groups::{KubeconfigArgs, LogArgs, SourceArgs};
pub use print::{Form, harmless, json, local_text, note, print, write};
pub use serve::{DemoArgs, ServeArgs};
pub use values::Output;
pub use view::{EventsArgs, ExplainArgs, ServerArgs, TableArgs, ViewArgs};

use parse::parse;

/// Reads the command line and the settings. Ends the process with exit code 2 if they are invalid, and with exit code 0 after
/// `help`.
pub fn read() -> Cli {
    parse(std::env::args_os().collect())
}

#[cfg(test)]
mod tests;
