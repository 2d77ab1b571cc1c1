//! Two replicas behind one cluster IP, with CoreDNS in front: they agree, they are replaced one after the other under
//! load, and one of them loses the API server.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::cluster::Cluster;
use support::dig::dig_recursively;
use support::http::Page;
use support::observer::{Observer, Sighting};
use support::process::Process;
use support::reply::sorted_texts;
use support::repository::repository;
use support::say::say;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;
use support::wire::{Over, ask};

use crate::clusters_come_and_go::{
    FOLLOW, NGINX, PAUSE, answer_after_the_recordings, answer_with_the_extra_one,
    extra_endpoint_mirror, state_after_the_recordings,
};
use crate::node::{CLUSTER_DNS, GLOBAL_DNS, Node, PODS, dns};

const PATIENCE: Duration = Duration::from_secs(60);
/// Answers that a new replica has given before the next one is replaced: the Service leads to it.
const SHARE: f64 = 20.0;
/// Names that are asked for under load, all of which have records.
const QUESTIONS: [(&str, &str); 6] = [
    ("nginx.default.global", "A"),
    ("west.nginx.default.global", "A"),
    ("nginx-set-1.west.nginx.default.global", "A"),
    ("_sql._tcp.nginx.default.global", "SRV"),
    ("nginx.default.global", "SRV"),
    ("nginx.global", "A"),
];

/// The two pods of global-dns.
struct Replicas<'c> {
    cluster: &'c Cluster,
    node: &'c Node,
    pods: [Option<Server>; 2],
}

pub fn run(steps: &mut Steps, cluster: &Cluster, node: &Node) {
    steps.fresh_start();
    let mut replicas = Replicas {
        cluster,
        node,
        pods: [None, None],
    };
    steps.needed("two_replicas_give_the_same_sets", || replicas.agree());
    steps.needed("a_rolling_restart_under_load_fails_no_answer", || {
        replicas.restart_under_load()
    });
    steps.needed("a_replica_without_its_api_server_still_answers", || {
        replicas.lose_one_api_server()
    });
}

// === impl Replicas ===

