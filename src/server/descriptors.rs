//! Open files: as many as the system grants, and no more connections than those allow. Whoever floods one listener must
//! not take what another needs, `/livez` least of all.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::warn;

use super::Limits;

/// Descriptors besides those of connections of DNS and of UDP workers: three HTTP listeners with their connections, what
/// is about to make room at each listener, watches, files, and as many again for what the system's libraries open.
const OTHERS: usize = 384;
/// Connections that are served whatever the system grants.
const FEWEST: usize = 8;

/// Raises the limit of open files as far as it goes, and lowers those of connections to what it allows.
/// `per_connection` is how many descriptors one takes.
///
/// # Errors
///
/// If the system does not tell its limit.
pub fn grant(limits: Limits, per_connection: usize, sockets: usize) -> io::Result<Limits> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let granted = match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(error) => {
            warn!(%error, soft, hard, "The limit of open files cannot be raised");
            soft
        }
    };
    let granted = usize::try_from(granted).unwrap_or(usize::MAX); // there is no limit
    let others = OTHERS + sockets;
    let fitting = fit(limits, per_connection, granted.saturating_sub(others));
    // One address is never allowed more than all of them: that is nobody's want of descriptors.
    if fitting.total < limits.total {
        let needed = others + limits.total * per_connection;
        warn!(
            open_files = granted,
            needed,
            connections = fitting.total,
            "The system grants too few open files for --tcp-connections: fewer are served"
        );
    }
    Ok(fitting)
}

fn fit(limits: Limits, per_connection: usize, descriptors: usize) -> Limits {
    let fitting = descriptors / per_connection;
    let total = limits.total.min(fitting.max(FEWEST));
    Limits {
        total,
        per_address: limits.per_address.min(total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_as_many_as_asked_for_or_as_fit() {
        let fit = |descriptors, per_connection| {
            let limits = Limits {
                total: 1024,
                per_address: 256,
            };
            let Limits { total, per_address } = fit(limits, per_connection, descriptors);
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
