//! Servers with a sample in which everything happens that the dashboard shows.
//!
//! | pod | state |
//! |---|---|
//! | `linked` | has services of all kinds, gateways that are down, conflicts and skipped objects; reaches every limit; holds lists |
//! | `expired` | lost its API server longer ago than `--max-stale` |
//! | `restored` | answers from a snapshot, because its API server is unreachable |
//! | `empty` | has no table |

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::certificates::{Identity, issue};
use support::names;
use support::objects::{ClusterIp, Local, Manifest, exported, gateway_mirror, local, mirror};
use support::query::query;
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::wait::eventually;
use support::wire::Transport;
use tempfile::TempDir;

const DAY: i64 = 24 * 60 * 60;
/// `--tcp-connections`.
const LIMIT: usize = 8;
/// Number of TCP connections. The alert needs more than one replaced connection per second in 5 minutes.
const CONNECTIONS: usize = 500;
/// Number of queries above the rate limit.
const FLOOD: usize = 3_000;
/// Number of queries to each server that answers SERVFAIL. The alert needs more than 1 % of all replies.
const FAILING_QUERIES: usize = 200;

/// The running servers, with their API servers.
pub struct Incident {
    linked: Server,
    expired: Server,
    restored: Server,
    empty: Server,
    /// The API server of `linked`.
    api_server: StandIn,
    /// The API server of `expired` and `restored`, which is unreachable.
    _lost: StandIn,
    /// Open connections to `linked`.
    connections: Vec<TcpStream>,
    /// The folder of the snapshots of `linked`.
    snapshots: TempDir,
    /// The folders of the certificate of `linked` and of the snapshots of `restored`.
    _folders: [TempDir; 2],
}

// === impl Incident ===

impl Incident {
    /// Starts all servers. Nothing has happened yet, except that the API server of two servers is lost.
    pub fn start() -> Result<Self> {
        let api_server = StandIn::start(Behavior::Normal, &objects().0)?;
        let (snapshots, certificates) = (tempfile::tempdir()?, tempfile::tempdir()?);
        // Less than the 7 days of `alerts.certificateDays`.
        issue(-DAY, 3 * DAY).write(certificates.path());
        let [certificate, key] = Identity::flags(certificates.path());
        let snapshot = snapshot_flag(&snapshots);
        let linked = Server::ready_of_cluster(
            &api_server.kubeconfig,
            &[
                "--tls-listen=127.0.0.1:0",
                &certificate,
                &key,
                &snapshot,
                &format!("--tcp-connections={LIMIT}"),
                "--trusted=192.0.2.0/24",
                "--rate-limit=10",
                // The Services of the sample have no creation time.
                "--bootstrap-window=0s",
            ],
        );

        let lost = StandIn::start(Behavior::Normal, &objects().0)?;
        let restored_snapshots = tempfile::tempdir()?;
        let snapshot = snapshot_flag(&restored_snapshots);
        let first = Server::ready_of_cluster(&lost.kubeconfig, &[&snapshot]);
        let limits = ["--watch-timeout", "1s", "--max-stale=2s"];
        let expired = Server::ready_of_cluster(&lost.kubeconfig, &limits);
        eventually("a snapshot", || {
            let mut files = fs::read_dir(restored_snapshots.path())?;
            files.next().context("no file")??;
            Ok(())
        })?;
        drop(first); // SIGKILL
        lost.set_behavior(Behavior::Unreachable);
        let restored = Server::ready_of_cluster(&lost.kubeconfig, &[&snapshot]);
        Ok(Self {
            linked,
            expired,
            restored,
            empty: Server::without_table(closed_port()?, &[]),
            api_server,
            _lost: lost,
            connections: Vec::new(),
            snapshots,
            _folders: [certificates, restored_snapshots],
        })
    }

