//! A server under a flood, and the honest client beside it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::say;
use crate::support::command::global_dns;
use crate::support::http::get;
use crate::support::metrics::metric;
use crate::support::networks::{Network, in_a_network_of_its_own};
use crate::support::running::Running;
use crate::support::wire::{Over, exchange};

/// `--tcp-connections`, by default.
pub const CONNECTIONS: u64 = 1024;
/// Descriptors that are no connections: listeners, the clock, the log, the runtime.
const OTHER_DESCRIPTORS: u64 = 64;
/// KiB for each connection: what is half read, 16 KiB of replies, and one more message.
const PER_CONNECTION: u64 = 4 + 16 + 64;
/// KiB for all else: a debug build with its table.
const REST: u64 = 64 * 1024;
/// An honest query that takes longer, or that three tries over UDP do not get answered, has failed.
const PATIENCE: Duration = Duration::from_secs(2);
const TRIES: usize = 3;
/// How long a flood lasts: longer than the patience for a slow client, 5 s.
const LASTS: Duration = Duration::from_secs(8);

/// Endpoints of the service that attackers ask for.
pub const MANY: usize = 200;

// === The server ===

/// What a server listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listeners {
    Plain,
    /// TLS and HTTPS, too.
    Encrypted,
}

pub struct Server {
    running: Running,
    pub dns: SocketAddr,
    _folder: TempDir,
}

/// A headless mirror with so many endpoints.
fn service(name: &str, endpoints: usize) -> Vec<Value> {
    let labels = |more: Option<&str>| {
        let mut labels = json!({
            "mirror.linkerd.io/mirrored-service": "true",
            "mirror.linkerd.io/cluster-name": "east",
        });
        if let Some(parent) = more {
            labels["mirror.linkerd.io/headless-mirror-svc-name"] = json!(parent);
        }
        labels
    };
    let mirror = format!("{name}-east");
    let parent = json!({
        "apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None"},
        "metadata": {"namespace": "prod", "name": mirror, "labels": labels(None)},
    });
    let endpoint = |number: usize| {
        let host = format!("{name}-{number}");
        let address = Ipv4Addr::new(198, 51, 100, (number + 1) as u8).to_string();
        json!({
            "apiVersion": "v1", "kind": "Service",
            "spec": {"clusterIP": address, "clusterIPs": [address], "ports": [{"name": "sql", "port": 5432}]},
            "metadata": {
                "namespace": "prod", "name": format!("{host}-east"), "labels": labels(Some(&mirror)),
                "annotations": {"mirror.linkerd.io/remote-svc-fq-name": format!("{host}.{name}.prod.svc.cluster.local")},
            },
        })
    };
    let endpoints = (0..endpoints).map(endpoint);
    std::iter::once(parent).chain(endpoints).collect()
}

impl Server {
    fn start(flags: &[&str], listeners: Listeners) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("objects.json");
        let items = [service("db", 1), service("many", MANY)].concat();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        fs::write(&file, list.to_string()).unwrap();
        // What some platforms give a pod, for it to raise as far as it may.
        let mut command = Command::new("prlimit");
        let server = global_dns();
        command
            .args(["--nofile=256:", "--"])
            .arg(server.get_program());
        command.args(["serve", "--listen=127.0.0.1:5353", "--log-format=json"]);
        command.args(["--admin-listen=127.0.0.1:9153", "--api-listen=127.0.0.1:0"]);
        command.args(["--cluster-name=hub", "--file"]).arg(file);
        command.args(flags);
        if listeners == Listeners::Encrypted {
            let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            let (cert, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
            fs::write(&cert, issued.cert.pem()).unwrap();
            fs::write(&key, issued.signing_key.serialize_pem()).unwrap();
            command.args(["--tls-listen=127.0.0.1:853", "--https-listen=127.0.0.1:443"]);
            command
                .arg("--tls-cert")
                .arg(cert)
                .arg("--tls-key")
                .arg(key);
        }
        let running = Running::start(command);
        running.wait_until_ready();
        Self {
            dns: running.address("dns"),
            running,
            _folder: folder,
        }
    }

    /// Where a listener is: `admin`, `api`, `tls`, `https`.
    pub fn address(&self, listener: &str) -> SocketAddr {
        self.running.address(listener)
    }

    pub fn metric(&self, name: &str) -> u64 {
        let page = get(self.running.address("admin"), "/metrics").unwrap().body;
        let value: f64 = metric(&page, name).unwrap().parse().unwrap();
        value as u64
    }

    /// KiB of memory that it has, and the most that it has had.
    fn memory(&self) -> (u64, u64) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.running.child.id()));
        let status = status.unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.unwrap().split_whitespace().next().unwrap();
            number.parse().unwrap()
        };
        (field("VmRSS:"), field("VmHWM:"))
    }

    fn descriptors(&self) -> u64 {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", self.running.child.id()));
        descriptors.unwrap().count() as u64
    }
}

// === What is asked ===

