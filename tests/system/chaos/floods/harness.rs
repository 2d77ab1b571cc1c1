//! A server under a flood, and the limits of its resources.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use support::certificates::{Identity, issue_valid};
use support::commands::{binary, command, tool};
use support::http::get;
use support::networks::{Network, in_new_network};
use support::objects::{Gateway, Mirror, mirror, objects};
use support::output::print_line;
use support::query::query;
use support::server::{Server, WaitUntil};
use support::settings::add_arguments;

use super::honest::{self, Tally, Way};

/// Default of `limits.connections`. TLS connections have the same limit of their own.
pub const CONNECTIONS: u64 = 256;
/// Descriptors other than connections: listeners, the clock, the log, the runtime, and 64 ended connections whose clients
/// have not received the last reply.
const OTHER_DESCRIPTORS: u64 = 64 + 64;
/// KiB for each connection: an incomplete query, 16 KiB of replies, and one more message.
const PER_CONNECTION: u64 = 4 + 16 + 64;
/// Additional KiB for each encrypted connection: TLS buffers an incomplete record and unsent records.
const PER_ENCRYPTION: u64 = 84;
/// KiB for everything else: the server with its table, and temporary allocations.
const BASE_MEMORY: u64 = 64 * 1024;
/// Additional KiB that may remain after the flood, because the allocator cannot release them.
const RETAINED_MEMORY: u64 = 32 * 1024;
/// Time limit for the release of memory and connections: longer than the time limit of a silent client.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// Duration of a flood: longer than the time limit of a slow client, 5 s.
const FLOOD_DURATION: Duration = Duration::from_secs(8);

/// Endpoints of the service that attackers query.
pub const MANY: usize = 200;

// === The server ===

/// Listeners of a server in addition to UDP and TCP. Attackers connect to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listeners {
    Plain,
    /// TLS.
    Encrypted,
    Quic,
}

/// Returns a headless mirror with this number of endpoints.
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
    // The soft limit that some platforms set for a pod. The server raises it.
    command.args(["--nofile=256:", "--"]);
    command.arg(binary());
    command.args(["serve", "--listen=127.0.0.1:5353", "--log-format=json"]);
    command.args(["--admin-listen=127.0.0.1:9153", "--api-listen=127.0.0.1:0"]);
    // Attackers have addresses that are not allowed by default.
    add_arguments(&mut command, &["limits.allow=[0.0.0.0/0]"]);
    command.args(["--cluster-name=hub", "--file"]).arg(file);
    add_arguments(&mut command, flood.flags);
    let listeners: &[&str] = match flood.listeners {
        Listeners::Plain => &[],
        Listeners::Encrypted => &["listen.tls=['127.0.0.1:853']"],
        Listeners::Quic => &["listen.quic=['127.0.0.1:853']"],
    };
    if !listeners.is_empty() {
        issue_valid().write(folder.path());
        add_arguments(&mut command, listeners);
        add_arguments(&mut command, &Identity::settings(folder.path()));
    }
    Server::start_command(folder, command, WaitUntil::Ready)
}

/// Returns the current and the peak memory of a server in KiB.
fn memory(server: &Server) -> (u64, u64) {
    let memory = |line| server.process().memory(line).unwrap();
    (memory("VmRSS"), memory("VmHWM"))
}

// === Questions ===

/// Returns a question of type A with EDNS.
pub fn question(name: &str) -> Vec<u8> {
    query(&format!("{name} A +edns")).0
}

// === Floods ===

/// A flood: its name, and the settings of its server.
#[derive(Clone, Copy, Debug)]
pub struct Flood<'f> {
    pub name: &'f str,
    pub listeners: Listeners,
    pub flags: &'f [&'f str],
}

/// Measurements during a flood.
#[derive(Debug, Default)]
struct Figures {
    /// Results of the honest client for each transport.
    ways: Vec<(Way, Tally)>,
    /// Response times of `/livez`. The kubelet's time limit is a second.
    livez: Vec<Duration>,
    /// Number of failed requests to `/livez`.
    dead: u64,
    descriptors: u64,
}

