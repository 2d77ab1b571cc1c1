//! Datagrams in batches: one system call receives those that are queued, and another one sends the replies.
//!
//! A reply leaves from the address that received its query. A socket with one address does this by itself. For a
//! wildcard socket, control messages carry the address, and one call sends all replies of one address. Queries to a
//! multicast or broadcast address are dropped: many servers could receive them, and at port 5353 they belong to multicast
//! DNS (RFC 6762).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::socket::{
    MsgFlags, MultiHeaders, SockaddrIn, SockaddrIn6, SockaddrLike, recvmmsg, sendmmsg,
};
use smallvec::SmallVec;
use tracing::{debug, warn};

use super::address::{Local, PacketInfo, control_buffer, local_address};
use crate::clock::unix_seconds;
use crate::server::answerer::{Answerer, BatchContext};
use crate::server::counters::count;
use crate::server::platform::{MAX_QUERY, MAX_REPLY, RETRY_PAUSE};
use crate::wire::Transport;

/// Maximum number of datagrams of one call: large enough to make calls cheap, small enough for the nearest CPU caches.
const BATCH: usize = 32;

/// Returns a function that receives the datagrams that are queued at a socket with this address, at least one, and sends the
/// answers.
pub(in crate::server) fn exchange<'w>(
    socket: &'w UdpSocket,
    address: SocketAddr,
    answerer: &'w Answerer,
) -> Box<dyn FnMut() -> io::Result<()> + 'w> {
    if address.is_ipv4() {
        let mut batches = Batches::<SockaddrIn>::new(socket, address, answerer);
        Box::new(move || Ok(batches.exchange()?))
    } else {
        let mut batches = Batches::<SockaddrIn6>::new(socket, address, answerer);
        Box::new(move || Ok(batches.exchange()?))
    }
}

/// A socket and the buffers of a batch. All datagrams of a socket have one address family.
struct Batches<'w, A> {
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
struct Datagram<A> {
    /// The local address that received it.
    local: Local,
    /// The index of its packet.
    packet: usize,
    /// Length in octets. The packet may hold fewer.
    length: usize,
    /// Source address.
    client: A,
}

// === impl Batches ===

impl<'w, A: SockaddrLike + Copy + Into<SocketAddr>> Batches<'w, A> {
    fn new(socket: &'w UdpSocket, address: SocketAddr, answerer: &'w Answerer) -> Self {
        let is_wildcard = address.ip().is_unspecified();
        let control = || is_wildcard.then(|| control_buffer(address.is_ipv4()));
        let headers = || MultiHeaders::preallocate(BATCH, control());
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

    /// Receives and answers the queued datagrams, at least one.
    fn exchange(&mut self) -> Result<(), Errno> {
        let arrived = self.receive()?;
        let batch = self.answerer.batch_context();
        for of_address in arrived.chunk_by(|one, other| one.local == other.local) {
            self.answer(&batch, of_address);
        }
        Ok(())
    }

    /// Receives the queued datagrams, sorted by local address and then by arrival.
    fn receive(&mut self) -> Result<SmallVec<[Datagram<A>; BATCH]>, Errno> {
        let socket = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_WAITFORONE;
        let mut slices = self.packets.each_mut().map(|p| [IoSliceMut::new(&mut p.0)]);
        let messages = recvmmsg(socket, &mut self.received, &mut slices, flags, None)?;
        let mut arrived = SmallVec::new();
        for (packet, message) in messages.enumerate() {
            let Some(local) = local_address(&message) else {
                count(&self.answerer.counters.dropped);
                continue;
            };
            arrived.extend(message.address.map(|client| Datagram {
                local,
                packet,
                length: message.bytes,
                client,
            }));
        }
        if self.is_wildcard {
            arrived.sort_unstable_by_key(|one: &Datagram<A>| (one.local, one.packet));
        }
        Ok(arrived)
    }

    /// Answers the datagrams that one local address received. One call sends all replies.
    fn answer(&mut self, batch: &BatchContext, datagrams: &[Datagram<A>]) {
        let started = Instant::now();
        let mut replies = SmallVec::<[[IoSlice<'_>; 1]; BATCH]>::new();
        let mut clients = SmallVec::<[Option<A>; BATCH]>::new();
        let mut rest = self.replies.as_mut_slice();
        for datagram in datagrams {
            let packet = &self.packets[datagram.packet].0[..datagram.length.min(MAX_QUERY)];
            let client = datagram.client.into();
            let out = &mut rest[..MAX_REPLY];
            let reply = (self.answerer).answer(batch, packet, Transport::Udp, client, out);
            let Some(length) = reply else { continue };
            let (reply, behind) = rest.split_at_mut(length);
            replies.push([IoSlice::new(reply)]);
            clients.push(Some(datagram.client));
            rest = behind;
        }
        let took = started.elapsed();
        self.answerer.counters.count_time(replies.len(), took);
        let socket = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT;
        let info = datagrams.first().filter(|_| self.is_wildcard);
        let info = info.map(|datagram| PacketInfo::new(datagram.local));
        let control = info.as_ref().map(PacketInfo::control_message);
        let control = control.as_slice();
        let send = |replies: &[_], clients: &[_]| {
            Ok(sendmmsg(socket, &mut self.sent, replies, clients, control, flags)?.count())
        };
        send_all(&replies, &clients, send, self.answerer);
    }
}

/// Sends replies to their clients. `send` returns how many of the first ones it has sent.
fn send_all<'r, A>(
    replies: &[[IoSlice<'r>; 1]],
    clients: &[Option<A>],
    mut send: impl FnMut(&[[IoSlice<'r>; 1]], &[Option<A>]) -> Result<usize, Errno>,
    answerer: &Answerer,
) {
    let mut done = 0;
    let mut has_paused = false;
    while done < replies.len() {
        done += match send(&replies[done..], &clients[done..]) {
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
            // A reply that cannot be sent is skipped. An unreachable client, or a local address that was removed, must not
            // delay the other replies.
            Err(error) => {
                debug!(%error, "Failed to send a reply");
                count(&answerer.counters.unsent);
                1
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::server::tests::answerer;

    #[test]
    fn reply_that_cannot_be_sent_is_skipped_and_others_are_sent() {
        let none = [Errno::UnknownErrno; 0];
        for (errors, sent) in [
            (&none[..], 3),
            (&[Errno::ENOBUFS], 3), // sent again after a pause
            (&[Errno::ENOMEM; 2], 2),
            (&[Errno::EINVAL], 2),
        ] {
            let answerer = answerer();
            let (mut errors, mut count) = (errors.iter(), 0);
            let send = |_: &[[IoSlice<'_>; 1]], _: &[Option<SockaddrIn>]| {
                errors
                    .next()
                    .map_or(Ok(1), |error| Err(*error))
                    .inspect(|sent| count += sent)
            };
            send_all(&[[IoSlice::new(&[])]; 3], &[None; 3], send, &answerer);
            assert_eq!(count, sent);
            assert_eq!(answerer.counters.unsent.load(Relaxed), 3 - sent as u64);
        }
    }
}
