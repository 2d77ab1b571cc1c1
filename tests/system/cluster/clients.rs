//! Clients on the first node that know the only right answer of each name, and a judge of what they saw.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use support::networks::Network;
use support::query::query;
use support::reply::Reply;
use support::wire::{Transport, read_datagram, try_ask};

use super::objects::{NO_CACHE, Question};

/// Time of a try, and number of tries of a query, as of a resolver of glibc with `attempts:3`.
const PATIENCE: Duration = Duration::from_secs(2);
const TRIES: usize = 3;
/// A watch ends when every query was answered for this time.
const QUIET: Duration = Duration::from_secs(10);
/// Maximum time of a watch after an accident. A lost node stays in the Service for less than a minute.
const LONGEST: Duration = Duration::from_secs(300);

/// The way of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// CoreDNS of the cluster, with the stanza of the manual.
    Cache,
    /// CoreDNS without `cache`, which forwards each query.
    NoCache,
    /// The Service of global-dns, from a new port for each query.
    Direct,
    /// The Service of global-dns, from one port as long as it works: kube-proxy keeps it at one pod.
    Pinned,
}

impl Way {
    /// All ways.
    pub const ALL: [Self; 4] = [Self::Cache, Self::NoCache, Self::Direct, Self::Pinned];

    fn server(self) -> SocketAddr {
        let address = match self {
            Self::Cache => "10.96.0.10",
            Self::NoCache => NO_CACHE,
            Self::Direct | Self::Pinned => "10.96.0.53",
        };
        SocketAddr::new(address.parse().expect("an address"), 53)
    }

    /// The pause between the queries of each of the clients. kube-proxy is slow with many ports of one client, so the direct
    /// ones ask less.
    fn pause(self) -> Duration {
        Duration::from_millis(match self {
            Self::Cache | Self::NoCache => 40,
            Self::Direct | Self::Pinned => 100,
        })
    }
}

/// Number of clients of each way.
const CLIENTS: usize = 4;

/// What the clients of one way saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    sent: usize,
    /// Bad first tries by their kind.
    first: BTreeMap<String, usize>,
    /// Queries without an answer after all tries.
    pub failed: usize,
    /// Answers that are not right, with examples. None of them is ever allowed.
    pub wrong: Vec<String>,
}

/// Running clients.
pub struct Clients {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    questions: Mutex<Vec<Question>>,
    seen: Mutex<BTreeMap<Way, Seen>>,
    last_bad: Mutex<Instant>,
    next: AtomicUsize,
    stop: AtomicBool,
}

// === impl Clients ===

impl Clients {
    /// Starts clients of all ways in a network.
    pub fn start(network: &Network, questions: Vec<Question>) -> Result<Self> {
        let shared = Arc::new(Shared {
            questions: Mutex::new(questions),
            seen: Mutex::default(),
            last_bad: Mutex::new(Instant::now()),
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        });
        let mut threads = Vec::new();
        for way in Way::ALL {
            for _ in 0..CLIENTS {
                let shared = Arc::clone(&shared);
                threads.push(network.spawn(move || shared.ask_until_the_end(way))?);
            }
        }
        Ok(Self { shared, threads })
    }

    /// Does something, and watches until every query was answered for ten seconds. Returns what was seen in that time.
    pub fn watch(&self, act: impl FnOnce() -> Result<()>) -> Result<BTreeMap<Way, Seen>> {
        lock(&self.shared.seen).clear();
        act()?;
        let done = Instant::now();
        while done.elapsed() < LONGEST {
            let quiet_since = done.max(*lock(&self.shared.last_bad));
            let left = QUIET.saturating_sub(quiet_since.elapsed());
            if left.is_zero() {
                break;
            }
            thread::sleep(left);
        }
        Ok(lock(&self.shared.seen).clone())
    }

    /// Adds a question.
    pub fn add(&self, question: Question) {
        lock(&self.shared.questions).push(question);
    }

