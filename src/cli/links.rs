//! Flags of Links and Leases (rules L1 to L3). The server and the commands that read a table share them.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::values::parse_duration;
use crate::model::Namespace;

/// `--links`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LinksArg {
    /// They are read
    On,
    /// They are not read; no cluster is known to be unlinked
    Off,
}

/// Links and Leases.
#[derive(Debug, Args)]
#[command(next_help_heading = "Links")]
pub struct LinkArgs {
    /// Whether to read the Links of Linkerd, and the Leases of its mirror controllers
    #[arg(long, value_name = "SWITCH", default_value = "on")]
    pub links: LinksArg,

    /// Namespace of the Links; those in other namespaces are ignored (repeatable)
    #[arg(
        long,
        value_name = "NAMESPACE",
        value_delimiter = ',',
        default_value = "linkerd-multicluster"
    )]
    pub links_namespace: Vec<Namespace>,

    /// Time without a Link after which a cluster counts as unlinked
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub unlinked_after: Duration,
}

impl LinkArgs {
    /// Returns the namespaces of Links. None if Links are not read.
    pub fn namespaces(&self) -> &[Namespace] {
        match self.links {
            LinksArg::On => &self.links_namespace,
            LinksArg::Off => &[],
        }
    }
}
