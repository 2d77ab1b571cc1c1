//! The local part as CoreDNS answers it: `S.N.global` beside `S.N.svc.cluster.local`, from the same API server.
//!
//! Every Service here is headless, exported, and has no mirror, so the only cluster in its name is this one. The names
//! of both differ in one label: `H.S.N.svc.cluster.local` is `H.hub.S.N.global`.
//!
//! Where both specifications leave a choice, the two choose alike: an endpoint without a hostname is named by its
//! address with dashes (and a zero after a last dash), a port without a name is in the SRV records of the bare name
//! only, a Service without ports has no SRV records and exists, one without a ready endpoint does not exist. What
//! differs, and is not compared:
//!
//! - Weights of SRV: CoreDNS divides 100 by the number of records, we say 10. Equal weights mean the same.
//! - A and AAAA of `_http._tcp.S.N`: CoreDNS answers with addresses, we with none; the specification names SRV only.
//! - `_tcp.S.N`: NXDOMAIN from CoreDNS; an empty name from us, because names exist below it (RFC 8020).
//! - An IPv6 address that the slice spells in an unusual way: CoreDNS dashes the spelling, we dash the address.
//! - Further addresses of one endpoint in a slice: CoreDNS takes all, we the first, beyond which Kubernetes defines none.
//! - An endpoint's name with a port before it (`_http._tcp.H.hub.S.N.global`): CoreDNS has no such names.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{RData, RecordType};
use serde_json::{Value, json};

use crate::ask::{Over, ask};
use crate::cluster::Cluster;
use crate::clusters_come_and_go::FOLLOW;
use crate::harness::{Process, command, eventually, say, tool};
use crate::server::Server;
use crate::steps::Steps;
use crate::support::ports::free_port;

const START: Duration = Duration::from_secs(30);
const NAMESPACE: &str = "same";
/// Endpoints of the Services `forty` and `many`.
const FORTY: u8 = 40;
const MANY: u8 = 200;

/// Question, type, and what both answer: addresses, hosts and ports, nothing, or a response code.
type Case = (&'static str, RecordType, &'static str);

/// Written as `HOST.SERVICE`, without namespace, cluster and zone.
const CASES: [Case; 38] = [
    // Pods with a hostname, one without, and one that is not ready; five ports, two of them UDP.
    ("web", RecordType::A, "10.0.1.1 10.0.1.2 10.0.1.4"),
    ("web", RecordType::AAAA, ""),
    (
        "web",
        RecordType::SRV,
        "web-0:8080 web-0:26257 web-0:7946 web-0:5300 web-1:8080 web-1:26257 web-1:7946 web-1:5300 \
         10-0-1-4:8080 10-0-1-4:26257 10-0-1-4:7946 10-0-1-4:5300",
    ),
    (
        "_http._tcp.web",
        RecordType::SRV,
        "web-0:8080 web-1:8080 10-0-1-4:8080",
    ),
    (
        "_sql._tcp.web",
        RecordType::SRV,
        "web-0:26257 web-1:26257 10-0-1-4:26257",
    ),
    (
        "_gossip._udp.web",
        RecordType::SRV,
        "web-0:7946 web-1:7946 10-0-1-4:7946",
    ),
    // One number for two protocols.
    (
        "_dns._udp.web",
        RecordType::SRV,
        "web-0:5300 web-1:5300 10-0-1-4:5300",
    ),
    (
        "_dns-tcp._tcp.web",
        RecordType::SRV,
        "web-0:5300 web-1:5300 10-0-1-4:5300",
    ),
    ("_http._udp.web", RecordType::SRV, "NXDomain"),
    ("_gossip._tcp.web", RecordType::SRV, "NXDomain"),
    ("_smtp._tcp.web", RecordType::SRV, "NXDomain"),
    ("web-0.web", RecordType::A, "10.0.1.1"),
    ("web-0.web", RecordType::AAAA, ""),
    (
        "web-0.web",
        RecordType::SRV,
        "web-0:8080 web-0:26257 web-0:7946 web-0:5300",
    ),
    ("10-0-1-4.web", RecordType::A, "10.0.1.4"),
    ("web-2.web", RecordType::A, "NXDomain"),
    ("10-0-1-3.web", RecordType::A, "NXDomain"),
    // The same, with `publishNotReadyAddresses`.
    ("early", RecordType::A, "10.0.2.1 10.0.2.2"),
    ("early", RecordType::SRV, "early-0:8080 early-1:8080"),
    (
        "_http._tcp.early",
        RecordType::SRV,
        "early-0:8080 early-1:8080",
    ),
    ("early-1.early", RecordType::A, "10.0.2.2"),
    // Nobody is ready.
    ("asleep", RecordType::A, "NXDomain"),
    ("asleep", RecordType::SRV, "NXDomain"),
    ("nowhere", RecordType::A, "NXDomain"),
    // Slices of both families, written by hand, one address in two of them.
    ("dual", RecordType::A, "10.0.3.1 10.0.3.2"),
    (
        "dual",
        RecordType::AAAA,
        "fd00:10::1 fd00:10::3 fd00:10:0:1::",
    ),
    (
        "_http._tcp.dual",
        RecordType::SRV,
        "dual-0:8080 10-0-3-2:8080 fd00-10--3:8080 fd00-10-0-1--0:8080",
    ),
    // Each slice has ports of its own.
    (
        "dual",
        RecordType::SRV,
        "dual-0:8080 10-0-3-2:8080 fd00-10--3:8080 fd00-10-0-1--0:8080 10-0-3-2:9090",
    ),
    ("_metrics._tcp.dual", RecordType::SRV, "10-0-3-2:9090"),
    ("dual-0.dual", RecordType::A, "10.0.3.1"),
    ("dual-0.dual", RecordType::AAAA, "fd00:10::1"),
    ("fd00-10--3.dual", RecordType::AAAA, "fd00:10::3"),
    ("fd00-10--3.dual", RecordType::A, ""),
    ("fd00-10-0-1--0.dual", RecordType::AAAA, "fd00:10:0:1::"),
    // A port without a name, and no port at all.
    ("unnamed", RecordType::A, "10.0.4.1"),
    ("unnamed", RecordType::SRV, "only:6379"),
    ("portless", RecordType::A, "10.0.5.1"),
    ("portless", RecordType::SRV, ""),
];

