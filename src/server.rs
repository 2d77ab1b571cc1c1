//! The listeners of the DNS port: worker threads on UDP and tasks on TCP around one function, `Answerer::answer`. DNS
//! over TLS, HTTPS and QUIC come in through [`encrypted`].
//!
//! Nothing is decided here: a message goes to [`wire`], what comes back is sent. A listener survives
//! failing `accept` and failing `send`; a query never takes the process down.

mod accept;
pub mod bind;
mod connections;
mod contents;
pub mod cookies;
pub mod counters;
pub mod descriptors;
pub mod encrypted;
pub mod framing;
mod http;
mod rate_limit;
mod tcp;
mod udp;

use std::cell::{Cell, OnceCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub use bind::{Addresses, BindError, DnsListener};
pub use connections::Limits;
pub use cookies::Cookies;
pub use encrypted::{Certificate, Encrypted};
pub use http::LocalAddress;

use connections::Connections;
use counters::{Counters, Tallies};
use rate_limit::RateLimiter;
use udp::{Calls, Kernel};

use crate::clock::unix_seconds;
use crate::log::OnceAMinute;
use crate::table::publish::{Current, Reader};
use crate::wire::{
    self, Arrival, Body, CookieSecrets, Edns, Query, RateLimit, Reject, Reply, Settings, Transport,
};
use crate::zone::Answer;

/// How long a TCP connection may be idle: longer than the ten seconds for which CoreDNS keeps one for reuse.
pub const TCP_IDLE: Duration = Duration::from_secs(30);

/// Makes the answerers of the listeners.
pub struct Answerers {
    settings: Arc<Settings>,
    cookies: Arc<Cookies>,
    limiter: Option<Arc<RateLimiter>>,
    reader: Reader,
    tallies: Tallies,
    turns: Arc<AtomicU32>,
}

/// Makes replies out of messages. Every UDP worker has one of its own, so that no two threads write to one counter;
/// TCP connections share one.
struct Answerer {
    settings: Arc<Settings>,
    cookies: Arc<Cookies>,
    /// What sources that are not trusted get over UDP, if that is limited.
    limiter: Option<Arc<RateLimiter>>,
    reader: Reader,
    counters: Arc<Counters>,
    /// Counts the queries of all listeners, for the order of rows.
    turns: Arc<AtomicU32>,
    overflows: OnceAMinute,
    receive_failures: OnceAMinute,
    send_failures: OnceAMinute,
}

/// What messages that arrived together are answered from.
struct Moment {
    now: Current,
    /// Unix seconds.
    time: u32,
    /// The secrets of cookies, once a query has one: few do, and all threads would wait for one lock.
    secrets: OnceCell<Arc<CookieSecrets>>,
    /// The next answer's turn, and how many more are reserved behind it.
    turns: Cell<(u32, usize)>,
}

/// The running server.
pub struct DnsServer {
    listeners: JoinSet<()>,
    /// Those over TCP.
    connections: Connections,
    stop: CancellationToken,
}

// === impl Answerers ===

impl Answerers {
    /// Makes answerers that answer out of the same table, and count apart. `rate_limit` is that of replies over UDP to
    /// one prefix that is not trusted, in a second.
    pub fn new(
        settings: Settings,
        cookies: Arc<Cookies>,
        reader: Reader,
        tallies: Tallies,
        rate_limit: Option<NonZeroU32>,
    ) -> Self {
        Self {
            settings: Arc::new(settings),
            cookies,
            limiter: rate_limit.map(|rate| Arc::new(RateLimiter::new(rate))),
            reader,
            tallies,
            // Replicas that start together must not rotate in step. No secret: every answer tells it.
            turns: Arc::new(AtomicU32::new(fastrand::u32(..))),
        }
    }

    fn add(&self) -> Answerer {
        Answerer {
            settings: self.settings.clone(),
            cookies: self.cookies.clone(),
            limiter: self.limiter.clone(),
            reader: self.reader.clone(),
            counters: self.tallies.add(),
            turns: self.turns.clone(),
            overflows: OnceAMinute::default(),
            receive_failures: OnceAMinute::default(),
            send_failures: OnceAMinute::default(),
        }
    }
}

// === impl Answerer ===

impl Answerer {
    /// Looks at the table and the clock, for `queries` that are to be answered at once. Not to be kept while nothing is
    /// asked: it keeps an old table alive.
    fn moment(&self, queries: usize) -> Moment {
        Moment {
            now: self.reader.load(),
            time: unix_seconds(),
            secrets: OnceCell::new(),
            turns: Cell::new((self.take_turns(queries), queries)),
        }
    }

    /// Takes turns for so many answers together: one word of memory that every thread writes to for every query would
    /// be what they wait for.
    fn take_turns(&self, count: usize) -> u32 {
        self.turns.fetch_add(count as u32, Relaxed)
    }

    fn turn(&self, moment: &Moment) -> u32 {
        let (turn, left) = match moment.turns.get() {
            (_, 0) => (self.take_turns(1), 0),
            (turn, left) => (turn, left - 1),
        };
        moment.turns.set((turn.wrapping_add(1), left));
        turn
    }

    /// Writes the reply to a message into `out` and returns its length; `None`: nothing is sent.
    fn answer(
        &self,
        moment: &Moment,
        packet: &[u8],
        over: Transport,
        client: SocketAddr,
        out: &mut [u8],
    ) -> Option<usize> {
        self.reply(moment, packet, over, client, |reply, query| {
            let written = wire::write(reply, query, packet, out);
            (written.length, written.is_truncated)
        })
    }

    /// Decides the reply to a message, and lets `render` make of it what is sent, and say whether it is truncated.
    /// `None`: nothing is sent.
    fn reply<R>(
        &self,
        moment: &Moment,
        packet: &[u8],
        over: Transport,
        client: SocketAddr,
        render: impl FnOnce(&Reply<'_>, &Result<Query, Reject>) -> (R, bool),
    ) -> Option<R> {
        if client.port() == 0 || client.ip().is_unspecified() {
            self.counters.count_dropped(); // a forged source that nothing can be sent to
            return None;
        }
        let query = wire::parse(packet);
        let arrival = self.arrival(moment, &query, over, client.ip());
        let reply = wire::respond(&self.settings, &moment.now, &query, &arrival);
        if arrival.rate_limit != RateLimit::Within {
            self.counters.count_limited(reply.is_some());
        } else if reply.is_none() {
            self.counters.count_dropped();
        }
        let reply = reply?;
        let (rendered, is_truncated) = render(&reply, &query);
        let rtype = query.as_ref().ok().map(|query| query.rtype);
        self.counters.count_request(over, rtype);
        self.counters.count_response(reply.rcode);
        if is_truncated {
            self.note_truncated(&reply, over, moment);
        }
        Some(rendered)
    }

    /// Says how a query arrived: over what, from whom, and by which turn.
    fn arrival(
        &self,
        moment: &Moment,
        query: &Result<Query, Reject>,
        over: Transport,
        client: IpAddr,
    ) -> Arrival {
        let rate_limit = self.rate_limit(moment, query, over, client);
        let own = edns(query).and_then(|edns| edns.cookie);
        let cookie = own.map(|own| self.secrets(moment).cookie(own, client, moment.time));
        Arrival {
            over,
            client,
            rate_limit,
            turn: self.turn(moment),
            cookie,
        }
    }

    /// Counts a truncated reply. Over anything but UDP, no message can hold the answer.
    fn note_truncated(&self, reply: &Reply<'_>, over: Transport, moment: &Moment) {
        self.counters.count_truncated(over);
        if over != Transport::Udp {
            self.warn_of_overflow(reply, moment.time);
        }
    }

    /// Says whether a client is asking too fast; what is never answered does not count.
    fn rate_limit(
        &self,
        moment: &Moment,
        query: &Result<Query, Reject>,
        over: Transport,
        client: IpAddr,
    ) -> RateLimit {
        let Some(limiter) = &self.limiter else {
            return RateLimit::Within;
        };
        let is_limited = over == Transport::Udp
            && !self.settings.access.is_trusted(client)
            && !matches!(query, Err(Reject::Drop))
            && !self.has_own_cookie(moment, query, client);
        match is_limited {
            true => limiter.count(client),
            false => RateLimit::Within,
        }
    }

    /// Tells whether a client has a cookie of ours. It is where it says, and not limited, as Knot has it.
    fn has_own_cookie(
        &self,
        moment: &Moment,
        query: &Result<Query, Reject>,
        client: IpAddr,
    ) -> bool {
        let halves = edns(query).and_then(|edns| edns.cookie.zip(edns.server_cookie));
        halves.is_some_and(|(own, ours)| {
            let secrets = self.secrets(moment);
            secrets.is_ours(own, ours, client, moment.time)
        })
    }

    fn secrets<'m>(&self, moment: &'m Moment) -> &'m CookieSecrets {
        moment.secrets.get_or_init(|| self.cookies.current())
    }

    /// Warns of an answer that no message can hold: by the service, because questions are not logged.
    fn warn_of_overflow(&self, reply: &Reply<'_>, time: u32) {
        if !self.overflows.is_due(time) {
            return;
        }
        let service = match &reply.body {
            Body::Answer(Answer::Data(_, view, _)) => Some(&view.service.key),
            // Names of one address are of many services.
            Body::Answer(_) | Body::Code | Body::ByTcp | Body::Chaos(_) => None,
        };
        let service = service.map(tracing::field::display);
        warn!(
            service,
            "An answer does not fit 65,535 octets: some of it is left out"
        );
    }
}

