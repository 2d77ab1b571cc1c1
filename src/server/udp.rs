//! UDP: at most one datagram out for each datagram in. Each worker is a thread. It receives the queued datagrams with
//! one system call, answers them, and sends the replies with another call.
//!
//! A worker allocates memory only when it starts. For a query, it takes no lock and logs nothing. It uses blocking
//! calls, because the thread has no other work.
//!
//! A reply leaves from the address that received its query. A socket with one address does this by itself. For a
//! wildcard socket, control messages carry the address, and one call sends all replies of one address. Queries to a
//! multicast or broadcast address are dropped: many servers could receive them, and at port 5353 they belong to multicast
//! DNS (RFC 6762).

pub(super) mod address;

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, SockaddrIn6, recvmmsg, sendmmsg};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use address::{ClientAddress, Destination, destination};

pub(super) use address::request_local_addresses;

use super::answerer::Answerer;
use super::counters::Counters;
use crate::clock::unix_seconds;
use crate::heartbeat::Heartbeat;
use crate::log::with_limited_panic_log;
use crate::wire::Transport;

/// Maximum number of datagrams of one call: large enough to make calls cheap, small enough for the nearest CPU caches.
pub(super) const BATCH: usize = 32;
/// Maximum number of octets that are read of a datagram. A query takes at most a few hundred.
const MAX_QUERY: usize = 4096;
/// Maximum length of a reply: that of `answers.udpMax`.
const MAX_REPLY: usize = 4096;
/// Timeout of a receive call, and so the longest time until a worker notices the stop signal.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(100);
/// Pause after a failed receive call, so that a persistent failure does not spin. Also the pause before sending again
/// if the system is out of memory.
const RETRY_PAUSE: Duration = Duration::from_millis(10);
/// Pause before a worker restarts after a panic. It is negligible unless panics repeat.
const MIN_RESTART_PAUSE: Duration = Duration::from_micros(100);
const MAX_RESTART_PAUSE: Duration = Duration::from_millis(200);
/// Maximum time for answering queued queries when the server stops. A queue of 4 MiB takes a tenth of it.
const MAX_DRAIN: Duration = Duration::from_secs(1);

/// Returns the work of a worker thread, and its heartbeat. It waits for the socket, which is bound to `address`. It answers until
/// `stop`, and then answers the datagrams that are still queued.
pub(super) fn worker(
    socket: Receiver<UdpSocket>,
    address: SocketAddr,
    answerer: Answerer,
    stop: CancellationToken,
) -> (impl FnOnce() + Send + 'static, Heartbeat) {
    let is_wildcard = address.ip().is_unspecified();
    let heartbeat = Heartbeat::default();
    let of_worker = heartbeat.clone();
    let work = move || {
        let Some(socket) = wait(&socket, &of_worker, &stop) else {
            return;
        };
        contain_panics(&answerer.counters, || {
            if address.is_ipv4() {
                Worker::<SockaddrIn>::new(&socket, &answerer, is_wildcard).run(&of_worker, &stop);
            } else {
                Worker::<SockaddrIn6>::new(&socket, &answerer, is_wildcard).run(&of_worker, &stop);
            }
        });
    };
    (work, heartbeat)
}

/// Waits for the socket. Returns `None` if the server stops before.
fn wait(
    socket: &Receiver<UdpSocket>,
    heartbeat: &Heartbeat,
    stop: &CancellationToken,
) -> Option<UdpSocket> {
    while !stop.is_cancelled() {
        heartbeat.beat();
        match socket.recv_timeout(RECEIVE_TIMEOUT) {
            Ok(socket) => return Some(socket),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    None
}

/// Makes the calls of a worker block, but not for long.
pub(super) fn make_blocking(socket: &UdpSocket) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(RECEIVE_TIMEOUT))
}

/// Makes a UDP socket refuse datagrams: it is connected to itself. Queued ones remain.
pub(super) fn refuse(socket: &UdpSocket) -> io::Result<()> {
    socket.connect(socket.local_addr()?)
}

/// Runs a worker. If it panics, the panic is counted, and another worker continues; the batch is lost. A panic can leave only the
/// worker's own state inconsistent, and that is dropped. Workers share only the counters and the immutable table.
fn contain_panics(counters: &Counters, run: impl Fn()) {
    let mut rest = MIN_RESTART_PAUSE;
    loop {
        let started = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| with_limited_panic_log(&run))).is_ok() {
            return;
        }
        counters.count_panic(Transport::Udp);
        // The pause doubles if the worker makes no progress. A panic that leaves its datagram in the queue repeats.
        rest = if started.elapsed() > MAX_RESTART_PAUSE {
            MIN_RESTART_PAUSE
        } else {
            (2 * rest).min(MAX_RESTART_PAUSE)
        };
        thread::sleep(rest);
    }
}

