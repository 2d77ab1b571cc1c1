//! The open TCP connections, and the choice of the one to close if there are too many.
//!
//! A new connection replaces the one that has been idle longest. Idle time is the time since the last complete query.
//! It includes silence, partial messages and unread replies. So a client that hoards connections loses them first, and
//! active clients get answers.
//!
//! The addresses of one [`ClientPrefix`] have a common limit, because a client can have all of them. Above it, the
//! address with most connections loses one, so that a client does not lose its connections to a neighbor.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::client_prefix::ClientPrefix;
use crate::clock::unix_seconds;
use crate::log::LogLimiter;
use crate::server::counters::Counters;

/// Maximum numbers of open TCP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// `limits.connections`: for all clients.
    pub total: usize,
    /// `limits.connections`: for the client addresses of one prefix.
    pub per_address: usize,
}

/// The open connections of all TCP listeners. Clones share them.
#[derive(Clone)]
pub(super) struct Connections(Arc<SharedConnections>);

struct SharedConnections {
    limits: ConnectionLimits,
    counters: Arc<Counters>,
    failures: LogLimiter,
    /// The connections that are closed instead of these if descriptors are exhausted.
    fallback: Option<Connections>,
    open: Mutex<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    /// Connections by number, in order of arrival.
    all: BTreeMap<u64, Arc<OpenConnection>>,
    next: u64,
}

/// The shared state of a connection.
struct OpenConnection {
    address: IpAddr,
    /// Time of the last query, or the start of the connection if it had no query.
    last_query: Mutex<Instant>,
    /// Cancelled when the connection must close.
    replaced: CancellationToken,
}

/// The registration of an open connection. Dropping it removes the connection.
pub(super) struct Slot {
    connections: Connections,
    number: u64,
    entry: Arc<OpenConnection>,
}

// === impl Connections ===

impl Connections {
    pub(super) fn new(limits: ConnectionLimits, counters: Arc<Counters>) -> Self {
        Self::with_fallback(limits, counters, None)
    }

    /// Creates a set of connections that are too important to be closed if descriptors are exhausted. A connection of
    /// `fallback` is closed instead.
    pub(super) fn with_fallback(
        limits: ConnectionLimits,
        counters: Arc<Counters>,
        fallback: Option<Self>,
    ) -> Self {
        Self(Arc::new(SharedConnections {
            limits,
            counters,
            failures: LogLimiter::default(),
            fallback,
            open: Mutex::default(),
        }))
    }

    /// Registers a connection from `address`. If there are too many, another one is replaced.
    pub(super) fn register(&self, address: IpAddr) -> Slot {
        let limits = self.0.limits;
        let entry = Arc::new(OpenConnection {
            address,
            last_query: Mutex::new(Instant::now()),
            replaced: CancellationToken::new(),
        });
        let mut open = self.0.open.lock();
        let counts = open.counts(address.into());
        if counts.values().sum::<usize>() >= limits.per_address {
            let most = counts.values().max();
            Self::replace(open.take_longest_idle(|entry| counts.get(&entry.address) == most));
        } else if open.all.len() >= limits.total {
            Self::replace(open.take_longest_idle(|_| true));
        }
        let number = open.next;
        open.next += 1;
        open.all.insert(number, entry.clone());
        self.0.counters.set_connections(open.all.len());
        Slot {
            connections: self.clone(),
            number,
            entry,
        }
    }

    /// Returns the maximum number of open connections.
    pub(super) fn total(&self) -> usize {
        self.0.limits.total
    }

    /// Counts a failed accept, and logs it at most once a minute.
    pub(super) fn note_failure(&self, error: &io::Error) {
        self.0.counters.count_not_accepted();
        if self.0.failures.is_due(unix_seconds()) {
            warn!(%error, "Accepting a TCP connection failed");
        }
    }

    /// Closes a connection because the process is out of descriptors.
    pub(super) fn free_descriptor(&self) {
        if let Some(fallback) = &self.0.fallback {
            return fallback.free_descriptor();
        }
        let longest = self.0.open.lock().take_longest_idle(|_| true);
        Self::replace(longest);
    }

    fn replace(entry: Option<Arc<OpenConnection>>) {
        if let Some(entry) = entry {
            entry.replaced.cancel();
        }
    }
}

// === impl OpenConnections ===

