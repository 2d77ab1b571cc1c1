//! The open TCP connections, and the choice of the one to close if there are too many.
//!
//! A new connection replaces one of the client that has most, which can be the new one's. So a client that hoards connections loses its
//! own, whatever it does with them. What a replaced connection has received is still answered.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::clock::unix_seconds;
use crate::log::LogLimiter;
use crate::server::counters::{Counters, EndReason, count};
use crate::server::platform::{has_unsent, is_exhaustion};
use crate::wire::{Access, Transport};

/// Maximum time for the rest of a message, and for sending replies.
pub(super) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept if descriptors or memory are exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of replaced connections that are still closing. No more connections are accepted until some of them
/// have ended, so that a flood of connections cannot use more descriptors.
const MAX_CLOSING: usize = 16;
/// Maximum number of connections of clients that `limits.allow` excludes. They only replace each other.
const MAX_REFUSED: usize = 16;
/// A client with at most this number of connections is never the one that has most: a resolver has a few.
const FEW: usize = 4;

/// The open connections of one transport.
pub(super) struct Connections {
    /// Maximum number of open connections. A client has at most half of them.
    limit: usize,
    /// Cancelled when the server stops: each accepted connection is then answered.
    pub(super) lifted: CancellationToken,
    access: Access,
    transport: Transport,
    counters: Arc<Counters>,
    failures: LogLimiter,
    /// Also some that have ended.
    open: Mutex<Vec<Weak<ConnectionPlace>>>,
}

/// The place of a connection among the open ones, with its socket. It is free when the connection has dropped it.
pub(super) struct ConnectionPlace {
    pub(super) stream: TcpStream,
    /// The address and port of the client.
    pub(super) peer: SocketAddr,
    /// The address that stands for the client.
    client: IpAddr,
    is_allowed: bool,
    activity: Mutex<Activity>,
    /// Cancelled when another connection replaces this one, which must then close.
    pub(super) replaced: CancellationToken,
}

/// What a connection has done.
struct Activity {
    has_query: bool,
    /// Time of the last query, or the start of the connection if it had none.
    last: Instant,
}

// === impl Connections ===

impl Connections {
    /// Creates a set of at most `limit` connections, half of them for each client.
    pub(super) fn new(
        limit: usize,
        access: Access,
        transport: Transport,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            limit,
            lifted: CancellationToken::new(),
            access,
            transport,
            counters,
            failures: LogLimiter::default(),
            open: Mutex::default(),
        }
    }

    /// Adds a connection from `peer`. If there are too many, another one is replaced.
    pub(super) fn add(&self, stream: TcpStream, peer: SocketAddr) -> Arc<ConnectionPlace> {
        let place = Arc::new(ConnectionPlace {
            stream,
            peer,
            client: self.access.client(peer.ip()),
            is_allowed: self.access.is_allowed(peer.ip()),
            activity: Mutex::new(Activity {
                has_query: false,
                last: Instant::now(),
            }),
            replaced: CancellationToken::new(),
        });
        count(&self.counters.connections);
        let mut open = self.open.lock();
        open.retain(|one| one.strong_count() > 0);
        if !self.lifted.is_cancelled() {
            let mut others: Vec<Arc<ConnectionPlace>> =
                open.iter().filter_map(Weak::upgrade).collect();
            others.retain(|one| one.is_allowed == place.is_allowed && !one.replaced.is_cancelled());
            let limit = if place.is_allowed {
                self.limit
            } else {
                MAX_REFUSED
            };
            if let Some(excess) = excess(&others, place.client, limit) {
                excess.replaced.cancel();
            }
        }
        open.push(Arc::downgrade(&place));
        place
    }

    /// Returns whether one more connection can be accepted beside `open` others, of which some are replaced but still closing.
    pub(super) fn has_room(&self, open: usize) -> bool {
        self.lifted.is_cancelled() || open < self.limit + MAX_REFUSED + MAX_CLOSING
    }

    /// Counts a failed accept, and logs it at most once a minute. Pauses if descriptors or memory are exhausted. Other errors
    /// concern a single connection (accept(2)) and need no pause.
    pub(super) async fn note_failure(&self, error: &io::Error) {
        count(&self.counters.not_accepted);
        if self.failures.is_due(unix_seconds()) {
            warn!(%error, "Accepting a TCP connection failed");
        }
        if is_exhaustion(error) {
            sleep(ACCEPT_PAUSE).await;
        }
    }

    /// Counts a connection that has ended, and whether its task panicked.
    pub(super) fn note_end(&self, ended: Result<(), JoinError>) {
        self.counters.connections.fetch_sub(1, Relaxed);
        if ended.is_err() {
            count(&self.counters.panics[self.transport as usize]);
            self.counters.count_ended(EndReason::Broken);
        }
    }
}

