//! The open TCP connections, and the choice of the one to close if there are too many.
//!
//! A new connection replaces the one whose last complete query was longest ago. So a client that hoards connections, or does
//! not read its replies, loses them first. What a replaced connection has received is still answered.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::clock::unix_seconds;
use crate::log::LogLimiter;
use crate::server::counters::{Counters, EndReason};
use crate::server::platform::is_exhaustion;
use crate::wire::Transport;

/// Pause after a failed accept if descriptors or memory are exhausted.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of replaced connections that are still closing. No more connections are accepted until some of them
/// have ended, so that a flood of connections cannot use more descriptors.
const MAX_CLOSING: usize = 16;

/// The open connections of one transport.
pub(super) struct Connections {
    /// Maximum number of open connections. A client has at most half of them.
    limit: AtomicUsize,
    transport: Transport,
    counters: Arc<Counters>,
    failures: LogLimiter,
    /// Also some that have ended.
    open: Mutex<Vec<Arc<Place>>>,
}

/// The place of a connection among the open ones. It is free when the connection has dropped it.
pub(super) struct Place {
    client: IpAddr,
    /// Time of the last query, or the start of the connection if it had no query.
    last_query: Mutex<Instant>,
    /// Cancelled when another connection replaces this one, which must then close.
    pub(super) replaced: CancellationToken,
}

// === impl Connections ===

impl Connections {
    /// Creates a set of at most `limit` connections, half of them for each client.
    pub(super) fn new(limit: usize, transport: Transport, counters: Arc<Counters>) -> Self {
        Self {
            limit: limit.into(),
            transport,
            counters,
            failures: LogLimiter::default(),
            open: Mutex::default(),
        }
    }

    /// Adds a connection from `address`. If there are too many, another one is replaced.
    pub(super) fn add(&self, address: IpAddr) -> Arc<Place> {
        let (client, limit) = (client(address), self.limit.load(Relaxed));
        let mut open = self.open.lock();
        // Others have ended.
        open.retain(|one| Arc::strong_count(one) > 1 && !one.replaced.is_cancelled());
        let of_client = || open.iter().filter(|one| one.client == client);
        let time_of = |one: &&Arc<Place>| *one.last_query.lock();
        let oldest = match open.len() {
            _ if of_client().count() >= limit / 2 => of_client().min_by_key(time_of),
            count if count >= limit => open.iter().min_by_key(time_of),
            _ => None,
        };
        if let Some(oldest) = oldest {
            oldest.replaced.cancel();
        }
        let place = Arc::new(Place {
            client,
            last_query: Mutex::new(Instant::now()),
            replaced: CancellationToken::new(),
        });
        self.counters.connections.fetch_add(1, Relaxed);
        open.push(place.clone());
        place
    }

    /// Lifts the limit when the server stops: each accepted connection is answered.
    pub(super) fn lift_limit(&self) {
        self.limit.store(usize::MAX, Relaxed);
    }

    /// Returns whether one more connection can be accepted beside `open` others, of which some are replaced but still closing.
    pub(super) fn has_room(&self, open: usize) -> bool {
        open < self.limit.load(Relaxed).saturating_add(MAX_CLOSING)
    }

    /// Counts a failed accept, and logs it at most once a minute. Pauses if descriptors or memory are exhausted. Other errors
    /// concern a single connection (accept(2)) and need no pause.
    pub(super) async fn note_failure(&self, error: &io::Error) {
        self.counters.not_accepted.fetch_add(1, Relaxed);
        if self.failures.is_due(unix_seconds()) {
            warn!(%error, "Accepting a TCP connection failed");
        }
        if is_exhaustion(error) {
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Counts a connection that has ended, and whether its task panicked.
    pub(super) fn note_end(&self, ended: Result<(), JoinError>) {
        self.counters.connections.fetch_sub(1, Relaxed);
        if ended.is_err() {
            let panics = &self.counters.panics[self.transport as usize];
            panics.fetch_add(1, Relaxed);
            self.counters.count_ended(EndReason::Broken);
        }
    }
}

/// Returns the address that stands for a client: a host can have every IPv6 address of its /64.
fn client(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

// === impl Place ===

impl Place {
    /// Records the time of a query.
    pub(super) fn note_query(&self) {
        *self.last_query.lock() = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(limit: usize) -> impl Fn(&str) -> Arc<Place> {
        let connections = Connections::new(limit, Transport::Tcp, Arc::default());
        move |address| connections.add(address.parse().unwrap())
    }

    fn is_replaced(place: &Arc<Place>) -> bool {
        place.replaced.is_cancelled()
    }

    /// A client that does not read its replies has no new queries, so it does not keep its place.
    #[test]
    fn new_connection_replaces_the_one_with_the_oldest_query() {
        let add = connections(3);
        let mut places = Vec::from(["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(&add));
        places[0].note_query();
        places.push(add("192.0.2.4"));
        let replaced: Vec<bool> = places.iter().map(is_replaced).collect();
        assert_eq!(replaced, [false, true, false, false]);
        places.push(add("192.0.2.5"));
        assert!(is_replaced(&places[2]) && !is_replaced(&places[0]));
        drop(places.remove(0));
        places.push(add("192.0.2.6"));
        assert!(!is_replaced(&places[2]), "an ended connection is free");
    }

    #[test]
    fn client_over_its_half_replaces_its_own_connection() {
        let add = connections(4);
        for addresses in [
            ["192.0.2.2", "192.0.2.1", "192.0.2.1", "192.0.2.1"],
            [
                "2001:db8:0:1::1",
                "2001:db8::1",
                "2001:db8::2:0:0:1",
                "2001:db8::3",
            ],
        ] {
            let places = addresses.map(&add);
            let replaced = places.each_ref().map(is_replaced);
            assert_eq!(replaced, [false, true, false, false], "{addresses:?}");
        }
    }

    #[test]
    fn lifted_limit_does_not_apply() {
        let connections = Connections::new(2, Transport::Tcp, Arc::default());
        connections.lift_limit();
        let places = [0; 20].map(|_| connections.add([192, 0, 2, 1].into()));
        assert!(!places.iter().any(is_replaced) && connections.has_room(20));
    }
}
