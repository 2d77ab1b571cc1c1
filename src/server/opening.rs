//! The addresses of DNS until the first table: they are bound, so that no other process can take them, and refuse clients, so that
//! a forwarder tries another replica at once.

use std::io;
use std::net::UdpSocket;

use rustix::net::connect_unspec;
use socket2::Socket;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Maximum number of connections in the queue of the kernel.
pub(super) const BACKLOG: i32 = 1024;

/// The bound sockets that refuse clients. TCP does not listen, and UDP is connected to itself.
#[derive(Default)]
pub(super) struct Opening {
    tcp: Vec<Socket>,
    udp: Vec<UdpSocket>,
    is_open: watch::Sender<bool>,
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

    /// Adds a UDP socket that [refuses](super::udp::refuse) clients.
    pub(super) fn add_udp(&mut self, socket: &UdpSocket) -> io::Result<Opened> {
        self.udp.push(socket.try_clone()?);
        Ok(Opened(self.is_open.subscribe()))
    }

    /// Opens the addresses: clients get answers from now on.
    pub(super) fn open(&mut self) -> io::Result<()> {
        for socket in self.tcp.drain(..) {
            socket.listen(BACKLOG)?;
        }
        for socket in self.udp.drain(..) {
            connect_unspec(&socket)?;
        }
        self.is_open.send_replace(true);
        Ok(())
    }
}

// === impl Opened ===

impl Opened {
    /// Waits. Returns whether the addresses are open: they never are if the [`Opening`] is dropped before.
    pub(super) async fn wait(mut self) -> bool {
        self.0.wait_for(|is_open| *is_open).await.is_ok()
    }

    /// Waits, and returns the listener of a TCP socket. `None` if it is never open.
    pub(super) async fn listener(self, socket: Socket) -> Option<TcpListener> {
        match self.wait().await {
            true => TcpListener::from_std(socket.into()).ok(),
            false => None,
        }
    }
}
