//! The command line: every flag with its default and its help. Only this module uses `clap`.
//!
//! Values leave this module typed and checked. Flags that are more than about one run of a command have an environment variable:
//! `GLOBAL_DNS_` and the name of the flag. Commas separate the items of lists.

mod cluster;
mod command;
mod fleet;
mod groups;
mod linkerd;
mod print;
mod serve;
mod view;

pub use cluster::{Cluster, is_pod};
pub use command::{Cli, Command, read};
pub use fleet::{FleetArgs, FleetTarget};
pub use groups::{KubeconfigArgs, LogArgs, ServerArgs, SettingsArgs, SourceArgs, ViewArgs};
pub use linkerd::{extension_checks, extension_metadata, is_extension};
pub use print::{Output, PrintArgs, harmless_json, is_closed, local_text, note, print};
pub use serve::{DemoArgs, ServeArgs};
pub use view::{CheckArgs, EventsArgs, ExplainArgs, TableArgs};
