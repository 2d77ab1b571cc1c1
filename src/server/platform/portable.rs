//! Plain calls that every system has, in place of those of Linux.

use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;
use std::{env, io};

use tracing::warn;

use super::{Figure, MAX_QUERY, MAX_REPLY};
use crate::clock::unix_seconds;
use crate::server::answerer::Answerer;
use crate::server::counters::count;
use crate::wire::Transport;

/// Returns a function that receives a datagram and sends the answer. The system chooses the address that it leaves from.
pub(in crate::server) fn exchange(
    socket: &UdpSocket,
    _: SocketAddr,
    answerer: &Answerer,
) -> impl FnMut() -> io::Result<()> {
    let mut packet = vec![0; MAX_QUERY];
    let mut reply = vec![0; MAX_REPLY];
    move || {
        let (length, client) = socket.recv_from(&mut packet)?;
        let started = Instant::now();
        let packet = &packet[..length];
        let batch = answerer.batch_context();
        if let Some(length) = answerer.answer(&batch, packet, Transport::Udp, client, &mut reply) {
            answerer.counters.count_time(1, started.elapsed());
            if let Err(error) = socket.send_to(&reply[..length], client) {
                if answerer.shared.send_failures.is_due(unix_seconds()) {
                    warn!(%error, "Sending over UDP failed");
                }
                count(&answerer.counters.unsent);
            }
        }
        Ok(())
    }
}

/// The address that receives a datagram is not known.
pub(in crate::server) fn request_local_addresses<S>(_: &S, _: SocketAddr) -> io::Result<()> {
    Ok(())
}

/// The path MTU is not ignored.
pub(in crate::server) fn ignore_path_mtu<S>(_: &S, _: SocketAddr) -> io::Result<()> {
    Ok(())
}

/// It is not known, and a connection is closed without waiting for its last replies.
pub(in crate::server) fn has_unsent<S>(_: &S) -> bool {
    false
}

/// Any failure may be one.
pub(in crate::server) fn is_exhaustion(_: &io::Error) -> bool {
    true
}

/// The limit is not known.
pub(in crate::server) fn raise_open_files() -> io::Result<u64> {
    Ok(u64::MAX)
}

/// A thread keeps its priority.
pub(crate) fn lower_priority() -> io::Result<()> {
    Ok(())
}

/// Returns the name of this host as shells set it.
pub(crate) fn host_name() -> String {
    env::var("HOSTNAME").unwrap_or_else(|_| "localhost".to_owned())
}

/// Nothing is known.
pub(crate) fn process_usage() -> Vec<Figure> {
    Vec::new()
}
