//! `serve`: opens what the flags name, binds, starts, and ends in order.

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::source::Source;
use super::{level, zones};
use crate::admin::{ApiHosts, Metrics, Pages, admin_routes, api_routes};
use crate::cli::{ListenArgs, ServeArgs};
use crate::log::start_queued_logging;
use crate::server::counters::Tallies;
use crate::server::{
    Answerers, Cookies, DnsListener, DnsServer, Encrypted, Limits, TCP_IDLE, descriptors,
    ns_addresses,
};
use crate::source::{Feeds, Policy, SnapshotOf, Snapshots, kube};
use crate::table::Publisher;
use crate::wire::Settings;
use crate::zone::Zones;

/// The pod's addresses, which the chart sets from `status.podIPs`.
const POD_IPS: &str = "GLOBAL_DNS_POD_IPS";
/// The node's, which it sets from `status.hostIPs`, or from `status.hostIP` where Kubernetes may not know that.
const NODE_IPS: &str = "GLOBAL_DNS_NODE_IPS";

/// Serves until a signal comes. `ready` is called when every address is bound.
pub(super) async fn serve(
    args: ServeArgs,
    ready: impl FnOnce(&[SocketAddr]) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    // Kept to the end, where it writes what waits.
    let log = start_queued_logging(level(&args.log, "info"), args.log.log_format.into())?;
    let mut signals = Signals::new()?;
    let mut opened = Opened::open(&args).await?;
    let bound = Bound::bind(&args.listeners, opened.encrypted.take())?;
    let addresses = bound.addresses();
    let server = Server::start(&args, opened, bound, log.lost())?;
    ready(&addresses)?;
    server.run(&mut signals, args.grace).await
}

// === What the flags name ===

/// What the flags name outside this process. What of it cannot be used is an error before anything is bound.
struct Opened {
    source: Source,
    policy: Policy,
    encrypted: Option<Encrypted>,
    cookies: Cookies,
    /// This pod's addresses, and its node's.
    own_addresses: Vec<IpAddr>,
}

impl Opened {
    async fn open(args: &ServeArgs) -> anyhow::Result<Self> {
        let (watch_timeout, relist) = (args.watch_timeout, args.relist);
        if args.max_stale.is_some_and(|most| most < 2 * watch_timeout) {
            bail!(
                "--max-stale is less than twice --watch-timeout, for which a watch may be silent"
            );
        }
        let timing = kube::Timing {
            watch_timeout,
            relist,
        };
        let source = Source::open(&args.source, timing, kube::Access::Pod).await?;
        let encrypted = args.encrypted.clone().options();
        Ok(Self {
            policy: policy(args, &source),
            source,
            encrypted: encrypted.map(Encrypted::open).transpose()?,
            cookies: Cookies::open(args.access.cookie_secret_file.clone())?,
            own_addresses: [addresses_of(POD_IPS)?, addresses_of(NODE_IPS)?].concat(),
        })
    }
}

fn policy(args: &ServeArgs, source: &Source) -> Policy {
    let snapshots = |path| {
        let of = SnapshotOf {
            source: source.place(),
            cluster_name: args.model.cluster_name.clone(),
            namespaces: args.source.namespace.iter().cloned().collect(),
        };
        Snapshots::new(path, args.snapshot_max_age, of)
    };
    Policy {
        rules: args.model.rules(),
        shrink_guard: match source {
            Source::Files(_) => args.shrink_guard.of_files(),
            Source::Cluster(_) => args.shrink_guard,
        },
        snapshot: args.snapshot.clone().map(snapshots),
        max_stale: args.max_stale,
    }
}

/// Reads addresses, with commas between them, from a variable, if it is there.
fn addresses_of(variable: &str) -> anyhow::Result<Vec<IpAddr>> {
    let text = std::env::var(variable).unwrap_or_default();
    let texts = text.split(',').filter(|text| !text.is_empty());
    let address = |text: &str| match text.parse() {
        Ok(ip) => Ok(ip),
        Err(_) => bail!("environment variable {variable}: '{text}' is no IP address"),
    };
    texts.map(address).collect()
}

// === Listeners ===

/// Every address that is listened on.
struct Bound {
    dns: Vec<DnsListener>,
    admin: Vec<TcpListener>,
    api: Vec<TcpListener>,
    encrypted: Option<Encrypted>,
}

impl Bound {
    fn bind(listeners: &ListenArgs, encrypted: Option<Encrypted>) -> anyhow::Result<Self> {
        Ok(Self {
            encrypted: encrypted.map(Encrypted::bind).transpose()?,
            dns: listeners.dns().bind_dns()?,
            admin: listeners.admin().bind_tcp("admin")?,
            api: listeners.api().bind_tcp("api")?,
        })
    }

    /// Returns the addresses of the DNS port.
    fn addresses(&self) -> Vec<SocketAddr> {
        self.dns.iter().map(|listener| listener.address).collect()
    }

