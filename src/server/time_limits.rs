//! The time limits of connections, over every transport with connections.

use std::time::Duration;

use tokio::time::Instant;

use super::counters::EndReason;

/// A time and the reason for which a connection ends then.
pub(super) type TimeLimit = (Instant, EndReason);

/// Idle timeout of a TCP connection. CoreDNS reuses a connection for 10 seconds, so this is longer.
pub const TCP_IDLE: Duration = Duration::from_secs(30);
/// Maximum time for the rest of a message, and for sending replies.
pub(super) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum lifetime of a connection, so that no client keeps one forever. Clients can open another one at any time.
pub(super) const MAX_LIFETIME: Duration = Duration::from_secs(3600);
/// Idle timeout of a connection while the server stops. Then the connection ends as soon as no query is pending.
pub(super) const STOP_IDLE: Duration = Duration::from_millis(100);
/// Maximum time for which a client that never pauses can delay the stop of the server.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(2);
