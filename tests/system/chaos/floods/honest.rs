//! The honest client: it sends queries to every listener during a flood, as resolvers do.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use support::reply::Reply;
use support::server::Server;
use support::tls::{Client as TlsClient, Stream, ask};
use support::wait::wait_for;
use support::wire::{Transport, exchange};

use super::harness::{Listeners, question};
use super::open;
use super::tls;

/// A query has failed after this time, or after this number of tries.
const TIMEOUT: Duration = Duration::from_secs(2);
const TRIES: usize = 3;
/// Time between two queries.
const PAUSE: Duration = Duration::from_millis(5);

/// Transport and connection of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Udp,
    /// One query for each connection.
    Tcp,
    /// On a persistent connection.
    Tls,
    /// One query for each connection, with a full handshake.
    NewTls,
}

/// Results of the honest client.
#[derive(Debug, Default)]
pub struct Tally {
    pub asked: u64,
    /// Retries: the same query again over UDP, otherwise on another connection.
    pub retries: u64,
    pub failed: u64,
    pub wrong: u64,
    pub slowest: Duration,
}

/// Persistent connections, and the settings of new ones.
pub struct Client<'s> {
    server: &'s Server,
    tls: TlsClient,
    kept_tls: Option<Stream>,
}

// === impl Way ===

impl Way {
    /// Returns the ways that a server with these listeners supports.
    pub fn of(listeners: Listeners) -> &'static [Self] {
        match listeners {
            Listeners::Plain => &[Self::Udp, Self::Tcp],
            Listeners::Encrypted => &[Self::Udp, Self::Tcp, Self::Tls, Self::NewTls],
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "new TCP",
            Self::Tls => "persistent TLS",
            Self::NewTls => "new TLS",
        }
    }
}

// === impl Tally ===

impl Tally {
    /// Sends a query, with retries, and counts the result.
    fn ask(&mut self, mut attempt: impl FnMut() -> io::Result<Vec<u8>>) {
        let started = Instant::now();
        let reply = (0..TRIES).find_map(|number| {
            self.retries += u64::from(number > 0);
            attempt().ok()
        });
        self.asked += 1;
        self.slowest = self.slowest.max(started.elapsed());
        match reply {
            None => self.failed += 1,
            Some(reply) if !is_right(&reply) => self.wrong += 1,
            Some(_) => {}
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} in {} ms maximum",
            self.asked,
            self.slowest.as_millis()
        )?;
        if self.retries > 0 || self.wrong > 0 {
            let (retries, failed, wrong) = (self.retries, self.failed, self.wrong);
            write!(f, " ({retries} retries, {failed} failed, {wrong} wrong)")?;
        }
        Ok(())
    }
}

// === impl Client ===

impl<'s> Client<'s> {
    pub fn new(server: &'s Server) -> Self {
        Self {
            server,
            tls: tls::client(),
            kept_tls: None,
        }
    }

    /// Sends a query for the only address of `db.prod.global`, and returns the reply.
    pub fn ask(&mut self, way: Way) -> io::Result<Vec<u8>> {
        let packet = question("db.prod.global");
        let server = self.server;
        match way {
            Way::Udp => exchange(server.dns, &packet, Transport::Udp, TIMEOUT / TRIES as u32),
            Way::Tcp => exchange(server.dns, &packet, Transport::Tcp, TIMEOUT),
            Way::Tls => {
                let mut stream = match self.kept_tls.take() {
                    Some(stream) => stream,
                    None => self.tls.handshake(self.connect("tls")?)?,
                };
                let reply = ask(&mut stream, &packet)?;
                self.kept_tls = Some(stream);
                Ok(reply)
            }
            Way::NewTls => ask(&mut self.tls.handshake(self.connect("tls")?)?, &packet),
        }
    }

    fn connect(&self, listener: &str) -> io::Result<TcpStream> {
        open(self.server.address(listener), Ipv4Addr::LOCALHOST, TIMEOUT)
    }
}

/// Sends queries in one way until the flood ends.
pub fn ask_until(done: &AtomicBool, server: &Server, way: Way) -> Tally {
    let mut client = Client::new(server);
    let mut tally = Tally::default();
    while !done.load(Relaxed) {
        tally.ask(|| client.ask(way));
        thread::sleep(PAUSE);
    }
    tally
}

/// Waits for a right answer.
pub fn ask_once(server: &Server, way: Way) {
    wait_for(way.name(), || {
        let reply = Client::new(server).ask(way).ok()?;
        is_right(&reply).then_some(())
    });
}

/// Returns whether a reply has exactly the expected address.
pub fn is_right(reply: &[u8]) -> bool {
    Reply::read(reply).is_ok_and(|reply| reply.rcode == 0 && reply.data() == ["198.51.100.1"])
}
