//! Raises the limit of open files and adapts the limits of connections to it. A flood of one listener must not use the
//! descriptors of another, in particular of `/livez`.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::warn;

use super::ConnectionLimits;

/// Descriptors besides those of DNS connections and UDP workers. They are for three HTTP listeners with their
/// connections, closing connections of each listener, watches and files, and as many again for system libraries.
const RESERVED: usize = 384;
/// Number of connections that are always allowed.
const MIN_CONNECTIONS: usize = 8;

/// Raises the limit of open files to the hard limit, and lowers the limits of connections to fit. `per_connection` is
/// the number of descriptors for each connection, `sockets` the number of UDP sockets.
///
/// # Errors
///
/// If the limit cannot be read.
pub fn fit_to_open_files(
    limits: ConnectionLimits,
    per_connection: usize,
    sockets: usize,
) -> io::Result<ConnectionLimits> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let granted = match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(error) => {
            warn!(%error, soft, hard, "Cannot raise the limit of open files");
            soft
        }
    };
    let granted = usize::try_from(granted).unwrap_or(usize::MAX); // practically unlimited
    let reserved = RESERVED + sockets;
    let fitting = fit(limits, per_connection, granted.saturating_sub(reserved));
    // If only the limit of each address is lowered, it exceeded the total, and descriptors are not the reason.
    if fitting.total < limits.total {
        let needed = reserved + limits.total * per_connection;
        warn!(
            open_files = granted,
            needed,
            connections = fitting.total,
            "The limit of open files is too low for limits.connections: serving fewer connections"
        );
    }
    Ok(fitting)
}

fn fit(limits: ConnectionLimits, per_connection: usize, descriptors: usize) -> ConnectionLimits {
    let fitting = descriptors / per_connection;
    let total = limits.total.min(fitting.max(MIN_CONNECTIONS));
    ConnectionLimits {
        total,
        per_address: limits.per_address.min(total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_limits_are_lowered_to_fit_descriptors() {
        let fit = |descriptors, per_connection| {
            let limits = ConnectionLimits {
                total: 1024,
                per_address: 256,
            };
            let ConnectionLimits { total, per_address } = fit(limits, per_connection, descriptors);
            (total, per_address)
        };
        assert_eq!(fit(usize::MAX, 4), (1024, 256));
        assert_eq!(fit(1024, 1), (1024, 256));
        assert_eq!(fit(1023, 1), (1023, 256));
        assert_eq!(fit(1024, 4), (256, 256));
        assert_eq!(fit(200, 1), (200, 200));
        assert_eq!(fit(0, 1), (8, 8));
    }
}