/// Returns the OPT record of a query, if it can be read.
fn edns(query: &Result<Query, Reject>) -> Option<&Edns> {
    match query {
        Ok(Query { edns, .. }) | Err(Reject::With { edns, .. }) => edns.as_ref(),
        Err(Reject::Drop) => None,
    }
}

// === impl DnsServer ===

impl DnsServer {
    /// Starts answering on every listener, with so many threads for each UDP socket.
    ///
    /// # Errors
    ///
    /// If the system grants no thread or no descriptor for a worker.
    pub fn start(
        listeners: Vec<DnsListener>,
        answerers: &Answerers,
        udp_workers: usize,
        limits: Limits,
    ) -> io::Result<Self> {
        Self::start_with(&Kernel, listeners, answerers, udp_workers, limits)
    }

    fn start_with(
        calls: &(impl Calls + Clone),
        listeners: Vec<DnsListener>,
        answerers: &Answerers,
        udp_workers: usize,
        limits: Limits,
    ) -> io::Result<Self> {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let over_tcp = Arc::new(answerers.add());
        let connections = Connections::new(limits, over_tcp.counters.clone());
        for DnsListener { udp, tcp, .. } in listeners {
            for _ in 0..udp_workers {
                let socket = udp.try_clone()?;
                let worker = udp::start(socket, calls.clone(), answerers.add(), stop.clone());
                tasks.spawn(worker?);
            }
            tasks.spawn(tcp::serve(
                tcp,
                over_tcp.clone(),
                connections.clone(),
                stop.clone(),
            ));
        }
        Ok(Self {
            listeners: tasks,
            connections,
            stop,
        })
    }

