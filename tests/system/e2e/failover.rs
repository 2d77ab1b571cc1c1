//! Two replicas behind one cluster IP and CoreDNS. They give the same answers, are replaced one by one under load, and
//! one loses its connection to the API server.

use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::dig::dig_recursively;
use support::http::Page;
use support::observer::{AnswerRun, Observer};
use support::output::print_line;
use support::reply::sorted_texts;
use support::repository::repository;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;
use support::wire::{Transport, ask};

use crate::e2e::linked_clusters::{
    NGINX, PAUSE, answer_after_recordings, answer_with_extra_endpoint, extra_endpoint_mirror,
    state_after_recordings,
};
use support::load::Load;
use support::node::{CLUSTER_DNS, GLOBAL_DNS, Node, PODS, dns};

/// Minimum number of answers of a new replica before the next one is replaced. They show that it receives traffic.
const MIN_ANSWERS: f64 = 20.0;
/// Queries in a second over each transport.
const RATE: u32 = 1000;
/// Queries under load. Each has an answer with records.
const QUESTIONS: [(&str, &str); 6] = [
    ("nginx.default.global", "A"),
    ("west.nginx.default.global", "A"),
    ("nginx-set-1.west.nginx.default.global", "A"),
    ("_sql._tcp.nginx.default.global", "SRV"),
    ("nginx.default.global", "SRV"),
    ("nginx.global", "A"),
];

/// The two global-dns pods.
struct Replicas<'c> {
    cluster: &'c Cluster,
    node: &'c Node,
    pods: [Option<Server>; 2],
}

pub fn run(steps: &mut Steps, cluster: &Cluster, node: &Node) {
    steps.forget_failed_prerequisite();
    let mut replicas = Replicas {
        cluster,
        node,
        pods: [None, None],
    };
    steps.prerequisite("two_replicas_return_the_same_records", || {
        replicas.compare_answers()
    });
    steps.prerequisite("rolling_restart_under_load_fails_no_query", || {
        replicas.restart_under_load()
    });
    steps.prerequisite("replica_without_api_server_still_answers", || {
        replicas.lose_one_api_server()
    });
}

// === impl Replicas ===

