//! Environment variables that are not flags.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Context as _, bail};

use crate::cli::log_unknown_variables;
use crate::log::{LogFilter, LogFormat, LogGuard, start_logging};
use crate::settings;

/// The variable with the pod's addresses. The chart sets it from `status.podIPs`.
pub(super) const POD_IPS: &str = "GLOBAL_DNS_POD_IPS";
/// The variable with the node's addresses. The chart sets it from `status.hostIPs`, or from `status.hostIP` on versions
/// of Kubernetes that may lack the former.
pub(super) const NODE_IPS: &str = "GLOBAL_DNS_NODE_IPS";

/// The variable with the addresses of the Service. The chart sets it from the variable of Kubernetes for the Service.
pub(super) const SERVICE_IPS: &str = "GLOBAL_DNS_SERVICE_IPS";

/// The variables without a flag.
const KNOWN: [&str; 4] = [POD_IPS, NODE_IPS, SERVICE_IPS, settings::VARIABLE];

/// Reads addresses, separated by commas, from an environment variable. Returns none if it is not set.
pub(super) fn addresses_from(variable: &str) -> anyhow::Result<Vec<IpAddr>> {
    let text = std::env::var(variable).unwrap_or_default();
    let texts = text.split(',').filter(|text| !text.is_empty());
    let address = |text: &str| match text.parse() {
        Ok(ip) => Ok(ip),
        Err(_) => bail!("environment variable {variable}: '{text}' is not an IP address"),
    };
    texts.map(address).collect()
}

/// Returns the address of the API of a server on this host: that of `GLOBAL_DNS_API_LISTEN`, where `demo` and `serve` listen,
/// too, or the default. Other addresses than those of the loopback interface may be of another host.
pub(super) fn local_api() -> SocketAddr {
    let variable = std::env::var("GLOBAL_DNS_API_LISTEN").unwrap_or_default();
    let given = variable.split(',').find_map(|one| one.parse().ok());
    let local = given.filter(|one: &SocketAddr| one.ip().is_loopback());
    local.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, settings::API_PORT).into())
}

/// Starts the log, and logs the variables that look like settings but are not.
pub(super) fn start_log(level: &LogFilter, format: LogFormat) -> anyhow::Result<LogGuard> {
    let log = start_logging(level, format).context("cannot start the log thread")?;
    log_unknown_variables(&KNOWN);
    Ok(log)
}