impl Replicas<'_> {
    fn agree(&mut self) -> Result<()> {
        self.cluster.become_state(&state_after_the_recordings()?)?;
        for pod in [0, 1] {
            self.start(pod, &[])?;
        }
        self.node.point_to(&[0, 1])?;
        let tables = [
            self.pod(0)?.try_api("/api/v1/table")?,
            self.pod(1)?.try_api("/api/v1/table")?,
        ];
        let [first, second] = tables.each_ref().map(|table| &table["services"]);
        ensure!(first == second, "{first} and {second}");
        let questions = questions(first)?;
        for question in &questions {
            let sets = [self.set(0, question)?, self.set(1, question)?];
            ensure!(sets[0] == sets[1], "{question}: {sets:?}");
        }
        let hash = |pod: usize| self.pod(pod)?.try_metric("global_dns_table_hash");
        let hashes = [hash(0)?, hash(1)?];
        ensure!(hashes[0] == hashes[1], "{hashes:?}");
        say(&format!("replicas: {} equal sets", questions.len()));
        Ok(())
    }

    fn restart_under_load(&mut self) -> Result<()> {
        let etc = self.node.etc("failover")?;
        // Without the cache every query goes through to a replica.
        let stanza = fs::read_to_string(repository("coredns/Corefile"))?;
        ensure!(stanza.contains("    cache 5\n"), "{stanza}");
        fs::write(
            etc.join("coredns/Corefile"),
            stanza.replace("    cache 5\n", ""),
        )?;
        let mut coredns = self.node.coredns("coredns-failover", &etc, self.cluster)?;
        eventually("CoreDNS to answer", PATIENCE, || {
            coredns.check()?;
            let dug = dig_recursively(dns(CLUSTER_DNS), Over::Tcp, NGINX, "A")?;
            ensure!(dug.status == "NOERROR", "{dug:?}");
            Ok(())
        })?;
        let loads = [
            Load::start(self.node, "udp")?,
            Load::start(self.node, "tcp")?,
        ];
        let started = Instant::now();
        for pod in [0, 1] {
            self.carries_its_share(pod)?;
        }
        for pod in [0, 1] {
            // Kubernetes tells the pod to end and the others that it ends; kube-proxy follows in its own time.
            let mut old = self.pods[pod].take().context("no such pod")?;
            old.signal("TERM");
            eventually("the end of readiness", PATIENCE, || {
                ensure!(old.readyz()?.status == 503, "it is ready");
                Ok(())
            })?;
            self.node.point_to(&[1 - pod])?;
            let status = old.end()?;
            ensure!(status.code() == Some(0), "it ended with {status}");
            drop(old);
            self.start(pod, &[])?;
            self.node.point_to(&[0, 1])?;
            self.carries_its_share(pod)?;
        }
        let took = started.elapsed();
        for load in loads {
            let transport = load.transport;
            let answered = load.finish().with_context(|| coredns.last_words())?;
            say(&format!(
                "failover: both replicas replaced in {:.1} s, {answered} queries over {transport}, none failed",
                took.as_secs_f64()
            ));
        }
        coredns.check()
    }

    fn lose_one_api_server(&mut self) -> Result<()> {
        // The second finds the API server at its cluster IP, which is cut off from it.
        let kubeconfig = fs::read_to_string(&self.cluster.kubeconfig)?;
        let kubeconfig = kubeconfig.replace(&self.cluster.address()?, "10.96.0.1:443");
        let by_cluster_ip = self.node.directory().join("kubeconfig-by-cluster-ip");
        fs::write(&by_cluster_ip, kubeconfig)?;
        self.pods[1] = None;
        self.start(1, &[by_cluster_ip.to_str().context("a path")?])?;

        let (before, after) = (answer_after_the_recordings(), answer_with_the_extra_one());
        let [first, second] = [self.pod(0)?, self.pod(1)?];
        let behind = Observer::start(dns(GLOBAL_DNS), NGINX, PAUSE)?;
        let observers = [
            Observer::start(first.dns, NGINX, PAUSE)?,
            Observer::start(second.dns, NGINX, PAUSE)?,
        ];
        observers[1].wait_for(&before, FOLLOW)?;
        self.node.lose_the_api_server()?;
        eventually("the loss to be noticed", PATIENCE, || {
            let is_loss = |event: &Value| {
                let message = event["message"].as_str().unwrap_or_default();
                message.starts_with("Lost the watch")
            };
            second.log.find(is_loss).context("it is not in the log")
        })?;
        let extra = extra_endpoint_mirror()?;
        self.cluster.write(&extra)?;
        observers[0].wait_for(&after, FOLLOW)?;
        let Page { status, body: text } = second.readyz()?;
        ensure!(status == 200, "/readyz says {status}: {text}");
        observers[1].has_seen(std::slice::from_ref(&before))?;
        // Whoever of the two is asked, there is an answer.
        let seen = |seen: &[Sighting]| {
            seen.iter()
                .all(|sighting| sighting.seen == before || sighting.seen == after)
        };
        ensure!(seen(&behind.history()), "no answer from the cluster IP");
        self.node.find_the_api_server()?;
        observers[1].wait_for(&after, PATIENCE)?;
        observers[1].has_seen(&[before.clone(), after.clone()])?;
        ensure!(seen(&behind.history()), "no answer from the cluster IP");
        say(&format!(
            "failover: {} queries answered by two replicas, one without the API server",
            behind.queries()
        ));
        self.cluster.write(&extra.undone()).map(drop)
    }

    /// Starts a pod, and waits until it is ready; the Service does not have it yet.
    fn start(&mut self, pod: usize, kubeconfig: &[&str]) -> Result<()> {
        let listen = format!("{}:5353", PODS[pod]);
        let further = ["--listen", &listen, "--grace", "3s"];
        let kubeconfig = kubeconfig.first().map(std::path::Path::new);
        let kubeconfig = kubeconfig.unwrap_or(&self.cluster.kubeconfig);
        self.pods[pod] = Some(Server::ready_of_cluster(kubeconfig, &further));
        Ok(())
    }

    fn pod(&self, pod: usize) -> Result<&Server> {
        self.pods[pod].as_ref().context("no such pod")
    }

    /// Waits until a replica has answered some of the load. CoreDNS keeps its sockets, and with them the replica that
    /// they lead to; new ones lead to any.
    fn carries_its_share(&self, pod: usize) -> Result<()> {
        eventually("its share of the load", PATIENCE, || {
            let reply = ask(dns(GLOBAL_DNS), &format!("{NGINX} A"), Over::Udp);
            ensure!(!reply.answers.is_empty(), "{reply:?}");
            let metric = "global_dns_responses_total{rcode=\"NOERROR\"}";
            let answered = self.pod(pod)?.try_metric(metric)?;
            ensure!(answered > SHARE, "it has answered {answered}");
            Ok(())
        })
    }

    /// What a replica answers, in any order.
    fn set(&self, pod: usize, question: &str) -> Result<Vec<String>> {
        let reply = self.pod(pod)?.ask(question, Over::Tcp);
        ensure!(!reply.answers.is_empty(), "{question}: {reply:?}");
        Ok(sorted_texts(&reply.answers))
    }
}

