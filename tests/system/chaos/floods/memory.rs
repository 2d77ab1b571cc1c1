//! Clients that read nothing, on all listeners: they keep all connections open at once, and query a name whose answer fills a
//! message.

use std::io::{self, ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use support::server::Server;
use support::wire::frame;

use super::harness::{Flood, Listeners, question};
use super::tls::{self, push};
use super::{attacker, count_ended, in_threads, socket};

/// Connections from each address: half of the default of `limits.connections`.
const EACH: u32 = 128;
/// Addresses of attackers. Half of them attack TCP, and half TLS: together they may have all connections of both limits.
const ATTACKERS: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens a connection of an attacker, whose kernel receives as little as possible.
fn open(to: SocketAddr, number: u32) -> Option<TcpStream> {
    let socket = socket(attacker(number));
    socket.set_recv_buffer_size(1).unwrap();
    socket.connect_timeout(&to.into(), PATIENCE).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    Some(socket.into())
}

/// Keeps all connections of an attacker open, and sends queries over them. Returns the number of connections.
fn attack<S>(
    until: Instant,
    mut open: impl FnMut() -> Option<S>,
    mut send: impl FnMut(&mut S) -> bool,
) -> u64 {
    let mut streams = Vec::new();
    let mut opened = 0;
    while Instant::now() < until {
        streams.retain_mut(&mut send);
        for _ in 0..32.min(EACH as usize - streams.len()) {
            streams.extend(open());
            opened += 1;
        }
    }
    opened
}

/// Attacks the listener that belongs to the number of a thread: TCP or TLS.
fn attack_listener(server: &Server, number: u32, until: Instant) -> u64 {
    let framed = frame(&question("most.prod.global")).repeat(64);
    if number < ATTACKERS / 2 {
        let open = || {
            let stream = open(server.dns, number)?;
            stream.set_nonblocking(true).unwrap();
            Some(stream)
        };
        return attack(until, open, |stream| is_open(stream.write(&framed)));
    }
    let client = tls::client();
    let open = || {
        let stream = open(server.address("tls"), number)?;
        let stream = client.handshake(stream).ok()?;
        stream.sock.set_nonblocking(true).unwrap();
        Some(stream)
    };
    attack(until, open, |stream| push(stream, &framed))
}

/// Returns whether a non-blocking connection is open after a write.
fn is_open(written: io::Result<usize>) -> bool {
    match written {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

#[test]
fn slow_readers_do_not_exceed_the_memory_limit() {
    Flood::new(Listeners::Encrypted, "slow readers").run(|server, until| {
        let [opened] = in_threads(ATTACKERS, |number| [attack_listener(server, number, until)]);
        let [slow, replaced] = ["slow", "replaced"].map(|reason| count_ended(server, reason));
        // Honest clients that connect replace the readers, often before these count as slow.
        assert!(slow + replaced > 0, "no connection ended");
        format!("{opened} connections over TCP and TLS, {slow} closed as slow, {replaced} replaced")
    });
}
