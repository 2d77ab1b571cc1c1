//! Binds the listeners. Given addresses must work. A default address is skipped if the host does not support its
//! family.
//!
//! The addresses of DNS are bound at the start, so that no other process can take them. Until the first table they refuse clients,
//! so that a forwarder tries another replica at once: TCP does not listen, and UDP is connected to itself. Over UDP, that holds for
//! about one query a second, because the kernel limits ICMP errors. A query without one waits for the timeout of the forwarder.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tracing::{info, warn};

use super::listen_address::ListenAddress;
use super::platform::{ignore_path_mtu, request_local_addresses};
use super::udp::refuse;

/// Maximum number of connections in the queue of the kernel.
pub(super) const BACKLOG: i32 = 1024;

/// Requested receive buffer of UDP in octets. It holds the datagrams that arrive while the server is busy or not
/// scheduled. The kernel may grant less.
const UDP_BUFFER: usize = 4 << 20;

/// Kernel buffers of a TCP connection in octets. The kernel doubles them for its own data. By default, they hold megabytes
/// for each client that sends queries and reads nothing, and they count as memory of the pod. The first one holds half of
/// the longest reply, the second one a few of the longest queries.
const TCP_SEND_BUFFER: usize = 32 << 10;
const TCP_RECEIVE_BUFFER: usize = 16 << 10;

/// The error of a failed bind.
#[derive(Debug, thiserror::Error)]
#[error("cannot bind the {listener} listener to {address} ({}): {source}{}", self.flag(), self.remedy())]
pub struct BindError {
    /// Name of the listener: `dns`, `admin`, `api`, `tls`, `quic`.
    pub listener: &'static str,
    /// The requested address.
    pub address: SocketAddr,
    /// The error of the system.
    #[source]
    pub source: io::Error,
}

/// A bound DNS address. It refuses clients until it is opened.
#[derive(Debug)]
pub struct DnsListener {
    /// The bound address. If port 0 was requested, the system chose the port.
    pub address: SocketAddr,
    pub(super) udp: ClosedUdp,
    pub(super) tcp: Socket,
}

/// How often, and how long apart, a UDP address is bound again if it is taken when it opens.
const OPEN_TRIES: u32 = 50;
const OPEN_PAUSE: Duration = Duration::from_millis(10);

/// A UDP address that refuses clients. Its socket cannot serve later: Linux never forgets the peer of an IPv6 socket.
#[derive(Debug)]
pub(super) struct ClosedUdp {
    socket: UdpSocket,
    address: SocketAddr,
}

// === Binding ===

/// Binds TCP listeners.
///
/// # Errors
///
/// If an address cannot be bound.
pub fn bind_tcp(
    addresses: &[ListenAddress],
    listener: &'static str,
) -> Result<Vec<TcpListener>, BindError> {
    let open = |address| {
        let (socket, bound) = tcp(address)?;
        Ok((listen(socket)?, bound))
    };
    bind(addresses, listener, open)
}

/// Binds UDP and TCP on each address, which refuse clients until they are opened.
///
/// # Errors
///
/// If an address cannot be bound.
pub fn bind_dns(addresses: &[ListenAddress]) -> Result<Vec<DnsListener>, BindError> {
    bind(addresses, "dns", dns)
}

/// Binds each address of a listener with `bind`, which also returns the bound one, for the log. If an entry stands for both families, an
/// address of an unsupported family is skipped and logged.
///
/// # Errors
///
/// If an address cannot be bound.
pub(super) fn bind<T>(
    addresses: &[ListenAddress],
    listener: &'static str,
    bind: impl Fn(SocketAddr) -> io::Result<(T, SocketAddr)>,
) -> Result<Vec<T>, BindError> {
    let failed = |address, source| BindError {
        listener,
        address,
        source,
    };
    let mut bound = Vec::new();
    for given in addresses {
        let has_both_families = !matches!(given, ListenAddress::At(_));
        let mut missing = None;
        let before = bound.len();
        for address in given.addresses() {
            match bind(address) {
                Ok(listener) => bound.push(listener),
                Err(error) if has_both_families && is_missing_family(&error) => {
                    warn!(listener, %address, %error, "Skipped an address of an unsupported family");
                    missing = Some(failed(address, error));
                }
                Err(error) => return Err(failed(address, error)),
            }
        }
        if let Some(missing) = missing.filter(|_| bound.len() == before) {
            return Err(missing);
        }
    }
    for (_, address) in &bound {
        info!(listener, %address, "Listening");
    }
    Ok(bound.into_iter().map(|(socket, _)| socket).collect())
}

// === impl BindError ===

impl BindError {
    /// Returns the flag or the setting of the listener.
    fn flag(&self) -> String {
        match self.listener {
            "dns" => "--listen".to_owned(),
            "tls" | "quic" => format!("the setting listen.{}", self.listener),
            other => format!("--{other}-listen"),
        }
    }

