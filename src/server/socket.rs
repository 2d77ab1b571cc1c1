//! The TCP connections of the DNS listeners, and the common budget of the octets that their clients have not received.
//!
//! A client that reads nothing leaves replies in the memory of its connection and in the kernel's buffers, which count as
//! memory of the pod, too. The limits of a connection are small, but a client can open many. So all connections share one
//! [`Budget`]. Above it, the slowest readers are closed: the connections whose oldest unread reply has waited longest.
//!
//! The sum is an estimate that only grows: nobody tells when a client receives octets. Only when it exceeds the budget,
//! the kernel is asked for each connection. Well-behaved clients read at once, so that happens rarely.
//!
//! Octets that the server has not answered do not count. The buffers for them are small, and a client that waits because the
//! server is busy is not a slow reader.

mod stream;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem;
use std::net::Shutdown;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use nix::sys::socket::getsockopt;
use nix::{getsockopt_impl, libc, sockopt_impl};
use parking_lot::Mutex;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::counters::EndReason;
use super::time_limits::MESSAGE_TIMEOUT;

/// Maximum time until a client that reads at once acknowledges a reply: the delay of an acknowledgement, a round trip, and
/// a pause of a busy server between making a reply and writing it, for which the client must not pay.
const MAX_DELAY: Duration = Duration::from_secs(2);
/// Octets that the kernel may need for a write besides those of the reply.
const WRITE_OVERHEAD: usize = 2 * 1024;
/// Number of octets that are read from a client before the task yields to other connections: about a hundred queries,
/// or a quarter of a millisecond. With a thousand clients that never pause, a query waits for a thousand of these. The
/// runtime's own budget counts calls, which would allow half a million octets at once.
pub(super) const READ_QUOTA: usize = 4 * 1024;
/// Maximum number of ended connections that wait until their clients have received the last replies.
const MAX_LINGERING: usize = 64;
/// Maximum number of octets that are read and discarded of a client whose connection has ended.
const MAX_DISCARDED: usize = 1 << 20;
/// Interval between two checks of whether a client has received the last replies.
const LINGER_TICK: Duration = Duration::from_millis(50);
/// Index of the memory of unsent octets (`SK_MEMINFO_WMEM_QUEUED`).
const WRITE_MEMORY: usize = 5;
/// Index of `tcpi_bytes_acked` in words of eight octets (`linux/tcp.h`).
const ACKNOWLEDGED: usize = 15;

/// The budget of all connections. Clones share it.
#[derive(Clone)]
pub(super) struct Budget(Arc<SharedBudget>);

struct SharedBudget {
    /// Maximum number of octets.
    limit: usize,
    /// Estimated number of octets in use.
    in_use: AtomicUsize,
    sockets: Mutex<Sockets>,
}

#[derive(Default)]
struct Sockets {
    /// Connections by number, in order of arrival.
    open: BTreeMap<u64, Weak<Inner>>,
    next: u64,
    /// Ended connections that wait for their clients, in order of their ends.
    lingering: VecDeque<Weak<Inner>>,
}

/// A TCP connection of a DNS listener. Clones share it. It is closed when all are dropped.
#[derive(Clone)]
pub(super) struct Socket(Arc<Inner>);

struct Inner {
    stream: TcpStream,
    budget: Budget,
    number: u64,
    account: Mutex<Account>,
    /// Octets read since the task last yielded.
    read: AtomicUsize,
    /// Cancelled when the connection must be closed, because the budget is exceeded.
    cut: CancellationToken,
}

/// The octets of a connection.
#[derive(Default)]
struct Account {
    /// Octets of replies that are not written.
    queued: usize,
    /// Those of them that will be written with the next flush. TLS has copied them.
    taken: usize,
    /// Octets in the kernel: those of the last measurement, and all that were written since.
    kernel: usize,
    /// Number of octets that were ever written.
    written: u64,
    /// The oldest reply that the client may not have received.
    oldest: Option<Unread>,
    /// Whether the connection is being closed, and its octets do not count.
    is_cut: bool,
}

/// A reply that the client may not have received.
#[derive(Clone, Copy)]
struct Unread {
    /// Its end, as a number of octets that were ever written.
    end: u64,
    since: Instant,
}

/// Queued octets of replies. After it is dropped, they count until the next flush.
pub(super) struct Queued {
    socket: Socket,
    octets: usize,
}

sockopt_impl!(
    /// The memory of a socket in the kernel (`linux/sock_diag.h`).
    KernelMemory,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_MEMINFO,
    [u32; 9]
);

