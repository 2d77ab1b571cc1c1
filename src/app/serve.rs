//! `serve`: opens resources, binds listeners, starts tasks and shuts down in order.

use std::future::pending;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::Router;
use futures::future::join_all;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{info, warn};

use super::identity::identity;
use super::source::SelectedSource;
use super::thread::{Priority, Thread};
use super::variables::{NODE_IPS, POD_IPS, SERVICE_IPS, addresses_from, log_unknown};
use crate::cli::{KubeAccess, ServeArgs, print};
use crate::failures::Failures;
use crate::heartbeat::Heartbeat;
use crate::http::{ApiHosts, HttpState, Liveness, Metrics, admin_routes, api_routes};
use crate::log::start_queued_logging;
use crate::server::counters::CounterSet;
use crate::server::platform::host_name;
use crate::server::{
    Answerers, Certificate, DnsListener, DnsServer, Encrypted, RefusedClients, TCP_IDLE, bind_dns,
    bind_tcp, descriptors, ns_addresses, serve_http,
};
use crate::settings::Settings;
use crate::source::{Events, Feeds, UpdateSettings, kube};
use crate::table::{DEFAULT_CLUSTER_NAME, Publisher};
use crate::view;
use crate::wire::ResponseSettings;
use crate::zone::Zones;

