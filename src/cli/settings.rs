//! Flags that name the settings, or override some of them. A flag takes precedence over the file and over the variable
//! `GLOBAL_DNS_SETTINGS`.

use std::path::PathBuf;

use clap::Args;

use super::values::parse;
use crate::model::{ClusterName, Namespace};
use crate::settings::{Settings, ZoneSetting};

/// The settings of names and members. The server and the commands that read a table share them.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Settings")]
pub struct SettingsArgs {
    /// File with the settings in YAML or JSON; serve --print-settings prints all of them [default: the text in GLOBAL_DNS_SETTINGS]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Name of this cluster; use the name that the Links of the other clusters use [default: local]
    #[arg(long, value_name = "NAME")]
    pub cluster_name: Option<ClusterName>,

    /// Zone to answer for; the longest match decides (repeatable); clusterset.local=mcs: a zone with the names of the Multi-Cluster Services API [default: global]
    #[arg(long, value_name = "ZONE[=mcs]", value_delimiter = ',', value_parser = parse::<ZoneSetting>)]
    pub zone: Vec<ZoneSetting>,

    /// The settings, with the values of flags.
    #[arg(skip)]
    pub loaded: Settings,
}

// === impl SettingsArgs ===

impl SettingsArgs {
    /// Reads the settings and applies the flags: those of this group, the namespaces, and those of the command.
    pub(super) fn load(
        &mut self,
        namespaces: &[Namespace],
        apply: impl FnOnce(&mut Settings),
    ) -> Result<(), String> {
        let read = Settings::load(self.config.as_deref());
        let mut settings = read.map_err(|error| error.to_string())?;
        if let Some(name) = &self.cluster_name {
            settings.cluster_name = name.clone();
        }
        override_by(&mut settings.zones, &self.zone);
        override_by(&mut settings.namespaces, namespaces);
        apply(&mut settings);
        self.loaded = settings
            .checked("the flags")
            .map_err(|error| error.to_string())?;
        Ok(())
    }
}

/// Replaces a list by that of a flag, if the flag is given.
pub(super) fn override_by<T: Clone>(setting: &mut Vec<T>, flag: &[T]) {
    if !flag.is_empty() {
        *setting = flag.to_vec();
    }
}
