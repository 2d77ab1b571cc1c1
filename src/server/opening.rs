//! The addresses of DNS until the first table: they are bound, so that no other process can take them, and refuse clients, so that
//! a forwarder tries another replica at once.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use socket2::Socket;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Maximum number of connections in the queue of the kernel.
pub(super) const BACKLOG: i32 = 1024;

/// Binds a UDP address.
type Bind = fn(SocketAddr) -> io::Result<UdpSocket>;
/// Gives a bound socket to those who serve it.
type Give = Box<dyn FnOnce(UdpSocket) -> io::Result<()> + Send>;

/// The bound addresses that refuse clients. TCP does not listen.
#[derive(Default)]
pub(super) struct Opening {
    tcp: Vec<Socket>,
    udp: Vec<ClosedUdp>,
    is_open: watch::Sender<bool>,
}

/// A UDP address that refuses clients. Its socket is connected to itself, and cannot serve later: Linux never forgets the peer of an
/// IPv6 socket.
struct ClosedUdp {
    socket: UdpSocket,
    address: SocketAddr,
    bind: Bind,
    give: Give,
}

/// Waits until the addresses are open. Clones share it.
#[derive(Clone)]
pub(super) struct Opened(watch::Receiver<bool>);

// === impl Opening ===

impl Opening {
    /// Adds a TCP socket, which does not listen yet.
    pub(super) fn add_tcp(&mut self, socket: &Socket) -> io::Result<Opened> {
        self.tcp.push(socket.try_clone()?);
        Ok(Opened(self.is_open.subscribe()))
    }

    /// Adds a UDP address with the socket that [refuses](super::udp::refuse) its clients. `bind` makes another one in its place, which
    /// `give` gets.
    pub(super) fn add_udp(
        &mut self,
        (socket, address): (UdpSocket, SocketAddr),
        bind: Bind,
        give: impl FnOnce(UdpSocket) -> io::Result<()> + Send + 'static,
    ) {
        self.udp.push(ClosedUdp {
            socket,
            address,
            bind,
            give: Box::new(give),
        });
    }

    /// Opens the addresses: clients get answers from now on.
    pub(super) fn open(&mut self) -> io::Result<()> {
        for socket in self.tcp.drain(..) {
            socket.listen(BACKLOG)?;
        }
        for closed in self.udp.drain(..) {
            drop(closed.socket);
            (closed.give)((closed.bind)(closed.address)?)?;
        }
        self.is_open.send_replace(true);
        Ok(())
    }
}

// === impl Opened ===

impl Opened {
    /// Waits, and returns the listener of a TCP socket. `None` if it is never open: the [`Opening`] was dropped before.
    pub(super) async fn listener(mut self, socket: Socket) -> Option<TcpListener> {
        let is_open = self.0.wait_for(|is_open| *is_open).await.is_ok();
        is_open
            .then(|| TcpListener::from_std(socket.into()).ok())
            .flatten()
    }
}