impl OpenConnections {
    /// Returns the number of connections from each address of a prefix.
    fn counts(&self, prefix: ClientPrefix) -> BTreeMap<IpAddr, usize> {
        let addresses = self.all.values().map(|entry| entry.address);
        let mut counts = BTreeMap::new();
        for address in addresses.filter(|address| prefix == (*address).into()) {
            *counts.entry(address).or_default() += 1;
        }
        counts
    }

    /// Removes and returns the candidate that has been idle longest.
    fn take_longest_idle(
        &mut self,
        is_candidate: impl Fn(&OpenConnection) -> bool,
    ) -> Option<Arc<OpenConnection>> {
        let candidates = self.all.iter().filter(|(_, entry)| is_candidate(entry));
        let longest = candidates.min_by_key(|(_, entry)| *entry.last_query.lock());
        let number = *longest?.0;
        self.all.remove(&number)
    }
}

// === impl Slot ===

impl Slot {
    /// Records the time of a query.
    pub(super) fn note_query(&self) {
        *self.entry.last_query.lock() = Instant::now();
    }

    /// Waits until another connection replaces this one.
    pub(super) async fn replaced(&self) {
        self.entry.replaced.cancelled().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.connections.0.open.lock();
        open.all.remove(&self.number);
        self.connections.0.counters.set_connections(open.all.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use std::time::Duration;

    fn connections(total: usize, per_address: usize) -> Connections {
        Connections::new(ConnectionLimits { total, per_address }, Arc::default())
    }

    fn is_replaced(slot: &Slot) -> bool {
        slot.replaced().now_or_never().is_some()
    }

    async fn tick() {
        tokio::time::advance(Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn new_connection_replaces_the_longest_idle() {
        let connections = connections(3, 3);
        let mut places = Vec::new();
        for host in 1..=3 {
            places.push(connections.register([192, 0, 2, host].into()));
            tick().await;
        }
        places[0].note_query();
        tick().await;
        let fourth = connections.register([192, 0, 2, 4].into());
        let replaced: Vec<bool> = places.iter().map(is_replaced).collect();
        assert_eq!(replaced, [false, true, false]);
        assert!(!is_replaced(&fourth));
    }

    #[tokio::test(start_paused = true)]
    async fn address_over_its_limit_replaces_its_own_connection() {
        let connections = connections(10, 3);
        let stranger = connections.register([198, 51, 100, 1].into());
        let neighbor = connections.register([192, 0, 2, 1].into());
        tick().await;
        let first = connections.register([192, 0, 2, 2].into());
        let second = connections.register([192, 0, 2, 2].into());
        tick().await;
        second.note_query();
        let third = connections.register([192, 0, 2, 2].into());
        let replaced = [&stranger, &neighbor, &first, &second, &third].map(is_replaced);
        assert_eq!(replaced, [false, false, true, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn client_with_many_addresses_of_a_prefix_replaces_its_own_connections() {
        let connections = connections(10, 4);
        let others = ["2001:db8:1::1", "192.0.2.1"]
            .map(|other| other.parse().unwrap())
            .map(|other| connections.register(other));
        let mut hoard = Vec::new();
        for host in 1..=20_u16 {
            tick().await;
            let address = [0x2001, 0xdb8, 0, host, 0, 0, 0, host];
            hoard.push(connections.register(address.into()));
        }
        assert!(!others.iter().any(is_replaced));
        let replaced = hoard.iter().map(is_replaced);
        assert_eq!(
            replaced.collect::<Vec<_>>(),
            [[true; 16].as_slice(), &[false; 4]].concat()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn connections_with_fallback_are_not_closed() {
        let fallback = connections(10, 10);
        let important =
            Connections::with_fallback(fallback.0.limits, Arc::default(), Some(fallback.clone()));
        let (own, lent) = (
            important.register([192, 0, 2, 1].into()),
            fallback.register([192, 0, 2, 2].into()),
        );
        important.free_descriptor();
        assert_eq!([&own, &lent].map(is_replaced), [false, true]);
        important.free_descriptor();
        assert!(!is_replaced(&own));
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_slot_is_free() {
        let connections = connections(1, 1);
        drop(connections.register([192, 0, 2, 1].into()));
        let first = connections.register([192, 0, 2, 1].into());
        assert!(!is_replaced(&first));
        let second = connections.register([192, 0, 2, 1].into());
        assert!(is_replaced(&first));
        drop(first);
        assert!(!is_replaced(&second));
        assert_eq!(connections.0.open.lock().all.len(), 1);
    }
}