/// A socket and the buffers of a batch. All datagrams of a socket have one address family.
struct Worker<'w, A> {
    socket: &'w UdpSocket,
    /// The socket is bound to the wildcard address, and control messages carry the address of each datagram.
    is_wildcard: bool,
    answerer: &'w Answerer,
    /// Sending would overwrite the headers of receiving, so each has its own.
    received: MultiHeaders<A>,
    sent: MultiHeaders<A>,
    packets: Box<[Packet; BATCH]>,
    /// The replies of a batch, concatenated.
    replies: Box<[u8; BATCH * MAX_REPLY]>,
}

/// A buffer for a datagram. It has one cache line more than a page. Otherwise all buffers would compete for the same
/// cache lines.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Packet([u8; MAX_QUERY + 64]);

/// A datagram of a batch.
#[derive(Clone, Copy)]
struct Datagram<A: ClientAddress> {
    /// The local address that received it.
    local: A::Local,
    /// The index of its packet.
    packet: usize,
    /// Length in octets. The packet may hold fewer.
    length: usize,
    /// Source address.
    client: A,
}

/// The unsent replies of a batch.
struct Outgoing<'r, A: ClientAddress> {
    replies: [[IoSlice<'r>; 1]; BATCH],
    clients: [Option<A>; BATCH],
    /// Source address of each reply.
    locals: [A::Local; BATCH],
    count: usize,
}

// === impl Worker ===

impl<'w, A: ClientAddress> Worker<'w, A> {
    fn new(socket: &'w UdpSocket, answerer: &'w Answerer, is_wildcard: bool) -> Self {
        let headers = || MultiHeaders::preallocate(BATCH, is_wildcard.then(A::control_buffer));
        Self {
            socket,
            is_wildcard,
            answerer,
            received: headers(),
            sent: headers(),
            packets: Box::new([Packet([0; MAX_QUERY + 64]); BATCH]),
            replies: Box::new([0; BATCH * MAX_REPLY]),
        }
    }

    fn run(mut self, heartbeat: &Heartbeat, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match self.serve_batch(MsgFlags::MSG_WAITFORONE) {
                // A worker that only fails to receive makes no progress.
                Ok(()) | Err(Errno::EAGAIN | Errno::EINTR) => heartbeat.beat(),
                // Linux reports failures of earlier replies here, while the socket itself works. Or memory is
                // exhausted.
                Err(error) => {
                    if self.answerer.shared.receive_failures.is_due(unix_seconds()) {
                        warn!(%error, "Receiving over UDP failed");
                    }
                    thread::sleep(RETRY_PAUSE);
                }
            }
        }
        self.refuse_new_datagrams();
        self.drain();
    }

    /// Answers the queued datagrams. The time limit holds even if clients keep sending or memory is exhausted.
    fn drain(&mut self) {
        let started = Instant::now();
        while started.elapsed() < MAX_DRAIN {
            match self.serve_batch(MsgFlags::MSG_DONTWAIT) {
                Ok(()) | Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break, // the queue is empty
                Err(error) => {
                    debug!(%error, "Receiving over UDP failed");
                    thread::sleep(RETRY_PAUSE);
                }
            }
        }
    }

    /// Receives and answers the queued datagrams, at least one.
    fn serve_batch(&mut self, flags: MsgFlags) -> Result<(), Errno> {
        let arrived = self.receive(flags)?;
        let started = Instant::now();
        let mut outgoing = Outgoing {
            replies: [[IoSlice::new(&[])]; BATCH],
            clients: [None; BATCH],
            locals: [A::UNSPECIFIED; BATCH],
            count: 0,
        };
        let (answerer, packets) = (self.answerer, &self.packets);
        let batch = answerer.batch_context(arrived.iter().flatten().count());
        let mut rest = self.replies.as_mut_slice();
        for datagram in arrived.into_iter().flatten() {
            let packet = &packets[datagram.packet].0[..datagram.length.min(MAX_QUERY)];
            let client = datagram.client.socket_address();
            let reply = answerer.answer(
                &batch,
                packet,
                Transport::Udp,
                client,
                &mut rest[..MAX_REPLY],
            );
            let Some(length) = reply else { continue };
            let (reply, behind) = rest.split_at_mut(length);
            outgoing.push(reply, &datagram);
            rest = behind;
        }
        drop(batch);
        let took = started.elapsed();
        answerer.counters.count_time(outgoing.count, took);
        let socket = self.socket.as_raw_fd();
        outgoing.send(
            |replies, clients, local| {
                let info = self.is_wildcard.then(|| A::packet_info(local));
                let control = info.as_ref().map(A::control_message);
                let control = control.as_slice();
                let flags = MsgFlags::MSG_DONTWAIT;
                Ok(sendmmsg(socket, &mut self.sent, replies, clients, control, flags)?.count())
            },
            answerer,
        );
        Ok(())
    }

    /// Receives the queued datagrams, sorted by local address and then by arrival.
    fn receive(&mut self, flags: MsgFlags) -> Result<[Option<Datagram<A>>; BATCH], Errno> {
        let socket = self.socket.as_raw_fd();
        let mut slices = self.packets.each_mut().map(|p| [IoSliceMut::new(&mut p.0)]);
        let messages = recvmmsg(socket, &mut self.received, &mut slices, flags, None)?;
        let mut arrived = [None; BATCH];
        let mut count = 0;
        for (packet, (to, message)) in arrived.iter_mut().zip(messages).enumerate() {
            count += 1;
            let Destination::Local(local) = destination(&message) else {
                self.answerer.counters.count_dropped();
                continue;
            };
            *to = message.address.map(|client| Datagram {
                local,
                packet,
                length: message.bytes,
                client,
            });
        }
        if self.is_wildcard {
            // One call sends all replies of one address.
            let key = |datagram: &Option<Datagram<A>>| datagram.map(|d| (d.local, d.packet));
            arrived[..count].sort_unstable_by_key(key);
        }
        Ok(arrived)
    }

    /// Refuses new datagrams, which would be lost after the last receive call. Replies still leave from the address that received
    /// the query.
    fn refuse_new_datagrams(&self) {
        if let Err(error) = refuse(self.socket) {
            debug!(%error, "Cannot reject new datagrams on the UDP socket");
        }
    }
}

