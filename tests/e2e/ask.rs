//! Questions: with `dig`, which users have, and over a socket of our own, which is fast enough for figures.

use std::collections::BTreeSet;
use std::fmt;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hickory_proto::op::{Edns, Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};

pub use crate::support::wire::Over;
use crate::support::wire::exchange;

/// A query that is not answered within this time counts as failed.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a name's addresses were at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Authoritative, not truncated, and exactly these.
    Addresses(BTreeSet<Ipv4Addr>),
    /// The response code of any other answer, such as `NXDomain`; or what went wrong.
    Nothing(String),
}

/// What `dig` printed.
#[derive(Debug)]
pub struct Dug {
    /// `NOERROR`, `NXDOMAIN`, …
    pub status: String,
    /// `qr aa rd`
    pub flags: String,
    /// Records as in a zone file, single spaces, sorted.
    pub answer: Vec<String>,
    pub authority: Vec<String>,
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
    pub seen: Seen,
    pub first: Instant,
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

    pub fn nothing(code: &str) -> Self {
        Self::Nothing(code.to_owned())
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

// === impl Over ===

impl Over {
    pub const BOTH: [Self; 2] = [Self::Udp, Self::Tcp];

    fn option(self) -> &'static str {
        match self {
            Self::Udp => "+notcp",
            Self::Tcp => "+tcp",
        }
    }
}

// === dig ===

/// Asks once with `dig`, as a resolver asks a name server.
pub fn dig(server: SocketAddr, over: Over, name: &str, kind: &str) -> Result<Dug> {
    dig_with(server, over, name, kind, &["+norec"])
}

/// Asks once with `dig`, as a client asks a resolver.
pub fn dig_recursively(server: SocketAddr, over: Over, name: &str, kind: &str) -> Result<Dug> {
    dig_with(server, over, name, kind, &["+rec"])
}

fn dig_with(
    server: SocketAddr,
    over: Over,
    name: &str,
    kind: &str,
    options: &[&str],
) -> Result<Dug> {
    let output = Command::new("dig")
        .arg(format!("@{}", server.ip()))
        .args([
            "-p",
            &server.port().to_string(),
            over.option(),
            "+tries=1",
            "+time=2",
        ])
        .args(options)
        .args([name, kind])
        .output()
        .context("dig is not in PATH: run tests/run e2e, which installs it")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Dug::read(&text).with_context(|| format!("dig {name} {kind} over {over:?}: {text}"))
}

/// The records at `name` are exactly `wanted`, over UDP and TCP, with authority.
pub fn answered(server: SocketAddr, name: &str, kind: &str, wanted: &[String]) -> Result<()> {
    let mut wanted = wanted.to_vec();
    wanted.sort();
    for over in Over::BOTH {
        let dug = dig(server, over, name, kind)?;
        ensure!(
            dug.status == "NOERROR",
            "{name} {kind} over {over:?}: {}",
            dug.status
        );
        ensure!(
            dug.flags.split(' ').any(|flag| flag == "aa"),
            "{name} {kind} over {over:?} without authority"
        );
        ensure!(
            dug.answer == wanted,
            "{name} {kind} over {over:?}: wanted {wanted:#?}, answered {:#?}",
            dug.answer
        );
    }
    Ok(())
}

/// There is no such name, over UDP and TCP, and the zone's SOA says for how long that holds.
pub fn missing(server: SocketAddr, name: &str) -> Result<()> {
    for over in Over::BOTH {
        let dug = dig(server, over, name, "A")?;
        ensure!(
            dug.status == "NXDOMAIN",
            "{name} over {over:?}: {} {:?}",
            dug.status,
            dug.answer
        );
        ensure!(
            dug.authority.len() == 1
                && dug
                    .authority
                    .iter()
                    .all(|record| record.starts_with("global. 5 IN SOA ")),
            "{name} over {over:?}: the authority section is {:?}",
            dug.authority
        );
    }
    Ok(())
}

/// `nginx.default.global. 5 IN A 10.96.0.1`, one for each address.
pub fn a(name: &str, addresses: &[&[&str]]) -> Vec<String> {
    addresses
        .concat()
        .iter()
        .map(|address| format!("{name}. 5 IN A {address}"))
        .collect()
}

/// `_sql._tcp.nginx.default.global. 5 IN SRV 0 10 26257 nginx-set-0.east.nginx.default.global.`, one for each target.
pub fn srv(name: &str, port: u16, targets: &[&str]) -> Vec<String> {
    targets
        .iter()
        .map(|target| format!("{name}. 5 IN SRV 0 10 {port} {target}."))
        .collect()
}

impl Dug {
    fn read(text: &str) -> Result<Self> {
        let header = |key: &str, end: char| {
            let start = text.find(key).with_context(|| format!("no {key:?}"))? + key.len();
            let length = text[start..].find(end).context("an unfinished header")?;
            anyhow::Ok(text[start..start + length].trim().to_owned())
        };
        let section = |title: &str| {
            let lines = text
                .lines()
                .skip_while(|line| !line.contains(title))
                .skip(1);
            let mut records: Vec<String> = lines
                .take_while(|line| !line.is_empty())
                .map(single_spaced)
                .collect();
            records.sort();
            records
        };
        Ok(Self {
            status: header("status: ", ',')?,
            flags: header("flags: ", ';')?,
            answer: section("ANSWER SECTION:"),
            authority: section("AUTHORITY SECTION:"),
        })
    }
}

fn single_spaced(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

// === a socket of our own ===

/// Asks once for the addresses of `name` over UDP.
pub fn addresses_of(server: SocketAddr, name: &str) -> Result<Seen> {
    Ok(Asker::new(server, name)?.ask())
}

/// Asks once; `edns` is the size of datagrams that the question says it takes. Returns the reply and its octets.
pub fn ask(
    server: SocketAddr,
    over: Over,
    name: &str,
    kind: RecordType,
    edns: Option<u16>,
) -> Result<(Message, usize)> {
    let mut query = question(name, kind)?;
    if let Some(size) = edns {
        let mut options = Edns::new();
        options.set_max_payload(size);
        query.set_edns(options);
    }
    let id = query.metadata.id;
    let packet = query.to_vec()?;
    let reply = exchange(server, &packet, over, PATIENCE)?;
    let message = Message::from_vec(&reply)
        .with_context(|| format!("{name} {kind} over {over:?}: an unreadable reply"))?;
    ensure!(
        message.metadata.id == id,
        "{name} {kind} over {over:?}: a reply to another question"
    );
    Ok((message, reply.len()))
}

/// A question for a name without the last dot.
pub fn question(name: &str, kind: RecordType) -> Result<Message> {
    let mut query = Message::query();
    query.add_query(Query::query(Name::from_str(&format!("{name}."))?, kind));
    Ok(query)
}

struct Asker {
    socket: UdpSocket,
    query: Message,
    id: u16,
}

impl Asker {
    fn new(server: SocketAddr, name: &str) -> Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(server)?;
        Ok(Self {
            socket,
            query: question(name, RecordType::A)?,
            id: 0,
        })
    }

    fn ask(&mut self) -> Seen {
        self.id = self.id.wrapping_add(1);
        self.query.metadata.id = self.id;
        match self.exchange() {
            Ok(reply) => read_addresses(&reply),
            Err(error) => Seen::Nothing(format!("failed: {error:#}")),
        }
    }

    fn exchange(&self) -> Result<Message> {
        self.socket.send(&self.query.to_vec()?).context("sending")?;
        let deadline = Instant::now() + PATIENCE;
        let mut buffer = [0; 4096];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("no answer within {PATIENCE:?}");
            }
            self.socket.set_read_timeout(Some(left))?;
            let length = match self.socket.recv(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                other => other.context("receiving")?,
            };
            let reply = Message::from_vec(&buffer[..length]).context("reading")?;
            if reply.metadata.id == self.id {
                return Ok(reply);
            }
        }
    }
}

fn read_addresses(reply: &Message) -> Seen {
    let metadata = &reply.metadata;
    if metadata.response_code != ResponseCode::NoError {
        return Seen::Nothing(format!("{:?}", metadata.response_code));
    }
    if metadata.truncation || !metadata.authoritative {
        return Seen::Nothing("truncated, or without authority".to_owned());
    }
    let addresses: BTreeSet<Ipv4Addr> = reply
        .answers
        .iter()
        .filter_map(|record| {
            if let RData::A(address) = &record.data {
                Some(address.0)
            } else {
                None
            }
        })
        .collect();
    if addresses.len() == reply.answers.len() {
        Seen::Addresses(addresses)
    } else {
        Seen::Nothing(format!("repeated or foreign records: {:?}", reply.answers))
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

    pub fn name(&self) -> &str {
        &self.name
    }

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
