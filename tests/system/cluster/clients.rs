//! Clients on the first node that know the only right answer of each name, and a judge of what they saw.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use support::networks::Network;
use support::output::print_line;
use support::query::query;
use support::reply::Reply;
use support::wire::read_datagram;

/// Time of a try, and number of tries of a query, as of a resolver of glibc with `attempts:3`.
const PATIENCE: Duration = Duration::from_secs(2);
const TRIES: usize = 3;
/// A watch ends when every query was answered for this time.
const QUIET: Duration = Duration::from_secs(10);
/// Maximum time of a watch after an accident. A lost node stays in the Service for less than a minute.
const LONGEST: Duration = Duration::from_secs(300);
/// Number of clients of each way.
const CLIENTS: usize = 4;

/// The way of a query.
#[derive(Debug)]
struct Way {
    name: &'static str,
    server: &'static str,
    /// Time between the queries of a client. kube-proxy is slow with many ports of one client, so the direct ones ask less.
    pause: Duration,
    /// Whether a client keeps its port as long as it works: kube-proxy keeps it at one pod.
    keeps_port: bool,
}

/// All ways. `without cache` is a CoreDNS that forwards each query.
const WAYS: [Way; 4] = [
    way("CoreDNS", "10.96.0.10:53", 40, false),
    way("without cache", "10.96.0.11:53", 40, false),
    way("Service, new ports", "10.96.0.53:53", 100, false),
    way("Service, one port", "10.96.0.53:53", 100, true),
];

/// How many queries of each way may fail, after all tries.
pub type Limits = [usize; WAYS.len()];

/// A question and its only right answer.
#[derive(Clone, Debug)]
pub struct Question {
    /// Name and type.
    text: String,
    /// The data of its records. None: NXDOMAIN.
    right: BTreeSet<String>,
}

/// What the clients of one way saw.
#[derive(Clone, Debug, Default)]
struct Seen {
    sent: usize,
    /// Bad first tries by their kind.
    first: BTreeMap<String, usize>,
    /// Queries without an answer after all tries.
    failed: usize,
    /// Answers that are not right, with their numbers. None of them is ever allowed.
    wrong: BTreeMap<String, usize>,
    last_bad: Option<Instant>,
}

/// Running clients.
pub struct Clients {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    questions: Vec<Question>,
    /// In the order of [`WAYS`].
    seen: [Mutex<Seen>; WAYS.len()],
    stop: AtomicBool,
}

const fn way(name: &'static str, server: &'static str, pause: u64, keeps_port: bool) -> Way {
    let pause = Duration::from_millis(pause);
    Way {
        name,
        server,
        pause,
        keeps_port,
    }
}

// === impl Clients ===

impl Clients {
    /// Starts clients of all ways in a network.
    pub fn start(network: &Network, questions: &[Question]) -> Result<Self> {
        let shared = Arc::new(Shared {
            questions: questions.to_vec(),
            seen: Default::default(),
            stop: AtomicBool::new(false),
        });
        let mut threads = Vec::new();
        for (way, number) in
            (0..WAYS.len()).flat_map(|way| (0..CLIENTS).map(move |number| (way, number)))
        {
            let shared = Arc::clone(&shared);
            threads.push(network.spawn(move || shared.ask_until_the_end(way, number))?);
        }
        Ok(Self { shared, threads })
    }