/// The two that are compared.
struct Pair {
    ours: Server,
    coredns: SocketAddr,
    _process: Process,
}

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.fresh_start();
    let mut pair = None;
    steps.needed("coredns_and_global_dns_serve_the_same_api_server", || {
        pair = Some(start(cluster)?);
        Ok(())
    });
    let mut step = |fact: &str, check: fn(&Pair) -> Result<()>| {
        let pair = pair.as_ref();
        steps.needed(fact, || {
            let pair = pair.context("there is no pair")?;
            pair.ours.with_log(check(pair))
        });
    };
    step(
        "local_names_have_the_addresses_and_ports_that_coredns_answers",
        answers_are_the_same,
    );
    step("answers_of_200_endpoints_are_the_same_over_tcp", many);
    step(
        "answers_too_long_for_udp_are_truncated_by_each_ones_sizes",
        truncation,
    );
    steps.step("a_pod_with_a_slice_for_each_family_is_no_conflict", || {
        let pair = pair.as_ref().context("there is no pair")?;
        pair.ours.with_log(no_conflict(pair))
    });
    steps.step("the_compared_services_leave", || cluster.empty(NAMESPACE));
}

fn answers_are_the_same(pair: &Pair) -> Result<()> {
    for (question, kind, wanted) in CASES {
        pair.both_answer(
            question,
            kind,
            &wanted.split_whitespace().map(str::to_owned).collect(),
        )?;
    }
    say(&format!(
        "same as CoreDNS: {} questions over TCP",
        CASES.len()
    ));
    Ok(())
}

fn many(pair: &Pair) -> Result<()> {
    for (service, count) in [("forty", FORTY), ("many", MANY)] {
        let addresses = (1..=count).map(|n| many_address(n).to_string()).collect();
        pair.both_answer(service, RecordType::A, &addresses)?;
        let ports = [8080, 26257].map(|port| -> BTreeSet<String> {
            (1..=count)
                .map(|n| format!("{service}-{n}:{port}"))
                .collect()
        });
        pair.both_answer(&format!("_http._tcp.{service}"), RecordType::SRV, &ports[0])?;
        pair.both_answer(&format!("_sql._tcp.{service}"), RecordType::SRV, &ports[1])?;
        pair.both_answer(service, RecordType::SRV, &(&ports[0] | &ports[1]))?;
    }
    Ok(())
}