/// Serves until a signal arrives. Calls `ready` when every address is bound.
pub(super) async fn serve(
    args: ServeArgs,
    ready: impl FnOnce(&Started),
) -> anyhow::Result<ExitCode> {
    let settings = &args.settings.loaded;
    if args.print_settings {
        print(&settings.to_yaml()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Dropped at the end, which writes the queued log lines.
    let log = start_queued_logging(&settings.log.level, settings.log.format);
    let log = log.context("cannot start the log thread")?;
    log_unknown();
    let mut signals = Signals::new()?;
    let resources = Resources::open(&args).await?;
    let bound = BoundListeners::bind(settings, resources.certificate.clone())?;
    let (dns, api) = (bound.addresses(), bound.api_addresses());
    let server = Server::start(settings, resources, bound, log.lost())?;
    ready(&Started {
        dns,
        api,
        events: server.events.clone(),
    });
    server.run(&mut signals, settings.grace.0).await
}

/// A server that has started.
pub(super) struct Started {
    /// The addresses of the DNS port.
    pub(super) dns: Vec<SocketAddr>,
    /// The addresses of the API and the status page.
    pub(super) api: Vec<SocketAddr>,
    /// The changes of answers.
    pub(super) events: Events,
}

// === Resources ===

/// The external resources that the settings name. They are opened before anything is bound, so that an error is early.
struct Resources {
    source: SelectedSource,
    update_settings: UpdateSettings,
    /// The certificate, if there is an encrypted listener.
    certificate: Option<Arc<Certificate>>,
    /// The addresses of this pod and of its node.
    own_addresses: Vec<IpAddr>,
    /// The addresses of the name server of the zones, if they are known: of the settings, or of the Service.
    ns_addresses: Vec<IpAddr>,
}

impl Resources {
    async fn open(args: &ServeArgs) -> anyhow::Result<Self> {
        let settings = &args.settings.loaded;
        let own_addresses = [addresses_from(POD_IPS)?, addresses_from(NODE_IPS)?].concat();
        let ns_addresses = match settings.answers.ns_addresses.as_slice() {
            [] => addresses_from(SERVICE_IPS)?,
            given => given.to_vec(),
        };
        let timing = kube::WatchTiming::SERVE;
        let source = SelectedSource::open(&args.source, timing, KubeAccess::Pod).await?;
        let is_pod = args.source.file.is_empty() && !args.source.kubeconfig.is_given();
        if is_pod && settings.cluster_name.as_str() == DEFAULT_CLUSTER_NAME {
            bail!(
                "clusterName is not set: give this cluster the name that the other clusters have for it, because databases \
                 store the names of their peers"
            );
        }
        Ok(Self {
            update_settings: UpdateSettings {
                rules: settings.rules(),
                is_following: true,
            },
            source,
            certificate: settings.certificate().map(Certificate::open).transpose()?,
            own_addresses,
            ns_addresses,
        })
    }
}

// === Listeners ===

/// The bound listeners.
struct BoundListeners {
    dns: Vec<DnsListener>,
    admin: Vec<TcpListener>,
    api: Vec<TcpListener>,
    encrypted: Option<Encrypted>,
}

impl BoundListeners {
    fn bind(settings: &Settings, certificate: Option<Arc<Certificate>>) -> anyhow::Result<Self> {
        let listen = &settings.listen;
        let encrypted = certificate.map(|one| Encrypted::bind(one, &listen.tls, &listen.quic));
        Ok(Self {
            encrypted: encrypted.transpose()?,
            dns: bind_dns(&settings.dns_addresses())?,
            admin: bind_tcp(&settings.admin_addresses(), "admin")?,
            api: bind_tcp(&listen.api, "api")?,
        })
    }

    /// Returns the addresses of the DNS port.
    fn addresses(&self) -> Vec<SocketAddr> {
        self.dns.iter().map(|listener| listener.address).collect()
    }

    /// Returns the addresses of the API.
    fn api_addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.api.iter().map(TcpListener::local_addr);
        addresses.filter_map(Result::ok).collect()
    }
}

// === The server ===

/// The running server.
struct Server {
    listeners: DnsServer,
    tasks: JoinSet<()>,
    liveness: Liveness,
    /// Set when the addresses of DNS are open.
    is_open: Arc<AtomicBool>,
    /// Set when the process has received a signal to terminate.
    draining: Arc<AtomicBool>,
    events: Events,
}

impl Server {
    fn start(
        settings: &Settings,
        resources: Resources,
        bound: BoundListeners,
        lost_log_lines: Failures,
    ) -> anyhow::Result<Self> {
        let Resources {
            own_addresses,
            ns_addresses: given,
            certificate,
            ..
        } = &resources;
        let zones = settings.zones(&ns_addresses(given, &bound.addresses()));
        let feeds = Feeds::new(&settings.namespaces).with_links(settings.links_namespaces());
        let publisher = Publisher::new(feeds.clock.now(), settings.history.0);
        let (reader, counters) = (publisher.reader(), CounterSet::default());
        let refused = RefusedClients::default();
        let certificate = certificate.clone();
        let identity = identity(settings, given, &bound.addresses(), own_addresses);
        let (is_open, draining) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let response_settings = response_settings(settings, zones.clone(), own_addresses);
        let answerers = Answerers::new(
            response_settings,
            refused.clone(),
            reader.clone(),
            counters.clone(),
        );
        let mut tasks = JoinSet::new();
        resources
            .source
            .spawn(&mut tasks, &feeds, publisher, resources.update_settings)?;
        let liveness = liveness(&feeds, &mut tasks);
        if let Some(certificate) = certificate.clone() {
            let follow = certificate.follow();
            tasks.spawn(follow.context("cannot start the thread of the certificate")?);
        }
        let api_thread = Thread::new("api")?;
        let shown = view::Server {
            lost_log_lines,
            certificate,
            draining: draining.clone(),
            settings: Arc::new(serde_json::to_value(settings)?),
            namespaces: settings.namespaces.clone().into(),
            refused,
            ..view::Server::of_objects(reader, feeds.clone(), zones, identity)
        };
        let state = HttpState {
            server: shown.clone(),
            metrics: Metrics {
                server: shown.clone(),
                counters,
            },
            is_open: is_open.clone(),
            liveness: liveness.clone(),
            api_runtime: api_thread.handle(),
        };
        let follow = liveness.clone().follow();
        let probes = Thread::new("probes")?;
        let admin = admin_routes(state);
        let serve = adopt(bound.admin, &admin, &probes)?;
        probes.run(Priority::Normal, &mut tasks, || async {
            tokio::join!(follow, join_all(serve));
        })?;
        let routes = api_routes(shown, ApiHosts::new(settings.listen.api_hosts.clone()));
        let serve = adopt(bound.api, &routes, &api_thread)?;
        // Without a listener, this thread still renders the metrics.
        api_thread.run(Priority::Low, &mut tasks, || async {
            tokio::join!(join_all(serve), pending::<()>());
        })?;
        Ok(Self {
            listeners: listen(settings, bound.dns, bound.encrypted, answerers)?,
            tasks,
            liveness,
            is_open,
            draining,
            events: feeds.events.clone(),
        })
    }

    /// Serves from the first table until a signal arrives, and for `grace` after it.
    async fn run(mut self, signals: &mut Signals, grace: Duration) -> anyhow::Result<ExitCode> {
        let mut table = self.events.subscribe();
        loop {
            tokio::select! {
                _ = table.wait_for(|table| table.version > 0), if !self.is_open.load(Relaxed) => {
                    let opened = self.listeners.open();
                    self.liveness.watch(opened.context("cannot open the addresses of DNS")?);
                    self.is_open.store(true, Relaxed);
                }
                signal = signals.next() => {
                    self.draining.store(true, Relaxed);
                    self.listeners.lift_limits();
                    info!(signal, grace = ?grace, "Shutting down; answering queries during the grace period");
                    break;
                }
                ended = self.tasks.join_next() => {
                    let why = ended.and_then(Result::err).map(|error| error.to_string());
                    bail!("a task of the server ended unexpectedly: {}", why.unwrap_or_else(|| "without an error".to_owned()));
                }
                why = self.listeners.wait_for_listener_end() => bail!("a DNS listener ended unexpectedly: {why}"),
            }
        }
        let end = async {
            sleep(grace).await;
            self.listeners.stop().await;
        };
        tokio::select! {
            () = end => {}
            signal = signals.next() => {
                warn!(signal, "Received a second signal; exiting immediately");
                return Ok(ExitCode::FAILURE);
            }
        }
        info!("Stopped");
        Ok(ExitCode::SUCCESS)
    }
}

fn response_settings(
    settings: &Settings,
    zones: Zones,
    own_addresses: &[IpAddr],
) -> ResponseSettings {
    let answers = &settings.answers;
    ResponseSettings {
        zones,
        access: settings.access(own_addresses),
        order: answers.order,
        udp_max: answers.udp_max,
        server_id: match answers.server_id.as_str() {
            "" => host_name(),
            given => given.to_owned(),
        },
        tcp_idle: TCP_IDLE,
    }
}

/// Reserves what the DNS listeners need. They are opened later.
fn listen(
    settings: &Settings,
    dns: Vec<DnsListener>,
    encrypted: Option<Encrypted>,
    answerers: Answerers,
) -> anyhow::Result<DnsServer> {
    let workers = match settings.limits.udp_workers {
        0 => cpus(),
        given => usize::from(given),
    };
    let connections = settings.limits.connections as usize;
    // The limit applies to TCP and, separately, to TLS.
    let transports = 1 + usize::from(!settings.listen.tls.is_empty());
    descriptors::reserve(connections * transports, dns.len() * workers)
        .context("cannot reserve files for the connections")?;
    Ok(DnsServer::new(
        dns,
        encrypted,
        answerers,
        workers,
        connections,
    ))
}

/// Moves HTTP listeners to a thread, and returns the work for each.
fn adopt(
    listeners: Vec<TcpListener>,
    routes: &Router,
    thread: &Thread,
) -> anyhow::Result<Vec<impl Future<Output = ()> + use<>>> {
    let serve = |listener| Ok(serve_http(thread.adopt(listener)?, routes.clone()));
    listeners.into_iter().map(serve).collect()
}

/// Returns what must make progress: the update loop, and the runtime of this function, which serves TCP. The threads of DNS follow
/// when they start.
fn liveness(feeds: &Feeds, tasks: &mut JoinSet<()>) -> Liveness {
    let heartbeat = Heartbeat::default();
    let name = "the runtime of TCP connections".to_owned();
    let liveness = Liveness::default();
    liveness.watch([
        ("the update loop".to_owned(), feeds.heartbeat.clone()),
        (name, heartbeat.clone()),
    ]);
    tasks.spawn(heartbeat.follow_runtime());
    liveness
}

/// Returns the number of CPUs that this process may use.
fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

// === Signals ===

/// The signals that end the process: SIGTERM, which Kubernetes sends, and SIGINT, which a terminal sends.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// SIGHUP, which the end of a terminal sends, would end the process at once if nobody waited for it.
    _hang_up: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            _hang_up: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::heartbeat;
    use crate::http::tests::{wait_until_alive, wait_until_stuck};
    use crate::server::tests::answerers;

    /// Checks that every loop of a server is watched, and that each but the update loop, which is not started here, gives
    /// signs of progress.
    #[tokio::test]
    async fn livez_watches_every_loop_of_the_server() {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let listeners = bind_dns(&[address.into()]).unwrap();
        let dns = listeners[0].address;
        let mut server = DnsServer::new(listeners, None, answerers(), 2, 100);
        let (feeds, mut tasks) = (Feeds::new(&[]), JoinSet::new());
        let liveness = liveness(&feeds, &mut tasks);
        liveness.watch(server.open().unwrap());
        let names = [
            "the update loop".to_owned(),
            "the runtime of TCP connections".to_owned(),
            format!("UDP worker 1 of {dns}"),
            format!("UDP worker 2 of {dns}"),
        ];
        assert_eq!(liveness.names(), names);
        wait_until_stuck(&liveness).await;
        // Twenty checks take longer than the interval between two signs.
        let only_the_update_loop = async {
            let expected = "no progress for 10 s: the update loop";
            while liveness.problem().as_deref() != Some(expected) {
                sleep(heartbeat::INTERVAL / 8).await;
                liveness.check();
            }
        };
        let limit = Duration::from_secs(60);
        tokio::time::timeout(limit, only_the_update_loop)
            .await
            .unwrap();
        feeds.heartbeat.beat();
        liveness.check();
        assert_eq!(liveness.problem(), None);
        server.stop().await;
    }

    #[tokio::test]
    async fn livez_fails_while_the_runtime_of_connections_is_stuck() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let heartbeat = Heartbeat::default();
        let name = "the runtime of TCP connections".to_owned();
        let liveness = Liveness::default();
        liveness.watch([(name, heartbeat.clone())]);
        runtime.spawn(heartbeat.follow_runtime());
        wait_until_alive(&liveness).await;
        let (release, released) = mpsc::channel::<()>();
        let (stick, stuck) = mpsc::channel();
        runtime.spawn(async move {
            stick.send(()).unwrap();
            _ = released.recv(); // blocks the only thread
        });
        stuck.recv().unwrap();
        assert_eq!(
            wait_until_stuck(&liveness).await,
            "no progress for 10 s: the runtime of TCP connections\n"
        );
        drop(release);
        wait_until_alive(&liveness).await;
        runtime.shutdown_background();
    }
}
