//! The command line: every flag with its default and its help. Only this module uses `clap`.
//!
//! Values leave this module typed and checked. Flags that are more than about one run of a command have an environment variable:
//! `GLOBAL_DNS_` and the name of the flag. Commas separate the items of lists.

mod api;
mod check;
mod cluster;
mod command;
mod completions;
mod connection;
mod environment;
mod fleet;
mod groups;
mod print;
mod serve;
mod time;
mod unknown_variables;
mod values;
mod view;

pub use api::{Api, is_unknown_time};
pub use check::CheckArgs;
pub use cluster::{Cluster, ClusterError, Replica};
pub use command::{Cli, Command, read};
pub use fleet::{FleetArgs, Place};
pub use groups::{KubeconfigArgs, LogArgs, ServerArgs, SourceArgs, ViewArgs};
pub use print::{Output, PrintArgs, harmless, is_closed, local_text, note, print, write};
pub use serve::{DemoArgs, ServeArgs};
pub use unknown_variables::log_unknown_variables;
pub use view::{EventsArgs, ExplainArgs, TableArgs};
