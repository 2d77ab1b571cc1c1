//! The open TCP connections, and the choice of the one to close if there are too many.
//!
//! A new connection replaces the one whose last complete query was longest ago. So a client that hoards connections, or does
//! not read its replies, loses them first. What a replaced connection has received is still answered.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv6Addr, Shutdown};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::clock::unix_seconds;
use crate::log::LogLimiter;
use crate::server::counters::{Counters, EndReason};
use crate::server::platform;
use crate::server::time_limits::MESSAGE_TIMEOUT;

/// Maximum number of replaced connections that are still closing. No more connections are accepted until some of them
/// have ended, so that a flood of connections cannot use more descriptors.
const MAX_CLOSING: usize = 16;

/// Maximum number of octets that are read and discarded of a client whose connection has ended.
const MAX_DISCARDED: usize = 1 << 20;
/// Interval between two checks of whether a client has received the last replies.
const LINGER_TICK: Duration = Duration::from_millis(50);

/// The open connections of one transport. Clones share them.
#[derive(Clone)]
pub(super) struct Connections(Arc<SharedConnections>);

struct SharedConnections {
    /// Maximum number of open connections. A client has at most half of them.
    limit: usize,
    /// Whether the limit no longer applies.
    is_unlimited: AtomicBool,
    counters: Arc<Counters>,
    failures: LogLimiter,
    open: Mutex<Vec<Arc<OpenConnection>>>,
}

/// An open connection.
pub(super) struct OpenConnection {
    pub(super) stream: TcpStream,
    client: IpAddr,
    /// Time of the last query, or the start of the connection if it had no query.
    last_query: Mutex<Instant>,
    /// Cancelled when the connection must close.
    replaced: CancellationToken,
}

// === impl Connections ===

impl Connections {
    /// Creates a set of at most `limit` connections, half of them for each client.
    pub(super) fn new(limit: usize, counters: Arc<Counters>) -> Self {
        Self(Arc::new(SharedConnections {
            limit,
            is_unlimited: AtomicBool::new(false),
            counters,
            failures: LogLimiter::default(),
            open: Mutex::default(),
        }))
    }

    /// Adds a connection from `address`. If there are too many, another one is replaced.
    pub(super) fn add(&self, stream: TcpStream, address: IpAddr) -> Arc<OpenConnection> {
        let client = client(address);
        let new = Arc::new(OpenConnection {
            stream,
            client,
            last_query: Mutex::new(Instant::now()),
            replaced: CancellationToken::new(),
        });
        let mut open = self.0.open.lock();
        let of_client = open.iter().filter(|one| one.client == client).count();
        if self.0.is_unlimited.load(Relaxed) {
            // The process ends soon, and each connection with it.
        } else if of_client >= self.0.limit / 2 {
            replace_oldest(&mut open, |one| one.client == client);
        } else if open.len() >= self.0.limit {
            replace_oldest(&mut open, |_| true);
        }
        open.push(new.clone());
        self.0
            .counters
            .connections
            .store(open.len() as u64, Relaxed);
        new
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&self, ended: &Arc<OpenConnection>) {
        let mut open = self.0.open.lock();
        open.retain(|one| !Arc::ptr_eq(one, ended));
        self.0
            .counters
            .connections
            .store(open.len() as u64, Relaxed);
    }

    /// Lifts the limit when the server stops: each accepted connection is answered.
    pub(super) fn lift_limit(&self) {
        self.0.is_unlimited.store(true, Relaxed);
    }

    /// Returns whether one more connection can be accepted beside `open` others, of which some are replaced but still closing.
    pub(super) fn has_room(&self, open: usize) -> bool {
        open < self.0.limit + MAX_CLOSING || self.0.is_unlimited.load(Relaxed)
    }

