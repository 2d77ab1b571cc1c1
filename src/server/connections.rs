//! Which TCP connections are open, and which of them goes when there are too many.
//!
//! The one that has been idle longest makes room for a new one: it is the longest since a query came over it, however
//! the time was spent, by silence, by half a message, or by not taking a reply. So whoever hoards connections loses
//! them first, and whoever asks is answered.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::clock::unix_seconds;
use crate::log::OnceAMinute;
use crate::server::counters::Counters;

/// How many TCP connections are served at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `--tcp-connections`, of all clients.
    pub total: usize,
    /// `--tcp-connections-per-address`.
    pub per_address: usize,
}

/// The open connections of every TCP listener. Cheap to clone: all clones are one.
#[derive(Clone)]
pub(super) struct Connections(Arc<Shared>);

struct Shared {
    limits: Limits,
    counters: Arc<Counters>,
    started: Instant,
    failures: OnceAMinute,
    /// Those that give descriptors back in place of these.
    lender: Option<Connections>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// By number, in the order in which they came.
    all: BTreeMap<u64, Arc<Mark>>,
    of_address: BTreeMap<IpAddr, usize>,
    next: u64,
}

/// What the others know of a connection.
struct Mark {
    address: IpAddr,
    /// Microseconds from the start of the server to the last query, at first to when the connection came.
    last_query: AtomicU64,
    /// It is to make room.
    leave: CancellationToken,
}

/// A connection's place among the others, which it leaves when it is dropped.
pub(super) struct Place {
    connections: Connections,
    number: u64,
    mark: Arc<Mark>,
}

// === impl Connections ===

impl Connections {
    pub(super) fn new(limits: Limits, counters: Arc<Counters>) -> Self {
        Self::with_lender(limits, counters, None)
    }

    /// Makes those that are too few, and too important, to give descriptors back: `lender` does.
    pub(super) fn with_lender(
        limits: Limits,
        counters: Arc<Counters>,
        lender: Option<Self>,
    ) -> Self {
        Self(Arc::new(Shared {
            limits,
            counters,
            started: Instant::now(),
            failures: OnceAMinute::default(),
            lender,
            open: Mutex::default(),
        }))
    }

    /// Finds a place for a connection from `address`; another one leaves where there are too many.
    pub(super) fn enter(&self, address: IpAddr) -> Place {
        let limits = self.0.limits;
        let mark = Arc::new(Mark {
            address,
            last_query: AtomicU64::new(self.now()),
            leave: CancellationToken::new(),
        });
        let mut open = self.0.open.lock();
        if open.of_address.get(&address) >= Some(&limits.per_address) {
            Self::displace(open.longest_idle(Some(address)));
        } else if open.all.len() >= limits.total {
            Self::displace(open.longest_idle(None));
        }
        let number = open.next;
        open.next += 1;
        open.all.insert(number, mark.clone());
        *open.of_address.entry(address).or_default() += 1;
        self.0.counters.set_connections(open.all.len());
        Place {
            connections: self.clone(),
            number,
            mark,
        }
    }

    /// Returns how many connections may be open.
    pub(super) fn total(&self) -> usize {
        self.0.limits.total
    }

    /// Counts a connection that could not be accepted, and tells of it now and then.
    pub(super) fn note_failure(&self, error: &io::Error) {
        self.0.counters.count_not_accepted();
        if self.0.failures.is_due(unix_seconds()) {
            warn!(%error, "Accepting a TCP connection failed");
        }
    }

    /// Gives a descriptor back to a process that has run out of them.
    pub(super) fn give_way(&self) {
        if let Some(lender) = &self.0.lender {
            return lender.give_way();
        }
        let longest = self.0.open.lock().longest_idle(None);
        Self::displace(longest);
    }

    fn displace(mark: Option<Arc<Mark>>) {
        if let Some(mark) = mark {
            mark.leave.cancel();
        }
    }

    /// Microseconds from the start of the server.
    fn now(&self) -> u64 {
        self.0.started.elapsed().as_micros() as u64 // half a million years fit
    }
}

// === impl Open ===

impl Open {
    /// Takes out the connection that has been idle longest, of one address or of all.
    fn longest_idle(&mut self, address: Option<IpAddr>) -> Option<Arc<Mark>> {
        let is_candidate = |mark: &Mark| address.is_none_or(|address| mark.address == address);
        let candidates = self.all.iter().filter(|(_, mark)| is_candidate(mark));
        let longest = candidates.min_by_key(|(_, mark)| mark.last_query.load(Relaxed));
        let number = *longest?.0;
        self.remove(number)
    }

    fn remove(&mut self, number: u64) -> Option<Arc<Mark>> {
        let mark = self.all.remove(&number)?;
        if let Some(count) = self.of_address.get_mut(&mark.address) {
            *count -= 1;
            if *count == 0 {
                self.of_address.remove(&mark.address);
            }
        }
        Some(mark)
    }
}

// === impl Place ===

impl Place {
    /// Notes that a query came.
    pub(super) fn note_query(&self) {
        self.mark.last_query.store(self.connections.now(), Relaxed);
    }

    /// Waits until the connection is to make room for another.
    pub(super) async fn displaced(&self) {
        self.mark.leave.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connections.0.open.lock();
        open.remove(self.number);
        self.connections.0.counters.set_connections(open.all.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use std::time::Duration;

    fn connections(total: usize, per_address: usize) -> Connections {
        Connections::new(Limits { total, per_address }, Arc::default())
    }

    fn is_displaced(place: &Place) -> bool {
        place.displaced().now_or_never().is_some()
    }

    async fn tick() {
        tokio::time::advance(Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_makes_room() {
        let connections = connections(3, 3);
        let mut places = Vec::new();
        for host in 1..=3 {
            places.push(connections.enter([192, 0, 2, host].into()));
            tick().await;
        }
        places[0].note_query();
        tick().await;
        let fourth = connections.enter([192, 0, 2, 4].into());
        let displaced: Vec<bool> = places.iter().map(is_displaced).collect();
        assert_eq!(displaced, [false, true, false]);
        assert!(!is_displaced(&fourth));
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_with_too_many_loses_one_of_its_own() {
        let connections = connections(10, 2);
        let other = connections.enter([192, 0, 2, 1].into());
        tick().await;
        let first = connections.enter([192, 0, 2, 2].into());
        let second = connections.enter([192, 0, 2, 2].into());
        tick().await;
        second.note_query();
        let third = connections.enter([192, 0, 2, 2].into());
        let displaced = [&other, &first, &second, &third].map(is_displaced);
        assert_eq!(displaced, [false, true, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn those_with_a_lender_stay() {
        let lender = connections(10, 10);
        let important =
            Connections::with_lender(lender.0.limits, Arc::default(), Some(lender.clone()));
        let (own, lent) = (
            important.enter([192, 0, 2, 1].into()),
            lender.enter([192, 0, 2, 2].into()),
        );
        important.give_way();
        assert_eq!([&own, &lent].map(is_displaced), [false, true]);
        important.give_way();
        assert!(!is_displaced(&own));
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_is_left_is_free() {
        let connections = connections(1, 1);
        drop(connections.enter([192, 0, 2, 1].into()));
        let first = connections.enter([192, 0, 2, 1].into());
        assert!(!is_displaced(&first));
        let second = connections.enter([192, 0, 2, 1].into());
        assert!(is_displaced(&first));
        drop(first);
        assert!(!is_displaced(&second));
        assert_eq!(connections.0.open.lock().all.len(), 1);
    }
}
