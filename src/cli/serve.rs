//! The flags of `serve` and `demo`.

use clap::Args;

use super::groups::{ListenArgs, LogArgs, SettingsArgs, SourceArgs, override_by};
use crate::server::ListenAddress;
use crate::settings::Settings;

/// Flags of `serve`.
#[derive(Debug, Default, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,

    /// Print the settings that are in force, as YAML that --config takes, and exit
    #[arg(long)]
    pub print_settings: bool,

    #[command(flatten)]
    pub(crate) source: SourceArgs,

    #[command(flatten)]
    pub(crate) listeners: ListenArgs,
}

/// Flags of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,

    #[command(flatten)]
    pub(crate) listeners: ListenArgs,
}

// === impl ServeArgs ===

impl ServeArgs {
    /// Reads the settings and applies the flags.
    pub(super) fn load(&mut self, log: &LogArgs) -> Result<(), String> {
        let apply = |settings: &mut Settings| apply(&self.listeners, log, settings);
        self.settings.load(&self.source.namespace, apply)
    }
}

// === impl DemoArgs ===

impl DemoArgs {
    /// Reads the settings and applies the flags. Without them, the demo can only be reached from this host.
    pub(super) fn load(&mut self, log: &LogArgs) -> Result<(), String> {
        let local = |port: u16| vec![ListenAddress::At(([127, 0, 0, 1], port).into())];
        self.settings.load(&[], |settings| {
            let listen = &mut settings.listen;
            (listen.dns, listen.admin, listen.api) = (local(1053), local(9153), local(9154));
            apply(&self.listeners, log, settings);
        })
    }
}

/// Replaces the settings that a flag has.
fn apply(listeners: &ListenArgs, log: &LogArgs, settings: &mut Settings) {
    let listen = &mut settings.listen;
    override_by(&mut listen.dns, &listeners.listen);
    override_by(&mut listen.admin, &listeners.admin_listen);
    override_by(&mut listen.api, &listeners.api_listen);
    let (level, format) = (log.log_level.clone(), log.log_format);
    settings.log.level = level.unwrap_or_else(|| settings.log.level.clone());
    settings.log.format = format.unwrap_or(settings.log.format);
}
