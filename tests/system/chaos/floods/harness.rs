//! A server under a flood, and the limits of its resources.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::certificates::{Identity, issue_valid};
use support::commands::{binary, command};
use support::http::get;
use support::networks::{Network, in_new_network};
use support::objects::{Gateway, Manifest, mirror};
use support::output::print_line;
use support::query::query;
use support::server::{Server, WaitUntil};
use support::settings::add_arguments;
use support::standin::{Behavior, StandIn};

use super::group::Group;
use super::honest::{self, Tally, Way};
use crate::chaos::readers;

/// Default of `limits.connections`. TLS connections have the same limit of their own.
pub const CONNECTIONS: u64 = 256;
/// Descriptors other than connections: listeners, the clock, the log, the runtime, and 64 ended connections whose clients
/// have not received the last reply.
const OTHER_DESCRIPTORS: u64 = 64 + 64;
/// Memory of the program with an empty table, of everything besides table and connections, and of a connection with full buffers, in
/// MiB. The manual says: memory = table + 64 MiB + 0.3 MiB × connections.
const PROGRAM: f64 = 13.0;
const BASE: f64 = 64.0;
const PER_CONNECTION: f64 = 0.3;
/// Maximum times of the honest client, and of `/livez`.
const MAX_UDP: Duration = Duration::from_millis(100);
const MAX_TCP: Duration = Duration::from_millis(350);
const MAX_LIVEZ: Duration = Duration::from_millis(100);
/// Additional KiB that may remain after the flood, because the allocator cannot release them.
const RETAINED_MEMORY: u64 = 32 * 1024;
/// Time limit for the release of memory and connections: longer than the time limit of a silent client.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// Duration of a flood: longer than the time limit of a slow client, 5 s.
const FLOOD_DURATION: Duration = Duration::from_secs(8);

/// Endpoints of the service that attackers query.
pub const MANY: usize = 200;
/// Endpoints of the service whose answer of type A fills a message of 65,535 octets.
const MOST: usize = 4093;

// === The server ===

/// The certificate of the servers.
pub static IDENTITY: LazyLock<Identity> = LazyLock::new(issue_valid);

/// Listeners of a server in addition to UDP and TCP. Attackers connect to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listeners {
    Plain,
    /// TLS.
    Encrypted,
}

/// Returns a table of 100,000 endpoints, with the services that attackers query.
fn objects() -> Vec<Value> {
    let service = |name: &str, endpoints: usize| {
        let mirror = mirror("prod", name, "east").ports(&[("sql", "TCP", 5432)]);
        (0..endpoints).fold(mirror, |mirror, number| {
            let address = u32::from(Ipv4Addr::new(198, 18, 0, 1)) + number as u32;
            let address = Ipv4Addr::from(address).to_string();
            let host = format!("{name}-{number}");
            mirror.endpoint_behind(Gateway::Unknown, &host, &[&address])
        })
    };
    let mut objects = readers::objects();
    for service in [service("many", MANY), service("most", MOST)] {
        objects.extend(Manifest::from(service).0);
    }
    objects
}

fn start(flood: &Flood<'_>, group: &Group, kubeconfig: &Path) -> Server {
    let folder = tempfile::tempdir().unwrap();
    // The shell enters the group, gets the soft limit that some platforms set for a pod, and becomes the server, which raises the
    // limit.
    let mut command = command("sh");
    command.args(["-c", "echo $$ >\"$0\" && ulimit -Sn 256 && exec \"$@\""]);
    command.arg(group.entrance()).arg(binary());
    command.args(["serve", "--listen=127.0.0.1:5353", "--log-format=json"]);
    command.args(["--admin-listen=127.0.0.1:9153", "--api-listen=127.0.0.1:0"]);
    // Attackers have addresses that are not allowed by default.
    add_arguments(&mut command, &["limits.allow=[0.0.0.0/0]"]);
    command
        .args(["--cluster-name=hub", "--kubeconfig"])
        .arg(kubeconfig);
    add_arguments(&mut command, flood.flags);
    if flood.listeners == Listeners::Encrypted {
        IDENTITY.write(folder.path());
        add_arguments(&mut command, &["listen.tls=['127.0.0.1:853']"]);
        add_arguments(&mut command, &Identity::settings(folder.path()));
    }
    Server::start_command(folder, command, WaitUntil::Ready)
}

/// Returns the memory of a server in KiB.
fn memory(server: &Server) -> u64 {
    server.process().memory("VmRSS").unwrap()
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
    /// Maximum of the memory of the control group in octets.
    peak: u64,
}

/// Marks the flood as ended on drop, also after a panic.
struct EndOnDrop<'d>(&'d AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs a flood over UDP and TCP and checks the limits. `attack` returns the text of its output line.
pub fn flood(name: &str, flags: &[&str], attack: impl Fn(&Server, Instant) -> String + Sync) {
    let flood = Flood {
        flags,
        ..Flood::new(Listeners::Plain, name)
    };
    flood.run(attack);
}

