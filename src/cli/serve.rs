//! The flags of `serve` and `demo`.

use std::time::Duration;

use clap::{Arg, Args};

use super::groups::{ListenArgs, LogArgs, SourceArgs};
use super::settings::{SettingsArgs, override_by};
use super::view::brief;
use crate::server::ListenAddress;
use crate::settings::parse_duration;

/// Flags of `serve`.
#[derive(Debug, Default, Args)]
#[command(mut_args(in_serve))]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct ServeArgs {
    #[command(flatten)]
    pub settings: SettingsArgs,

    /// Print the settings that are in force, as YAML that --config takes, and exit
    #[arg(long)]
    pub print_settings: bool,

    #[command(flatten)]
    pub source: SourceArgs,

    #[command(flatten)]
    pub listeners: ListenArgs,

    #[command(flatten)]
    pub log: LogArgs,
}

/// Changes the help of the flags that `serve` shares with commands.
fn in_serve(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "kubeconfig" => arg.help(
            "Kubeconfig to reach the API server with [default: the ServiceAccount of the pod]",
        ),
        _ => arg,
    }
}

impl ServeArgs {
    /// Reads the settings and applies the flags.
    pub(super) fn load(&mut self) -> Result<(), String> {
        let (listeners, log) = (&self.listeners, &self.log);
        self.settings.load(&self.source.namespace, |settings| {
            override_by(&mut settings.listen.dns, &listeners.listen);
            override_by(&mut settings.listen.admin, &listeners.admin_listen);
            override_by(&mut settings.listen.api, &listeners.api_listen);
            log.apply(&mut settings.log);
        })
    }
}

/// Flags of `demo`.
#[derive(Debug, Args)]
#[command(mut_args(brief))]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct DemoArgs {
    /// DNS address, UDP and TCP
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:1053")]
    pub listen: ListenAddress,

    /// HTTP address of /livez, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9153")]
    pub admin_listen: ListenAddress,

    /// HTTP address of /api/v1
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9154")]
    pub api_listen: ListenAddress,

    /// Change the sample in a loop, one scene after each DURATION: clusters are linked, pods restart, gateways fail
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "8s", value_parser = parse_duration)]
    pub live: Option<Duration>,

    #[command(flatten)]
    pub settings: SettingsArgs,

    #[command(flatten)]
    pub log: LogArgs,
}

impl DemoArgs {
    /// Returns the flags of `serve` with the same settings. The caller adds the file.
    pub fn to_serve(&self) -> ServeArgs {
        let mut serve = ServeArgs::default();
        serve.settings.loaded = self.settings.loaded.clone();
        serve
    }

    /// Reads the settings and applies the flags.
    pub(super) fn load(&mut self) -> Result<(), String> {
        let addresses = [self.listen, self.admin_listen, self.api_listen];
        let log = &self.log;
        self.settings.load(&[], |settings| {
            let [dns, admin, api] = addresses.map(|address| vec![address]);
            let listen = &mut settings.listen;
            (listen.dns, listen.admin, listen.api) = (dns, admin, api);
            log.apply(&mut settings.log);
        })
    }
}