/// Returns the connection that a new one of a client replaces, if there are too many: one of the client that has most, the new one
/// included. Of these, one without a query goes first, then the one that has been idle longest. If several clients have most, it is the
/// one of them all that has been idle longest.
fn excess(
    open: &[Arc<ConnectionPlace>],
    client: IpAddr,
    limit: usize,
) -> Option<&Arc<ConnectionPlace>> {
    let mut counts: BTreeMap<IpAddr, usize> = [(client, 1)].into();
    for place in open {
        *counts.entry(place.client).or_default() += 1;
    }
    if counts[&client] > limit / 2 {
        counts.retain(|one, _| *one == client);
    } else if open.len() >= limit {
        let most = counts.values().copied().max().unwrap_or_default();
        counts.retain(|_, count| most <= FEW || *count == most);
    } else {
        return None;
    }
    let is_one = counts.len() == 1;
    let mut candidates: Vec<&Arc<ConnectionPlace>> = open.iter().collect();
    candidates.retain(|one| counts.contains_key(&one.client));
    candidates.sort_by_cached_key(|one| {
        let activity = one.activity.lock();
        (is_one && activity.has_query, activity.last)
    });
    candidates
        .iter()
        .find(|one| !one.is_busy())
        .or(candidates.first())
        .copied()
}

// === impl ConnectionPlace ===

impl ConnectionPlace {
    /// Records the time of a query.
    pub(super) fn note_query(&self) {
        *self.activity.lock() = Activity {
            has_query: true,
            last: Instant::now(),
        };
    }

    /// Returns whether the client has sent a query.
    pub(super) fn has_query(&self) -> bool {
        self.activity.lock().has_query
    }