impl Replicas<'_> {
    fn compare_answers(&mut self) -> Result<()> {
        self.cluster.apply_state(&state_after_recordings()?)?;
        for pod in [0, 1] {
            self.start(pod, &[])?;
        }
        self.node.set_endpoints(&[0, 1])?;
        let tables = [
            self.pod(0)?.try_items("endpoints")?,
            self.pod(1)?.try_items("endpoints")?,
        ];
        let [first, second] = tables.map(|endpoints| json!(endpoints));
        ensure!(first == second, "the tables differ: {first} and {second}");
        let questions = questions(&first)?;
        for question in &questions {
            let sets = [
                self.sorted_answer(0, question)?,
                self.sorted_answer(1, question)?,
            ];
            ensure!(
                sets[0] == sets[1],
                "the answers for {question} differ: {sets:?}"
            );
        }
        let hash = |pod: usize| self.pod(pod)?.try_metric("global_dns_table_hash");
        let hashes = [hash(0)?, hash(1)?];
        ensure!(
            hashes[0] == hashes[1],
            "the table hashes differ: {hashes:?}"
        );
        print_line(&format!("replicas: {} equal answers", questions.len()));
        Ok(())
    }

    fn restart_under_load(&mut self) -> Result<()> {
        let etc = self.node.create_etc("failover")?;
        // Without the cache, every query reaches a replica.
        let stanza = fs::read_to_string(repository("coredns/Corefile"))?;
        ensure!(stanza.contains("    cache 5\n"), "{stanza}");
        fs::write(
            etc.join("coredns/Corefile"),
            stanza.replace("    cache 5\n", ""),
        )?;
        let mut coredns = self
            .node
            .start_coredns("coredns-failover", &etc, self.cluster)?;
        eventually("CoreDNS to answer", || {
            coredns.check()?;
            let output = dig_recursively(dns(CLUSTER_DNS), Transport::Tcp, NGINX, "A")?;
            ensure!(output.status == "NOERROR", "{output:?}");
            Ok(())
        })?;
        let loads = [
            Load::start(self.node, "udp", RATE, &QUESTIONS)?,
            Load::start(self.node, "tcp", RATE, &QUESTIONS)?,
        ];
        let started = Instant::now();
        for pod in [0, 1] {
            self.wait_for_traffic(pod)?;
        }
        for pod in [0, 1] {
            let old = self.pods[pod].take().context("the pod is not running")?;
            self.node.terminate(pod, old)?;
            self.start(pod, &[])?;
            self.node.set_endpoints(&[0, 1])?;
            self.wait_for_traffic(pod)?;
        }
        let took = started.elapsed();
        for load in loads {
            let transport = load.transport;
            let answered = load.finish().with_context(|| coredns.log_tail())?;
            print_line(&format!(
                "failover: both replicas replaced in {:.1} s, {answered} queries over {transport}, no failure",
                took.as_secs_f64()
            ));
        }
        coredns.check()
    }

    fn lose_one_api_server(&mut self) -> Result<()> {
        // The second replica connects to the cluster IP of the API server, which the test blocks.
        let kubeconfig = fs::read_to_string(&self.cluster.kubeconfig)?
            .replace(&self.cluster.address()?, "10.96.0.1:443");
        let by_cluster_ip = self.node.directory().join("kubeconfig-by-cluster-ip");
        fs::write(&by_cluster_ip, kubeconfig)?;
        self.pods[1] = None;
        self.start(
            1,
            &[by_cluster_ip.to_str().context("the path is not UTF-8")?],
        )?;

        let (before, after) = (answer_after_recordings(), answer_with_extra_endpoint());
        let [first, second] = [self.pod(0)?, self.pod(1)?];
        let service = Observer::start(dns(GLOBAL_DNS), NGINX, PAUSE)?;
        let observers = [
            Observer::start(first.dns, NGINX, PAUSE)?,
            Observer::start(second.dns, NGINX, PAUSE)?,
        ];
        observers[1].wait_for(&before)?;
        self.node.block_api_server()?;
        eventually("the warning about the failed watch", || {
            let is_loss = |event: &Value| event["problem"] == "source-unavailable";
            second.log.find(is_loss).context("it is not in the log")
        })?;
        let extra = extra_endpoint_mirror()?;
        self.cluster.write(&extra)?;
        observers[0].wait_for(&after)?;
        let Page { status, body: text } = second.readyz()?;
        ensure!(status == 200, "/readyz returned {status}: {text}");
        observers[1].check_history(std::slice::from_ref(&before))?;
        // Either replica may answer behind the cluster IP.
        let is_answered = |history: &[AnswerRun]| {
            history
                .iter()
                .all(|run| run.answer == before || run.answer == after)
        };
        ensure!(
            is_answered(&service.history()),
            "a query to the cluster IP failed"
        );
        self.node.unblock_api_server()?;
        observers[1].wait_for(&after)?;
        observers[1].check_history(&[before.clone(), after.clone()])?;
        ensure!(
            is_answered(&service.history()),
            "a query to the cluster IP failed"
        );
        print_line(&format!(
            "failover: {} queries answered by two replicas, one of them without API server",
            service.queries()
        ));
        self.cluster.write(&extra.as_deletion())
    }

    /// Starts a pod, and waits until it is ready. The caller adds it to the Service.
    fn start(&mut self, pod: usize, kubeconfig: &[&str]) -> Result<()> {
        let listen = format!("{}:5353", PODS[pod]);
        let flags = ["--listen", &listen, "grace=3s"];
        let kubeconfig = kubeconfig.first().map(std::path::Path::new);
        let kubeconfig = kubeconfig.unwrap_or(&self.cluster.kubeconfig);
        self.pods[pod] = Some(Server::ready_of_cluster(kubeconfig, &flags));
        Ok(())
    }

    fn pod(&self, pod: usize) -> Result<&Server> {
        self.pods[pod].as_ref().context("the pod is not running")
    }

    /// Waits until a replica has answered queries. CoreDNS keeps its sockets, so it keeps the replica too. New sockets
    /// can reach any replica.
    fn wait_for_traffic(&self, pod: usize) -> Result<()> {
        eventually("answers of the replica", || {
            let reply = ask(dns(GLOBAL_DNS), &format!("{NGINX} A"), Transport::Udp);
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

    /// Returns the records of a replica's answer, sorted.
    fn sorted_answer(&self, pod: usize, question: &str) -> Result<Vec<String>> {
        let reply = self.pod(pod)?.ask(question, Transport::Tcp);
        ensure!(!reply.answers.is_empty(), "{question}: {reply:?}");
        Ok(sorted_texts(&reply.answers))
    }
}

/// Returns queries for every service, cluster and host of a table.
fn questions(endpoints: &Value) -> Result<BTreeSet<String>> {
    let mut questions = BTreeSet::new();
    for endpoint in endpoints.as_array().context("no list of endpoints")? {
        let text = |field: &str| endpoint[field].as_str().unwrap_or_default();
        let union = format!("{}.{}.global", text("service"), text("namespace"));
        let cluster = format!("{}.{union}", text("cluster"));
        let host = format!("{}.{cluster}", text("hostname"));
        for name in [union, cluster, host] {
            questions.extend(["A", "SRV"].map(|rtype| format!("{name} {rtype}")));
        }
    }
    ensure!(questions.len() > 20, "{questions:?}");
    Ok(questions)
}
