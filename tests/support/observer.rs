//! Repeated queries for the addresses of one name.

use std::collections::BTreeSet;
use std::fmt;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::names::Answer;
use crate::query::{Packet, query};
use crate::reply::{Reply, rtype};
use crate::wait::TIMEOUT;
use crate::wire::read_datagram;

/// A query that is not answered within this time counts as failed. It is long because test machines can be busy.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// The answer to one query for the addresses of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The addresses of an authoritative answer that is not truncated.
    Addresses(BTreeSet<Ipv4Addr>),
    /// The response code of any other answer, such as `NXDOMAIN`, or an error.
    Other(String),
}

/// Queries the addresses of one name repeatedly and records every change of the answer.
pub struct Observer {
    name: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    stop: AtomicBool,
    queries: AtomicU64,
    history: Mutex<Vec<AnswerRun>>,
    changed: Condvar,
}

/// Consecutive equal answers.
#[derive(Clone)]
pub struct AnswerRun {
    /// The answer.
    pub answer: Observation,
    /// Time of the first answer.
    pub first: Instant,
    /// Time of the last answer.
    pub last: Instant,
    /// Number of answers.
    pub count: u64,
}

// === impl Observation ===

impl Observation {
    /// Returns an answer with the addresses of all groups.
    pub fn addresses(groups: &[&[&str]]) -> Self {
        Self::Addresses(
            groups
                .concat()
                .iter()
                .map(|text| text.parse().unwrap())
                .collect(),
        )
    }

    /// Returns the same answer with additional addresses.
    #[must_use]
    pub fn with(&self, further: &[&str]) -> Self {
        let further = further.iter().map(|text| text.parse().unwrap());
        match self {
            Self::Addresses(own) => Self::Addresses(own.iter().copied().chain(further).collect()),
            Self::Other(_) => Self::Addresses(further.collect()),
        }
    }

    /// Returns an answer with a response code, or an error.
    pub fn other(code: &str) -> Self {
        Self::Other(code.to_owned())
    }
}

impl From<&Answer> for Observation {
    fn from(answer: &Answer) -> Self {
        match answer {
            Answer::Data(data) => {
                Self::Addresses(data.iter().map(|ip| ip.parse().unwrap()).collect())
            }
            Answer::NoData => Self::Addresses(BTreeSet::new()),
            Answer::NxDomain => Self::other("NXDOMAIN"),
            Answer::Refused => Self::other("REFUSED"),
            Answer::ServFail => Self::other("SERVFAIL"),
        }
    }
}

impl fmt::Display for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses(addresses) => {
                let words: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", words.join(" "))
            }
            Self::Other(text) => f.write_str(text),
        }
    }
}

// === Queries ===

struct Client {
    socket: UdpSocket,
    query: Packet,
}

impl Client {
    fn new(server: SocketAddr, name: &str) -> Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(server)?;
        Ok(Self {
            socket,
            query: query(&format!("{name} A")),
        })
    }

    fn ask(&mut self) -> Observation {
        self.query = self.query.with_id(self.query.id().wrapping_add(1));
        match self.exchange() {
            Ok(reply) => read_addresses(&reply),
            Err(error) => Observation::Other(format!("failed: {error:#}")),
        }
    }

    fn exchange(&self) -> Result<Reply> {
        self.socket.send(&self.query.0).context("sending")?;
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("no answer within {ANSWER_TIMEOUT:?}");
            }
            self.socket.set_read_timeout(Some(left))?;
            let octets = match read_datagram(&self.socket) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                other => other.context("receiving")?,
            };
            let reply = Reply::read(&octets).map_err(anyhow::Error::msg)?;
            if reply.id == self.query.id() {
                return Ok(reply);
            }
        }
    }
}