/// Marks the flood as ended on drop, also after a panic.
struct EndOnDrop<'d>(&'d AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs a flood over UDP and TCP and checks the limits. `attack` returns the text of its output line.
pub fn flood(name: &str, flags: &[&str], attack: impl FnOnce(&Server, Instant) -> String + Send) {
    let flood = Flood {
        flags,
        ..Flood::new(Listeners::Plain, name)
    };
    flood.run(attack);
}

/// Runs a flood on a server with TLS.
pub fn flood_encrypted(name: &str, attack: impl FnOnce(&Server, Instant) -> String + Send) {
    Flood::new(Listeners::Encrypted, name).run(attack);
}

// === impl Flood ===

impl<'f> Flood<'f> {
    /// Creates a flood on a server without additional flags.
    pub fn new(listeners: Listeners, name: &'f str) -> Self {
        Self {
            name,
            listeners,
            flags: &[],
        }
    }

    pub fn run(self, attack: impl FnOnce(&Server, Instant) -> String + Send) {
        in_new_network(|| {
            let network = Network::of_this_thread();
            network.ip("route add local 96.0.0.0/4 dev lo").unwrap();
            let mut server = start(&self);
            // One-time allocations for the first client are not caused by the flood.
            for way in Way::of(self.listeners) {
                honest::ask_once(&server, *way);
            }
            let (before, _) = memory(&server);
            let done = AtomicBool::new(false);
            let (text, figures) = thread::scope(|scope| {
                let seen = scope.spawn(|| self.measure(&server, &done));
                let text = {
                    let _over = EndOnDrop(&done);
                    attack(&server, Instant::now() + FLOOD_DURATION)
                };
                (text, seen.join().unwrap())
            });
            let (_, peak) = memory(&server);
            print_line(&format!("{:<28} {text}", self.name));
            print_line(&format!(
                "{:<28} memory {} MiB before, {} MiB maximum; {} descriptors maximum; /livez {} ms median, {} ms \
                 maximum",
                "",
                before / 1024,
                peak / 1024,
                figures.descriptors,
                median(&figures.livez).as_millis(),
                figures.slowest_livez().as_millis()
            ));
            let ways = figures.ways.iter();
            let ways = ways.map(|(way, tally)| format!("{} {tally}", way.name()));
            let ways: Vec<String> = ways.collect();
            print_line(&format!("{:<28} honest client: {}", "", ways.join(", ")));
            assert!(!server.has_ended());
            self.check_limits(&figures, before, peak);
            self.await_recovery(&server, before);
            assert!(!server.has_ended());
        });
    }

    /// Runs the honest client over every transport, and measures the server, until the flood ends.
    fn measure(&self, server: &Server, done: &AtomicBool) -> Figures {
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

    /// Checks the limits. The resources of QUIC are only printed.
    fn check_limits(&self, figures: &Figures, before: u64, peak: u64) {
        // QUIC is experimental.
        let wanted = figures.ways.iter().filter(|(way, _)| *way != Way::Quic);
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
            assert!(peak <= before + BASE_MEMORY + memory);
        }
        assert!(figures.descriptors <= CONNECTIONS + OTHER_DESCRIPTORS);
    }

    /// Waits until all connections are closed and memory is released, then checks the answers.
    fn await_recovery(&self, server: &Server, before: u64) {
        let started = Instant::now();
        let limit = before + RETAINED_MEMORY;
        let (mut open, mut memory) = (u64::MAX, u64::MAX);
        while started.elapsed() < RECOVERY_TIMEOUT && (open > 0 || memory > limit) {
            open = server.count("global_dns_tcp_connections");
            memory = self::memory(server).0;
            thread::sleep(Duration::from_millis(50));
        }
        print_line(&format!(
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
        for proto in ["udp", "tcp", "tls", "quic"] {
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

/// Returns the median.
fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
