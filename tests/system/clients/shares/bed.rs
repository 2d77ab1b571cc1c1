//! The server with a name that has weights, and three clusters that count the requests, in one network.

use std::fmt;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use support::commands::binary;
use support::http::get;
use support::networks::{Files, Network};
use support::objects::{Manifest, gateway_mirror, local, objects};
use support::process::Process;
use support::query::query;
use support::repository::repository;
use support::wait::eventually;
use support::wire::{Transport, try_ask};
use tempfile::TempDir;

/// The clusters with the addresses of their mirrors.
pub(super) const CLUSTERS: [(&str, Ipv4Addr); 3] = [
    ("east", Ipv4Addr::new(10, 96, 50, 1)),
    ("west", Ipv4Addr::new(10, 96, 50, 2)),
    ("north", Ipv4Addr::new(10, 96, 50, 3)),
];
/// The port of the Services.
pub(super) const PORT: u16 = 8080;
/// The Service whose order changes.
const WEB: &str = "web";
/// A Service with the same weight for two clusters.
const EVEN: &str = "even";
const ADMIN: &str = "127.0.0.1:9153";
/// Maximum time of an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The number of requests to each cluster.
pub(super) type Counts = [usize; CLUSTERS.len()];

/// A failover order of one step: the weight of each cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order([u16; CLUSTERS.len()]);

pub(super) struct Bed {
    network: Network,
    requests: Arc<[AtomicUsize; CLUSTERS.len()]>,
    server: Process,
    address: SocketAddr,
    folder: TempDir,
}

/// Returns the shares in percent.
pub(super) fn percent(counts: Counts) -> [f64; CLUSTERS.len()] {
    let total = counts.iter().sum::<usize>().max(1) as f64;
    counts.map(|count| 100.0 * count as f64 / total)
}

// === impl Order ===

impl Order {
    /// Most to `east`, some to `west`; `north` is drained.
    pub(super) const USUAL: Self = Self([90, 10, 0]);
    /// All to `west`.
    pub(super) const MOVED: Self = Self([0, 100, 0]);
    /// The order of the other Service.
    pub(super) const EVEN: Self = Self([50, 50, 0]);
    /// An order whose weights HAProxy can tell apart.
    pub(super) const LARGE: Self = Self([1000, 250, 0]);

    /// Returns the shares in percent.
    pub(super) fn percent(self) -> [f64; CLUSTERS.len()] {
        percent(self.0.map(usize::from))
    }

    /// Returns the clusters that are not drained, with their weights.
    pub(super) fn drawn(self) -> impl Iterator<Item = (&'static str, u16)> {
        let all = CLUSTERS.iter().zip(self.0);
        all.filter(|(_, weight)| *weight > 0)
            .map(|((cluster, _), weight)| (*cluster, weight))
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = CLUSTERS.iter().zip(self.0);
        let parts: Vec<String> = all
            .map(|((cluster, _), weight)| format!("{cluster}={weight}"))
            .collect();
        f.write_str(&parts.join("+"))
    }
}

// === impl Bed ===

impl Bed {
    /// Starts the server and the clusters. The programs and their configuration have CoreDNS at 10.96.0.10 and
    /// global-dns at 10.96.0.53; here either address may be the server.
    pub(super) fn start(listen: &str) -> Result<Self> {
        let network = Network::of_this_thread();
        let clusters = CLUSTERS.map(|(_, address)| address.to_string());
        let servers = ["10.96.0.10", "10.96.0.53"].map(str::to_owned);
        for address in clusters.iter().chain(&servers) {
            network.ip(&format!("address add {address}/32 dev lo"))?;
        }
        let requests: Arc<[AtomicUsize; CLUSTERS.len()]> = Arc::default();
        for (index, (_, address)) in CLUSTERS.into_iter().enumerate() {
            let listener = TcpListener::bind((address, PORT))?;
            let requests = Arc::clone(&requests);
            // It ends with the process of the tests.
            thread::spawn(move || accept(&listener, index, &requests));
        }
        let folder = TempDir::with_prefix("global-dns-shares-")?;
        fs::write(folder.path().join("objects.yaml"), manifest(Order::USUAL))?;
        let mut serve = network.command(&binary(), &Files::default())?;
        serve.arg("serve").arg("--file");
        serve.arg(folder.path().join("objects.yaml"));
        serve.args([
            &format!("--listen={listen}"),
            &format!("--admin-listen={ADMIN}"),
            "--api-listen=127.0.0.1:9154",
            "--cluster-name=hub",
        ]);
        let mut bed = Self {
            server: Process::start("global-dns", serve)?,
            network,
            requests,
            address: listen.parse()?,
            folder,
        };
        bed.set_order(Order::USUAL)?;
        Ok(bed)
    }