fn read_addresses(reply: &Reply) -> Observation {
    if reply.rcode != 0 {
        return Observation::Other(reply.status());
    }
    if reply.is_truncated() || !reply.is_authoritative() {
        return Observation::Other("truncated or not authoritative".to_owned());
    }
    let answers = reply.answers.iter();
    let addresses = answers.filter(|record| record.rtype == rtype::A);
    let addresses: BTreeSet<Ipv4Addr> = addresses.map(|a| a.data.parse().unwrap()).collect();
    if addresses.len() == reply.answers.len() {
        Observation::Addresses(addresses)
    } else {
        Observation::Other(format!(
            "repeated or unexpected records: {:?}",
            reply.answers
        ))
    }
}

// === impl Observer ===

impl Observer {
    /// Starts the queries, with a pause after each answer. Returns after the first answer.
    pub fn start(server: SocketAddr, name: &str, pause: Duration) -> Result<Self> {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            queries: AtomicU64::new(0),
            history: Mutex::new(Vec::new()),
            changed: Condvar::new(),
        });
        let mut client = Client::new(server, name)?;
        let for_thread = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            while !for_thread.stop.load(Ordering::Relaxed) {
                for_thread.record(client.ask());
                thread::sleep(pause);
            }
        });
        let observer = Self {
            name: name.to_owned(),
            shared,
            thread: Some(thread),
        };
        observer.wait("any answer", |_| true)?;
        Ok(observer)
    }

    /// Returns the queried name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of queries so far.
    pub fn queries(&self) -> u64 {
        self.shared.queries.load(Ordering::Relaxed)
    }

    /// Waits until the answer is `expected`. Returns the time at which it was first received.
    pub fn wait_for(&self, expected: &Observation) -> Result<Instant> {
        self.wait(&format!("{expected}"), |answer| answer == expected)
    }

    /// Fails unless the last answer is `expected`.
    pub fn check_last(&self, expected: &Observation) -> Result<()> {
        let history = self.history();
        let last = &history.last().context("no answer came")?.answer;
        if last == expected {
            return Ok(());
        }
        bail!("{} is {last}, expected {expected}", self.name)
    }

    /// Returns all answers since the start that differ from their predecessor.
    pub fn history(&self) -> Vec<AnswerRun> {
        self.shared.lock_history().clone()
    }

    /// Fails unless the answers since the start are exactly these, in this order.
    pub fn check_history(&self, expected: &[Observation]) -> Result<()> {
        let history: Vec<Observation> = self.history().into_iter().map(|run| run.answer).collect();
        if history == expected {
            return Ok(());
        }
        let list = |answers: &[Observation]| {
            answers
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("\n      ")
        };
        bail!(
            "answers for {}: expected\n      {}\n    got\n      {}",
            self.name,
            list(expected),
            list(&history)
        )
    }

    /// Waits until the answer matches. Returns the time at which it was first received.
    pub fn wait(&self, expected: &str, matches: impl Fn(&Observation) -> bool) -> Result<Instant> {
        let is_done = |runs: &[AnswerRun]| runs.last().is_some_and(|last| matches(&last.answer));
        let (history, _) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.lock_history(), TIMEOUT, |runs| !is_done(runs))
            .unwrap_or_else(PoisonError::into_inner);
        match history.last() {
            Some(last) if matches(&last.answer) => Ok(last.first),
            Some(last) => {
                bail!(
                    "waited {TIMEOUT:?} for {} to be {expected}; it is {}",
                    self.name,
                    last.answer
                )
            }
            None => bail!("waited {TIMEOUT:?} for {}; no answer came", self.name),
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

// === impl Shared ===

impl Shared {
    fn record(&self, answer: Observation) {
        let now = Instant::now();
        self.queries.fetch_add(1, Ordering::Relaxed);
        let mut history = self.lock_history();
        match history.last_mut() {
            Some(run) if run.answer == answer => {
                run.last = now;
                run.count += 1;
            }
            _ => {
                history.push(AnswerRun {
                    answer,
                    first: now,
                    last: now,
                    count: 1,
                });
                self.changed.notify_all();
            }
        }
    }

    fn lock_history(&self) -> MutexGuard<'_, Vec<AnswerRun>> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