    /// Does something, and watches until every query was answered for ten seconds. Prints what was seen in that time. Fails if a way
    /// saw a wrong answer, or more failed queries than its limit, or sent nothing.
    pub fn watch(&self, limits: Limits, act: impl FnOnce() -> Result<()>) -> Result<()> {
        let seen = &self.shared.seen;
        for seen in seen {
            *lock(seen) = Seen::default();
        }
        act()?;
        let done = Instant::now();
        while done.elapsed() < LONGEST {
            let last_bad = seen.iter().filter_map(|seen| lock(seen).last_bad).max();
            let quiet = last_bad.unwrap_or(done).max(done).elapsed();
            if quiet >= QUIET {
                break;
            }
            thread::sleep(QUIET - quiet);
        }
        let seen = seen.each_ref().map(|seen| lock(seen).clone());
        let mut faults = Vec::new();
        for ((way, seen), limit) in WAYS.iter().zip(&seen).zip(limits) {
            let line = format!("{}: {seen}", way.name);
            print_line(&format!("    {line}"));
            if seen.sent == 0 || seen.failed > limit || !seen.wrong.is_empty() {
                faults.push(format!("{line}; limit {limit}"));
            }
        }
        ensure!(faults.is_empty(), "{}", faults.join("\n"));
        Ok(())
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // A panic of a client was printed.
            _ = thread.join();
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Asks all questions again and again. Each client begins with another one.
    fn ask_until_the_end(&self, way: usize, client: usize) {
        let mut socket = None;
        let start = client * self.questions.len() / CLIENTS;
        for question in self.questions.iter().cycle().skip(start) {
            if self.stop.load(Relaxed) {
                return;
            }
            ask(&WAYS[way], question, &mut socket, &self.seen[way]);
            thread::sleep(WAYS[way].pause);
        }
    }
}

/// Sends a query until it is answered, as often as a resolver does. A wrong answer does not get worse by more of them, so a watch does
/// not wait for their end.
fn ask(way: &Way, question: &Question, socket: &mut Option<UdpSocket>, seen: &Mutex<Seen>) {
    lock(seen).sent += 1;
    for number in 1..=TRIES {
        let verdict = question.judge(exchange(way, question, socket));
        let mut seen = lock(seen);
        match verdict {
            Verdict::Right => return,
            Verdict::Wrong(why) => {
                *seen
                    .wrong
                    .entry(format!("{}: {why}", question.text))
                    .or_default() += 1;
                return;
            }
            Verdict::NoAnswer(why) if number == 1 => *seen.first.entry(why).or_default() += 1,
            Verdict::NoAnswer(_) => {}
        }
        seen.failed += usize::from(number == TRIES);
        seen.last_bad = Some(Instant::now());
    }
}

/// After a failure, the next query has a new port also if the way keeps it, as a client with a pool of sockets does.
fn exchange(way: &Way, question: &Question, kept: &mut Option<UdpSocket>) -> io::Result<Reply> {
    let socket = match kept.take() {
        Some(socket) => socket,
        None => {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(way.server)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket
        }
    };
    socket.send(&query(&format!("{} +edns", question.text)).0)?;
    let reply = Reply::read(&read_datagram(&socket)?).map_err(io::Error::other)?;
    *kept = way.keeps_port.then_some(socket);
    Ok(reply)
}

// === The judge ===

enum Verdict {
    Right,
    /// NXDOMAIN, NODATA or other records than the right ones.
    Wrong(String),
    /// No reply, or one that makes a resolver ask again.
    NoAnswer(String),
}

impl Question {
    /// Makes a question about mirrors.
    pub fn new(text: &str, right: &BTreeSet<String>) -> Self {
        Self {
            text: text.to_owned(),
            right: right.clone(),
        }
    }

    /// Judges a reply. The names of the database also have its pods in this cluster, which come and go.
    fn judge(&self, reply: io::Result<Reply>) -> Verdict {
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => {
                return Verdict::NoAnswer(match error.kind() {
                    ErrorKind::WouldBlock => "timeout".to_owned(),
                    ErrorKind::ConnectionRefused => "refused port".to_owned(),
                    _ => error.to_string(),
                });
            }
        };
        let is_database =
            self.text.starts_with("db.prod.") || self.text.starts_with("_sql._tcp.db.prod.");
        let is_pod =
            |data: &str| data.starts_with("10.244.") || data.ends_with(".hub.db.prod.global.");
        let mut found = reply.data();
        found.retain(|data| !(is_database && is_pod(data)));
        found.sort_unstable();
        let is_same = found
            .iter()
            .copied()
            .eq(self.right.iter().map(String::as_str));
        let right = if self.right.is_empty() {
            "NXDOMAIN"
        } else {
            "NOERROR"
        };
        match reply.status().as_str() {
            status if status == right && is_same => Verdict::Right,
            status @ ("NOERROR" | "NXDOMAIN") => {
                Verdict::Wrong(format!("{status} {found:?} instead of {:?}", self.right))
            }
            status => Verdict::NoAnswer(status.to_owned()),
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, wrong) = (&self.first, &self.wrong);
        write!(
            f,
            "sent {}, bad first tries {first:?}, failed {}, wrong {wrong:?}",
            self.sent, self.failed
        )
    }
}
