//! What is counted: plain atomics, incremented where the thing happens, and summed when they are scraped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;

use crate::wire::{Rcode, Transport};
use crate::zone::RecordType;

/// What one thread, or the tasks of one transport, count.
#[derive(Debug, Default)]
#[repr(align(128))] // never on a cache line of another thread's
pub struct Counters {
    /// By transport and type.
    pub(crate) requests: [[AtomicU64; TYPES.len() + 1]; PROTOS.len()],
    /// By response code.
    pub(crate) responses: [AtomicU64; RCODES.len() + 1],
    /// Messages that are never answered.
    pub(crate) dropped: AtomicU64,
    /// Replies that could not be sent over UDP.
    pub(crate) unsent: AtomicU64,
    /// Replies that did not fit, by transport: with TC over UDP the client asks again over TCP; elsewhere, not even
    /// 65,535 octets were enough.
    pub(crate) truncated: [AtomicU64; PROTOS.len()],
    /// Queries that came too fast: those that got a small reply, and those that got none.
    pub(crate) limited: [AtomicU64; 2],
    /// Panics while messages were answered, by transport.
    pub(crate) panics: [AtomicU64; PROTOS.len()],
    /// Time to answer: one count for each bucket of [`BUCKETS`], and one above.
    pub(crate) durations: [AtomicU64; BUCKETS.len() + 1],
    pub(crate) duration_nanoseconds: AtomicU64,
    /// TCP connections that are open.
    pub(crate) connections: AtomicU64,
    /// TCP connections by how they ended.
    pub(crate) ended: [AtomicU64; Ended::ALL.len()],
    /// TCP connections that could not be accepted.
    pub(crate) not_accepted: AtomicU64,
}

/// The counters of every thread: each adds to its own, and they are summed when they are scraped. Cheap to clone: all
/// clones are one.
#[derive(Clone, Debug, Default)]
pub struct Tallies(Arc<Mutex<Vec<Arc<Counters>>>>);

/// How a TCP connection ended. A closed set, so that it can be a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client closed it.
    Done,
    /// The TLS handshake failed or took too long.
    Handshake,
    /// No query came for too long.
    Idle,
    /// The rest of a query did not come in time, or a reply was not taken.
    Slow,
    /// It was open for as long as any may be.
    Old,
    /// It made room for another.
    Displaced,
    /// What came was not from a client of DNS.
    Misuse,
    /// It broke.
    Broken,
    /// The server stopped.
    Stopped,
}

pub(crate) const PROTOS: [&str; 5] = ["udp", "tcp", "tls", "https", "quic"];
pub(crate) const TYPES: [(RecordType, &str); 7] = [
    (RecordType::A, "A"),
    (RecordType::AAAA, "AAAA"),
    (RecordType::SRV, "SRV"),
    (RecordType::TXT, "TXT"),
    (RecordType::SOA, "SOA"),
    (RecordType::NS, "NS"),
    (RecordType::ANY, "ANY"),
];
pub(crate) const RCODES: [(Rcode, &str); 7] = [
    (Rcode::NOERROR, "NOERROR"),
    (Rcode::FORMERR, "FORMERR"),
    (Rcode::SERVFAIL, "SERVFAIL"),
    (Rcode::NXDOMAIN, "NXDOMAIN"),
    (Rcode::NOTIMP, "NOTIMP"),
    (Rcode::REFUSED, "REFUSED"),
    (Rcode::BADVERS, "BADVERS"),
];
/// Upper bounds of the histogram, in microseconds: an answer takes a few.
pub(crate) const BUCKETS: [u64; 8] = [5, 10, 25, 50, 100, 500, 2_500, 100_000];

impl Counters {
    /// Counts a query; `None` for one that could not be read.
    pub fn count_request(&self, over: Transport, rtype: Option<RecordType>) {
        let known = TYPES.iter().position(|(known, _)| Some(*known) == rtype);
        self.requests[proto(over)][known.unwrap_or(TYPES.len())].fetch_add(1, Relaxed);
    }