    /// Returns whether an octet of the client is unread, or one of a reply is unsent. A client that does not take its replies is busy
    /// for as long as a blocked write may last.
    fn is_busy(&self) -> bool {
        let octet = &mut [MaybeUninit::uninit()];
        let has_unread = matches!(SockRef::from(&self.stream).peek(octet), Ok(1..));
        let last = self.activity.lock().last;
        last.elapsed() < MESSAGE_TIMEOUT && (has_unread || has_unsent(&self.stream))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;
    use tokio::time::advance;

    use super::*;

    /// Connections of clients with any addresses.
    struct Clients {
        listener: TcpListener,
        connections: Connections,
    }

    impl Clients {
        async fn new(limit: usize, access: Access) -> Self {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let connections = Connections::new(limit, access, Transport::Tcp, Arc::default());
            Self {
                listener,
                connections,
            }
        }

        /// Adds a connection, a second after the last one. Returns the side of the client, too.
        async fn add(&self, address: &str) -> (Arc<ConnectionPlace>, TcpStream) {
            let client = TcpStream::connect(self.listener.local_addr().unwrap());
            let (client, accepted) = tokio::join!(client, self.listener.accept());
            advance(Duration::from_secs(1)).await;
            let peer = SocketAddr::new(address.parse().unwrap(), 1);
            let place = self.connections.add(accepted.unwrap().0, peer);
            (place, client.unwrap())
        }

        async fn add_all(
            &self,
            address: &str,
            count: usize,
        ) -> Vec<(Arc<ConnectionPlace>, TcpStream)> {
            let mut added = Vec::new();
            for _ in 0..count {
                added.push(self.add(address).await);
            }
            added
        }
    }

    fn replaced(places: &[(Arc<ConnectionPlace>, TcpStream)]) -> Vec<usize> {
        let places = places.iter().enumerate();
        let replaced = places.filter(|(_, (place, _))| place.replaced.is_cancelled());
        replaced.map(|(number, _)| number).collect()
    }

    fn everyone() -> Access {
        Access::for_all(&[])
    }

    /// The attacker keeps asking, and nobody else does.
    #[tokio::test(start_paused = true)]
    async fn client_that_has_most_loses_one_without_a_query_and_then_the_longest_idle_one() {
        let clients = Clients::new(20, everyone()).await;
        let honest = clients.add_all("192.0.2.1", 4).await;
        let other = clients.add_all("192.0.2.2", 7).await;
        let attacker = clients.add_all("192.0.2.3", 9).await;
        attacker
            .iter()
            .skip(1)
            .for_each(|(place, _)| place.note_query());
        let mut new = Vec::new();
        for expected in [&[0][..], &[0, 1]] {
            new.push(clients.add("192.0.2.4").await);
            assert_eq!(replaced(&attacker), expected);
        }
        // Both have seven now: the first connection of the other one is older.
        new.push(clients.add("192.0.2.4").await);
        assert_eq!(replaced(&other), [0]);
        // With its new connection, the attacker has most again.
        new.push(clients.add("192.0.2.3").await);
        assert_eq!(
            (replaced(&attacker), replaced(&other)),
            (vec![0, 1, 2], vec![0])
        );
        assert!(replaced(&honest).is_empty() && replaced(&new).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn among_clients_with_few_the_longest_idle_connection_goes() {
        let clients = Clients::new(8, everyone()).await;
        let mut open = clients.add_all("192.0.2.1", 4).await;
        for number in 2..6 {
            open.push(clients.add(&format!("192.0.2.{number}")).await);
        }
        open[0].0.note_query();
        open[2].0.note_query();
        let _new = [
            clients.add("192.0.2.9").await,
            clients.add("192.0.2.9").await,
        ];
        assert_eq!(replaced(&open), [1, 3]);
        drop(open.remove(1));
        drop(open.remove(2));
        open.push(clients.add("192.0.2.9").await);
        assert_eq!(replaced(&open), [2], "an ended connection is free");
    }

    /// An octet that is not read, or a reply that is not sent, is work, for a limited time.
    #[tokio::test(start_paused = true)]
    async fn connection_with_an_unread_query_or_an_unsent_reply_is_not_idle() {
        let clients = Clients::new(8, everyone()).await;
        let mut open = clients.add_all("192.0.2.1", 4).await;
        open.iter().for_each(|(place, _)| place.note_query());
        open[0].1.write_all(&[0; 2]).await.unwrap();
        open[0].0.stream.readable().await.unwrap();
        // More than the buffers of both sides.
        while open[1].0.stream.try_write(&[0; 1 << 16]).is_ok() {}
        open.push(clients.add("192.0.2.1").await);
        assert_eq!(replaced(&open), [2]);
        open[4].0.note_query();
        advance(MESSAGE_TIMEOUT).await;
        open.push(clients.add("192.0.2.1").await);
        assert_eq!(replaced(&open), [0, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn client_over_its_half_replaces_its_own_connection() {
        let near = ["2001:db8:0:100::1".parse().unwrap()];
        for (addresses, expected) in [
            (
                ["192.0.2.2", "192.0.2.1", "192.0.2.1", "192.0.2.1"],
                vec![1],
            ),
            (
                [
                    "2001:db8:0:1::1",
                    "2001:db8::1",
                    "2001:db8::2:0:0:1",
                    "2001:db8::3",
                ],
                vec![1],
            ),
            // Near this pod, each address is a client.
            (
                [
                    "2001:db8:0:100::1",
                    "2001:db8:0:100::2",
                    "2001:db8:0:100::3",
                    "2001:db8:0:100::4",
                ],
                vec![],
            ),
        ] {
            let clients = Clients::new(4, Access::for_all(&near)).await;
            let mut open = Vec::new();
            for address in addresses {
                open.push(clients.add(address).await);
            }
            assert_eq!(replaced(&open), expected, "{addresses:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn client_without_access_takes_no_place_of_others() {
        let access = Access::new(&["192.0.2.0/24".parse().unwrap()], &[]);
        let clients = Clients::new(2, access).await;
        let allowed = clients.add("192.0.2.1").await;
        let refused = clients.add_all("203.0.113.1", 3 * MAX_REFUSED).await;
        assert!(!allowed.0.replaced.is_cancelled());
        assert_eq!(replaced(&refused).len(), 3 * MAX_REFUSED - MAX_REFUSED / 2);
        let _second = clients.add("192.0.2.2").await;
        assert!(!allowed.0.replaced.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn lifted_limit_does_not_apply() {
        let clients = Clients::new(2, everyone()).await;
        clients.connections.lifted.cancel();
        let open = clients.add_all("192.0.2.1", 20).await;
        assert!(replaced(&open).is_empty() && clients.connections.has_room(1000));
    }
}