/// Runs a flood on a server with TLS.
pub fn flood_encrypted(name: &str, attack: impl Fn(&Server, Instant) -> String + Sync) {
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

    /// Runs the flood and checks the limits.
    pub fn run(self, attack: impl Fn(&Server, Instant) -> String + Sync) {
        in_new_network(|| self.attack(&attack));
    }

    fn attack(&self, attack: impl Fn(&Server, Instant) -> String) {
        let name = self.name;
        let network = Network::of_this_thread();
        network.ip("route add local 96.0.0.0/4 dev lo").unwrap();
        let (group, standin) = (Group::new(), StandIn::start(Behavior::Normal, &objects()));
        let standin = standin.unwrap();
        let mut server = start(self, &group, &standin.kubeconfig);
        // One-time allocations for the first client are not caused by the flood.
        for way in Way::of(self.listeners) {
            honest::ask_once(&server, *way);
        }
        let (before, resident) = (group.usage(), memory(&server));
        let done = AtomicBool::new(false);
        let (text, figures) = thread::scope(|scope| {
            let seen = scope.spawn(|| self.measure(&server, &group, &done));
            let text = {
                let _over = EndOnDrop(&done);
                attack(&server, Instant::now() + FLOOD_DURATION)
            };
            (text, seen.join().unwrap())
        });
        print_line(&format!("{name:<28} {text}"));
        let mebibytes = |octets: u64| octets as f64 / f64::from(1 << 20);
        let sum = self.memory_limit(mebibytes(before));
        print_line(&format!(
            "{:<28} memory {:.0} MiB before, {:.0} MiB maximum, {sum:.0} MiB by the formula; {} descriptors maximum; \
             /livez {} ms median, {} ms maximum",
            "",
            mebibytes(before),
            mebibytes(figures.peak),
            figures.descriptors,
            median(&figures.livez).as_millis(),
            figures.slowest_livez().as_millis()
        ));
        let ways = figures.ways.iter();
        let ways = ways.map(|(way, tally)| format!("{} {tally}", way.name()));
        let ways: Vec<String> = ways.collect();
        print_line(&format!("{:<28} honest client: {}", "", ways.join(", ")));
        assert!(!server.has_ended());
        self.check_limits(&figures);
        assert!(mebibytes(figures.peak) <= sum);
        self.await_recovery(&server, resident);
        assert!(!server.has_ended());
        server.signal("KILL");
        let _ = server.end(); // before the control group is removed
    }

    /// Returns the memory limit of the manual in MiB, for a server that used this much before the flood.
    fn memory_limit(&self, before: f64) -> f64 {
        before - PROGRAM + BASE + PER_CONNECTION * self.connections() as f64
    }

    /// Returns the maximum number of connections of all listeners.
    fn connections(&self) -> u64 {
        match self.listeners {
            Listeners::Plain => CONNECTIONS,
            Listeners::Encrypted => 2 * CONNECTIONS,
        }
    }

    /// Runs the honest client over every transport, and measures the server, until the flood ends.
    fn measure(&self, server: &Server, group: &Group, done: &AtomicBool) -> Figures {
        thread::scope(|scope| {
            let peak = scope.spawn(|| {
                let mut peak = 0;
                while !done.load(Relaxed) {
                    peak = peak.max(group.usage());
                    thread::sleep(Duration::from_millis(10));
                }
                peak
            });
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
            figures.peak = peak.join().unwrap();
            figures
        })
    }

    /// Checks the limits of time and of descriptors.
    fn check_limits(&self, figures: &Figures) {
        for (way, tally) in &figures.ways {
            assert!(tally.asked > 20, "{way:?}: {tally}");
            assert_eq!((tally.failed, tally.wrong), (0, 0), "{way:?}: {tally}");
            let maximum = match way {
                Way::Udp => MAX_UDP,
                Way::Tcp => MAX_TCP,
                Way::Tls | Way::NewTls => continue,
            };
            assert!(tally.slowest <= maximum, "{way:?}: {tally}");
        }
        assert_eq!(figures.dead, 0);
        assert!(figures.slowest_livez() <= MAX_LIVEZ, "{figures:?}");
        assert!(figures.descriptors <= self.connections() + OTHER_DESCRIPTORS);
    }

    /// Waits until all connections are closed and memory is released, then checks the answers.
    fn await_recovery(&self, server: &Server, before: u64) {
        let started = Instant::now();
        let limit = before + RETAINED_MEMORY;
        let (mut open, mut memory) = (u64::MAX, u64::MAX);
        while started.elapsed() < RECOVERY_TIMEOUT && (open > 0 || memory > limit) {
            open = server.count("global_dns_tcp_connections");
            memory = self::memory(server);
            thread::sleep(Duration::from_millis(50));
        }
        print_line(&format!(
            "{:<28} afterwards: {open} connections, memory {} MiB, after {:.1} s",
            "",
            memory / 1024,
            started.elapsed().as_secs_f64()
        ));
        assert_eq!(open, 0);
        assert!(memory <= limit);
        for way in Way::of(self.listeners) {
            honest::ask_once(server, *way);
        }
        for proto in ["udp", "tcp", "tls"] {
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