// === impl Outgoing ===

impl<'r, A: ClientAddress> Outgoing<'r, A> {
    /// Adds the reply to a datagram.
    fn push(&mut self, reply: &'r [u8], to: &Datagram<A>) {
        self.replies[self.count] = [IoSlice::new(reply)];
        self.clients[self.count] = Some(to.client);
        self.locals[self.count] = to.local;
        self.count += 1;
    }

    /// Sends all replies, with one call for each local address.
    fn send(
        &self,
        mut send: impl FnMut(&[[IoSlice<'r>; 1]], &[Option<A>], A::Local) -> Result<usize, Errno>,
        answerer: &Answerer,
    ) {
        let mut first = 0;
        let mut has_paused = false;
        while first < self.count {
            let local = self.locals[first];
            let same = self.locals[first..self.count].iter();
            let last = first + same.take_while(|other| **other == local).count();
            first += match send(
                &self.replies[first..last],
                &self.clients[first..last],
                local,
            ) {
                Ok(sent) => sent,
                // Memory may be available again soon. Pause only once: the other replies wait, too.
                Err(error @ (Errno::ENOBUFS | Errno::ENOMEM)) if !has_paused => {
                    if answerer.shared.send_failures.is_due(unix_seconds()) {
                        warn!(%error, "Sending over UDP failed");
                    }
                    thread::sleep(RETRY_PAUSE);
                    has_paused = true;
                    0
                }
                // A reply that cannot be sent is skipped. An unreachable client, or a local address that was removed,
                // must not delay the other replies.
                Err(error) => {
                    debug!(%error, "Failed to send a reply");
                    answerer.counters.count_unsent();
                    1
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;
    use crate::server::tests::answerers;

    #[test]
    fn worker_that_panics_is_counted_and_continues_after_a_growing_pause() {
        let (counters, runs) = (Counters::default(), AtomicU32::new(0));
        let started = Instant::now();
        contain_panics(&counters, || {
            assert!(runs.fetch_add(1, Relaxed) == 14, "an injected panic");
        });
        assert_eq!(runs.load(Relaxed), 15);
        assert_eq!(counters.panics[0].load(Relaxed), 14);
        // The pause doubles up to 200 ms, which takes 800 ms in total. On a busy machine, a panic itself may take 200 ms,
        // and then the pause is short again.
        let took = started.elapsed();
        assert!(took >= Duration::from_millis(200), "{took:?}");
    }

    #[test]
    fn reply_that_cannot_be_sent_is_skipped_and_others_are_sent() {
        let none = [Errno::UnknownErrno; 0];
        for (errors, sent) in [
            (&none[..], 3),
            (&[Errno::ENOBUFS], 3), // sent again after a pause
            (&[Errno::ENOMEM; 2], 2),
            (&[Errno::EINVAL], 2),
        ] {
            let answerer = answerers().create();
            let outgoing = Outgoing {
                replies: [[IoSlice::new(&[])]; BATCH],
                clients: [None::<SockaddrIn>; BATCH],
                // One call for each local address.
                locals: std::array::from_fn(|number| [127, 0, 0, number as u8].into()),
                count: 3,
            };
            let (mut errors, mut count) = (errors.iter(), 0);
            let send = |replies: &[[IoSlice<'_>; 1]], _: &[Option<SockaddrIn>], _| {
                assert_eq!(replies.len(), 1);
                errors
                    .next()
                    .map_or(Ok(1), |error| Err(*error))
                    .inspect(|sent| count += sent)
            };
            outgoing.send(send, &answerer);
            assert_eq!(count, sent);
            assert_eq!(answerer.counters.unsent.load(Relaxed), 3 - sent as u64);
        }
    }
}
