//! One name's addresses, asked for again and again.

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
use crate::wire::read_datagram;

/// A query that is not answered within this time counts as failed.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a name's addresses were at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Authoritative, not truncated, and exactly these.
    Addresses(BTreeSet<Ipv4Addr>),
    /// The response code of any other answer, such as `NXDOMAIN`; or what went wrong.
    Nothing(String),
}

/// Asks for the addresses of one name again and again, and keeps every change of the answer.
pub struct Observer {
    name: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    stop: AtomicBool,
    queries: AtomicU64,
    sightings: Mutex<Vec<Sighting>>,
    changed: Condvar,
}

/// A run of equal answers.
#[derive(Clone)]
pub struct Sighting {
    /// The answer.
    pub seen: Seen,
    /// When it came first.
    pub first: Instant,
    /// When it came last.
    pub last: Instant,
    /// How many answers.
    pub answers: u64,
}

// === impl Seen ===

impl Seen {
    /// The addresses of all groups together.
    pub fn addresses(groups: &[&[&str]]) -> Self {
        Self::Addresses(
            groups
                .concat()
                .iter()
                .map(|text| text.parse().unwrap())
                .collect(),
        )
    }

    /// The same addresses, and further ones.
    #[must_use]
    pub fn with(&self, further: &[&str]) -> Self {
        let further = further.iter().map(|text| text.parse().unwrap());
        match self {
            Self::Addresses(own) => Self::Addresses(own.iter().copied().chain(further).collect()),
            Self::Nothing(_) => Self::Addresses(further.collect()),
        }
    }

    /// A response code, or what went wrong.
    pub fn nothing(code: &str) -> Self {
        Self::Nothing(code.to_owned())
    }
}

impl From<&Answer> for Seen {
    fn from(answer: &Answer) -> Self {
        match answer {
            Answer::Data(data) => {
                Self::Addresses(data.iter().map(|ip| ip.parse().unwrap()).collect())
            }
            Answer::NoData => Self::Addresses(BTreeSet::new()),
            Answer::NxDomain => Self::nothing("NXDOMAIN"),
            Answer::Refused => Self::nothing("REFUSED"),
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses(addresses) => {
                let words: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", words.join(" "))
            }
            Self::Nothing(what) => f.write_str(what),
        }
    }
}

// === Asking ===

/// Asks once for the addresses of `name` over UDP.
pub fn addresses_of(server: SocketAddr, name: &str) -> Result<Seen> {
    Ok(Asker::new(server, name)?.ask())
}

struct Asker {
    socket: UdpSocket,
    query: Packet,
}

impl Asker {
    fn new(server: SocketAddr, name: &str) -> Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(server)?;
        Ok(Self {
            socket,
            query: query(&format!("{name} A")),
        })
    }

    fn ask(&mut self) -> Seen {
        self.query = self.query.with_id(self.query.id().wrapping_add(1));
        match self.exchange() {
            Ok(reply) => read_addresses(&reply),
            Err(error) => Seen::Nothing(format!("failed: {error:#}")),
        }
    }

    fn exchange(&self) -> Result<Reply> {
        self.socket.send(&self.query.0).context("sending")?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("no answer within {PATIENCE:?}");
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

fn read_addresses(reply: &Reply) -> Seen {
    if reply.rcode != 0 {
        return Seen::Nothing(reply.status());
    }
    if reply.is_truncated() || !reply.is_authoritative() {
        return Seen::Nothing("truncated, or without authority".to_owned());
    }
    let answers = reply.answers.iter();
    let addresses = answers.filter(|record| record.rtype == rtype::A);
    let addresses: BTreeSet<Ipv4Addr> = addresses.map(|a| a.data.parse().unwrap()).collect();
    match addresses.len() == reply.answers.len() {
        true => Seen::Addresses(addresses),
        false => Seen::Nothing(format!("repeated or foreign records: {:?}", reply.answers)),
    }
}

// === impl Observer ===

impl Observer {
    /// Starts asking, with a pause between an answer and the next question; returns after the first answer.
    pub fn start(server: SocketAddr, name: &str, pause: Duration) -> Result<Self> {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            queries: AtomicU64::new(0),
            sightings: Mutex::new(Vec::new()),
            changed: Condvar::new(),
        });
        let mut asker = Asker::new(server, name)?;
        let theirs = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            while !theirs.stop.load(Ordering::Relaxed) {
                theirs.note(asker.ask());
                thread::sleep(pause);
            }
        });
        let observer = Self {
            name: name.to_owned(),
            shared,
            thread: Some(thread),
        };
        observer.wait("any answer", Duration::from_secs(5), |_| true)?;
        Ok(observer)
    }

    /// The name that is asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many questions were asked so far.
    pub fn queries(&self) -> u64 {
        self.shared.queries.load(Ordering::Relaxed)
    }

    /// Waits until the answer is `wanted`; returns when it was first received.
    pub fn wait_for(&self, wanted: &Seen, within: Duration) -> Result<Instant> {
        self.wait(&format!("{wanted}"), within, |seen| seen == wanted)
    }

    /// Every answer that differed from the one before, since the start.
    pub fn history(&self) -> Vec<Sighting> {
        self.shared.open().clone()
    }

    /// The answers since the start were exactly these, one after the other.
    pub fn has_seen(&self, wanted: &[Seen]) -> Result<()> {
        let history: Vec<Seen> = self
            .history()
            .into_iter()
            .map(|sighting| sighting.seen)
            .collect();
        if history == wanted {
            return Ok(());
        }
        let list = |answers: &[Seen]| {
            answers
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("\n      ")
        };
        bail!(
            "{} was to be\n      {}\n    and was\n      {}",
            self.name,
            list(wanted),
            list(&history)
        )
    }

    /// Waits until the answer fits; returns when it was first received.
    pub fn wait(
        &self,
        wanted: &str,
        within: Duration,
        fits: impl Fn(&Seen) -> bool,
    ) -> Result<Instant> {
        let is_fit = |sightings: &[Sighting]| sightings.last().is_some_and(|now| fits(&now.seen));
        let (sightings, _) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.open(), within, |sightings| !is_fit(sightings))
            .unwrap_or_else(PoisonError::into_inner);
        match sightings.last() {
            Some(now) if fits(&now.seen) => Ok(now.first),
            Some(now) => {
                bail!(
                    "waited {within:?} for {} to be {wanted}; it is {}",
                    self.name,
                    now.seen
                )
            }
            None => bail!("waited {within:?} for {}; there was no answer", self.name),
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
    fn note(&self, seen: Seen) {
        let now = Instant::now();
        self.queries.fetch_add(1, Ordering::Relaxed);
        let mut sightings = self.open();
        match sightings.last_mut() {
            Some(sighting) if sighting.seen == seen => {
                sighting.last = now;
                sighting.answers += 1;
            }
            _ => {
                sightings.push(Sighting {
                    seen,
                    first: now,
                    last: now,
                    answers: 1,
                });
                self.changed.notify_all();
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Sighting>> {
        self.sightings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
