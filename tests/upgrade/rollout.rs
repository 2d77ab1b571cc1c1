//! Two replicas behind a real CoreDNS are replaced one after the other, forwards and back, under queries.
//!
//! Each replica keeps its volume, so that a release starts with the snapshot and the journal that the other one wrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use support::cluster::Cluster;
use support::commands;
use support::dig::dig_recursively;
use support::objects::{link, link_definition, mirror, namespace};
use support::output::print_line;
use support::reply::sorted_texts;
use support::repository::repository;
use support::server::Server;
use support::steps::Steps;
use support::wait::{eventually, eventually_within};
use support::wire::{Transport, ask};
use tempfile::TempDir;

use crate::release;
use support::load::Load;
use support::node::{CLUSTER_DNS, GLOBAL_DNS, Node, PODS, dns};

/// Time after which a server that is not ready has ignored its snapshot.
const IGNORED_AFTER: Duration = Duration::from_secs(5);
/// Minimum number of answers of a new replica before the next one is replaced.
const MIN_ANSWERS: f64 = 50.0;
const NAME: &str = "db.prod.global";
/// Queries in a second over each transport. A busy machine answers them in time.
const RATE: u32 = 300;
/// Queries under load. Each has an answer with records at every moment.
const QUESTIONS: [(&str, &str); 7] = [
    (NAME, "A"),
    (NAME, "SRV"),
    ("_sql._tcp.db.prod.global", "SRV"),
    ("east.db.prod.global", "A"),
    ("db-0.east.db.prod.global", "A"),
    ("west.db.prod.global", "SRV"),
    ("db.global", "A"),
];

/// A release.
#[derive(Clone)]
struct Release {
    name: &'static str,
    program: PathBuf,
}

struct Rollout<'c> {
    cluster: &'c Cluster,
    node: &'c Node,
    /// The volume of each pod.
    volumes: [TempDir; 2],
    pods: [Option<Server>; 2],
    /// Number of endpoint mirrors that the test has added.
    added: usize,
}

pub fn run(steps: &mut Steps, cluster: &Cluster, node: &Node) {
    steps.step("replicas_of_both_releases_fail_no_query", || {
        roll_out(cluster, node)
    });
    steps.step(
        "earlier_release_starts_with_newer_files_and_no_api_server",
        || start_with_newer_files(cluster),
    );
}

fn releases() -> Result<[Release; 2]> {
    Ok([
        Release {
            name: "earlier",
            program: release::binary()?,
        },
        Release {
            name: "this",
            program: commands::binary(),
        },
    ])
}

fn write_objects(cluster: &Cluster) -> Result<()> {
    cluster.put(&namespace("prod"))?;
    cluster.put(&namespace("linkerd-multicluster"))?;
    cluster.put(&link_definition())?;
    for name in ["east", "west"] {
        let object = link("linkerd-multicluster", name, name);
        eventually("the kind Link", || cluster.put(&object).map(drop))?;
    }
    let east = mirror("prod", "db", "east")
        .endpoint("db-0", &["10.96.40.1"])
        .endpoint("db-1", &["10.96.40.2"]);
    let west = mirror("prod", "db", "west").endpoint("db-0", &["10.96.41.1"]);
    for object in [east.writes(), west.writes()].concat() {
        cluster.put(&object)?;
    }
    Ok(())
}