/// A question of type A, with EDNS.
pub fn query(name: &str) -> Vec<u8> {
    let mut packet = vec![0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    for label in name.split('.') {
        packet.push(label.len() as u8);
        packet.extend(label.as_bytes());
    }
    packet.extend([0, 0, 1, 0, 1, 0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0]);
    packet
}

/// Whether a reply is the answer that the honest client wants: one address, the right one.
fn is_right(reply: &[u8]) -> bool {
    let (code, answers) = (reply[3] & 0x0f, &reply[6..8]);
    let address = [0, 4, 198, 51, 100, 1];
    code == 0 && answers == [0, 1] && reply.windows(6).any(|octets| octets == address)
}

/// What the honest client saw, and what the server took meanwhile.
#[derive(Debug, Default)]
struct Figures {
    asked: u64,
    failed: u64,
    wrong: u64,
    slowest: Duration,
    /// The slowest answer of `/livez`, for which the kubelet waits a second.
    slowest_livez: Duration,
    descriptors: u64,
}

/// Asks until the flood is over: over UDP with repetitions, as resolvers do, and each eighth time over a new TCP
/// connection.
fn ask_until(done: &AtomicBool, server: &Server) -> Figures {
    let packet = query("db.prod.global");
    let mut figures = Figures::default();
    while !done.load(Relaxed) {
        let started = Instant::now();
        let reply = match figures.asked % 8 {
            0 => exchange(server.dns, &packet, Over::Tcp, PATIENCE).ok(),
            _ => (0..TRIES).find_map(|_| {
                exchange(server.dns, &packet, Over::Udp, PATIENCE / TRIES as u32).ok()
            }),
        };
        figures.asked += 1;
        figures.slowest = figures.slowest.max(started.elapsed());
        match reply {
            None => figures.failed += 1,
            Some(reply) if !is_right(&reply) => figures.wrong += 1,
            Some(_) => {}
        }
        if figures.asked % 8 == 0 {
            let started = Instant::now();
            let is_alive =
                get(server.address("admin"), "/livez").is_ok_and(|page| page.status == 200);
            figures.failed += u64::from(!is_alive);
            figures.slowest_livez = figures.slowest_livez.max(started.elapsed());
        }
        figures.descriptors = figures.descriptors.max(server.descriptors());
        thread::sleep(Duration::from_millis(5));
    }
    figures
}

/// Says that the flood is over, when it is dropped: by a failure, too.
struct End<'d>(&'d AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs a flood, and holds what it did to the bounds. `attack` returns what is to be told of it.
pub fn flood(name: &str, flags: &[&str], attack: impl FnOnce(&Server, Instant) -> String + Send) {
    flood_of(Listeners::Plain, name, flags, attack);
}

/// The same with other listeners.
pub fn flood_of(
    listeners: Listeners,
    name: &str,
    flags: &[&str],
    attack: impl FnOnce(&Server, Instant) -> String + Send,
) {
    // TLS takes its state and its buffers, at both ends of what carries it.
    let (descriptors, memory) = match listeners {
        Listeners::Plain => (CONNECTIONS, CONNECTIONS * PER_CONNECTION),
        Listeners::Encrypted => (4 * CONNECTIONS, 2 * CONNECTIONS * PER_CONNECTION),
    };
    in_a_network_of_its_own(|| {
        let network = Network::of_this_thread();
        network.ip("route add local 96.0.0.0/4 dev lo").unwrap();
        let mut server = Server::start(flags, listeners);
        let (before, _) = server.memory();
        let done = AtomicBool::new(false);
        let (told, figures) = thread::scope(|scope| {
            let honest = scope.spawn(|| ask_until(&done, &server));
            let told = {
                let _over = End(&done);
                attack(&server, Instant::now() + LASTS)
            };
            (told, honest.join().unwrap())
        });
        let (_, peak) = server.memory();
        say(&format!("{name:<28} {told}"));
        say(&format!(
            "{:<28} memory {} MiB before, {} MiB at most; {} descriptors at most; \
             honest client: {} asked, {} failed, {} wrong, slowest {} ms, /livez {} ms",
            "",
            before / 1024,
            peak / 1024,
            figures.descriptors,
            figures.asked,
            figures.failed,
            figures.wrong,
            figures.slowest.as_millis(),
            figures.slowest_livez.as_millis()
        ));
        assert!(!server.running.has_ended());
        assert!(figures.asked > 50, "{figures:?}");
        assert_eq!((figures.failed, figures.wrong), (0, 0), "{figures:?}");
        assert!(
            figures.slowest_livez < Duration::from_secs(1),
            "{figures:?}"
        );
        assert!(peak <= before + REST + memory);
        assert!(figures.descriptors <= descriptors + OTHER_DESCRIPTORS);
        for proto in ["udp", "tcp", "tls", "https"] {
            let panics = format!("global_dns_worker_panics_total{{proto=\"{proto}\"}}");
            assert_eq!(server.metric(&panics), 0);
        }
    });
}
