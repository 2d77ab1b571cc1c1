//! The flags of `serve` and `demo`.

use clap::Args;

use super::groups::{LogArgs, SettingsArgs, SourceArgs, override_by};
use crate::model::Namespace;
use crate::server::ListenAddress;

/// Flags of `serve`.
#[derive(Args)]
pub struct ServeArgs {
    /// The flags that `demo` has, too.
    #[command(flatten)]
    pub demo: DemoArgs,

    /// Print the settings that are in force, as YAML that --config takes, and exit
    #[arg(long)]
    pub print_settings: bool,

    /// The source of objects.
    #[command(flatten)]
    pub source: SourceArgs,
}

/// Flags of `demo`, which `serve` has, too.
#[derive(Args)]
#[command(next_help_heading = "Listeners")]
pub struct DemoArgs {
    /// DNS address for UDP and TCP: IP:PORT, :PORT for all addresses, or localhost:PORT (repeatable) [default: :5353; demo: 127.0.0.1:1053]
    #[arg(long, env = "GLOBAL_DNS_LISTEN", value_name = "ADDRESS")]
    listen: Option<Vec<ListenAddress>>,

    /// HTTP address of /livez, /readyz and /metrics (repeatable) [default: :9153; demo: 127.0.0.1:9153]
    #[arg(long, env = "GLOBAL_DNS_ADMIN_LISTEN", value_name = "ADDRESS")]
    admin_listen: Option<Vec<ListenAddress>>,

    /// HTTP address of /api/v1 and the status page, which show all namespaces (repeatable) [default: 127.0.0.1:9154]
    #[arg(long, env = "GLOBAL_DNS_API_LISTEN", value_name = "ADDRESS")]
    api_listen: Option<Vec<ListenAddress>>,

    /// The settings of names and members.
    #[command(flatten)]
    pub settings: SettingsArgs,
}

// === impl DemoArgs ===

impl DemoArgs {
    /// Reads the settings and applies the flags.
    pub(super) fn load(&mut self, namespaces: &[Namespace], log: &LogArgs) -> Result<(), String> {
        self.settings.load(namespaces, |settings| {
            override_by(&mut settings.listen.dns, &self.listen);
            override_by(&mut settings.listen.admin, &self.admin_listen);
            override_by(&mut settings.listen.api, &self.api_listen);
            override_by(&mut settings.log.level, &log.log_level);
            override_by(&mut settings.log.format, &log.log_format);
        })
    }
}
