//! The addresses of DNS until the first table: they are bound, so that no other process can take them, and refuse clients, so that
//! a forwarder tries another replica at once.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use socket2::Socket;
use tokio::sync::oneshot;

/// Maximum number of connections in the queue of the kernel.
pub(super) const BACKLOG: i32 = 1024;

/// Binds a UDP address.
type Bind = fn(SocketAddr) -> io::Result<UdpSocket>;
/// Gives a bound socket to those who serve it.
type Give = Box<dyn FnOnce(UdpSocket) -> io::Result<()> + Send>;

/// The bound addresses that refuse clients. TCP does not listen.
#[derive(Default)]
pub(super) struct Opening {
    tcp: Vec<(Socket, oneshot::Sender<TcpListener>)>,
    udp: Vec<ClosedUdp>,
}

/// A UDP address that refuses clients. Its socket is connected to itself, and cannot serve later: Linux never forgets the peer of an
/// IPv6 socket.
struct ClosedUdp {
    socket: UdpSocket,
    address: SocketAddr,
    bind: Bind,
    give: Give,
}

/// Gets the listener when the address is opened, or an error when the server stops before.
pub(super) type Opened = oneshot::Receiver<TcpListener>;

// === impl Opening ===

impl Opening {
    /// Adds a TCP socket, which does not listen yet.
    pub(super) fn add_tcp(&mut self, socket: Socket) -> Opened {
        let (listener, opened) = oneshot::channel();
        self.tcp.push((socket, listener));
        opened
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
        for (socket, listener) in self.tcp.drain(..) {
            socket.listen(BACKLOG)?;
            let _ = listener.send(socket.into()); // nobody serves it if the server stops
        }
        for closed in self.udp.drain(..) {
            drop(closed.socket);
            (closed.give)((closed.bind)(closed.address)?)?;
        }
        Ok(())
    }
}
