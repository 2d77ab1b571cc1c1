//! What only Linux has: batches of datagrams, options of sockets, limits, `/proc`. Other systems, and Linux with `--cfg portable`,
//! have plain calls of the standard library in its place, which are enough for the commands and the demo.

#[cfg(all(target_os = "linux", not(portable)))]
mod linux;
#[cfg(all(target_os = "linux", not(portable)))]
use linux as system;
#[cfg(not(all(target_os = "linux", not(portable))))]
mod portable;
#[cfg(not(all(target_os = "linux", not(portable))))]
use portable as system;

pub(super) use system::{
    exchange, has_unsent, ignore_path_mtu, is_exhaustion, raise_open_files, request_local_addresses,
};
pub(crate) use system::{host_name, lower_priority, process_usage};

/// What this process uses, for its metrics.
#[derive(Debug, Default)]
pub(crate) struct ProcessUsage {
    /// User and system CPU time, if it is known.
    pub(crate) cpu_seconds: Option<f64>,
    /// Names, descriptions and values of other figures.
    pub(crate) gauges: Vec<(&'static str, &'static str, f64)>,
}