    /// Returns what to do, if the cause shows it.
    fn remedy(&self) -> String {
        /// Ports below this one need a privilege by default.
        const FIRST_FREE_PORT: u16 = 1024;
        let flag = self.flag();
        match self.source.kind() {
            io::ErrorKind::AddrInUse => format!(
                "; another process, or another listener of this one, uses the port: stop it, or choose another port with {flag}"
            ),
            io::ErrorKind::PermissionDenied if self.address.port() < FIRST_FREE_PORT => format!(
                "; a port below {FIRST_FREE_PORT} needs root or the capability NET_BIND_SERVICE: choose a higher port \
                 with {flag}, such as 5353"
            ),
            io::ErrorKind::AddrNotAvailable => {
                "; no network interface of this host has this address".to_owned()
            }
            _ => String::new(),
        }
    }
}

fn is_missing_family(error: &io::Error) -> bool {
    // EAFNOSUPPORT has no `ErrorKind`; these are its numbers on Linux and macOS. EADDRNOTAVAIL is the error of a disabled family.
    error.kind() == io::ErrorKind::AddrNotAvailable || matches!(error.raw_os_error(), Some(97 | 47))
}

/// Binds TCP. The socket does not listen yet.
pub(super) fn tcp(address: SocketAddr) -> io::Result<(Socket, SocketAddr)> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // Without it, closed connections of the previous server would block the port.
    socket.set_reuse_address(true)?;
    // Connections inherit the options of the listener. Its receive buffer determines their windows.
    socket.set_recv_buffer_size(TCP_RECEIVE_BUFFER)?;
    socket.set_send_buffer_size(TCP_SEND_BUFFER)?;
    socket.set_tcp_nodelay(true)?;
    prepare(&socket, address)?;
    let bound = socket.local_addr()?.as_socket();
    Ok((socket, bound.unwrap_or(address)))
}

/// Makes a bound TCP socket listen.
///
/// # Errors
///
/// If a system call fails.
pub(super) fn listen(socket: Socket) -> io::Result<TcpListener> {
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Binds UDP. All workers share one socket, so that any free worker takes the next datagram. SO_REUSEPORT would bind
/// each client port to one worker, and forwarders use few ports. With one socket, a second server on the port is an
/// error.
fn udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    socket.set_recv_buffer_size(UDP_BUFFER)?;
    if let Err(error) = ignore_path_mtu(&socket, address) {
        warn!(%address, %error, "Cannot ignore the path MTU: replies over UDP may be fragmented");
    }
    request_local_addresses(&socket, address)?;
    prepare(&socket, address)?;
    Ok(socket.into())
}

fn prepare(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())
}

/// Binds UDP and TCP on one port. If the system chooses the port, it may be free for UDP only, or somebody may take it, so several
/// tries are needed.
fn dns(address: SocketAddr) -> io::Result<(DnsListener, SocketAddr)> {
    let tries = if address.port() == 0 { 16 } else { 1 };
    let bind = || {
        let (udp, address) = ClosedUdp::bind(address)?;
        let (tcp, _) = tcp(address)?;
        Ok((DnsListener { address, udp, tcp }, address))
    };
    (1..tries).fold(bind(), |bound, _| bound.or_else(|_: io::Error| bind()))
}

// === impl ClosedUdp ===

impl ClosedUdp {
    /// Binds UDP, and refuses datagrams.
    pub(super) fn bind(address: SocketAddr) -> io::Result<(Self, SocketAddr)> {
        let socket = udp(address)?;
        let address = socket.local_addr()?;
        refuse(&socket)?;
        Ok((Self { socket, address }, address))
    }

    /// Binds another socket in its place, which serves clients. A child process has a copy of the first one until it executes its
    /// program, such as a credential plugin.
    pub(super) fn open(self) -> io::Result<UdpSocket> {
        drop(self.socket);
        for _ in 0..OPEN_TRIES {
            match udp(self.address) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => thread::sleep(OPEN_PAUSE),
                opened => return opened,
            }
        }
        udp(self.address)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use rustix::net::sockopt::{
        Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, ip_mtu_discover, ipv6_mtu_discover,
    };

    use super::*;

    /// RFC 9715 section 3.1.
    #[test]
    fn udp_sockets_ignore_the_path_mtu() {
        let v4 = udp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        assert_eq!(ip_mtu_discover(v4).unwrap(), Ipv4PathMtuDiscovery::OMIT);
        let v6 = udp(SocketAddr::from((Ipv6Addr::LOCALHOST, 0))).unwrap();
        assert_eq!(ipv6_mtu_discover(v6).unwrap(), Ipv6PathMtuDiscovery::OMIT);
    }
}