/// What there is to ask of every service, cluster and host of a table.
fn questions(services: &Value) -> Result<BTreeSet<String>> {
    let mut questions = BTreeSet::new();
    for service in services.as_array().context("no list of services")? {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let union = format!(
            "{}.{}.global",
            text(&service["service"]),
            text(&service["namespace"])
        );
        for endpoint in service["endpoints"].as_array().into_iter().flatten() {
            let cluster = format!("{}.{union}", text(&endpoint["cluster"]));
            let host = format!("{}.{cluster}", text(&endpoint["hostname"]));
            for name in [union.clone(), cluster, host] {
                questions.extend(["A", "SRV"].map(|rtype| format!("{name} {rtype}")));
            }
        }
    }
    ensure!(questions.len() > 20, "{questions:?}");
    Ok(questions)
}

// === dnsperf ===

/// Queries to CoreDNS without end.
struct Load {
    transport: &'static str,
    /// Until it is ended.
    dnsperf: Process,
    report: PathBuf,
}

// === impl Load ===

impl Load {
    fn start(node: &Node, transport: &'static str) -> Result<Self> {
        let questions = node.directory().join("questions");
        let lines = QUESTIONS.map(|(name, kind)| format!("{name} {kind}\n"));
        fs::write(&questions, lines.concat())?;
        let mut dnsperf = node.command("dnsperf")?;
        // Ends after an hour if nobody ends it; so many queries a second leave room for the other parts.
        let server = format!("-s {CLUSTER_DNS} -c 8 -T 1 -Q 1000 -l 3600 -m {transport} -d");
        dnsperf.args(server.split(' ')).arg(&questions);
        let report = node.directory().join(format!("dnsperf-{transport}"));
        dnsperf.stdout(File::create(&report)?);
        Ok(Self {
            transport,
            dnsperf: Process::start_printing("dnsperf", dnsperf)?,
            report,
        })
    }

    /// Ends it; returns how many queries were answered, if all of them were, and with records.
    fn finish(mut self) -> Result<u64> {
        self.dnsperf.signal("INT")?;
        self.dnsperf.end()?;
        let (report, errors) = (fs::read_to_string(&self.report)?, self.dnsperf.log().text());
        let line = |key: &str| {
            let value = report
                .lines()
                .find_map(|line| line.trim().strip_prefix(key));
            value
                .map(str::trim)
                .with_context(|| format!("no {key} {report}{errors}"))
        };
        let lost = line("Queries lost:")?;
        let codes = line("Response codes:")?;
        let is_whole =
            lost.starts_with("0 ") && codes.starts_with("NOERROR ") && !codes.contains(',');
        ensure!(is_whole && errors.trim().is_empty(), "{report}{errors}");
        let answered = line("Queries completed:")?;
        let answered = answered.split(' ').next().unwrap_or_default();
        Ok(answered.parse()?)
    }
}