    /// Returns the pods with the addresses of their metrics.
    pub fn pods(&self) -> [(&'static str, SocketAddr); 4] {
        [
            ("linked", self.linked.admin),
            ("expired", self.expired.admin),
            ("restored", self.restored.admin),
            ("empty", self.empty.admin),
        ]
    }

    /// Lets everything happen.
    pub fn happen(&mut self) -> Result<()> {
        self.ask()?;
        self.exceed_limits()?;
        // The gateway of the preferred cluster goes down. The next snapshot cannot be written.
        fs::remove_dir_all(self.snapshots.path())?;
        let down = gateway_mirror("prod", "bank", "east", EAST_BANK).without_ready_endpoint();
        for object in &Manifest::from(down).0 {
            self.api_server.put(object);
        }
        self.wait_for("global_dns_snapshot_write_failures_total", 1)?;
        self.lose_a_cluster()?;
        self.replace_a_pod()?;
        self.hold_lists()
    }

    /// Sends queries over UDP and TCP, and a message that gets no reply.
    fn ask(&self) -> Result<()> {
        for question in [
            "db.prod.global. A",
            "db.prod.global. SRV",
            "nope.prod.global. A",
        ] {
            self.linked.ask(question, Transport::Tcp);
        }
        let mut response = query("db.prod.global. A");
        response.0[2] |= 0x80;
        self.linked.socket().send(&response.0)?;
        for server in [&self.empty, &self.expired] {
            eventually("SERVFAIL", || {
                let outcome = server.outcome("db.prod.global. A");
                ensure!(outcome == "SERVFAIL", "{outcome}");
                Ok(())
            })?;
            for _ in 0..FAILING_QUERIES {
                server.ask("db.prod.global. A", Transport::Udp);
            }
        }
        Ok(())
    }

    /// Exceeds the rate limit and the limit of TCP connections.
    fn exceed_limits(&mut self) -> Result<()> {
        let (socket, query) = (self.linked.socket(), query("db.prod.global. A +edns"));
        for _ in 0..FLOOD {
            socket.send(&query.0)?;
        }
        // They stay open, so that only the server closes connections.
        let connections = (0..CONNECTIONS).map(|_| self.linked.connect());
        self.connections.extend(connections);
        let replaced = "global_dns_tcp_connections_ended_total{reason=\"replaced\"}";
        self.wait_for(replaced, CONNECTIONS - LIMIT)
    }

    /// Deletes the only mirror of a watched service.
    fn lose_a_cluster(&self) -> Result<()> {
        for object in &Manifest::from(west_mail()).0 {
            self.api_server.delete(object);
        }
        self.wait_for(
            "global_dns_left_clusters{service=\"prod/mail\",watch=\"true\"}",
            1,
        )
    }

    /// Gives a pod of this cluster a new address, as the EndpointSlice controller does.
    fn replace_a_pod(&self) -> Result<()> {
        let mut objects = Manifest::from(slow("192.0.2.91")).0;
        for object in &mut objects {
            let time = jiff::Timestamp::now().to_string();
            object["metadata"]["annotations"] =
                json!({"endpoints.kubernetes.io/last-change-trigger-time": time});
            self.api_server.put(object);
        }
        self.wait_for("global_dns_programming_duration_seconds_count", 1)
    }

    /// Makes the API server return empty lists, then fail, so that no second list confirms or contradicts them.
    fn hold_lists(&self) -> Result<()> {
        self.api_server.set_behavior(Behavior::EmptyLists);
        self.api_server.lose_history();
        self.wait_for("global_dns_held_lists", 1)?;
        self.api_server.set_behavior(Behavior::InternalErrors);
        self.api_server.lose_history();
        Ok(())
    }

    /// Waits until a metric of the pod `linked` has reached a value.
    fn wait_for(&self, metric: &str, least: usize) -> Result<()> {
        let result = eventually(metric, || {
            let value = self.linked.try_metric(metric)?;
            ensure!(value >= least as f64, "{metric} is {value}");
            Ok(())
        });
        self.linked.with_log(result)
    }
}

fn snapshot_flag(folder: &TempDir) -> String {
    format!("--snapshot={}", folder.path().join("snapshot").display())
}

/// Returns an address that refuses connections.
fn closed_port() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

// === Objects ===

/// Address of the mirror of `prod/bank` in `east`.
const EAST_BANK: &str = "10.96.70.1";

/// Returns the mirror of `prod/mail` in `west`.
fn west_mail() -> ClusterIp {
    gateway_mirror("prod", "mail", "west", "10.96.73.1")
}

/// Returns a member of this cluster that is not exported.
fn slow(address: &str) -> Local {
    local("prod", "slow").endpoint(Some("slow-9"), address, true)
}

/// Returns an exported Service of this cluster in namespace `prod`, with settings.
fn exported_with(name: &str, address: &str, annotations: Value) -> Manifest {
    let mut manifest = Manifest::from(exported("prod", name, address));
    let service: &mut Value = &mut manifest.0[0];
    service["metadata"]["annotations"] = annotations;
    manifest
}

/// Returns a headless Service of this cluster that only has settings.
fn settings(name: &str, annotations: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None"},
        "metadata": {"namespace": "prod", "name": name, "annotations": annotations}})
}

/// Returns the sample of all kinds, with conflicts, a skipped object, a service with a failover order, one that is watched,
/// one that waits for an expected cluster, one that is scaled to zero, and one with an order that cannot be read, so that no
/// step has an endpoint.
fn objects() -> Manifest {
    // Namespace `prod` has the service, too: the short name is ambiguous.
    let ambiguous = mirror("shop", "cache", "east").endpoint("cache-0", &["10.96.71.1"]);
    let orphan = mirror("prod", "lost", "east").endpoint_mirror("lost-0", &["10.96.72.1"]);
    let order = json!({"global-dns/failover": "east:west:*", "global-dns/failover-mode": "auto"});
    let bank = exported_with("bank", "10.96.70.3", order);
    let mail = exported_with("mail", "10.96.73.3", json!({"global-dns/watch": "true"}));
    names::sample()
        .with(ambiguous)
        .with(slow("192.0.2.90"))
        .with(orphan)
        .with(bank)
        .with(mail)
        .with(west_mail())
        .with(settings(
            "late",
            &json!({"global-dns/expected-clusters": "south"}),
        ))
        .with(settings(
            "gone",
            &json!({"global-dns/failover": "so_uth", "global-dns/failover-mode": "hold"}),
        ))
        .with(settings(
            "idle",
            &json!({"global-dns/gateway-down": "exclude"}),
        ))
        .with(gateway_mirror("prod", "idle", "west", "10.96.74.1").service())
        .with(gateway_mirror("prod", "bank", "east", EAST_BANK))
        .with(gateway_mirror("prod", "bank", "west", "10.96.70.2"))
}