/// A dual-stack pod is in two slices, one of each family, and both say that it is the same pod.
fn no_conflict(pair: &Pair) -> Result<()> {
    let table = pair.ours.table()?;
    let conflicts = table["conflicts"].as_array().context("no conflicts")?;
    ensure!(conflicts.is_empty(), "{conflicts:?}");
    Ok(())
}

/// CoreDNS sends as much as the question says it takes; we send 1232 octets at most (`--udp-max`).
fn truncation(pair: &Pair) -> Result<()> {
    let (small, larger, large) = (None, Some(1232), Some(4096));
    for (service, kind, edns, ours, coredns) in [
        ("web", RecordType::A, small, false, false),
        ("web", RecordType::A, larger, false, false),
        ("_http._tcp.web", RecordType::SRV, small, false, false),
        ("_http._tcp.web", RecordType::SRV, larger, false, false),
        // 40 addresses are 640 octets.
        ("forty", RecordType::A, small, true, true),
        ("forty", RecordType::A, larger, false, false),
        // 40 targets, which must not be compressed, are more than 1232.
        ("_http._tcp.forty", RecordType::SRV, small, true, true),
        ("_http._tcp.forty", RecordType::SRV, larger, true, true),
        // 200 addresses are 3200 octets.
        ("many", RecordType::A, small, true, true),
        ("many", RecordType::A, larger, true, true),
        ("many", RecordType::A, large, true, false),
        ("many", RecordType::SRV, small, true, true),
        ("many", RecordType::SRV, larger, true, true),
        ("many", RecordType::SRV, large, true, true),
    ] {
        let limit = usize::from(edns.unwrap_or(512));
        for (who, server, name, truncated, limit) in [
            (
                "global-dns",
                pair.ours.dns,
                our_name(service),
                ours,
                limit.min(1232),
            ),
            (
                "CoreDNS",
                pair.coredns,
                coredns_name(service),
                coredns,
                limit,
            ),
        ] {
            let title = format!("{who}: {name} {kind}, EDNS {edns:?}");
            let whole = records(server, Over::Tcp, &name, kind, None)?;
            let got = records(server, Over::Udp, &name, kind, edns)?;
            ensure!(
                got.truncated == truncated,
                "{title}: TC is {}, wanted {truncated}; {} octets",
                got.truncated,
                got.octets
            );
            ensure!(got.octets <= limit, "{title}: {} octets", got.octets);
            ensure!(
                got.edns == edns.is_some(),
                "{title}: OPT is there: {}",
                got.edns
            );
            ensure!(
                got.words.is_subset(&whole.words),
                "{title}: records that TCP does not have"
            );
            ensure!(
                truncated == (got.words != whole.words),
                "{title}: {} of {} records",
                got.words.len(),
                whole.words.len()
            );
        }
    }
    Ok(())
}

// === impl Pair ===

impl Pair {
    /// Both answer the question over TCP with exactly these.
    fn both_answer(
        &self,
        question: &str,
        kind: RecordType,
        wanted: &BTreeSet<String>,
    ) -> Result<()> {
        for (who, server, name) in [
            ("CoreDNS", self.coredns, coredns_name(question)),
            ("global-dns", self.ours.dns, our_name(question)),
        ] {
            // Each follows the API server in its own time.
            eventually("the answer", FOLLOW, || {
                let got = records(server, Over::Tcp, &name, kind, None)?;
                ensure!(
                    got.words == *wanted && !got.truncated,
                    "{who}: {name} {kind} is {:?}, wanted {wanted:?}",
                    got.words
                );
                Ok(())
            })?;
        }
        Ok(())
    }
}

// === Names and records ===

/// `web-0.web` to `web-0.hub.web.same.global`, and `_http._tcp.web` to `_http._tcp.web.same.global`.
fn our_name(question: &str) -> String {
    match question.rsplit_once('.') {
        Some((host, service)) if !host.starts_with('_') => {
            format!("{host}.hub.{service}.{NAMESPACE}.global")
        }
        _ => format!("{question}.{NAMESPACE}.global"),
    }
}

fn coredns_name(question: &str) -> String {
    format!("{question}.{NAMESPACE}.svc.cluster.local")
}

struct Records {
    /// Addresses, or `HOST:PORT`; or the response code alone.
    words: BTreeSet<String>,
    truncated: bool,
    edns: bool,
    octets: usize,
}

