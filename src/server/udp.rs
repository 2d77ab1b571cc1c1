//! UDP: one datagram in, at most one out. Each worker is a thread of its own that takes what waits in its socket's
//! queue with one system call, answers it, and sends the replies with another.
//!
//! A worker allocates when it starts and never again, takes no lock and writes no log line for a query. Blocking calls
//! instead of readiness: a thread that has nothing else to do needs nobody to tell it when to receive.
//!
//! A reply leaves from the address that its query came to. A socket with one address needs nothing for that. For a socket
//! with every address of the host, control messages hold the address, and one call sends the replies of one address.

pub(super) mod address;

use std::io::{self, IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd as _, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, MsgFlags, MultiHeaders, MultiResults, SockaddrIn, SockaddrIn6, recvmmsg,
    sendmmsg,
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use address::{Address, local_address};

pub(super) use address::request_local_addresses;

use super::Answerer;
use crate::clock::unix_seconds;
use crate::log::replaced;
use crate::wire::Transport;

/// Datagrams that are taken with one call: enough to make the calls cheap, few enough to stay in the nearest caches.
pub(super) const BATCH: usize = 32;
/// Octets of a datagram that are read: a query takes some hundred at most.
const QUERY: usize = 4096;
/// Octets of a reply: `--udp-max` is 4096 at most.
const REPLY: usize = 4096;
/// How long a call to receive waits, and so how soon a worker sees that it is to stop.
const WAIT: Duration = Duration::from_millis(100);
/// How long receiving rests when it fails, so that a failure that lasts does not spin; and sending, when the system has
/// no memory for it.
const REST: Duration = Duration::from_millis(10);
/// How long it takes to replace a worker that panicked: hardly any time, if it does not happen again and again.
const SHORTEST_REST: Duration = Duration::from_micros(100);
const LONGEST_REST: Duration = Duration::from_millis(200);
/// How long the queries that wait when the server stops are answered: a queue of 4 MiB takes a tenth of that.
const LONGEST_DRAIN: Duration = Duration::from_secs(1);

/// Starts a thread whose worker answers until `stop`, and then what is still in the socket's queue. One that panics is
/// counted and replaced, and what it had received is lost. The future ends when the thread does, and panics if it did.
///
/// # Errors
///
/// If the system grants no thread, or the socket cannot be set up.
pub(super) fn start<C: Calls>(
    socket: UdpSocket,
    calls: C,
    answerer: Answerer,
    stop: CancellationToken,
) -> io::Result<impl Future<Output = ()> + use<C>> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(WAIT))?;
    let address = socket.local_addr()?;
    let is_wildcard = address.ip().is_unspecified();
    let (ended, end) = oneshot::channel::<()>();
    let work = move || {
        let run = || match address.is_ipv4() {
            true => {
                Worker::<SockaddrIn, C>::new(&socket, &calls, &answerer, is_wildcard).run(&stop)
            }
            false => {
                Worker::<SockaddrIn6, C>::new(&socket, &calls, &answerer, is_wildcard).run(&stop)
            }
        };
        // What a panic could leave half done is the worker's own, and goes with it; what they share are counters and the
        // table, which is never changed.
        let mut rest = SHORTEST_REST;
        loop {
            let started = Instant::now();
            if catch_unwind(AssertUnwindSafe(|| replaced(run))).is_ok() {
                break;
            }
            answerer.counters.count_panic(Transport::Udp);
            // Twice as long each time, if it gets nowhere: a panic that takes no datagram out of the queue comes back.
            rest = match started.elapsed() > LONGEST_REST {
                true => SHORTEST_REST,
                false => (2 * rest).min(LONGEST_REST),
            };
            thread::sleep(rest);
        }
        drop(ended);
    };
    let thread = thread::Builder::new().name("udp".to_owned()).spawn(work)?;
    Ok(async move {
        let _ = end.await; // an error says that the sender is gone, which is what we wait for
        if let Err(panic) = thread.join() {
            resume_unwind(panic);
        }
    })
}