    /// Counts a reply.
    pub fn count_response(&self, rcode: Rcode) {
        let known = RCODES.iter().position(|(known, _)| *known == rcode);
        self.responses[known.unwrap_or(RCODES.len())].fetch_add(1, Relaxed);
    }

    /// Counts the time from when `replies` queries, which had arrived together, were received to when all of their
    /// replies were ready to be sent.
    pub fn count_time(&self, replies: usize, took: Duration) {
        let replies = replies as u64; // some thousands at most
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.iter().position(|bound| nanoseconds <= bound * 1000);
        self.durations[bucket.unwrap_or(BUCKETS.len())].fetch_add(replies, Relaxed);
        let sum = nanoseconds.saturating_mul(replies);
        self.duration_nanoseconds.fetch_add(sum, Relaxed);
    }

    /// Counts a message that is never answered.
    pub fn count_dropped(&self) {
        self.dropped.fetch_add(1, Relaxed);
    }

    /// Counts a panic, which ended a worker or a connection, and nothing else.
    pub fn count_panic(&self, over: Transport) {
        self.panics[proto(over)].fetch_add(1, Relaxed);
    }

    /// Counts a query that came too fast: it gets a small reply, or none.
    pub fn count_limited(&self, is_answered: bool) {
        self.limited[usize::from(!is_answered)].fetch_add(1, Relaxed);
    }

    /// Counts a reply that could not be sent.
    pub fn count_unsent(&self) {
        self.unsent.fetch_add(1, Relaxed);
    }

    /// Counts a connection that could not be accepted.
    pub fn count_not_accepted(&self) {
        self.not_accepted.fetch_add(1, Relaxed);
    }

    /// Counts a connection that ended.
    pub fn count_ended(&self, how: Ended) {
        self.ended[how as usize].fetch_add(1, Relaxed);
    }

    /// Notes how many connections are open.
    pub fn set_connections(&self, open: usize) {
        self.connections.store(open as u64, Relaxed);
    }

    /// Counts a truncated reply.
    pub fn count_truncated(&self, over: Transport) {
        self.truncated[proto(over)].fetch_add(1, Relaxed);
    }
}

// === impl Tallies ===

impl Tallies {
    /// Returns counters for one more thread.
    pub fn add(&self) -> Arc<Counters> {
        let counters = Arc::<Counters>::default();
        self.0.lock().push(counters.clone());
        counters
    }

    /// Sums one count over all threads.
    pub(crate) fn sum(&self, count: impl Fn(&Counters) -> &AtomicU64) -> u64 {
        let counts = |counters: &Arc<Counters>| count(counters).load(Relaxed);
        self.0.lock().iter().map(counts).sum()
    }

    /// Returns how often something panicked.
    #[cfg(test)]
    pub(crate) fn panics(&self, over: Transport) -> u64 {
        self.sum(|counters| &counters.panics[proto(over)])
    }

    /// Returns how many replies could not be sent.
    #[cfg(test)]
    pub(crate) fn unsent(&self) -> u64 {
        self.sum(|counters| &counters.unsent)
    }
}

// === impl Ended ===

impl Ended {
    /// Every way, in the order of their discriminants.
    pub const ALL: [Self; 9] = [
        Self::Done,
        Self::Handshake,
        Self::Idle,
        Self::Slow,
        Self::Old,
        Self::Displaced,
        Self::Misuse,
        Self::Broken,
        Self::Stopped,
    ];

    /// Returns the way's name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Handshake => "handshake",
            Self::Idle => "idle",
            Self::Slow => "slow",
            Self::Old => "old",
            Self::Displaced => "displaced",
            Self::Misuse => "misuse",
            Self::Broken => "broken",
            Self::Stopped => "stopped",
        }
    }
}

fn proto(over: Transport) -> usize {
    match over {
        Transport::Udp => 0,
        Transport::Tcp => 1,
        Transport::Tls => 2,
        Transport::Https => 3,
        Transport::Quic => 4,
    }
}