sockopt_impl!(
    /// The state of a TCP connection, up to the number of acknowledged octets (`struct tcp_info`).
    TcpState,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    [u64; 16]
);

// === impl Budget ===

impl Budget {
    /// Creates a budget of this many octets.
    pub(super) fn new(limit: usize) -> Self {
        Self(Arc::new(SharedBudget {
            limit,
            in_use: AtomicUsize::new(0),
            sockets: Mutex::default(),
        }))
    }

    /// Adds an accepted connection.
    pub(super) fn add(&self, stream: TcpStream) -> Socket {
        let mut sockets = self.0.sockets.lock();
        let number = sockets.next;
        sockets.next += 1;
        let inner = Arc::new(Inner {
            stream,
            budget: self.clone(),
            number,
            account: Mutex::default(),
            read: AtomicUsize::new(0),
            cut: CancellationToken::new(),
        });
        sockets.open.insert(number, Arc::downgrade(&inner));
        Socket(inner)
    }

    /// Returns the maximum number of octets.
    pub(super) fn limit(&self) -> usize {
        self.0.limit
    }

    /// Returns the estimated number of octets in use.
    pub(super) fn in_use(&self) -> usize {
        self.0.in_use.load(Relaxed)
    }

    /// Measures all connections. If they exceed the budget, the slowest readers are closed until an eighth of it is
    /// free, so that the next measurement is not needed soon. Among the connections of the last moment, the largest is
    /// the slowest: a client that reads at once acknowledges with a delay.
    fn enforce(&self) {
        let sockets = self.0.sockets.lock();
        if self.in_use() <= self.0.limit {
            return; // another thread was first
        }
        let now = Instant::now();
        let recent = now.checked_sub(MAX_DELAY).unwrap_or(now);
        let open: Vec<Arc<Inner>> = sockets.open.values().filter_map(Weak::upgrade).collect();
        let measure = |socket: &Arc<Inner>| {
            let (since, octets) = socket.measure(now)?;
            Some(((since.min(recent), Reverse(octets)), socket.clone()))
        };
        let mut unread: Vec<_> = open.iter().filter_map(measure).collect();
        unread.sort_by_key(|(key, _)| *key);
        // The sum of this moment decides: other threads go on adding replies of slow readers, and the clients at the end of
        // the order must not pay for these.
        let mut left = self.in_use();
        for ((_, Reverse(octets)), slowest) in unread {
            if left <= self.0.limit / 8 * 7 {
                break;
            }
            left = left.saturating_sub(octets);
            slowest.cut();
        }
        drop(sockets); // before the connections, because the last owner of one locks it again
    }

    /// Adds an ended connection that waits for its client. If there are too many, the first is closed.
    fn note_lingering(&self, socket: &Socket) {
        let first = {
            let mut sockets = self.0.sockets.lock();
            let lingering = &mut sockets.lingering;
            lingering.retain(|socket| socket.strong_count() > 0);
            lingering.push_back(Arc::downgrade(&socket.0));
            if lingering.len() > MAX_LINGERING {
                lingering.pop_front()
            } else {
                None
            }
        };
        if let Some(first) = first.as_ref().and_then(Weak::upgrade) {
            first.cut();
        }
    }
}

// === impl Socket ===

impl Socket {
    /// Adds octets of replies that are not written.
    pub(super) fn queue(&self, octets: usize) -> Queued {
        self.0.change(|account| {
            account.queued += octets;
            account.note_unread();
        });
        Queued {
            socket: self.clone(),
            octets,
        }
    }

    /// Notes that the task has yielded to other connections.
    pub(super) fn note_yield(&self) {
        self.0.read.store(0, Relaxed);
    }

    /// Waits until the connection must be closed, because the budget is exceeded.
    pub(super) async fn cut(&self) {
        self.0.cut.cancelled().await;
    }

    /// Returns whether the kernel has octets that the client has not received.
    pub(super) fn has_unsent(&self) -> bool {
        self.0.unsent() > 0
    }

    /// Ends the connection. A client that reads has a few seconds to receive the last replies. Otherwise the kernel would
    /// keep them for minutes. If `awaits_client` is set, the client may still be sending. A socket that is closed with
    /// unread octets resets the connection, and the client would see that instead of the last reply.
    pub(super) fn close(self, reason: EndReason, awaits_client: bool) {
        if matches!(reason, EndReason::Slow | EndReason::Memory) {
            self.0.discard_replies();
        } else if awaits_client || self.0.unsent() > 0 {
            self.0.budget.note_lingering(&self);
            tokio::spawn(self.linger(awaits_client));
        }
    }