/// The system calls of a worker: between it and the kernel, tests put failures.
pub(super) trait Calls: Send + 'static {
    /// Receives a batch.
    fn receive<'b, A: Address>(
        &self,
        socket: RawFd,
        headers: &'b mut MultiHeaders<A>,
        packets: &'b mut [[IoSliceMut<'b>; 1]; BATCH],
        flags: MsgFlags,
    ) -> Result<MultiResults<'b, A>, Errno>;

    /// Sends as many replies as go at once; an error is about the first.
    fn send<A: Address>(
        &self,
        socket: RawFd,
        headers: &mut MultiHeaders<A>,
        replies: &[[IoSlice<'_>; 1]],
        clients: &[Option<A>],
        control: &[ControlMessage<'_>],
    ) -> Result<usize, Errno>;
}

/// The calls themselves.
#[derive(Clone)]
pub(super) struct Kernel;

/// A socket, and what a batch takes. All datagrams of a socket come from addresses of one family.
struct Worker<'w, A, C> {
    socket: &'w UdpSocket,
    calls: &'w C,
    /// The socket has every address of this host, and control messages hold a datagram's.
    is_wildcard: bool,
    answerer: &'w Answerer,
    /// Sending overwrites what receiving relies on, so each has headers of its own.
    received: MultiHeaders<A>,
    sent: MultiHeaders<A>,
    packets: Box<[Packet; BATCH]>,
    /// The replies of a batch, one behind the other.
    replies: Box<[u8; BATCH * REPLY]>,
}

/// Room for a datagram. One cache line more than a page, or else all of them would compete for the same lines.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Packet([u8; QUERY + 64]);

/// A datagram of a batch.
#[derive(Clone, Copy)]
struct Datagram<A: Address> {
    /// The address of this host that it came to.
    local: A::Local,
    /// The index of its packet.
    packet: usize,
    /// Octets, of which the packet may hold fewer.
    length: usize,
    /// Where it came from.
    client: A,
}

/// The replies of a batch that are to be sent.
struct Outgoing<'r, A: Address> {
    replies: [[IoSlice<'r>; 1]; BATCH],
    clients: [Option<A>; BATCH],
    /// Where each leaves from.
    locals: [A::Local; BATCH],
    count: usize,
}

// === impl Kernel ===

impl Calls for Kernel {
    fn receive<'b, A: Address>(
        &self,
        socket: RawFd,
        headers: &'b mut MultiHeaders<A>,
        packets: &'b mut [[IoSliceMut<'b>; 1]; BATCH],
        flags: MsgFlags,
    ) -> Result<MultiResults<'b, A>, Errno> {
        recvmmsg(socket, headers, packets, flags, None)
    }

    fn send<A: Address>(
        &self,
        socket: RawFd,
        headers: &mut MultiHeaders<A>,
        replies: &[[IoSlice<'_>; 1]],
        clients: &[Option<A>],
        control: &[ControlMessage<'_>],
    ) -> Result<usize, Errno> {
        let flags = MsgFlags::MSG_DONTWAIT;
        Ok(sendmmsg(socket, headers, replies, clients, control, flags)?.count())
    }
}

// === impl Worker ===

impl<'w, A: Address, C: Calls> Worker<'w, A, C> {
    fn new(socket: &'w UdpSocket, calls: &'w C, answerer: &'w Answerer, is_wildcard: bool) -> Self {
        let headers = || MultiHeaders::preallocate(BATCH, is_wildcard.then(A::control_buffer));
        Self {
            socket,
            calls,
            is_wildcard,
            answerer,
            received: headers(),
            sent: headers(),
            packets: Box::new([Packet([0; QUERY + 64]); BATCH]),
            replies: Box::new([0; BATCH * REPLY]),
        }
    }

    fn run(mut self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match self.serve_batch(MsgFlags::MSG_WAITFORONE) {
                Ok(()) | Err(Errno::EAGAIN | Errno::EINTR) => {}
                // Linux reports failures of earlier replies here; the socket itself is well. Or there is no memory now.
                Err(error) => {
                    if self.answerer.receive_failures.is_due(unix_seconds()) {
                        warn!(%error, "Receiving over UDP failed");
                    }
                    thread::sleep(REST);
                }
            }
        }
        self.refuse_more();
        self.drain();
    }

    /// Answers what is in the queue. Whoever goes on asking, or a system without memory, cannot make it last.
    fn drain(&mut self) {
        let started = Instant::now();
        while started.elapsed() < LONGEST_DRAIN {
            match self.serve_batch(MsgFlags::MSG_DONTWAIT) {
                Ok(()) | Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break, // it is empty
                Err(error) => {
                    debug!(%error, "Receiving over UDP failed");
                    thread::sleep(REST);
                }
            }
        }
    }

    /// Receives what waits, one datagram at least, and answers it.
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
        let moment = answerer.moment(arrived.iter().flatten().count());
        let mut rest = self.replies.as_mut_slice();
        for datagram in arrived.into_iter().flatten() {
            let packet = &packets[datagram.packet].0[..datagram.length.min(QUERY)];
            let client = datagram.client.socket_address();
            let reply =
                answerer.answer(&moment, packet, Transport::Udp, client, &mut rest[..REPLY]);
            let Some(length) = reply else { continue };
            let (reply, behind) = rest.split_at_mut(length);
            outgoing.push(reply, &datagram);
            rest = behind;
        }
        drop(moment);
        let took = started.elapsed();
        answerer.counters.count_time(outgoing.count, took);
        let socket = self.socket.as_raw_fd();
        outgoing.send(
            |replies, clients, local| {
                let info = self.is_wildcard.then(|| A::packet_info(local));
                let control = info.as_ref().map(A::control_message);
                let control = control.as_slice();
                self.calls
                    .send(socket, &mut self.sent, replies, clients, control)
            },
            answerer,
        );
        Ok(())
    }

    /// Takes what waits in the queue, sorted by the addresses that it came to, and then as it came.
    fn receive(&mut self, flags: MsgFlags) -> Result<[Option<Datagram<A>>; BATCH], Errno> {
        let socket = self.socket.as_raw_fd();
        let mut slices = self.packets.each_mut().map(|p| [IoSliceMut::new(&mut p.0)]);
        let messages = self
            .calls
            .receive(socket, &mut self.received, &mut slices, flags)?;
        let mut arrived = [None; BATCH];
        let mut count = 0;
        for (packet, (to, message)) in arrived.iter_mut().zip(messages).enumerate() {
            *to = message.address.map(|client| Datagram {
                local: local_address(&message),
                packet,
                length: message.bytes,
                client,
            });
            count += 1;
        }
        if self.is_wildcard {
            // Replies of one address are sent together.
            let key = |datagram: &Option<Datagram<A>>| datagram.map(|d| (d.local, d.packet));
            arrived[..count].sort_unstable_by_key(key);
        }
        Ok(arrived)
    }

    /// Connects the socket to itself: what is queued stays, and what comes now is refused instead of being lost between
    /// the last look into the queue and the end. Replies still leave from the addresses that were asked.
    fn refuse_more(&self) {
        if let Ok(own) = self.socket.local_addr()
            && let Err(error) = self.socket.connect(own)
        {
            debug!(%error, "The socket cannot refuse what comes now");
        }
    }
}

