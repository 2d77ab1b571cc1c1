//! Environment variables that are not flags, and warnings about those that look like settings but are not.

use std::io::Write as _;

use tracing::warn;

use crate::cli::unknown_variables;

/// The variable with the pod's addresses. The chart sets it from `status.podIPs`.
pub(super) const POD_IPS: &str = "GLOBAL_DNS_POD_IPS";
/// The variable with the node's addresses. The chart sets it from `status.hostIPs`, or from `status.hostIP` on versions
/// of Kubernetes that may lack the former.
pub(super) const NODE_IPS: &str = "GLOBAL_DNS_NODE_IPS";

/// Logs each unknown variable, for a server.
pub(super) fn log_unknown() {
    for unknown in unknown_variables(&[POD_IPS, NODE_IPS]) {
        warn!(
            variable = unknown.name,
            nearest = unknown.nearest,
            "Ignored an unknown environment variable"
        );
    }
}

/// Prints each unknown variable to standard error, for a command whose log has only errors by default.
pub(super) fn print_unknown() {
    for unknown in unknown_variables(&[POD_IPS, NODE_IPS]) {
        // The command works without the warning.
        let _ = writeln!(
            std::io::stderr(),
            "warning: ignored the unknown environment variable {}; the nearest known one is {}",
            unknown.name,
            unknown.nearest
        );
    }
}
