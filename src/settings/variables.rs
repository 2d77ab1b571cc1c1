//! Environment variables that are not flags.

use std::net::IpAddr;

use anyhow::bail;

/// The variable with the pod's addresses. The chart sets it from `status.podIPs`.
pub const POD_IPS: &str = "GLOBAL_DNS_POD_IPS";
/// The variable with the node's addresses. The chart sets it from `status.hostIPs`, or from `status.hostIP` on versions
/// of Kubernetes that may lack the former.
pub const NODE_IPS: &str = "GLOBAL_DNS_NODE_IPS";

/// The variable with the addresses of the Service. The chart sets it from the variable of Kubernetes for the Service.
pub const SERVICE_IPS: &str = "GLOBAL_DNS_SERVICE_IPS";

/// Reads addresses, separated by commas, from an environment variable. Returns none if it is not set.
///
/// # Errors
///
/// If an item is not an IP address.
pub fn addresses_from(variable: &str) -> anyhow::Result<Vec<IpAddr>> {
    let text = std::env::var(variable).unwrap_or_default();
    let texts = text.split(',').filter(|text| !text.is_empty());
    texts
        .map(|text: &str| match text.parse() {
            Ok(ip) => Ok(ip),
            Err(_) => bail!("environment variable {variable}: '{text}' is not an IP address"),
        })
        .collect()
}