// === impl Outgoing ===

impl<'r, A: Address> Outgoing<'r, A> {
    /// Adds the reply to a datagram.
    fn push(&mut self, reply: &'r [u8], to: &Datagram<A>) {
        self.replies[self.count] = [IoSlice::new(reply)];
        self.clients[self.count] = Some(to.client);
        self.locals[self.count] = to.local;
        self.count += 1;
    }

    /// Sends everything, replies of one address with one call.
    fn send(
        &self,
        mut send: impl FnMut(&[[IoSlice<'r>; 1]], &[Option<A>], A::Local) -> Result<usize, Errno>,
        answerer: &Answerer,
    ) {
        let mut first = 0;
        let mut has_rested = false;
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
                // The system may have memory again in a moment. Waiting once is enough: others wait as well.
                Err(error @ (Errno::ENOBUFS | Errno::ENOMEM)) if !has_rested => {
                    if answerer.send_failures.is_due(unix_seconds()) {
                        warn!(%error, "Sending over UDP failed");
                    }
                    thread::sleep(REST);
                    has_rested = true;
                    0
                }
                // What cannot be sent is left out: a client that is not reachable, or an address that this host has no
                // longer, must not keep the others waiting.
                Err(error) => {
                    debug!(%error, "A reply could not be sent");
                    answerer.counters.count_unsent();
                    1
                }
            };
        }
    }
}
