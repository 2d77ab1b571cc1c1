//! Counters of the listeners: atomics that are incremented at the event and summed at each scrape.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use strum::{IntoStaticStr, VariantArray};

use crate::histogram::Histogram;
use crate::wire::{Rcode, Transport};
use crate::zone::RecordType;

/// The counters of one thread, or of the tasks of one transport.
#[derive(Debug, Default)]
#[repr(align(128))] // never shares a cache line with another thread
pub struct Counters {
    /// Queries by transport and type.
    pub(crate) requests: [[AtomicU64; TYPES.len() + 1]; Transport::VARIANTS.len()],
    /// Replies by the number of the response code.
    pub(crate) responses: [AtomicU64; Rcode::BadVers as usize + 1],
    /// Messages that are never answered.
    pub(crate) dropped: AtomicU64,
    /// Replies that could not be sent over UDP.
    pub(crate) unsent: AtomicU64,
    /// Truncated replies by transport. Over UDP, the client retries over TCP. Over other transports, the answer exceeds
    /// 65,535 octets.
    pub(crate) truncated: [AtomicU64; Transport::VARIANTS.len()],
    /// Panics while answering messages, by transport. Each ended a worker or a connection.
    pub(crate) panics: [AtomicU64; Transport::VARIANTS.len()],
    /// Answer times.
    pub(crate) durations: Histogram,
    /// Open TCP connections.
    pub(crate) connections: AtomicU64,
    /// Closed TCP connections by reason.
    pub(crate) ended: [AtomicU64; EndReason::VARIANTS.len()],
    /// TCP connections that could not be accepted.
    pub(crate) not_accepted: AtomicU64,
}

/// The counters of all threads. Each thread increments its own, and a scrape sums them. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct CounterSet(Arc<Mutex<Vec<Arc<Counters>>>>);

/// The reason why a TCP connection ended. It is a closed set, because it is a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum EndReason {
    /// The client closed it.
    Done,
    /// The TLS handshake failed or took too long.
    Handshake,
    /// No query arrived in time.
    Idle,
    /// The rest of a query did not arrive in time, or the client did not read a reply.
    Slow,
    /// Another connection replaced it.
    Replaced,
    /// The data was not from a DNS client.
    Malformed,
    /// It failed.
    Broken,
    /// The server stopped, or loaded another certificate.
    Stopped,
}

/// The types that are counted alone.
pub(crate) const TYPES: [RecordType; 7] = {
    use RecordType as T;
    [T::A, T::AAAA, T::SRV, T::TXT, T::SOA, T::NS, T::ANY]
};

/// Counts one event.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Counters {
    /// Counts a query. `None` stands for an unreadable query.
    pub fn count_request(&self, transport: Transport, rtype: Option<RecordType>) {
        let known = TYPES.iter().position(|known| Some(*known) == rtype);
        count(&self.requests[transport as usize][known.unwrap_or(TYPES.len())]);
    }

    /// Counts a reply.
    pub fn count_response(&self, rcode: Rcode) {
        count(&self.responses[rcode as usize]);
    }

    /// Counts the answer time of a batch of `replies` queries: from receiving them until all replies are ready to send.
    pub fn count_time(&self, replies: usize, took: Duration) {
        self.durations.add(took, replies as u64); // some thousands at most
    }

    /// Counts a connection that ended.
    pub fn count_ended(&self, how: EndReason) {
        count(&self.ended[how as usize]);
    }
}

// === impl CounterSet ===

impl CounterSet {
    /// Returns counters for one more thread.
    pub fn add(&self) -> Arc<Counters> {
        let counters = Arc::<Counters>::default();
        self.0.lock().push(counters.clone());
        counters
    }

    /// Sums one count over all threads.
    pub(crate) fn sum(&self, count: impl Fn(&Counters) -> &AtomicU64) -> u64 {
        self.0
            .lock()
            .iter()
            .map(|counters| count(counters).load(Relaxed))
            .sum()
    }
}