    async fn linger(self, awaits_client: bool) {
        let _ = SockRef::from(&self.0.stream).shutdown(Shutdown::Write);
        let end = async {
            let mut left = MAX_DISCARDED;
            let mut is_open = true;
            while self.0.unsent() > 0 || (awaits_client && is_open) {
                tokio::select! {
                    read = self.discard(), if is_open => match read {
                        Ok(length) if length > 0 && length < left => left -= length,
                        Ok(0) => is_open = false,
                        Ok(_) | Err(_) => return,
                    },
                    () = sleep(LINGER_TICK) => {}
                }
            }
        };
        tokio::select! {
            _ = timeout(MESSAGE_TIMEOUT, end) => {}
            () = self.cut() => {}
        }
        if self.0.unsent() > 0 {
            self.0.discard_replies();
        }
    }

    /// Reads and discards octets.
    async fn discard(&self) -> io::Result<usize> {
        loop {
            self.0.stream.readable().await?;
            match self.0.stream.try_read(&mut [0; 4096]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

impl Deref for Socket {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.0.stream
    }
}

// === impl Inner ===

impl Inner {
    /// Changes the octets of the connection, and enforces the budget if they have grown.
    fn change(&self, change: impl FnOnce(&mut Account)) {
        let has_grown = {
            let mut account = self.account.lock();
            let before = account.octets();
            change(&mut account);
            let after = account.octets();
            let in_use = &self.budget.0.in_use;
            in_use.fetch_add(after.wrapping_sub(before), Relaxed);
            after > before
        };
        if has_grown && self.budget.in_use() > self.budget.0.limit {
            self.budget.enforce();
        }
    }

    /// Returns the memory of the octets in the kernel that the client has not received. Some sandboxed kernels do not tell:
    /// then it is 0.
    fn unsent(&self) -> usize {
        getsockopt(&self.stream, KernelMemory).unwrap_or_default()[WRITE_MEMORY] as usize
    }

    /// Replaces the estimate of the octets in the kernel. Returns since when the client has not received a reply, if
    /// there is one, and the octets of the connection.
    fn measure(&self, now: Instant) -> Option<(Instant, usize)> {
        let mut account = self.account.lock();
        let unsent = self.unsent();
        let before = account.octets();
        account.kernel = unsent;
        // The memory of small replies is larger than the replies. Without memory, everything is received.
        let state = getsockopt(&self.stream, TcpState).unwrap_or_default();
        let received = account
            .written
            .saturating_sub(unsent as u64)
            .max(state[ACKNOWLEDGED]);
        let is_received = |unread: &Unread| unread.end <= received;
        if account.oldest.as_ref().is_some_and(is_received) {
            account.oldest = None;
        }
        if account.queued > 0 || received < account.written {
            account.note_unread_at(now);
        }
        let after = account.octets();
        let in_use = &self.budget.0.in_use;
        in_use.fetch_add(after.wrapping_sub(before), Relaxed);
        let since = account.oldest.map(|unread| unread.since);
        since
            .filter(|_| !account.is_cut)
            .map(|since| (since, after))
    }

    /// Closes the connection.
    fn cut(&self) {
        self.discard_replies();
        self.cut.cancel();
    }

    /// Makes the kernel forget unsent replies when the connection is closed. The client gets a reset.
    fn discard_replies(&self) {
        self.change(|account| account.is_cut = true);
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.change(|account| *account = Account::default());
        self.budget.0.sockets.lock().open.remove(&self.number);
    }
}

// === impl Account ===

impl Account {
    /// Returns the number of octets that count.
    fn octets(&self) -> usize {
        if self.is_cut {
            0
        } else {
            self.queued + self.kernel
        }
    }

    fn note_written(&mut self, octets: usize) {
        self.written += octets as u64;
        self.kernel += octets + WRITE_OVERHEAD;
        self.note_unread();
    }

    fn note_flushed(&mut self) {
        self.queued -= mem::take(&mut self.taken);
    }

    /// Notes that everything up to here may be unread, if nothing earlier is.
    fn note_unread(&mut self) {
        if self.oldest.is_none() {
            self.note_unread_at(Instant::now());
        }
    }

    fn note_unread_at(&mut self, since: Instant) {
        let end = self.written + self.queued as u64;
        self.oldest.get_or_insert(Unread { end, since });
    }
}

// === impl Queued ===

impl Drop for Queued {
    fn drop(&mut self) {
        let octets = mem::take(&mut self.octets);
        self.socket.0.change(|account| account.taken += octets);
    }
}