    /// Sets the order of `web`, and waits until the server uses it.
    pub(super) fn set_order(&mut self, order: Order) -> Result<()> {
        let file = self.folder.path().join("objects.yaml");
        let temporary = file.with_extension("new");
        fs::write(&temporary, manifest(order))?;
        fs::rename(temporary, file)?;
        let expected = order
            .drawn()
            .map(|(cluster, weight)| format!("0 {weight} {PORT} {cluster}.{WEB}.prod.global."));
        let expected = expected.collect();
        let question = query(&format!("_http._tcp.{WEB}.prod.global SRV"));
        eventually("the order", || {
            self.server.check()?;
            let found = try_ask(self.address, &question, Transport::Udp, PATIENCE)?.data_set();
            ensure!(found == expected, "it is {found:?}, expected {expected:?}");
            Ok(())
        })
    }

    /// Returns the number of requests to each cluster since the last call.
    pub(super) fn take_counts(&self) -> Counts {
        [0, 1, 2].map(|index| self.requests[index].swap(0, Relaxed))
    }

    /// Returns the number of questions of a type that the server has received.
    pub(super) fn look_ups(&self, rtype: &str) -> Result<u64> {
        let page = get(ADMIN.parse()?, "/metrics")?.body;
        let lines = page.lines().filter(|line| {
            line.starts_with("global_dns_requests_total{")
                && line.contains(&format!("type=\"{rtype}\""))
        });
        let counts = lines.filter_map(|line| line.rsplit(' ').next());
        counts.map(|count| Ok(count.parse::<u64>()?)).sum()
    }

    /// Builds a command in the network. Its `/etc/resolv.conf` names the server.
    pub(super) fn command(&self, program: &Path) -> Result<Command> {
        let file = self.folder.path().join("resolv.conf");
        fs::write(&file, format!("nameserver {}\n", self.address.ip()))?;
        let bound = vec![(file, PathBuf::from("/etc/resolv.conf"))];
        self.network.command(program, &Files { bound })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Copies a file of `tests/system/clients` with replacements. Fails if the file does not contain one of the texts.
    pub(super) fn configuration(
        &self,
        file: &str,
        replacements: &[(&str, &str)],
    ) -> Result<PathBuf> {
        let source = repository("tests/system/clients").join(file);
        let mut text = fs::read_to_string(&source).with_context(|| source.display().to_string())?;
        for (old, new) in replacements {
            ensure!(text.contains(old), "{file} does not contain {old:?}");
            text = text.replace(old, new);
        }
        let name = Path::new(file).file_name().context("not a file")?;
        let target = self.folder.path().join(name);
        fs::write(&target, text)?;
        Ok(target)
    }

    /// Adds the last lines of the server's log to an error.
    pub(super) fn with_log<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| anyhow!("{error:#}\n{}", self.server.log_tail()))
    }
}

/// Sends requests to a proxy, with a pause before each one.
pub(super) fn send_through(
    proxy: SocketAddr,
    path: &str,
    requests: usize,
    pause: Duration,
) -> Result<()> {
    for _ in 0..requests {
        thread::sleep(pause);
        send_one(proxy, path)?;
    }
    Ok(())
}

/// Sends a request to a proxy, again if it has no address at this moment.
pub(super) fn send_one(proxy: SocketAddr, path: &str) -> Result<()> {
    eventually("a response", || {
        let page = get(proxy, path)?;
        ensure!(page.status == 200, "status {}: {}", page.status, page.body);
        Ok(())
    })
}

// === Objects ===

/// Returns the objects: the mirrors of both Services, and their orders.
fn manifest(order: Order) -> String {
    let services = [(WEB, order), (EVEN, Order::EVEN)];
    let all = services.into_iter().map(|(name, order)| {
        let own = local("prod", name).without_selector();
        let own = own.annotation("global-dns/failover", &order.to_string());
        let own = own.annotation("global-dns/failover-mode", "auto");
        let start = objects().with(own);
        CLUSTERS.iter().fold(start, |all, (cluster, address)| {
            let mirror = gateway_mirror("prod", name, cluster, &address.to_string());
            all.with(with_port(mirror.service()))
                .with(mirror.slice(true))
        })
    });
    all.collect::<Manifest>().text()
}

/// Replaces the port of a mirror by the one of the programs' configuration.
fn with_port(mut service: Value) -> Value {
    service["spec"]["ports"] = json!([{"name": "http", "protocol": "TCP", "port": PORT}]);
    service
}

// === Clusters ===

fn accept(listener: &TcpListener, cluster: usize, requests: &Arc<[AtomicUsize; CLUSTERS.len()]>) {
    for stream in listener.incoming().flatten() {
        let requests = Arc::clone(requests);
        // An error ends the connection.
        thread::spawn(move || serve(&stream, cluster, &requests).ok());
    }
}

/// Counts and answers the requests of a connection. A health check without a request is not counted.
fn serve(
    stream: &TcpStream,
    cluster: usize,
    requests: &[AtomicUsize; CLUSTERS.len()],
) -> Result<()> {
    stream.set_nodelay(true)?;
    let (name, _) = CLUSTERS[cluster];
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        if line.trim_end().is_empty() {
            requests[cluster].fetch_add(1, Relaxed);
            let length = name.len();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length:";
            let response = format!("{head} {length}\r\n\r\n{name}");
            lines.get_mut().write_all(response.as_bytes())?;
        }
        line.clear();
    }
    Ok(())
}
