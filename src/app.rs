//! Wiring: bind, spawn, readiness, shutdown. Decides nothing.

mod doctor;
mod inspect;

use std::convert::Infallible;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context as _, bail};
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::admin::{ApiHosts, Pages, admin_routes, api_routes};
use crate::cli::{Cli, Command, DemoArgs, LogArgs, ModelArgs, ServeArgs, SourceArgs};
use crate::server::{
    Answerers, Cookies, DnsServer, Encrypted, Limits, TCP_IDLE, descriptors, ns_addresses,
};
use crate::source::{self, Feeds, Policy, SnapshotOf, Snapshots, file, kube};
use crate::table::Publisher;
use crate::telemetry::{Metrics, Tallies, start_logging, start_queued_logging};
use crate::wire::Settings;
use crate::zone::{Zone, ZoneKind, ZoneName, Zones};

/// The built-in sample of `demo`.
const SAMPLE: &str = include_str!("demo.yaml");

/// Does what the command line says.
///
/// # Errors
///
/// If that cannot be done: exit code 1.
pub async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Serve(args) => serve(*args, |_| Ok(())).await,
        Command::Demo(args) => demo(*args).await,
        Command::Explain(args) => inspect::explain_name(*args).await,
        Command::Table(args) => inspect::print_table(*args).await,
        Command::Check(args) => doctor::check(*args).await,
    }
}

// === serve ===

