//! A constant stream of queries to a server, and what became of each query.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use support::query::{Packet, query};
use support::reply::{Reply, rtype};
use support::wire::{Transport, read_datagram, try_ask};

/// Time between two queries.
const PAUSE: Duration = Duration::from_millis(25);

/// Time after which the resolver of the C library gives up a query.
const PATIENCE: Duration = Duration::from_secs(5);

/// A slower answer delays a client noticeably.
const SLOW: Duration = Duration::from_secs(1);

/// What became of a query.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub sent: Instant,
    /// The time until the reply.
    pub took: Option<Duration>,
    /// The addresses in the order of the answer. Empty without a positive answer.
    pub addresses: Vec<Ipv4Addr>,
}

/// Queries of a server in a thread.
pub struct Stream {
    stop: Arc<AtomicBool>,
    last: Arc<Mutex<Vec<Ipv4Addr>>>,
    thread: JoinHandle<Vec<Outcome>>,
}

/// The sum of many outcomes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    pub queries: usize,
    /// Queries without a positive answer.
    pub failed: usize,
    /// Positive answers that took more than a second.
    pub slow: usize,
}

// === impl Losses ===

impl Losses {
    pub fn add(&mut self, other: Self) {
        self.queries += other.queries;
        self.failed += other.failed;
        self.slow += other.slow;
    }

    pub fn of<'o>(outcomes: impl Iterator<Item = &'o Outcome>) -> Self {
        let mut losses = Self::default();
        for outcome in outcomes {
            losses.queries += 1;
            match outcome.took {
                Some(took) if !outcome.addresses.is_empty() => {
                    losses.slow += usize::from(took > SLOW);
                }
                _ => losses.failed += 1,
            }
        }
        losses
    }

    /// Returns the shares of failed and of slow queries.
    pub fn text(&self) -> String {
        let share = |part: usize, what: &str| match part * 100 / self.queries.max(1) {
            _ if part == 0 => None,
            0 => Some(format!("< 1 % {what}")),
            percent => Some(format!("{percent} % {what}")),
        };
        let shares = [share(self.failed, "fail"), share(self.slow, "slow")];
        let shares: Vec<String> = shares.into_iter().flatten().collect();
        if shares.is_empty() {
            "0".to_owned()
        } else {
            shares.join(", ")
        }
    }
}

// === impl Stream ===

impl Stream {
    /// Starts to query these names, one after the other.
    pub fn start(server: SocketAddr, names: &[String]) -> Result<Self> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(server)?;
        let queries: Vec<Packet> = names.iter().map(|name| query_for(name)).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let last = Arc::new(Mutex::new(Vec::new()));
        let mut run = Run {
            socket,
            queries,
            outcomes: Vec::new(),
            last: Arc::clone(&last),
        };
        let is_over = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                run.query();
                run.receive_until(Instant::now() + PAUSE);
            }
            run.receive_rest();
            run.outcomes
        });
        Ok(Self { stop, last, thread })
    }

    /// Returns the addresses of the last positive answer.
    pub fn last(&self) -> Option<Vec<Ipv4Addr>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        Some(last.clone()).filter(|addresses| !addresses.is_empty())
    }

    /// Stops the queries, waits for the last replies and returns all outcomes.
    pub fn finish(self) -> Vec<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// The state of a stream's thread.
struct Run {
    socket: UdpSocket,
    queries: Vec<Packet>,
    /// The index is the ID of the query.
    outcomes: Vec<Outcome>,
    last: Arc<Mutex<Vec<Ipv4Addr>>>,
}

// === impl Run ===

impl Run {
    fn query(&mut self) {
        let number = self.outcomes.len();
        let id = u16::try_from(number).expect("a stream of less than 27 minutes");
        let packet = self.queries[number % self.queries.len()].with_id(id);
        self.outcomes.push(Outcome {
            sent: Instant::now(),
            took: None,
            addresses: Vec::new(),
        });
        // A port that is closed for a moment is a lost query.
        let _ = self.socket.send(&packet.0);
    }

    /// Receives replies until a time.
    fn receive_until(&mut self, end: Instant) {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.socket.set_read_timeout(Some(left)).unwrap();
            match read_datagram(&self.socket) {
                Ok(octets) => self.note(&Reply::read(&octets).unwrap()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {}
            }
        }
    }

    /// Receives the replies to queries that are not older than a client's patience.
    fn receive_rest(&mut self) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && self.outcomes.iter().any(|one| one.took.is_none()) {
            self.receive_until((Instant::now() + PAUSE).min(end));
        }
    }

    fn note(&mut self, reply: &Reply) {
        let Some(outcome) = self.outcomes.get_mut(usize::from(reply.id)) else {
            return;
        };
        let took = outcome.sent.elapsed();
        if took > PATIENCE {
            return;
        }
        outcome.took = Some(took);
        outcome.addresses = addresses(reply);
        if !outcome.addresses.is_empty() {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            last.clone_from(&outcome.addresses);
        }
    }
}

/// Asks once. Fails without a positive answer.
pub fn ask(server: SocketAddr, name: &str) -> Result<Vec<Ipv4Addr>> {
    let reply = try_ask(server, &query_for(name), Transport::Udp, PATIENCE)
        .with_context(|| format!("{name} at {server}"))?;
    let found = addresses(&reply);
    ensure!(!found.is_empty(), "{name} at {server}: {}", reply.status());
    Ok(found)
}

fn query_for(name: &str) -> Packet {
    query(&format!("{name} A +rd"))
}

fn addresses(reply: &Reply) -> Vec<Ipv4Addr> {
    let answers = reply.answers.iter();
    let addresses = answers.filter(|record| record.rtype == rtype::A);
    addresses
        .map(|record| record.data.parse().unwrap())
        .collect()
}
