//! What several commands make of their flags.

use std::net::IpAddr;

use super::variables;
use crate::cli::{LogArgs, ModelArgs};
use crate::log::{InvalidLogFilter, LogFilter, start_logging};
use crate::zone::{Zone, ZoneName, Zones};

/// Returns the zones that the flags name.
pub(super) fn zones(model: &ModelArgs, ns_addresses: &[IpAddr]) -> Zones {
    let zone = |name: &ZoneName, grammar| Zone {
        name: name.clone(),
        ttl: model.ttl,
        negative_ttl: model.negative_ttl,
        ns_addresses: ns_addresses.to_vec(),
        grammar,
    };
    let given = model.zones();
    let zones = given.iter().map(|given| zone(&given.name, given.grammar));
    Zones::new(zones.collect())
}

/// The default log of a command that ends: errors, without the problems that its output has.
pub(super) const COMMAND_LOG: &str = "error,global_dns::problem=off";

/// Starts the log of a command that ends, and prints warnings about environment variables.
pub(super) fn log_to_stderr(log: &LogArgs) -> anyhow::Result<()> {
    start_logging(&level(log, COMMAND_LOG)?, log.log_format);
    variables::print_unknown();
    Ok(())
}

/// Returns the filter of the flag, or of `default`.
pub(super) fn level(log: &LogArgs, default: &str) -> Result<LogFilter, InvalidLogFilter> {
    match &log.log_level {
        Some(given) => Ok(given.clone()),
        None => default.parse(),
    }
}