fn roll_out(cluster: &Cluster, node: &Node) -> Result<()> {
    write_objects(cluster)?;
    let [earlier, this] = releases()?;
    let mut rollout = Rollout {
        cluster,
        node,
        volumes: [tempfile::tempdir()?, tempfile::tempdir()?],
        pods: [None, None],
        added: 0,
    };
    for pod in [0, 1] {
        rollout.start(pod, &earlier)?;
    }
    node.set_endpoints(&[0, 1])?;
    let etc = node.create_etc("upgrade")?;
    // Without the cache, every query reaches a replica.
    let stanza = fs::read_to_string(repository("coredns/Corefile"))?;
    ensure!(stanza.contains("    cache 5\n"), "{stanza}");
    fs::write(
        etc.join("coredns/Corefile"),
        stanza.replace("    cache 5\n", ""),
    )?;
    let mut coredns = node.start_coredns("coredns-upgrade", &etc, cluster)?;
    eventually("CoreDNS to answer", || {
        coredns.check()?;
        let output = dig_recursively(dns(CLUSTER_DNS), Transport::Tcp, NAME, "A")?;
        ensure!(output.status == "NOERROR", "{output:?}");
        Ok(())
    })?;

    let loads = [
        Load::start(node, "udp", RATE, &QUESTIONS)?,
        Load::start(node, "tcp", RATE, &QUESTIONS)?,
    ];
    let began = Instant::now();
    rollout.compare_answers()?;
    for release in [&this, &earlier] {
        for pod in [0, 1] {
            rollout.replace(pod, release)?;
            rollout.compare_answers()?;
            rollout.change_objects()?;
        }
    }
    let took = began.elapsed();
    let mut answered = 0;
    for load in loads {
        let transport = load.transport;
        let queries = load.finish().with_context(|| coredns.log_tail())?;
        answered += queries;
        print_line(&format!("{queries} queries over {transport}, no failure"));
    }
    ensure!(answered > 1_000, "only {answered} queries");
    print_line(&format!(
        "both replicas replaced forwards and back in {:.1} s",
        took.as_secs_f64()
    ));
    coredns.check()
}

/// The files of this release, after a rollback during an outage of the API server.
fn start_with_newer_files(cluster: &Cluster) -> Result<()> {
    let [earlier, this] = releases()?;
    let volume = tempfile::tempdir()?;
    let mut newer = start(&this, &cluster.kubeconfig, "127.0.0.1:0", volume.path())?;
    newer.wait_until_ready();
    // A change, so that there is a journal, too.
    let changed = mirror("prod", "db", "west").endpoint("db-1", &["10.96.41.2"]);
    for object in &changed.writes()[1..] {
        cluster.put(object)?;
    }
    eventually("the snapshot and the journal", || {
        let text = fs::read_to_string(volume.path().join("snapshot.json"))?;
        ensure!(text.contains("10.96.41.2"), "{} octets", text.len());
        let files = fs::read_dir(volume.path())?.count();
        ensure!(files > 1, "there is no journal");
        Ok(())
    })?;
    let before = answers(&newer)?;
    newer.signal("TERM");
    ensure!(newer.end()?.code() == Some(0));
    let files = fs::read_dir(volume.path())?.count();

    // No API server listens there.
    let address = cluster.address()?;
    let text = fs::read_to_string(&cluster.kubeconfig)?.replace(&address, "127.0.0.1:1");
    let unreachable = volume.path().join("kubeconfig");
    fs::write(&unreachable, text)?;
    let mut older = start(&earlier, &unreachable, "127.0.0.1:0", volume.path())?;
    // It answers from the snapshot, or not at all: never with something else.
    let is_ready = eventually_within("readiness", IGNORED_AFTER, || {
        ensure!(older.readyz()?.status == 200);
        Ok(())
    })
    .is_ok();
    if is_ready {
        ensure!(
            answers(&older)? == before,
            "other answers than those of the snapshot"
        );
    } else {
        let outcome = older.outcome(&format!("{NAME} A"));
        ensure!(outcome == "SERVFAIL", "{outcome}");
    }
    older.check()?;
    drop(older);
    // With an API server, it is ready, and replaces the files.
    let older = start(&earlier, &cluster.kubeconfig, "127.0.0.1:0", volume.path())?;
    older.wait_until_ready();
    ensure!(
        answers(&older)? == before,
        "other answers than before the rollback"
    );
    drop(older);
    // This release starts with them again.
    let newer = start(&this, &cluster.kubeconfig, "127.0.0.1:0", volume.path())?;
    newer.wait_until_ready();
    ensure!(
        answers(&newer)? == before,
        "other answers than before the rollback"
    );
    let what = if is_ready {
        "answers from them"
    } else {
        "ignores them: SERVFAIL until the API server is back"
    };
    print_line(&format!(
        "{files} files of this release; without an API server, the earlier release {what}"
    ));
    Ok(())
}

