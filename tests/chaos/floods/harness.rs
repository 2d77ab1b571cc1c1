//! A server under a flood, and the honest client beside it.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use support::certificates::{Issued, issue_good};
use support::commands::{binary, command, tool};
use support::http::get;
use support::networks::{Network, in_a_network_of_its_own};
use support::objects::{Gateway, Mirror, mirror, objects};
use support::query::query;
use support::say::say;
use support::server::{Await, Server};

use super::honest::{self, Tally, Way};

/// `--tcp-connections`, by default. Connections of TLS and HTTPS have as many places of their own.
pub const CONNECTIONS: u64 = 1024;
/// Descriptors that are no connections: listeners, the clock, the log, the runtime.
const OTHER_DESCRIPTORS: u64 = 64;
/// KiB for each connection: what is half read, 16 KiB of replies, and one more message.
const PER_CONNECTION: u64 = 4 + 16 + 64;
/// KiB more for each encrypted one: TLS holds a record that is half read and records that are not taken yet, HTTP/2
/// its streams.
const PER_ENCRYPTION: u64 = 84;
/// KiB for all else: the server with its table, and what is allocated and freed all the while.
const REST: u64 = 64 * 1024;
/// KiB more than before that may stay when the flood is over: what the allocator cannot give back.
const STAYS: u64 = 32 * 1024;
/// How long memory and connections may take to come back: longer than a silent client is waited for.
const COMES_BACK: Duration = Duration::from_secs(60);
/// How long a flood lasts: longer than the patience for a slow client, 5 s.
const LASTS: Duration = Duration::from_secs(8);

/// Endpoints of the service that attackers ask for.
pub const MANY: usize = 200;

// === The server ===

/// What a server listens on beside UDP and TCP. Attackers come there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listeners {
    Plain,
    /// TLS and HTTPS.
    Encrypted,
    Quic,
}

/// A headless mirror with so many endpoints.
fn service(name: &str, endpoints: usize) -> Mirror {
    let mirror = mirror("prod", name, "east").ports(&[("sql", "TCP", 5432)]);
    (0..endpoints).fold(mirror, |mirror, number| {
        let address = Ipv4Addr::new(198, 51, 100, (number + 1) as u8).to_string();
        let host = format!("{name}-{number}");
        mirror.endpoint_behind(Gateway::Unknown, &host, &[&address])
    })
}

fn start(flood: &Flood<'_>) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.json");
    let objects = objects().with(service("db", 1)).with(service("many", MANY));
    fs::write(&file, objects.list()).unwrap();
    let mut command = command(tool("prlimit").unwrap());
    command.args([&*format!("--nofile={}", flood.open_files), "--"]);
    command.arg(binary());
    command.args(["serve", "--listen=127.0.0.1:5353", "--log-format=json"]);
    command.args(["--admin-listen=127.0.0.1:9153", "--api-listen=127.0.0.1:0"]);
    command.args(["--cluster-name=hub", "--file"]).arg(file);
    command.args(flood.flags);
    let listeners: &[&str] = match flood.listeners {
        Listeners::Plain => &[],
        Listeners::Encrypted => &["--tls-listen=127.0.0.1:853", "--https-listen=127.0.0.1:443"],
        Listeners::Quic => &["--quic-listen=127.0.0.1:853"],
    };
    if !listeners.is_empty() {
        issue_good().write(folder.path());
        command.args(listeners).args(Issued::flags(folder.path()));
    }
    Server::start_command(folder, command, Await::Ready)
}

/// KiB of memory that a server has, and the most that it has had.
fn memory(server: &Server) -> (u64, u64) {
    let memory = |line| server.process().memory(line).unwrap();
    (memory("VmRSS"), memory("VmHWM"))
}

// === What is asked ===

/// A question of type A, with EDNS.
pub fn question(name: &str) -> Vec<u8> {
    query(&format!("{name} A +edns")).0
}

/// The same, with padding (RFC 7830) up to the longest query that is accepted.
pub fn long_question(name: &str) -> Vec<u8> {
    const LONGEST: usize = 4096;
    let rest = LONGEST - query(&format!("{name} A +ednsopt=12")).0.len();
    let padding = "00".repeat(rest);
    query(&format!("{name} A +ednsopt=12:{padding}")).0
}

// === A flood ===

/// What is started, and what it is called.
#[derive(Clone, Copy, Debug)]
pub struct Flood<'f> {
    pub name: &'f str,
    pub listeners: Listeners,
    pub flags: &'f [&'f str],
    /// Soft and hard limit of open files, as `prlimit` takes them.
    pub open_files: &'f str,
    /// Whether the honest client must be answered in this way, and not only asked.
    pub must_answer: fn(Way) -> bool,
}

/// What was seen of the server while a flood lasted.
#[derive(Debug, Default)]
struct Figures {
    /// Of each way that the honest client asked.
    ways: Vec<(Way, Tally)>,
    /// How long `/livez` took, for which the kubelet waits a second.
    livez: Vec<Duration>,
    /// How often it did not answer.
    dead: u64,
    descriptors: u64,
}

/// Says that the flood is over, when it is dropped: by a failure, too.
struct End<'d>(&'d AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs a flood on UDP and TCP, and holds what it did to the bounds. `attack` returns what is to be told of it.
pub fn flood(name: &str, flags: &[&str], attack: impl FnOnce(&Server, Instant) -> String + Send) {
    let flood = Flood {
        flags,
        ..Flood::of(Listeners::Plain, name)
    };
    flood.run(attack);
}

