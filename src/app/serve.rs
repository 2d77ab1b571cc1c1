//! `serve`: opens resources, binds listeners, starts tasks and shuts down in order.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{info, warn};

use super::source::SelectedSource;
use crate::cli::{Cluster, SourceArgs};
use crate::failures::Failures;
use crate::heartbeat::Heartbeat;
use crate::http::{self, ApiHosts, Liveness, Probes, Readiness};
use crate::log::start_logging;
use crate::server::platform::host_name;
use crate::server::{
    Answerer, Certificate, DnsListener, DnsServer, Encrypted, NS_PORT, bind_dns, bind_tcp,
    descriptors, ns_addresses,
};
use crate::settings::Settings;
use crate::settings::variables::{NODE_IPS, POD_IPS, SERVICE_IPS, addresses_from};
use crate::source::Feeds;
use crate::table::DEFAULT_CLUSTER_NAME;
use crate::view;
use crate::wire::Access;
use crate::zone::Zones;

/// The files in which the kubelet names the domain of the cluster.
const OF_KUBELET: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// Time for which the server answers although it is not ready, so that clients leave it. Until then, kube-proxy sends queries also to
/// a pod that terminates, if no other one is ready. Afterwards, the two failures of the probe take at most 6 s, and the long-lived UDP
/// sockets of CoreDNS left within 9.4 s.
const LEAVE_TIME: Duration = Duration::from_secs(12);

/// Serves until a signal arrives. Calls `ready` when every address is bound.
pub(super) async fn serve(
    settings: &Settings,
    source: &SourceArgs,
    ready: impl FnOnce(&RunningServer),
) -> Result<ExitCode> {
    // Dropped at the end, which writes the queued log lines.
    let log = start_logging(&settings.log.level, settings.log.format)
        .context("cannot start the log thread")?;
    let mut signals = Signals::new()?;
    let server = RunningServer::start(settings, source, log.lost()).await?;
    ready(&server);
    server.run(&mut signals, settings.grace.0).await
}

/// Opens the source.
async fn open(settings: &Settings, args: &SourceArgs) -> Result<SelectedSource> {
    if !args.file.is_empty() {
        return SelectedSource::files(&args.file);
    }
    let cluster = Cluster::open(&args.kubeconfig, true).await?;
    if !args.kubeconfig.is_given() && settings.cluster_name.as_str() == DEFAULT_CLUSTER_NAME {
        bail!(
            "clusterName is not set: give this cluster the name that the other clusters have for it, because databases \
             store the names of their peers"
        );
    }
    Ok(SelectedSource::Cluster(Arc::new(cluster)))
}

// === The server ===

/// The running server.
pub(super) struct RunningServer {
    /// The addresses of the API and the status page.
    pub api: Vec<SocketAddr>,
    /// What its views show.
    pub shown: view::Server,
    listeners: DnsServer,
    tasks: JoinSet<()>,
    probes: Probes,
}

impl RunningServer {
    /// Starts a server. All that the settings name is opened and bound before anything starts, so that an error is early.
    async fn start(
        settings: &Settings,
        args: &SourceArgs,
        lost_log_lines: Failures,
    ) -> Result<Self> {
        // A file that is missing names no domain.
        settings.check_cluster_domain(
            &OF_KUBELET
                .map(|path| std::fs::read_to_string(path).unwrap_or_default())
                .join("\n"),
        )?;
        let own = [addresses_from(POD_IPS)?, addresses_from(NODE_IPS)?].concat();
        let given = match settings.answers.ns_addresses.as_slice() {
            [] => addresses_from(SERVICE_IPS)?,
            given => given.to_vec(),
        };
        let source = open(settings, args).await?;
        let addresses = &settings.listen;
        // They listen at once. So an address of DNS, which listens later, cannot be one of theirs.
        let admin = bind_tcp(&addresses.admin, "admin")?;
        let api = bind_tcp(&addresses.api, "api")?;
        let certificate = settings.certificate().map(Certificate::open).transpose()?;
        let encrypted = certificate
            .clone()
            .map(|one| Encrypted::bind(one, &addresses.tls, &addresses.quic))
            .transpose()?;
        let dns = bind_dns(&addresses.dns)?;
        let bound: Vec<SocketAddr> = dns.iter().map(|one| one.address).collect();
        let zones = settings.zones(&ns_addresses(&given, &bound));
        let identity = view::Identity {
            cluster: Some(settings.cluster_name.clone()),
            replica: host_name(),
            servers: match given.as_slice() {
                [] => bound,
                given => given.iter().map(|ip| (*ip, NS_PORT).into()).collect(),
            },
        };
        let mut tasks = JoinSet::new();
        let shown = view::Server {
            lost_log_lines,
            certificate: certificate.clone(),
            ..source.start(settings, true, zones, identity, &mut tasks)?
        };
        if let Some(certificate) = certificate {
            let following = certificate.follow();
            tasks.spawn(following.context("cannot start the thread of the certificate")?);
        }
        let responses = settings.responses(Zones::clone(&shown.zones), &own);
        let (refused, reader) = (shown.refused.clone(), shown.reader.clone());
        let answerer = Answerer::new(responses, refused, reader, shown.counters.clone());
        let probes = Probes {
            readiness: watch::Sender::default(),
            liveness: liveness(&shown.feeds, &mut tasks),
        };
        let api_addresses = api.iter().flat_map(TcpListener::local_addr).collect();
        let readers = http::Listeners {
            admin,
            api,
            api_hosts: ApiHosts::new(settings.listen.api_hosts.clone()),
            access: Access::for_all(&own),
        };
        let mut started = Self {
            api: api_addresses,
            listeners: listen(settings, dns, encrypted, answerer)?,
            probes: probes.clone(),
            shown,
            tasks,
        };
        let tasks = &mut started.tasks;
        http::start(&started.shown, probes, readers, tasks)?;
        Ok(started)
    }