    /// Removes the question that was added last.
    pub fn remove_last(&self) {
        lock(&self.shared.questions).pop();
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

impl Shared {
    fn ask_until_the_end(&self, way: Way) {
        let mut socket = None;
        while !self.stop.load(Relaxed) {
            let question = {
                let questions = lock(&self.questions);
                questions[self.next.fetch_add(1, Relaxed) % questions.len()].clone()
            };
            self.ask(way, &question, &mut socket);
            thread::sleep(way.pause());
        }
    }

    /// Sends a query until it is answered, as often as a resolver does.
    fn ask(&self, way: Way, question: &Question, socket: &mut Option<UdpSocket>) {
        lock(&self.seen).entry(way).or_default().sent += 1;
        for number in 1..=TRIES {
            let reply = match way {
                Way::Pinned => ask_from_one_port(socket, question),
                _ => try_ask(
                    way.server(),
                    &query(&question.text),
                    Transport::Udp,
                    PATIENCE,
                ),
            };
            let verdict = judge(question, reply);
            if verdict == Verdict::Right {
                return;
            }
            let mut seen = lock(&self.seen);
            let seen = seen.entry(way).or_default();
            match verdict {
                Verdict::Right => {}
                // More of them would not make it worse, so the watch does not wait for their end.
                Verdict::Wrong(why) => {
                    seen.wrong.push(format!("{}: {why}", question.text));
                    return;
                }
                Verdict::NoAnswer(why) if number == 1 => *seen.first.entry(why).or_default() += 1,
                Verdict::NoAnswer(_) => {}
            }
            *lock(&self.last_bad) = Instant::now();
            seen.failed += usize::from(number == TRIES);
        }
    }
}

/// Sends a query from the last port. After a failure, the next one has a new port, as a client with a pool of sockets does.
fn ask_from_one_port(socket: &mut Option<UdpSocket>, question: &Question) -> io::Result<Reply> {
    let used = match socket.take() {
        Some(used) => used,
        None => {
            let new = UdpSocket::bind("0.0.0.0:0")?;
            new.connect(Way::Pinned.server())?;
            new.set_read_timeout(Some(PATIENCE))?;
            new
        }
    };
    let packet = query(&question.text);
    used.send(&packet.0)?;
    let reply = Reply::read(&read_datagram(&used)?).map_err(io::Error::other)?;
    *socket = Some(used);
    Ok(reply)
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

// === The judge ===

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Right,
    /// NXDOMAIN, NODATA or other records than the right ones.
    Wrong(String),
    /// No reply, or one that makes a resolver ask again.
    NoAnswer(String),
}

fn judge(question: &Question, reply: io::Result<Reply>) -> Verdict {
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => {
            return Verdict::NoAnswer(match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => "timeout".to_owned(),
                ErrorKind::ConnectionRefused => "refused port".to_owned(),
                _ => error.to_string(),
            });
        }
    };
    let status = reply.status();
    match (status.as_str(), &question.records) {
        ("NXDOMAIN", None) => Verdict::Right,
        ("NOERROR", Some(right)) => {
            let found: BTreeSet<&str> = reply.answers.iter().map(|one| &*one.data).collect();
            let missing = right.iter().filter(|one| !found.contains(&***one)).count();
            let is_surplus = |one: &&&str| {
                let is_of_pod = one.starts_with("10.244.") || one.ends_with(".hub.db.prod.global.");
                let is_pod = question.has_pods && is_of_pod;
                !right.contains(**one) && !is_pod
            };
            let surplus: Vec<&&str> = found.iter().filter(is_surplus).collect();
            if missing == 0 && surplus.is_empty() {
                return Verdict::Right;
            }
            Verdict::Wrong(format!(
                "{missing} of {} missing, surplus {surplus:?}",
                right.len()
            ))
        }
        ("NXDOMAIN" | "NOERROR", _) => Verdict::Wrong(status),
        _ => Verdict::NoAnswer(status),
    }
}

// === impl Seen ===

/// Fails if a way saw a wrong answer, or more failed queries than its limit. A way that sent nothing fails, too.
pub fn check(seen: &BTreeMap<Way, Seen>, limits: [usize; 4]) -> Result<()> {
    for (way, limit) in Way::ALL.iter().zip(limits) {
        let seen = seen.get(way).cloned().unwrap_or_default();
        ensure!(seen.sent > 0, "{way:?}: no query was sent");
        let examples = seen.wrong.iter().take(3);
        let examples: Vec<&str> = examples.map(String::as_str).collect();
        ensure!(
            seen.wrong.is_empty(),
            "{way:?}: {} wrong answers: {}",
            seen.wrong.len(),
            examples.join("; ")
        );
        ensure!(
            seen.failed <= limit,
            "{way:?}: {} of {} queries failed, limit {limit}",
            seen.failed,
            seen.sent
        );
    }
    Ok(())
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = String::new();
        for (kind, count) in &self.first {
            write!(first, " {count} {kind},")?;
        }
        let first = first.trim_end_matches(',');
        let first = if first.is_empty() { " 0" } else { first };
        let (sent, failed, wrong) = (self.sent, self.failed, self.wrong.len());
        write!(
            f,
            "sent {sent}, bad first tries{first}, failed {failed}, wrong {wrong}"
        )
    }
}
