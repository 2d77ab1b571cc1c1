//! The DNS listeners. UDP uses worker threads, TCP uses tasks; both call `Answerer::answer`. DNS over TLS and QUIC are
//! in [`encrypted`].
//!
//! This module makes no DNS decisions: it passes messages to [`wire`](crate::wire) and sends the replies. A listener continues after
//! a failed `accept` or `send`. A query never terminates the process.

mod accept;
mod answerer;
pub mod bind;
mod connections;
pub mod counters;
pub mod descriptors;
pub mod encrypted;
pub mod framing;
mod http;
mod listen_address;
mod opening;
pub(crate) mod platform;
mod refused;
mod socket;
mod tcp;
pub mod thread;
mod time_limits;
mod udp;

use std::io;
use std::mem::take;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, mpsc};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub use answerer::Answerers;
pub use bind::{DnsListener, bind_dns, bind_tcp};
pub use encrypted::{Certificate, Encrypted};
pub use http::{Lifetime, LocalAddress, serve_http};
pub use listen_address::ListenAddress;
pub use refused::RefusedClients;
pub use time_limits::TCP_IDLE;

use connections::Connections;
use opening::Opening;

use crate::heartbeat::Heartbeat;

/// The running server.
pub struct DnsServer {
    listeners: JoinSet<()>,
    /// The connections over TCP, and those over TLS.
    connections: Vec<Connections>,
    /// The heartbeats of the UDP workers and of the thread of encrypted connections, with their names.
    heartbeats: Vec<(String, Heartbeat)>,
    opening: Opening,
    stop: CancellationToken,
}

// === impl DnsServer ===

impl DnsServer {
    /// Starts all listeners. They refuse clients until [`Self::open`]. `udp_workers` is the number of threads for each UDP socket,
    /// `connections` the maximum number of TCP connections.
    ///
    /// # Errors
    ///
    /// If the system has no thread or no descriptor for a worker.
    pub fn start(
        listeners: Vec<DnsListener>,
        answerers: &Answerers,
        udp_workers: usize,
        connections: usize,
    ) -> io::Result<Self> {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let over_tcp = Arc::new(answerers.create());
        let connections = Connections::new(connections, over_tcp.counters.clone());
        let (mut heartbeats, mut opening) = (Vec::new(), Opening::default());
        for DnsListener { udp, tcp, address } in listeners {
            let mut workers = Vec::new();
            for number in 1..=udp_workers {
                let (worker, socket) = mpsc::channel();
                workers.push(worker);
                let (answerer, stop) = (answerers.create(), stop.clone());
                let (work, heartbeat) = udp::worker(socket, address, answerer, stop);
                tasks.spawn(thread::start("udp", work)?);
                heartbeats.push((format!("UDP worker {number} of {address}"), heartbeat));
            }
            opening.add_udp((udp, address), bind::udp, move |socket| {
                udp::make_blocking(&socket)?;
                for worker in workers {
                    let _ = worker.send(socket.try_clone()?); // it has ended if the server stops
                }
                Ok(())
            });
            tasks.spawn(tcp::serve(
                opening.add_tcp(tcp),
                over_tcp.clone(),
                connections.clone(),
                stop.clone(),
            ));
        }
        Ok(Self {
            listeners: tasks,
            connections: vec![connections],
            heartbeats,
            opening,
            stop,
        })
    }

    /// Starts the encrypted listeners with at most this number of TLS connections.
    ///
    /// # Errors
    ///
    /// If the system has no thread for them.
    pub fn start_encrypted(
        &mut self,
        listeners: Encrypted,
        answerers: &Answerers,
        connections: usize,
    ) -> io::Result<()> {
        let answerer = Arc::new(answerers.create());
        let connections = Connections::new(connections, answerer.counters.clone());
        let heartbeat = Heartbeat::default();
        let (of_thread, stop) = (heartbeat.clone(), self.stop.clone());
        let opening = &mut self.opening;
        let thread = listeners.start(&answerer, &connections, opening, of_thread, stop)?;
        self.listeners.spawn(thread);
        self.connections.push(connections);
        let name = "the runtime of encrypted connections".to_owned();
        self.heartbeats.push((name, heartbeat));
        Ok(())
    }

    /// Opens the addresses: there is something to answer.
    ///
    /// # Errors
    ///
    /// If an address cannot be opened.
    pub fn open(&mut self) -> io::Result<()> {
        self.opening.open()
    }

    /// Lifts the limits of connections when the server is going to stop. Each accepted connection is then answered.
    pub fn lift_limits(&self) {
        self.connections.iter().for_each(Connections::lift_limit);
    }

    /// Removes and returns the heartbeats of the threads, with their names.
    pub(crate) fn take_heartbeats(&mut self) -> Vec<(String, Heartbeat)> {
        take(&mut self.heartbeats)
    }

    /// Waits for a listener that ends before [`Self::stop`], and returns why it ended. A server that no longer listens
    /// on one transport must not look alive.
    pub async fn wait_for_listener_end(&mut self) -> String {
        match self.listeners.join_next().await {
            Some(Err(error)) => error.to_string(),
            Some(Ok(())) | None => "without an error".to_owned(),
        }
    }

    /// Stops the listeners after they have answered the messages in the socket queues.
    pub async fn stop(mut self) {
        self.stop.cancel();
        drop(take(&mut self.opening)); // listeners that still wait end
        while let Some(ended) = self.listeners.join_next().await {
            if let Err(error) = ended {
                warn!(%error, "A DNS listener ended with an error");
            }
        }
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.stop.cancel(); // no runtime ends the worker threads
    }
}

/// The port that resolvers use for the name servers of a zone (RFC 1035 section 4.2).
pub const NS_PORT: u16 = 53;

/// Returns the addresses of `ns.dns.Z` without duplicates: the given ones, or those of the listeners that resolvers can
/// use.
///
/// Resolvers cannot use a wildcard address or a port other than 53. On another host, a loopback address means that
/// host, so it is used only if there is no other address. Without any address, the name has no record. That is better
/// than a wrong record: a resolver notices it at once.
pub fn ns_addresses(given: &[IpAddr], listeners: &[SocketAddr]) -> Vec<IpAddr> {
    let mut addresses = given.to_vec();
    if addresses.is_empty() {
        let usable = listeners.iter().filter(|bound| bound.port() == NS_PORT);
        addresses.extend(usable.map(SocketAddr::ip));
        addresses.retain(|ip| !ip.is_unspecified());
        if addresses.iter().any(|ip| !ip.is_loopback()) {
            addresses.retain(|ip| !ip.is_loopback());
        }
    }
    addresses.sort();
    addresses.dedup();
    addresses
}

#[cfg(test)]
pub(crate) mod tests;