    /// Counts a failed accept, and logs it at most once a minute.
    pub(super) fn note_failure(&self, error: &io::Error) {
        self.0.counters.not_accepted.fetch_add(1, Relaxed);
        if self.0.failures.is_due(unix_seconds()) {
            warn!(%error, "Accepting a TCP connection failed");
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

/// Removes the candidate with the oldest last query, and tells it.
fn replace_oldest(
    open: &mut Vec<Arc<OpenConnection>>,
    is_candidate: impl Fn(&OpenConnection) -> bool,
) {
    let candidates = (0..open.len()).filter(|index| is_candidate(&open[*index]));
    if let Some(oldest) = candidates.min_by_key(|index| *open[*index].last_query.lock()) {
        open.remove(oldest).replaced.cancel();
    }
}

// === impl OpenConnection ===

impl OpenConnection {
    /// Records the time of a query.
    pub(super) fn note_query(&self) {
        *self.last_query.lock() = Instant::now();
    }

    /// Waits until another connection replaces this one.
    pub(super) async fn replaced(&self) {
        self.replaced.cancelled().await;
    }

    /// Returns whether the kernel has octets of the client. It asks the kernel, because tokio's readiness may be outdated.
    pub(super) fn has_octets(&self) -> bool {
        let peeked = SockRef::from(&self.stream).peek(&mut [MaybeUninit::uninit()]);
        peeked.is_ok_and(|length| length > 0)
    }

    /// Returns whether the kernel has octets that the client has not received.
    pub(super) fn has_unsent(&self) -> bool {
        platform::has_unsent(&self.stream)
    }

    /// Makes the kernel forget unsent octets when the connection is closed. It would keep them for minutes.
    pub(super) fn discard_unsent(&self) {
        if self.has_unsent() {
            let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        }
    }

    /// Closes the connection. A client that reads has a few seconds to receive the last replies; otherwise the kernel forgets
    /// them, which it would keep for minutes. After an error, the client may still be sending. A socket that is closed with
    /// unread octets resets the connection, and the client would see that instead of the last reply.
    pub(super) async fn close(&self, reason: EndReason) {
        let is_error = matches!(reason, EndReason::Malformed | EndReason::Handshake);
        if !matches!(reason, EndReason::Slow | EndReason::Replaced)
            && (is_error || self.has_unsent())
        {
            tokio::select! {
                _ = timeout(MESSAGE_TIMEOUT, self.linger(is_error)) => {}
                () = self.replaced() => {}
            }
        }
        self.discard_unsent();
    }

    /// Waits until the client has received everything and, if `awaits_client` is set, has closed the connection.
    async fn linger(&self, awaits_client: bool) {
        let _ = SockRef::from(&self.stream).shutdown(Shutdown::Write);
        let mut left = MAX_DISCARDED;
        let mut is_open = true;
        while self.has_unsent() || (awaits_client && is_open) {
            tokio::select! {
                read = self.discard(), if is_open => match read {
                    Ok(length) if length > 0 && length < left => left -= length,
                    Ok(0) => is_open = false,
                    Ok(_) | Err(_) => return,
                },
                () = sleep(LINGER_TICK) => {}
            }
        }
    }

    /// Reads and discards octets.
    async fn discard(&self) -> io::Result<usize> {
        loop {
            self.stream.readable().await?;
            match self.stream.try_read(&mut [0; 4096]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// Connections with their clients.
    struct World {
        listener: TcpListener,
        connections: Connections,
        clients: Vec<TcpStream>,
    }

    impl World {
        async fn new(limit: usize) -> Self {
            Self {
                listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
                connections: Connections::new(limit, Arc::default()),
                clients: Vec::new(),
            }
        }

        /// Adds a connection as if it came from an address.
        async fn add(&mut self, address: &str) -> Arc<OpenConnection> {
            let server = self.listener.local_addr().unwrap();
            self.clients.push(TcpStream::connect(server).await.unwrap());
            let (stream, _) = self.listener.accept().await.unwrap();
            self.connections.add(stream, address.parse().unwrap())
        }
    }

    fn is_replaced(open: &Arc<OpenConnection>) -> bool {
        open.replaced().now_or_never().is_some()
    }

    /// A client that does not read its replies has no new queries, so it does not keep its place.
    #[tokio::test]
    async fn new_connection_replaces_the_one_with_the_oldest_query() {
        let mut world = World::new(3).await;
        let mut open = Vec::new();
        for address in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
            open.push(world.add(address).await);
        }
        open[0].note_query();
        world.clients[1].write_all(&[0]).await.unwrap();
        open[1].stream.readable().await.unwrap();
        open.push(world.add("192.0.2.4").await);
        let replaced: Vec<bool> = open.iter().map(is_replaced).collect();
        assert_eq!(replaced, [false, true, false, false], "unread octets");
        world.add("192.0.2.5").await;
        assert!(is_replaced(&open[2]) && !is_replaced(&open[0]));
    }

    #[tokio::test]
    async fn client_over_its_half_replaces_its_own_connection() {
        let mut world = World::new(4).await;
        for (own, neighbor) in [
            (["192.0.2.1"; 3], "192.0.2.2"),
            (
                ["2001:db8::1", "2001:db8::2:0:0:1", "2001:db8::3"],
                "2001:db8:0:1::1",
            ),
        ] {
            let stranger = world.add(neighbor).await;
            let first = world.add(own[0]).await;
            let second = world.add(own[1]).await;
            let third = world.add(own[2]).await;
            let replaced = [&stranger, &first, &second, &third].map(is_replaced);
            assert_eq!(replaced, [false, true, false, false], "{neighbor}");
        }
    }

    #[tokio::test]
    async fn ended_connection_is_free_and_a_lifted_limit_does_not_apply() {
        let mut world = World::new(2).await;
        let ended = world.add("192.0.2.1").await;
        world.connections.remove(&ended);
        let first = world.add("192.0.2.1").await;
        assert!(!is_replaced(&first));
        world.connections.lift_limit();
        let more = [world.add("192.0.2.1").await, world.add("192.0.2.1").await];
        assert!(!is_replaced(&first) && !more.iter().any(is_replaced));
    }
}