    /// Serves from the first table until a signal arrives, and for `grace` after it. The server stays ready for the first part of
    /// `grace`, because all replicas may terminate at once.
    async fn run(mut self, signals: &mut Signals, grace: Duration) -> Result<ExitCode> {
        let mut table = self.shown.feeds.events.subscribe();
        loop {
            tokio::select! {
                _ = table.wait_for(|table| table.version > 0), if *self.probes.readiness.borrow() == Readiness::Starting => {
                    self.probes.liveness.watch(self.listeners.open().context("cannot open the addresses of DNS")?);
                    self.probes.readiness.send_replace(Readiness::Ready);
                }
                signal = signals.next() => {
                    self.shown.draining.store(true, Relaxed);
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
            sleep(grace.saturating_sub(LEAVE_TIME)).await;
            self.probes.readiness.send_replace(Readiness::Withdrawn);
            let end_in = grace.min(LEAVE_TIME);
            info!(
                ?end_in,
                "Readiness is withdrawn; answering queries until the end of the grace period"
            );
            sleep(end_in).await;
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

/// Maximum number of threads for each UDP address, unless the settings say more: each has 0.3 MiB, and a large node has many CPUs.
const MAX_WORKERS: usize = 8;

/// Returns the number of threads for each UDP address on a machine with these CPUs. `given` is that of the settings.
fn udp_workers(given: u16, cpus: usize) -> usize {
    match given {
        0 => cpus.min(MAX_WORKERS),
        given => usize::from(given),
    }
}

/// Reserves what the DNS listeners need. They are opened later.
fn listen(
    settings: &Settings,
    dns: Vec<DnsListener>,
    encrypted: Option<Encrypted>,
    answerer: Answerer,
) -> Result<DnsServer> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = udp_workers(settings.limits.udp_workers, cpus);
    let limit = settings.limits.connections as usize;
    // The limit applies to TCP and, separately, to TLS.
    let transports = 1 + usize::from(!settings.listen.tls.is_empty());
    descriptors::reserve(limit * transports, dns.len() * workers)
        .context("cannot reserve files for the connections")?;
    Ok(DnsServer::new(dns, encrypted, answerer, workers, limit))
}

/// Returns what must make progress: the update loop, its source, and the runtime of this function, which serves TCP. The threads of DNS follow
/// when they start.
fn liveness(feeds: &Feeds, tasks: &mut JoinSet<()>) -> Liveness {
    let heartbeat = Heartbeat::default();
    let liveness = Liveness::default();
    liveness.watch([
        ("the update loop".to_owned(), feeds.heartbeat.clone()),
        ("the source".to_owned(), feeds.reading.clone()),
        (
            "the runtime of TCP connections".to_owned(),
            heartbeat.clone(),
        ),
    ]);
    tasks.spawn(heartbeat.follow_runtime());
    liveness
}

// === Signals ===

/// The signals that end the process: SIGTERM, which Kubernetes sends, and SIGINT, which a terminal sends.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        // SIGHUP, which the end of a terminal sends, would end the process at once. The handler stays.
        drop(listen(SignalKind::hangup())?);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heartbeat;
    use crate::http::tests::wait_until_stuck;
    use crate::server::ListenAddress;
    use crate::server::tests::answerer;

    #[test]
    fn large_node_gets_eight_threads_unless_the_settings_say_more() {
        for (given, cpus, expected) in [(0, 1, 1), (0, 8, 8), (0, 128, 8), (64, 2, 64)] {
            assert_eq!(udp_workers(given, cpus), expected);
        }
    }

    /// Checks that every loop of a server is watched, and that each but the update loop and its source, which are not started here,
    /// gives signs of progress.
    #[tokio::test]
    async fn livez_watches_every_loop_of_the_server() {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let listeners = bind_dns(&[ListenAddress::At(address)]).unwrap();
        let dns = listeners[0].address;
        let mut server = DnsServer::new(listeners, None, answerer(), 2, 100);
        let (feeds, mut tasks) = (Feeds::new(&[]), JoinSet::new());
        let liveness = liveness(&feeds, &mut tasks);
        liveness.watch(server.open().unwrap());
        let names = [
            "the update loop".to_owned(),
            "the source".to_owned(),
            "the runtime of TCP connections".to_owned(),
            format!("UDP worker 1 of {dns}"),
            format!("UDP worker 2 of {dns}"),
        ];
        assert_eq!(liveness.names(), names);
        wait_until_stuck(&liveness).await;
        // Twenty checks take longer than the interval between two signs.
        let only_the_update_loop = async {
            let expected = "no progress for 10 s: the update loop, the source";
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
        feeds.reading.beat();
        liveness.check();
        assert_eq!(liveness.problem(), None);
        server.stop().await;
    }
}