    /// Returns how many connections there may be: what the flags say, as far as the system grants descriptors.
    fn limits(&self, args: &ServeArgs, udp_workers: usize) -> anyhow::Result<Limits> {
        let wanted = Limits {
            total: args.tcp_connections as usize,
            per_address: args.tcp_connections_per_address as usize,
        };
        // Over TCP, and as many over TLS and HTTPS.
        let encrypted = self.encrypted.as_ref();
        let per_connection = 1 + encrypted.map_or(0, Encrypted::descriptors);
        descriptors::grant(wanted, per_connection, self.dns.len() * udp_workers)
            .context("reading the limit of open files")
    }
}

// === The server ===

/// Everything that runs.
struct Server {
    listeners: DnsServer,
    tasks: JoinSet<()>,
    /// Set when the process has been asked to end.
    draining: Arc<AtomicBool>,
}

impl Server {
    fn start(
        args: &ServeArgs,
        opened: Opened,
        bound: Bound,
        lost_log_lines: Arc<AtomicU64>,
    ) -> anyhow::Result<Self> {
        let zones = zones(
            &args.model,
            &ns_addresses(&args.ns_address, &bound.addresses()),
        );
        let feeds = Feeds::new(&args.source.namespace);
        let publisher = Publisher::default();
        let (reader, tallies) = (publisher.reader(), Tallies::default());
        let expiry = bound.encrypted.as_ref().map(Encrypted::certificate_expiry);
        let snapshot = opened.policy.snapshot.as_ref();
        let metrics = Metrics {
            tallies: tallies.clone(),
            reader: reader.clone(),
            feeds: feeds.clone(),
            snapshot_failures: snapshot.map(Snapshots::failures).unwrap_or_default(),
            lost_log_lines,
            certificate_expiry: expiry,
        };
        let draining = Arc::<AtomicBool>::default();
        let pages = Pages {
            reader: reader.clone(),
            zones: Arc::new(zones.clone()),
            namespaces: args.source.namespace.clone().into(),
            feeds: feeds.clone(),
            metrics,
            draining: draining.clone(),
        };
        let settings = settings(args, zones, &opened.own_addresses);
        let cookies = Arc::new(opened.cookies);
        let limit = args.access.rate_limit();
        let answerers = Answerers::new(settings, cookies.clone(), reader, tallies, limit);
        let mut tasks = JoinSet::new();
        opened
            .source
            .spawn(&mut tasks, &feeds, publisher, opened.policy)?;
        tasks.spawn(cookies.follow());
        Ok(Self {
            listeners: listen(args, bound, &answerers, &pages, &mut tasks)?,
            tasks,
            draining,
        })
    }

    /// Serves until a signal comes, and for `grace` after it.
    async fn run(mut self, signals: &mut Signals, grace: Duration) -> anyhow::Result<ExitCode> {
        tokio::select! {
            signal = signals.next() => {
                self.draining.store(true, Relaxed);
                info!(signal, grace = ?grace, "Shutting down: no longer ready, still answering");
            }
            ended = self.tasks.join_next() => {
                let why = ended.and_then(Result::err).map(|error| error.to_string());
                bail!("a part of the server ended: {}", why.unwrap_or_else(|| "without an error".to_owned()));
            }
            why = self.listeners.ended() => bail!("a DNS listener ended: {why}"),
        }
        let end = async {
            tokio::time::sleep(grace).await;
            self.listeners.stop().await;
        };
        tokio::select! {
            () = end => {}
            signal = signals.next() => {
                warn!(signal, "A second signal: exiting at once");
                return Ok(ExitCode::FAILURE);
            }
        }
        info!("Stopped");
        Ok(ExitCode::SUCCESS)
    }
}

fn settings(args: &ServeArgs, zones: Zones, own_addresses: &[IpAddr]) -> Settings {
    Settings {
        zones,
        access: args.access.access(own_addresses),
        order: args.order.into(),
        udp_max: args.udp_max,
        server_id: args.server_id.clone(),
        version_bind: args.version_bind.clone(),
        tcp_idle: TCP_IDLE,
    }
}

/// Starts every listener.
fn listen(
    args: &ServeArgs,
    bound: Bound,
    answerers: &Answerers,
    pages: &Pages,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<DnsServer> {
    let workers = args.udp_workers.map_or_else(cpus, usize::from);
    let limits = bound.limits(args, workers)?;
    let mut listeners = DnsServer::start(bound.dns, answerers, workers, limits)
        .context("starting a thread for each UDP worker")?;
    for listener in bound.admin {
        tasks.spawn(listeners.serve_http(listener, admin_routes(pages.clone())));
    }
    let hosts = ApiHosts::new(args.listeners.api_host.clone());
    for listener in bound.api {
        let routes = api_routes(pages.clone(), hosts.clone());
        tasks.spawn(listeners.serve_http(listener, routes));
    }
    if let Some(encrypted) = bound.encrypted {
        tasks.spawn(encrypted.follow());
        listeners.start_encrypted(encrypted, answerers, limits);
    }
    Ok(listeners)
}

/// Returns how many CPUs this process may use.
fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

// === Signals ===

/// SIGTERM, as Kubernetes sends it, and SIGINT, as a terminal does.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listening for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
