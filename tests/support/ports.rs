//! Free ports for programs that cannot choose a port themselves.

use std::net::{TcpListener, UdpSocket};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// The range ends below the kernel's ephemeral ports. The source port of a query would block a port of that range, and
/// a client that retries against a closed port of that range can connect to itself.
const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

/// Returns a loopback port that is free over UDP and TCP. Never returns the same port twice.
pub fn free_port() -> u16 {
    static NEXT: OnceLock<AtomicU16> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicU16::new(fastrand::u16(..COUNT)));
    let is_free = |port: &u16| {
        let address = ("127.0.0.1", *port);
        UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok()
    };
    let mut ports = (0..COUNT).map(|_| FIRST + next.fetch_add(1, Ordering::Relaxed) % COUNT);
    ports
        .find(is_free)
        .expect("a port that is free over UDP and TCP")
}