    /// Starts answering on the encrypted listeners. TLS and HTTPS together have as many connections as TCP.
    pub fn start_encrypted(&mut self, listeners: Encrypted, answerers: &Answerers, limits: Limits) {
        let answerer = Arc::new(answerers.add());
        let connections = Connections::new(limits, answerer.counters.clone());
        for task in listeners.start(&answerer, &connections, &self.stop) {
            self.listeners.spawn(task);
        }
    }

    /// Serves HTTP for good, beside DNS, whose connections give way where descriptors are wanted.
    pub fn serve_http(
        &self,
        listener: TcpListener,
        routes: Router,
    ) -> impl Future<Output = ()> + use<> {
        http::serve(listener, routes, self.connections.clone())
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

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.stop.cancel(); // worker threads belong to no runtime that would end them
    }
}

/// The port at which resolvers query the name servers of a zone (RFC 1035 section 4.2).
const NS_PORT: u16 = 53;

/// Returns the addresses of `ns.dns.Z`, each once: those given, else those of the listeners to which an NS record leads.
///
/// A wildcard address is no server's, and nobody finds another port than 53. A loopback address leads other hosts to
/// themselves, so it counts only if there is no other. Without any address the name owns no record, which is better than a
/// wrong one: a resolver sees it at once.
pub fn ns_addresses(given: &[IpAddr], listeners: &[SocketAddr]) -> Vec<IpAddr> {
    let mut addresses = given.to_vec();
    if addresses.is_empty() {
        let found = listeners.iter().filter(|bound| bound.port() == NS_PORT);
        addresses.extend(found.map(SocketAddr::ip));
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
mod tests;
