//! The DNS listeners. UDP uses worker threads, TCP uses tasks; both call `Answerer::answer`. DNS over TLS and QUIC are
//! in [`encrypted`].
//!
//! This module makes no DNS decisions: it passes messages to [`wire`](crate::wire) and sends the replies. A listener continues after
//! a failed `accept` or `send`. A query never terminates the process.

mod accept;
mod answerer;
pub mod bind;
mod close;
mod connections;
pub mod counters;
pub mod descriptors;
pub mod encrypted;
pub mod framing;
mod http;
mod listen_address;
pub(crate) mod platform;
mod refused;
mod socket;
mod tcp;
pub mod thread;
mod udp;

use std::future::pending;
use std::io;
use std::mem::take;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub use answerer::Answerer;
pub use bind::{DnsListener, bind_dns, bind_tcp};
pub use encrypted::{Certificate, Encrypted};
pub use http::{LocalAddress, serve_http};
pub use listen_address::ListenAddress;
pub use refused::RefusedClients;

use accept::accept;
use bind::listen;
use connections::{ConnectionPlace, Connections};
use socket::Socket;
use tcp::Connection;

use crate::heartbeat::Heartbeat;
use crate::wire::Transport;

/// The server. Its addresses refuse clients until it is opened.
pub struct DnsServer {
    closed: Vec<DnsListener>,
    closed_encrypted: Option<Encrypted>,
    answerer: Answerer,
    /// Number of threads for each UDP socket.
    udp_workers: usize,
    /// Maximum number of connections over TCP, and of those over TLS.
    max_connections: usize,
    listeners: JoinSet<()>,
    /// The connections over TCP, and those over TLS.
    connections: Vec<Arc<Connections>>,
    stop: CancellationToken,
}

/// The loops that must make progress, with their names.
type Heartbeats = Vec<(String, Heartbeat)>;

// === impl DnsServer ===

impl DnsServer {
    /// Creates a server. `udp_workers` is the number of threads for each UDP socket, `max_connections` the maximum number of
    /// connections over TCP, and of those over TLS.
    pub fn new(
        listeners: Vec<DnsListener>,
        encrypted: Option<Encrypted>,
        answerer: Answerer,
        udp_workers: usize,
        max_connections: usize,
    ) -> Self {
        let stop = encrypted.as_ref().map(|one| one.certificate.stop.clone());
        Self {
            stop: stop.unwrap_or_default(),
            closed: listeners,
            closed_encrypted: encrypted,
            answerer,
            udp_workers,
            max_connections,
            listeners: JoinSet::new(),
            connections: Vec::new(),
        }
    }

    /// Opens the addresses: there is something to answer. Returns the heartbeats of the UDP workers and of the thread of encrypted
    /// connections, with their names.
    ///
    /// # Errors
    ///
    /// If an address cannot be opened, or the system has no thread for a listener.
    pub(crate) fn open(&mut self) -> io::Result<Heartbeats> {
        let mut heartbeats = Heartbeats::new();
        let (answerer, connections) = self.add_connections(Transport::Tcp);
        for DnsListener { address, udp, tcp } in take(&mut self.closed) {
            let udp = udp.open()?;
            for number in 1..=self.udp_workers {
                let heartbeat = Heartbeat::default();
                let stop = self.stop.clone();
                let socket = udp.try_clone()?;
                let answerer = self.answerer.for_thread();
                let work = udp::worker(socket, address, answerer, heartbeat.clone(), stop)?;
                self.listeners.spawn(thread::start("udp", work)?);
                heartbeats.push((format!("UDP worker {number} of {address}"), heartbeat));
            }
            let answerer = answerer.clone();
            let stop = self.stop.clone();
            let serve = move |place: Arc<ConnectionPlace>| {
                let answerer = answerer.clone();
                let stop = stop.clone();
                let stream = Socket::new(place.clone(), usize::MAX);
                Connection::new(stream, place, Transport::Tcp, answerer, stop).serve()
            };
            let connections = connections.clone();
            let stop = self.stop.clone();
            let listener = listen(tcp)?;
            self.listeners
                .spawn(accept(listener, connections, stop, serve));
        }
        if let Some(encrypted) = self.closed_encrypted.take() {
            let heartbeat = Heartbeat::default();
            let (answerer, connections) = self.add_connections(Transport::Tls);
            let thread = encrypted.start(answerer, connections, heartbeat.clone())?;
            self.listeners.spawn(thread);
            heartbeats.push(("the runtime of encrypted connections".to_owned(), heartbeat));
        }
        Ok(heartbeats)
    }

    /// Returns what all connections of a transport share.
    fn add_connections(&mut self, transport: Transport) -> (Arc<Answerer>, Arc<Connections>) {
        let answerer = Arc::new(self.answerer.for_thread());
        let access = answerer.shared.settings.access.clone();
        let counters = answerer.counters.clone();
        let connections = Connections::new(self.max_connections, access, transport, counters);
        let connections = Arc::new(connections);
        self.connections.push(connections.clone());
        (answerer, connections)
    }

    /// Lifts the limits of connections when the server is going to stop. Each accepted connection is then answered.
    pub fn lift_limits(&self) {
        self.connections.iter().for_each(|one| one.lifted.cancel());
    }

    /// Waits for a listener that ends before [`Self::stop`], and returns why it ended. A server that no longer listens
    /// on one transport must not look alive.
    pub async fn wait_for_listener_end(&mut self) -> String {
        match self.listeners.join_next().await {
            Some(Err(error)) => error.to_string(),
            Some(Ok(())) => "without an error".to_owned(),
            None => pending().await, // not open yet
        }
    }

    /// Stops the listeners after they have answered the messages in the socket queues.
    pub async fn stop(mut self) {
        self.stop.cancel();
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