fn records(
    server: SocketAddr,
    over: Over,
    name: &str,
    kind: RecordType,
    edns: Option<u16>,
) -> Result<Records> {
    let (reply, octets) = ask(server, over, name, kind, edns)?;
    let mut words = BTreeSet::new();
    let code = reply.metadata.response_code;
    if code != ResponseCode::NoError {
        words.insert(format!("{code:?}"));
    }
    for record in &reply.answers {
        ensure!(
            record.name.to_ascii() == format!("{name}."),
            "{name} {kind}: a record of {}",
            record.name
        );
        let word = if let RData::SRV(srv) = &record.data {
            format!("{}:{}", host(&srv.target.to_ascii(), name)?, srv.port)
        } else {
            record.data.to_string()
        };
        ensure!(words.insert(word), "{name} {kind}: {record} twice");
    }
    Ok(Records {
        words,
        truncated: reply.metadata.truncation,
        edns: reply.edns.is_some(),
        octets,
    })
}

/// The host label of an SRV target, which must lie in the Service that was asked for.
fn host<'a>(target: &'a str, asked: &str) -> Result<&'a str> {
    let (host, rest) = target.split_once('.').context("a target of one label")?;
    let service = rest.trim_end_matches('.').trim_start_matches("hub.");
    ensure!(
        asked == service || asked.ends_with(&format!(".{service}")),
        "{asked} SRV: the target {target}"
    );
    Ok(host)
}

// === What is served ===

fn start(cluster: &Cluster) -> Result<Pair> {
    let program = tool("coredns")?;
    write_objects(cluster)?;
    let ours = Server::start_ready(&cluster.kubeconfig, &[]);
    let coredns = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let corefile = cluster.directory().join("Corefile-kubernetes");
    fs::write(
        &corefile,
        format!(
            "cluster.local:{} {{\n    bind {}\n    errors\n    kubernetes {{\n        kubeconfig {} coredns\n    }}\n}}\n",
            coredns.port(),
            coredns.ip(),
            cluster.kubeconfig.display(),
        ),
    )?;
    let mut start = command(&program);
    start.arg("-conf").arg(&corefile);
    let mut process = Process::start("coredns-kubernetes", start, cluster.directory())?;
    eventually("CoreDNS to answer", START, || {
        process.check()?;
        let name = coredns_name("web");
        let (reply, _) = ask(coredns, Over::Tcp, &name, RecordType::A, None)?;
        let code = reply.metadata.response_code;
        ensure!(code == ResponseCode::NoError, "{name}: {code:?}");
        Ok(())
    })
    .with_context(|| process.last_words())?;
    Ok(Pair {
        ours,
        coredns,
        _process: process,
    })
}