/// Serves until a signal comes. `ready` is called when every address is bound.
async fn serve(
    args: ServeArgs,
    ready: impl FnOnce(&[SocketAddr]) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let ServeArgs {
        source,
        model,
        listeners,
        encrypted,
        access,
        order,
        ns_address,
        udp_max,
        udp_workers,
        tcp_connections,
        tcp_connections_per_address,
        server_id,
        version_bind,
        relist,
        watch_timeout,
        shrink_guard,
        snapshot,
        snapshot_max_age,
        max_stale,
        grace,
        log,
    } = args;
    // Kept to the end, where it writes what waits.
    let log = start_queued_logging(level(&log, "info"), log.log_format.into())?;
    if max_stale.is_some_and(|most| most < 2 * watch_timeout) {
        bail!("--max-stale is less than twice --watch-timeout, for which a watch may be silent");
    }
    let mut signals = Signals::new()?;
    let namespaces = source.namespace.clone();
    let feeds = Feeds::new(&namespaces);
    let publisher = Publisher::default();
    let reader = publisher.reader();
    // What cannot be used at all is an error before anything is bound.
    let source = Source::open(
        &source,
        kube::Timing {
            watch_timeout,
            relist,
        },
        kube::Access::Pod,
    )
    .await?;
    let snapshot = snapshot.map(|path| {
        let of = SnapshotOf {
            source: source.place(),
            cluster_name: model.cluster_name.clone(),
            namespaces: namespaces.iter().cloned().collect(),
        };
        Snapshots::new(path, snapshot_max_age, of)
    });
    let encrypted = encrypted.options().map(Encrypted::open).transpose()?;
    let cookies = Arc::new(Cookies::open(access.cookie_secret_file.clone())?);

    let encrypted = encrypted.map(Encrypted::bind).transpose()?;
    let dns = listeners.dns().bind_dns()?;
    let admin = listeners.admin().bind_tcp("admin")?;
    let api = listeners.api().bind_tcp("api")?;
    let bound: Vec<_> = dns.iter().map(|listener| listener.address).collect();
    let (pod, node) = (addresses_of(POD_IPS)?, addresses_of(NODE_IPS)?);
    let zones = zones(&model, &ns_addresses(&ns_address, &bound));

    let tallies = Tallies::default();
    let rate_limit = access.rate_limit();
    let settings = Settings {
        zones: zones.clone(),
        access: access.access(&[pod, node].concat()),
        order: order.into(),
        udp_max,
        server_id,
        version_bind,
        tcp_idle: TCP_IDLE,
    };
    let draining = Arc::new(AtomicBool::new(false));
    let pages = Pages {
        reader: reader.clone(),
        zones: Arc::new(zones),
        namespaces: namespaces.into(),
        feeds: feeds.clone(),
        metrics: Metrics {
            tallies: tallies.clone(),
            reader: reader.clone(),
            feeds: feeds.clone(),
            snapshot_failures: snapshot
                .as_ref()
                .map(Snapshots::failures)
                .unwrap_or_default(),
            lost_log_lines: log.lost(),
            certificate: encrypted.as_ref().map(Encrypted::certificate),
        },
        draining: draining.clone(),
    };
    let mut tasks = JoinSet::new();
    let policy = Policy {
        rules: model.rules(),
        shrink_guard: match source {
            Source::Files(_) => shrink_guard.of_files(),
            Source::Cluster(_) => shrink_guard,
        },
        snapshot,
        max_stale,
    };
    source.spawn(&mut tasks, &feeds, publisher, policy)?;
    let limits = Limits {
        total: tcp_connections as usize,
        per_address: tcp_connections_per_address as usize,
    };
    // Over TCP, and as many over TLS and HTTPS.
    let per_connection = 1 + encrypted.as_ref().map_or(0, Encrypted::descriptors);
    let workers = udp_workers.map_or_else(cpus, usize::from);
    let limits = descriptors::grant(limits, per_connection, dns.len() * workers)
        .context("reading the limit of open files")?;
    let answerers = Answerers::new(settings, cookies.clone(), reader, tallies, rate_limit);
    tasks.spawn(cookies.follow());
    let mut server = DnsServer::start(dns, &answerers, workers, limits)
        .context("starting a thread for each UDP worker")?;
    for (listener, routes) in admin.into_iter().map(|l| (l, admin_routes(pages.clone()))) {
        tasks.spawn(server.serve_http(listener, routes));
    }
    let hosts = ApiHosts::new(listeners.api_host);
    for listener in api {
        let routes = api_routes(pages.clone(), hosts.clone());
        tasks.spawn(server.serve_http(listener, routes));
    }
    if let Some(encrypted) = encrypted {
        tasks.spawn(encrypted.follow());
        server.start_encrypted(encrypted, &answerers, limits);
    }
    ready(&bound)?;

    tokio::select! {
        signal = signals.next() => {
            draining.store(true, Ordering::Relaxed);
            info!(signal, grace = ?grace, "Shutting down: no longer ready, still answering");
        }
        ended = tasks.join_next() => {
            let why = ended.and_then(Result::err).map(|error| error.to_string());
            bail!("a part of the server ended: {}", why.unwrap_or_else(|| "without an error".to_owned()));
        }
        why = server.ended() => bail!("a DNS listener ended: {why}"),
    }
    let end = async {
        tokio::time::sleep(grace).await;
        server.stop().await;
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

/// Returns how many CPUs this process may use.
fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn zones(model: &ModelArgs, ns_addresses: &[IpAddr]) -> Zones {
    let zone = |name: &ZoneName, kind| Zone {
        name: name.clone(),
        ttl: model.ttl,
        negative_ttl: model.negative_ttl,
        ns_addresses: ns_addresses.to_vec(),
        kind,
    };
    let names = model.zones();
    let forward = names.iter().map(|name| zone(name, ZoneKind::Forward));
    let first = names.first().cloned();
    let reverse = model.reverse_zone.iter().zip(std::iter::repeat(first));
    let reverse = reverse.filter_map(|(name, first)| Some(zone(name, ZoneKind::Reverse(first?))));
    Zones::new(forward.chain(reverse).collect())
}

/// The pod's addresses, which the chart sets from `status.podIPs`.
const POD_IPS: &str = "GLOBAL_DNS_POD_IPS";
/// The node's, which it sets from `status.hostIPs`, or from `status.hostIP` where Kubernetes may not know that.
const NODE_IPS: &str = "GLOBAL_DNS_NODE_IPS";

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

fn log_to_stderr(log: &LogArgs, default: &str) -> anyhow::Result<()> {
    Ok(start_logging(level(log, default), log.log_format.into())?)
}

fn level<'l>(log: &'l LogArgs, default: &'l str) -> &'l str {
    log.log_level.as_deref().unwrap_or(default)
}

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

// === Sources ===

/// An opened source, not running yet.
enum Source {
    Files(file::Files),
    Cluster(Box<kube::Cluster>),
}

impl Source {
    /// Opens what the flags name; without any, what `default` says.
    async fn open(
        args: &SourceArgs,
        timing: kube::Timing,
        default: kube::Access,
    ) -> anyhow::Result<Self> {
        let SourceArgs {
            file,
            kubeconfig,
            context,
            namespace: _,
        } = args;
        if !file.is_empty() {
            return Ok(Self::Files(file::Files::open(
                file.clone(),
                file::Timing::default(),
            )?));
        }
        let access = access(kubeconfig.as_ref(), context.as_ref(), default);
        let cluster = kube::Cluster::open(access, timing).await?;
        Ok(Self::Cluster(Box::new(cluster)))
    }

    /// Names what is read from: snapshots of another place are of no use.
    fn place(&self) -> String {
        match self {
            Self::Files(_) => "files".to_owned(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// Runs the source and what follows it, on one thread of their own: to build a large table must keep no connection
    /// waiting, and a change that was read is in the table without another thread to wake.
    fn spawn(
        mut self,
        tasks: &mut JoinSet<()>,
        feeds: &Feeds,
        publisher: Publisher,
        policy: Policy,
    ) -> anyhow::Result<()> {
        let feeds = feeds.clone();
        let (running, ended) = oneshot::channel::<Infallible>();
        let work = move || {
            let _running = running; // until this thread ends, by a panic too
            let run = async |feeds, updates| match &mut self {
                Self::Files(files) => files.run(feeds, updates).await,
                Self::Cluster(cluster) => cluster.run(feeds, updates).await,
            };
            let run = source::run(run, feeds, publisher, policy);
            match runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(run),
                Err(error) => warn!(%error, "The source cannot run"),
            }
        };
        thread::Builder::new()
            .name("source".to_owned())
            .spawn(work)
            .context("starting the thread of the source")?;
        tasks.spawn(async { _ = ended.await });
        Ok(())
    }
}

/// Says how the flags reach the API server; without any, as `default` says.
fn access(
    kubeconfig: Option<&PathBuf>,
    context: Option<&String>,
    default: kube::Access,
) -> kube::Access {
    match (kubeconfig, context) {
        (None, None) => default,
        (path, context) => kube::Access::Kubeconfig {
            path: path.cloned(),
            context: context.cloned(),
        },
    }
}

// === demo ===

/// Runs `serve --file` on a copy of the built-in sample, which may be changed to see what happens.
async fn demo(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let folder = std::env::temp_dir().join(format!("global-dns-demo-{}", std::process::id()));
    let sample = folder.join("demo.yaml");
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(&sample, SAMPLE)
    };
    write().with_context(|| format!("writing the sample to {}", sample.display()))?;
    let mut serve_args = ServeArgs::from(args);
    serve_args.source.file = vec![sample.clone()];
    serve_args.model.cluster_name = "hub".parse().context("naming the sample's cluster")?;
    let done = serve(serve_args, |bound| print_hints(bound, &sample)).await;
    // The sample is ours; that it stays behind if this fails harms nobody.
    let _ = std::fs::remove_dir_all(&folder);
    done
}

fn print_hints(bound: &[SocketAddr], sample: &Path) -> anyhow::Result<()> {
    let Some(address) = bound.first() else {
        return Ok(());
    };
    let (ip, port) = (address.ip(), address.port());
    let program = std::env::args()
        .next()
        .unwrap_or_else(|| "global-dns".to_owned());
    let source = format!("--cluster-name hub --file {}", sample.display());
    let ask = |question: &str| format!("  dig @{ip} -p {port} {question}\n");
    let lines = [
        "\nOne service in three clusters, one of them this one:\n".to_owned(),
        ask("db.prod.global"),
        ask("_sql._tcp.db.prod.global SRV"),
        "The same by its short name; one cluster's endpoints; one endpoint:\n".to_owned(),
        ask("db.global"),
        ask("east.db.prod.global"),
        ask("db-0.west.db.prod.global"),
        "A name with dashes; a cluster whose gateway is down, answered as the last resort:\n"
            .to_owned(),
        ask("db-east.shop.global"),
        ask("cache.prod.global"),
        "Why an answer is what it is, and everything that is served:\n".to_owned(),
        format!("  {program} explain db.prod.global {source}\n"),
        format!("  {program} table {source}\n"),
        format!(
            "Change {} and ask again. Ctrl-C ends it.\n\n",
            sample.display()
        ),
    ];
    // The server is what was asked for; hints that nobody can read are none.
    print(&lines.concat()).unwrap_or_else(|error| warn!(%error, "The hints could not be printed"));
    Ok(())
}

// === Output ===

/// Writes a value as JSON for programs.
fn json(value: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no error.
fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("writing to standard output")
        }
        _ => Ok(()),
    }
}