/// Starts a server with a volume. Returns when its listeners are open.
fn start(release: &Release, kubeconfig: &Path, listen: &str, volume: &Path) -> Result<Server> {
    let snapshot = volume.join("snapshot.json");
    let snapshot = snapshot.to_str().context("the path is not UTF-8")?;
    let flags = ["--listen", listen, "--grace", "3s", "--snapshot", snapshot];
    Ok(Server::of_program(&release.program, kubeconfig, &flags))
}

/// Returns the records of each question, sorted.
fn answers(server: &Server) -> Result<Vec<Vec<String>>> {
    let records = |(name, kind): &(&str, &str)| {
        let reply = server.ask(&format!("{name} {kind}"), Transport::Tcp);
        ensure!(!reply.answers.is_empty(), "{name} {kind}: {reply:?}");
        Ok(sorted_texts(&reply.answers))
    };
    QUESTIONS.iter().map(records).collect()
}

// === impl Rollout ===

impl Rollout<'_> {
    /// Starts a pod, and waits until it is ready. The caller adds it to the Service.
    fn start(&mut self, pod: usize, release: &Release) -> Result<()> {
        let listen = format!("{}:5353", PODS[pod]);
        let volume = self.volumes[pod].path();
        let server = start(release, &self.cluster.kubeconfig, &listen, volume)?;
        let took = server.wait_until_ready();
        self.pods[pod] = Some(server);
        print_line(&format!(
            "replica {pod}: {} release, ready after {:.2} s",
            release.name,
            took.as_secs_f64()
        ));
        Ok(())
    }

    fn pod(&self, pod: usize) -> Result<&Server> {
        self.pods[pod].as_ref().context("the pod is not running")
    }

    fn replace(&mut self, pod: usize, release: &Release) -> Result<()> {
        let old = self.pods[pod].take().context("the pod is not running")?;
        self.node.terminate(pod, old)?;
        self.start(pod, release)?;
        self.node.set_endpoints(&[0, 1])?;
        self.wait_for_traffic(pod)
    }

    /// Waits until a replica has answered queries. CoreDNS keeps its sockets; new ones can reach any replica.
    fn wait_for_traffic(&self, pod: usize) -> Result<()> {
        eventually("answers of the replica", || {
            let reply = ask(dns(GLOBAL_DNS), &format!("{NAME} A"), Transport::Udp);
            ensure!(!reply.answers.is_empty(), "{reply:?}");
            let metric = "global_dns_responses_total{rcode=\"NOERROR\"}";
            let answered = self.pod(pod)?.try_metric(metric)?;
            ensure!(
                answered > MIN_ANSWERS,
                "replica {pod} has sent {answered} answers"
            );
            Ok(())
        })
    }

    /// Replicas of different releases give the same answers.
    fn compare_answers(&self) -> Result<()> {
        let [first, second] = [answers(self.pod(0)?)?, answers(self.pod(1)?)?];
        ensure!(first == second, "{first:?} and {second:?}");
        Ok(())
    }

    /// Adds an endpoint, which both replicas must return.
    fn change_objects(&mut self) -> Result<()> {
        self.added += 1;
        let (host, address) = (
            format!("db-{}", 1 + self.added),
            format!("10.96.40.{}", 2 + self.added),
        );
        let added = mirror("prod", "db", "east").endpoint(&host, &[&address]);
        for object in &added.writes()[1..] {
            self.cluster.put(object)?;
        }
        for pod in [0, 1] {
            eventually("the added endpoint", || {
                let outcome = self.pod(pod)?.outcome(&format!("{host}.east.{NAME} A"));
                ensure!(outcome == address, "replica {pod}: {outcome}");
                Ok(())
            })?;
        }
        self.compare_answers()
    }
}
