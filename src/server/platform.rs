//! What only Linux has: batches of datagrams, options of sockets, limits, `/proc`. Other systems, and Linux with `--cfg portable`,
//! have plain calls of the standard library in its place, which are enough for the commands and the demo.

#[cfg(all(target_os = "linux", not(portable)))]
mod linux;
#[cfg(not(all(target_os = "linux", not(portable))))]
mod portable;

use std::time::Duration;

#[cfg(all(target_os = "linux", not(portable)))]
pub(crate) use linux::*;
#[cfg(not(all(target_os = "linux", not(portable))))]
pub(crate) use portable::*;

/// Maximum number of octets that are read of a datagram. A query takes at most a few hundred.
const MAX_QUERY: usize = 4096;
/// Maximum length of a reply: that of `answers.udpMax`.
const MAX_REPLY: usize = 4096;
/// Pause after a failed receive call, so that a persistent failure does not spin. Also the pause before sending again
/// if the system is out of memory.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// The name, description and value of a figure of this process, for its metrics.
pub(crate) type Figure = (&'static str, &'static str, f64);