/// The same with TLS and HTTPS.
pub fn flood_encrypted(name: &str, attack: impl FnOnce(&Server, Instant) -> String + Send) {
    Flood::of(Listeners::Encrypted, name).run(attack);
}

// === impl Flood ===

impl<'f> Flood<'f> {
    /// One without flags.
    pub fn of(listeners: Listeners, name: &'f str) -> Self {
        Self {
            name,
            listeners,
            flags: &[],
            // What some platforms give a pod, for it to raise as far as it may.
            open_files: "256:",
            // It is experimental.
            must_answer: |way| way != Way::Quic,
        }
    }

    pub fn run(self, attack: impl FnOnce(&Server, Instant) -> String + Send) {
        in_a_network_of_its_own(|| {
            let network = Network::of_this_thread();
            network.ip("route add local 96.0.0.0/4 dev lo").unwrap();
            let mut server = start(&self);
            // What is allocated once, for the first that comes, is no part of the flood.
            for way in Way::of(self.listeners) {
                honest::ask_once(&server, *way);
            }
            let (before, _) = memory(&server);
            let done = AtomicBool::new(false);
            let (told, figures) = thread::scope(|scope| {
                let seen = scope.spawn(|| self.watch(&server, &done));
                let told = {
                    let _over = End(&done);
                    attack(&server, Instant::now() + LASTS)
                };
                (told, seen.join().unwrap())
            });
            let (_, peak) = memory(&server);
            say(&format!("{:<28} {told}", self.name));
            say(&format!(
                "{:<28} memory {} MiB before, {} MiB at most; {} descriptors at most; /livez {} ms in the middle, {} ms \
                 at most",
                "",
                before / 1024,
                peak / 1024,
                figures.descriptors,
                middle(&figures.livez).as_millis(),
                figures.slowest_livez().as_millis()
            ));
            let ways = figures.ways.iter();
            let ways = ways.map(|(way, tally)| format!("{} {tally}", way.name()));
            let ways: Vec<String> = ways.collect();
            say(&format!("{:<28} honest client: {}", "", ways.join(", ")));
            assert!(!server.has_ended());
            self.hold(&figures, before, peak);
            self.await_recovery(&server, before);
            assert!(!server.has_ended());
        });
    }

    /// Has the honest client ask in every way until the flood is over.
    fn watch(&self, server: &Server, done: &AtomicBool) -> Figures {
        thread::scope(|scope| {
            let ways = Way::of(self.listeners).iter().map(|way| {
                let asked = scope.spawn(|| honest::ask_until(done, server, *way));
                (*way, asked)
            });
            let ways: Vec<_> = ways.collect();
            let mut figures = Figures::default();
            while !done.load(Relaxed) {
                let started = Instant::now();
                let is_alive =
                    get(server.address("admin"), "/livez").is_ok_and(|page| page.status == 200);
                figures.dead += u64::from(!is_alive);
                figures.livez.push(started.elapsed());
                figures.descriptors = figures
                    .descriptors
                    .max(server.process().descriptors() as u64);
                thread::sleep(Duration::from_millis(40));
            }
            let ways = ways.into_iter();
            figures.ways = ways
                .map(|(way, asked)| (way, asked.join().unwrap()))
                .collect();
            figures
        })
    }

    /// Holds figures to the bounds. What QUIC takes is printed and nothing more.
    fn hold(&self, figures: &Figures, before: u64, peak: u64) {
        let wanted = figures
            .ways
            .iter()
            .filter(|(way, _)| (self.must_answer)(*way));
        for (way, tally) in wanted {
            assert!(tally.asked > 20, "{way:?}: {tally}");
            assert_eq!((tally.failed, tally.wrong), (0, 0), "{way:?}: {tally}");
        }
        assert_eq!(figures.dead, 0);
        assert!(
            figures.slowest_livez() < Duration::from_secs(1),
            "{figures:?}"
        );
        let memory = match self.listeners {
            Listeners::Plain => Some(CONNECTIONS * PER_CONNECTION),
            Listeners::Encrypted => Some(CONNECTIONS * (PER_CONNECTION + PER_ENCRYPTION)),
            Listeners::Quic => None,
        };
        if let Some(memory) = memory {
            assert!(peak <= before + REST + memory);
        }
        assert!(figures.descriptors <= CONNECTIONS + OTHER_DESCRIPTORS);
    }

    /// Waits until no connection is left and memory is back, and sees that the answers are right.
    fn await_recovery(&self, server: &Server, before: u64) {
        let started = Instant::now();
        let limit = before + STAYS;
        let (mut open, mut memory) = (u64::MAX, u64::MAX);
        while started.elapsed() < COMES_BACK && (open > 0 || memory > limit) {
            open = server.count("global_dns_tcp_connections");
            memory = self::memory(server).0;
            thread::sleep(Duration::from_millis(50));
        }
        say(&format!(
            "{:<28} afterwards: {open} connections, memory {} MiB, after {:.1} s",
            "",
            memory / 1024,
            started.elapsed().as_secs_f64()
        ));
        assert_eq!(open, 0);
        assert!(memory <= limit || self.listeners == Listeners::Quic);
        for way in Way::of(self.listeners) {
            if *way != Way::Quic {
                honest::ask_once(server, *way);
            }
        }
        for proto in ["udp", "tcp", "tls", "https", "quic"] {
            let panics = format!("global_dns_worker_panics_total{{proto=\"{proto}\"}}");
            assert_eq!(server.count(&panics), 0);
        }
    }
}

impl Figures {
    fn slowest_livez(&self) -> Duration {
        self.livez.iter().copied().max().unwrap_or_default()
    }
}

/// The one in the middle.
fn middle(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