fn write_objects(cluster: &Cluster) -> Result<()> {
    let rules = json!([
        {"apiGroups": [""], "resources": ["namespaces", "services"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]);
    cluster.put(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "coredns"}, "rules": rules,
    }))?;
    cluster.put(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "coredns"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "coredns"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "coredns"}],
    }))?;
    cluster
        .put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))?;
    cluster.put(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"}}))?;

    let http = json!({"name": "http", "port": 80, "targetPort": 8080});
    let ports = json!([
        http,
        {"name": "sql", "port": 26257},
        {"name": "gossip", "port": 7946, "protocol": "UDP"},
        {"name": "dns", "port": 53, "targetPort": 5300, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "targetPort": 5300},
    ]);
    // With pods, the slices are Kubernetes' own.
    cluster.put(&service(
        "web",
        &json!({"selector": {"app": "web"}, "ports": ports}),
    ))?;
    pod(cluster, "web", Some("web-0"), "10.0.1.1", "True")?;
    pod(cluster, "web", Some("web-1"), "10.0.1.2", "True")?;
    pod(cluster, "web", Some("web-2"), "10.0.1.3", "False")?;
    pod(cluster, "web", None, "10.0.1.4", "True")?;
    cluster.put(&service(
        "early",
        &json!({"selector": {"app": "early"}, "ports": [http], "publishNotReadyAddresses": true}),
    ))?;
    pod(cluster, "early", Some("early-0"), "10.0.2.1", "True")?;
    pod(cluster, "early", Some("early-1"), "10.0.2.2", "False")?;
    cluster.put(&service(
        "asleep",
        &json!({"selector": {"app": "asleep"}, "ports": [http]}),
    ))?;
    pod(cluster, "asleep", Some("asleep-0"), "10.0.6.1", "False")?;

    // Without a selector, anybody may write slices.
    let pod = json!({"kind": "Pod", "namespace": NAMESPACE, "name": "dual-0", "uid": "00000000-0000-4000-8000-000000000000"});
    let slice_http = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
    cluster.put(&service("dual", &json!({"ports": [http]})))?;
    slice(
        cluster,
        "dual",
        "IPv4",
        &slice_http,
        &json!([
            {"addresses": ["10.0.3.1"], "hostname": "dual-0", "targetRef": pod, "conditions": {"ready": true}},
            // Not said is ready.
            {"addresses": ["10.0.3.2"]},
            {"addresses": ["10.0.3.9"], "hostname": "dual-9", "conditions": {"ready": false}},
        ]),
    )?;
    slice(
        cluster,
        "dual",
        "IPv6",
        &slice_http,
        &json!([
            {"addresses": ["fd00:10::1"], "hostname": "dual-0", "targetRef": pod, "conditions": {"ready": true}},
            {"addresses": ["fd00:10::3"], "conditions": {"ready": true}},
            {"addresses": ["fd00:10:0:1::"], "conditions": {"ready": true}},
        ]),
    )?;
    slice(
        cluster,
        "dual",
        "IPv4",
        &json!([{"name": "metrics", "port": 9090, "protocol": "TCP"}]),
        &json!([{"addresses": ["10.0.3.2"], "conditions": {"ready": true}}]),
    )?;
    cluster.put(&service("unnamed", &json!({"ports": [{"port": 6379}]})))?;
    slice(
        cluster,
        "unnamed",
        "IPv4",
        &json!([{"name": "", "port": 6379, "protocol": "TCP"}]),
        &json!([{"addresses": ["10.0.4.1"], "hostname": "only", "conditions": {"ready": true}}]),
    )?;
    cluster.put(&service("portless", &json!({})))?;
    slice(
        cluster,
        "portless",
        "IPv4",
        &json!([]),
        &json!([{"addresses": ["10.0.5.1"], "hostname": "only", "conditions": {"ready": true}}]),
    )?;

    let two = json!([
        {"name": "http", "port": 8080, "protocol": "TCP"},
        {"name": "sql", "port": 26257, "protocol": "TCP"},
    ]);
    for (name, count) in [("forty", FORTY), ("many", MANY)] {
        cluster.put(&service(name, &json!({"ports": ports})))?;
        let endpoints: Vec<Value> = (1..=count)
            .map(|n| {
                json!({"addresses": [many_address(n)], "hostname": format!("{name}-{n}"), "conditions": {"ready": true}})
            })
            .collect();
        for chunk in endpoints.chunks(100) {
            slice(cluster, name, "IPv4", &two, &json!(chunk))?;
        }
    }
    Ok(())
}

fn many_address(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 100, n)
}

fn service(name: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["clusterIP"] = json!("None");
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": NAMESPACE, "name": name, "labels": {"mirror.linkerd.io/exported": "true"}},
        "spec": spec,
    })
}

/// A pod of the Service, already scheduled; with a hostname, it is also its name.
fn pod(
    cluster: &Cluster,
    service: &str,
    hostname: Option<&str>,
    address: &str,
    ready: &str,
) -> Result<()> {
    let mut spec = json!({"nodeName": "node-0", "containers": [{"name": "main", "image": "main"}]});
    if let Some(hostname) = hostname {
        spec["hostname"] = json!(hostname);
        spec["subdomain"] = json!(service);
    }
    let name = hostname.map_or_else(|| format!("{service}-without-hostname"), str::to_owned);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": NAMESPACE, "name": name, "labels": {"app": service}},
        "spec": spec,
    });
    cluster.put(&pod)?;
    let status = json!({
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": ready}],
    });
    cluster.put_status(&pod, &status)?;
    Ok(())
}

/// A slice as somebody who is not Kubernetes writes it.
fn slice(
    cluster: &Cluster,
    service: &str,
    family: &str,
    ports: &Value,
    endpoints: &Value,
) -> Result<()> {
    let number = cluster.slices(NAMESPACE, service)?.len();
    cluster.put(&json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "namespace": NAMESPACE, "name": format!("{service}-{number}"),
            "labels": {
                "kubernetes.io/service-name": service,
                "endpointslice.kubernetes.io/managed-by": "by-hand",
            },
        },
        "addressType": family, "ports": ports, "endpoints": endpoints,
    }))?;
    Ok(())
}
