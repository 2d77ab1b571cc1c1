//! Flags of the failover between clusters (rules K5 to K7).

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;

use super::values::{parse, parse_duration, parse_service};
use crate::model::{FailoverOrder, ServiceKey};
use crate::table::Rules;

/// A setting for one service, or for all services without a setting of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceSetting<T> {
    /// `VALUE`.
    Default(T),
    /// `NAMESPACE/SERVICE=VALUE`.
    Service(ServiceKey, T),
}

/// Delays of failovers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Failover")]
pub struct DelayArgs {
    /// Time that a step of a failover order that begins with auto: must be down before another step answers
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    pub failover_delay: Duration,

    /// Time that an earlier step of such an order must be alive before it answers again
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub failback_delay: Duration,
}

/// The value of a setting for all services, and those of single services.
pub(super) type SettingsByService<T> = (Option<T>, BTreeMap<ServiceKey, T>);

/// Parses a value of `--failover`.
pub(super) fn parse_failover(text: &str) -> Result<ServiceSetting<FailoverOrder>, String> {
    parse_setting(text, parse)
}

fn parse_setting<T>(
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<ServiceSetting<T>, String> {
    let of_service = text
        .split_once('=')
        .filter(|(service, _)| service.contains('/'));
    match of_service {
        None => {
            let hint = "; a value for one service begins with NAMESPACE/SERVICE=";
            let hint = if text.contains('=') { hint } else { "" };
            let value = parse(text).map_err(|error| error + hint)?;
            Ok(ServiceSetting::Default(value))
        }
        Some((service, value)) => {
            let service = parse_service(service)?;
            Ok(ServiceSetting::Service(service, parse(value)?))
        }
    }
}

/// Returns the settings of a flag by service, or an error if two values contradict each other.
pub(super) fn by_service<T: Clone>(
    flag: &str,
    settings: &[ServiceSetting<T>],
) -> Result<SettingsByService<T>, String> {
    let mut default = None;
    let mut services = BTreeMap::new();
    for setting in settings {
        let previous = match setting.clone() {
            ServiceSetting::Default(value) => default.replace(value),
            ServiceSetting::Service(key, value) => services.insert(key, value),
        };
        if previous.is_some() {
            let subject = match setting {
                ServiceSetting::Default(_) => "a value for all services".to_owned(),
                ServiceSetting::Service(key, _) => format!("a value for {key}"),
            };
            return Err(format!("{flag} has {subject} twice: give it once"));
        }
    }
    Ok((default, services))
}

// === impl DelayArgs ===

impl DelayArgs {
    /// Returns rules with these delays.
    pub fn apply(&self, rules: Rules) -> Rules {
        Rules {
            failover_delay: self.failover_delay,
            failback_delay: self.failback_delay,
            ..rules
        }
    }
}
