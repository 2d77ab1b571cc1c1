//! The listeners of the DNS port: plain loops on UDP and TCP around one function, `Answerer::answer`. DNS over TLS and
//! over HTTPS come in through [`encrypted`].
//!
//! Nothing is decided here: a message goes to [`wire`], what comes back is sent. A listener survives
//! failing `accept` and failing `send`; a query never takes the process down.

pub mod bind;
pub mod encrypted;
mod tcp;
mod udp;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub use bind::{Addresses, BindError, DnsListener};
pub use encrypted::{Certificate, Encrypted};

use crate::source::unix_seconds;
use crate::table::publish::Reader;
use crate::telemetry::Counters;
use crate::wire::{self, Arrival, Query, Reject, Settings, Transport};

/// How long a TCP connection may be idle: longer than the ten seconds for which CoreDNS keeps one for reuse.
pub const TCP_IDLE: Duration = Duration::from_secs(30);

/// Makes replies out of messages, for every listener.
pub struct Answerer {
    settings: Settings,
    reader: Reader,
    counters: Arc<Counters>,
    turn: AtomicU32,
    /// Unix seconds of the last warning of its kind.
    last_overflow: AtomicU32,
}

/// The running server.
pub struct DnsServer {
    listeners: JoinSet<()>,
    stop: CancellationToken,
}

// === impl Answerer ===

impl Answerer {
    /// Makes an answerer.
    pub fn new(settings: Settings, reader: Reader, counters: Arc<Counters>) -> Self {
        // Replicas that start together must not rotate in step.
        Self {
            settings,
            reader,
            counters,
            turn: AtomicU32::new(fastrand::u32(..)),
            last_overflow: AtomicU32::new(0),
        }
    }

    /// Writes the reply to a message into `out` and returns its length; `None`: nothing is sent.
    fn answer(
        &self,
        packet: &[u8],
        over: Transport,
        client: SocketAddr,
        out: &mut [u8],
    ) -> Option<usize> {
        let started = Instant::now();
        if client.port() == 0 || client.ip().is_unspecified() {
            self.counters.count_dropped(); // a forged source that nothing can be sent to
            return None;
        }
        let query = wire::parse(packet);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let arrival = Arrival {
            over,
            client: client.ip(),
            turn,
            time: unix_seconds(),
        };
        let now = self.reader.load();
        let Some(reply) = wire::respond(&self.settings, &now, &query, &arrival) else {
            self.counters.count_dropped();
            return None;
        };
        let written = wire::write(&reply, &query, packet, out);
        let rtype = match &query {
            Ok(query) => Some(query.rtype),
            Err(Reject::Drop | Reject::With { .. }) => None,
        };
        self.counters.count_request(over, rtype);
        self.counters.count_response(reply.rcode, started.elapsed());
        if written.is_truncated {
            self.counters.count_truncated(over);
            if over == Transport::Tcp
                && let Ok(query) = &query
            {
                self.warn_of_overflow(query, arrival.time);
            }
        }
        Some(written.length)
    }

    /// Warns of an answer that no message can hold, at most once a minute: a client can ask as often as it likes.
    fn warn_of_overflow(&self, query: &Query, time: u32) {
        let last = self.last_overflow.load(Ordering::Relaxed);
        if time.abs_diff(last) >= 60 {
            self.last_overflow.store(time, Ordering::Relaxed);
            warn!(name = %query.name, rtype = %query.rtype, "An answer does not fit 65,535 octets: some of it is left out");
        }
    }
}

// === impl DnsServer ===

impl DnsServer {
    /// Starts answering on every listener.
    pub fn start(listeners: Vec<DnsListener>, answerer: Answerer) -> Self {
        let answerer = Arc::new(answerer);
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        for DnsListener { udp, tcp, .. } in listeners {
            tasks.spawn(udp::serve(udp, answerer.clone(), stop.clone()));
            tasks.spawn(tcp::serve(tcp, answerer.clone(), stop.clone()));
        }
        Self {
            listeners: tasks,
            stop,
        }
    }

    /// Starts answering on the encrypted listeners.
    pub fn start_encrypted(&mut self, listeners: Encrypted, answerer: Answerer) {
        for listener in listeners.start(Arc::new(answerer), &self.stop) {
            self.listeners.spawn(listener);
        }
    }

    /// Waits for a listener that ends although nobody stopped it, and says why. A server that has gone deaf on one
    /// transport must not look alive.
    pub async fn ended(&mut self) -> String {
        match self.listeners.join_next().await {
            Some(Err(error)) => error.to_string(),
            Some(Ok(())) | None => "without an error".to_owned(),
        }
    }

    /// Stops answering, after what waits in the socket queues.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.listeners.join_next().await {
            if let Err(error) = ended {
                warn!(%error, "A DNS listener had ended in an error");
            }
        }
    }
}

/// Returns the addresses of `ns.dns.Z`: those given, else the concrete ones among the listeners', else the pod's, else
/// loopback.
pub fn ns_addresses(
    given: &[IpAddr],
    listeners: &[DnsListener],
    pod: Option<IpAddr>,
) -> Vec<IpAddr> {
    if !given.is_empty() {
        return given.to_vec();
    }
    let bound = listeners.iter().map(|listener| listener.address.ip());
    let mut concrete: Vec<IpAddr> = bound.filter(|ip| !ip.is_unspecified()).collect();
    concrete.sort();
    concrete.dedup();
    match (concrete.is_empty(), pod) {
        (false, _) => concrete,
        (true, Some(pod)) => vec![pod],
        (true, None) => vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
    }
}
