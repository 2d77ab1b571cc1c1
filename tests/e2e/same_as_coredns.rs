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
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::commands::{guarded, tool};
use support::objects::{Local, local, nameless_port, namespace, node, pod_status};
use support::ports::free_port;
use support::process::Process;
use support::query::query;
use support::say::say;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;
use support::wire::{Over, try_ask};

use crate::clusters_come_and_go::FOLLOW;

const START: Duration = Duration::from_secs(30);
/// How long any single answer may take.
const PATIENCE: Duration = Duration::from_secs(1);
const NAMESPACE: &str = "same";
/// An endpoint of `dual` whose slice does not say that it is ready, which it then is.
const UNSAID: &str = "10.0.3.2";
/// Endpoints of the Services `forty` and `many`.
const FORTY: u8 = 40;
const MANY: u8 = 200;

/// Question, type, and what both answer: addresses, hosts and ports, nothing, or a response code.
type Case = (&'static str, &'static str, &'static str);

/// Written as `HOST.SERVICE`, without namespace, cluster and zone.
const CASES: [Case; 38] = [
    // Pods with a hostname, one without, and one that is not ready; five ports, two of them UDP.
    ("web", "A", "10.0.1.1 10.0.1.2 10.0.1.4"),
    ("web", "AAAA", ""),
    (
        "web",
        "SRV",
        "web-0:8080 web-0:26257 web-0:7946 web-0:5300 web-1:8080 web-1:26257 web-1:7946 web-1:5300 \
         10-0-1-4:8080 10-0-1-4:26257 10-0-1-4:7946 10-0-1-4:5300",
    ),
    (
        "_http._tcp.web",
        "SRV",
        "web-0:8080 web-1:8080 10-0-1-4:8080",
    ),
    (
        "_sql._tcp.web",
        "SRV",
        "web-0:26257 web-1:26257 10-0-1-4:26257",
    ),
    (
        "_gossip._udp.web",
        "SRV",
        "web-0:7946 web-1:7946 10-0-1-4:7946",
    ),
    // One number for two protocols.
    (
        "_dns._udp.web",
        "SRV",
        "web-0:5300 web-1:5300 10-0-1-4:5300",
    ),
    (
        "_dns-tcp._tcp.web",
        "SRV",
        "web-0:5300 web-1:5300 10-0-1-4:5300",
    ),
    ("_http._udp.web", "SRV", "NXDOMAIN"),
    ("_gossip._tcp.web", "SRV", "NXDOMAIN"),
    ("_smtp._tcp.web", "SRV", "NXDOMAIN"),
    ("web-0.web", "A", "10.0.1.1"),
    ("web-0.web", "AAAA", ""),
    (
        "web-0.web",
        "SRV",
        "web-0:8080 web-0:26257 web-0:7946 web-0:5300",
    ),
    ("10-0-1-4.web", "A", "10.0.1.4"),
    ("web-2.web", "A", "NXDOMAIN"),
    ("10-0-1-3.web", "A", "NXDOMAIN"),
    // The same, with `publishNotReadyAddresses`.
    ("early", "A", "10.0.2.1 10.0.2.2"),
    ("early", "SRV", "early-0:8080 early-1:8080"),
    ("_http._tcp.early", "SRV", "early-0:8080 early-1:8080"),
    ("early-1.early", "A", "10.0.2.2"),
    // Nobody is ready.
    ("asleep", "A", "NXDOMAIN"),
    ("asleep", "SRV", "NXDOMAIN"),
    ("nowhere", "A", "NXDOMAIN"),
    // Slices of both families, written by hand, one address in two of them.
    ("dual", "A", "10.0.3.1 10.0.3.2"),
    ("dual", "AAAA", "fd00:10::1 fd00:10::3 fd00:10:0:1::"),
    (
        "_http._tcp.dual",
        "SRV",
        "dual-0:8080 10-0-3-2:8080 fd00-10--3:8080 fd00-10-0-1--0:8080",
    ),
    // Each slice has ports of its own.
    (
        "dual",
        "SRV",
        "dual-0:8080 10-0-3-2:8080 fd00-10--3:8080 fd00-10-0-1--0:8080 10-0-3-2:9090",
    ),
    ("_metrics._tcp.dual", "SRV", "10-0-3-2:9090"),
    ("dual-0.dual", "A", "10.0.3.1"),
    ("dual-0.dual", "AAAA", "fd00:10::1"),
    ("fd00-10--3.dual", "AAAA", "fd00:10::3"),
    ("fd00-10--3.dual", "A", ""),
    ("fd00-10-0-1--0.dual", "AAAA", "fd00:10:0:1::"),
    // A port without a name, and no port at all.
    ("unnamed", "A", "10.0.4.1"),
    ("unnamed", "SRV", "only:6379"),
    ("portless", "A", "10.0.5.1"),
    ("portless", "SRV", ""),
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
        pair.both_answer(service, "A", &addresses)?;
        let ports = [8080, 26257].map(|port| -> BTreeSet<String> {
            (1..=count)
                .map(|n| format!("{service}-{n}:{port}"))
                .collect()
        });
        pair.both_answer(&format!("_http._tcp.{service}"), "SRV", &ports[0])?;
        pair.both_answer(&format!("_sql._tcp.{service}"), "SRV", &ports[1])?;
        pair.both_answer(service, "SRV", &(&ports[0] | &ports[1]))?;
    }
    Ok(())
}

/// A dual-stack pod is in two slices, one of each family, and both say that it is the same pod.
fn no_conflict(pair: &Pair) -> Result<()> {
    let table = pair.ours.try_api("/api/v1/table")?;
    let conflicts = table["conflicts"].as_array().context("no conflicts")?;
    ensure!(conflicts.is_empty(), "{conflicts:?}");
    Ok(())
}

/// CoreDNS sends as much as the question says it takes; we send 1232 octets at most (`--udp-max`).
fn truncation(pair: &Pair) -> Result<()> {
    let (small, larger, large) = (None, Some(1232), Some(4096));
    for (service, kind, edns, ours, coredns) in [
        ("web", "A", small, false, false),
        ("web", "A", larger, false, false),
        ("_http._tcp.web", "SRV", small, false, false),
        ("_http._tcp.web", "SRV", larger, false, false),
        // 40 addresses are 640 octets.
        ("forty", "A", small, true, true),
        ("forty", "A", larger, false, false),
        // 40 targets, which must not be compressed, are more than 1232.
        ("_http._tcp.forty", "SRV", small, true, true),
        ("_http._tcp.forty", "SRV", larger, true, true),
        // 200 addresses are 3200 octets.
        ("many", "A", small, true, true),
        ("many", "A", larger, true, true),
        ("many", "A", large, true, false),
        ("many", "SRV", small, true, true),
        ("many", "SRV", larger, true, true),
        ("many", "SRV", large, true, true),
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
    fn both_answer(&self, question: &str, kind: &str, wanted: &BTreeSet<String>) -> Result<()> {
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
    kind: &str,
    edns: Option<u16>,
) -> Result<Records> {
    let size = edns.map_or_else(String::new, |size| format!(" +bufsize={size}"));
    let question = query(&format!("{name}. {kind}{size}"));
    let reply = try_ask(server, &question, over, PATIENCE)?;
    let mut words = BTreeSet::new();
    if reply.rcode != 0 {
        words.insert(reply.status());
    }
    for record in &reply.answers {
        ensure!(
            record.owner == format!("{name}."),
            "{name} {kind}: a record of {}",
            record.owner
        );
        let word = match record.data.split(' ').collect::<Vec<_>>()[..] {
            [_, _, port, target] => format!("{}:{port}", host(target, name)?),
            _ => record.data.clone(),
        };
        ensure!(words.insert(word), "{name} {kind}: {record} twice");
    }
    Ok(Records {
        words,
        truncated: reply.is_truncated(),
        edns: reply.opt.is_some(),
        octets: reply.octets,
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
    let ours = Server::ready_of_cluster(&cluster.kubeconfig, &[]);
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
    let mut start = guarded(&program);
    start.arg("-conf").arg(&corefile);
    let mut process = Process::start("coredns-kubernetes", start)?;
    eventually("CoreDNS to answer", START, || {
        process.check()?;
        let name = coredns_name("web");
        let reply = try_ask(coredns, &query(&format!("{name}. A")), Over::Tcp, PATIENCE)?;
        ensure!(reply.rcode == 0, "{name}: {}", reply.status());
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
    cluster.put(&namespace(NAMESPACE))?;
    cluster.put(&node("node-0"))?;

    // With pods, the slices are Kubernetes' own.
    let http = json!({"name": "http", "port": 80, "targetPort": 8080});
    let ports = json!([
        http,
        {"name": "sql", "port": 26257},
        {"name": "gossip", "port": 7946, "protocol": "UDP"},
        {"name": "dns", "port": 53, "targetPort": 5300, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "targetPort": 5300},
    ]);
    let of_pods = |name: &str, ports: &Value| {
        let mut service = local(NAMESPACE, name).exported().service();
        service["spec"]["selector"] = json!({"app": name});
        service["spec"]["ports"] = ports.clone();
        service
    };
    cluster.put(&of_pods("web", &ports))?;
    let http = json!([http]);
    let mut early = of_pods("early", &http);
    early["spec"]["publishNotReadyAddresses"] = json!(true);
    cluster.put(&early)?;
    cluster.put(&of_pods("asleep", &http))?;
    for (service, host, address, is_ready) in [
        ("web", Some("web-0"), "10.0.1.1", true),
        ("web", Some("web-1"), "10.0.1.2", true),
        ("web", Some("web-2"), "10.0.1.3", false),
        ("web", None, "10.0.1.4", true),
        ("early", Some("early-0"), "10.0.2.1", true),
        ("early", Some("early-1"), "10.0.2.2", false),
        ("asleep", Some("asleep-0"), "10.0.6.1", false),
    ] {
        let pod = pod(service, host);
        cluster.put(&pod)?;
        cluster.put_status(&pod, &pod_status(address, is_ready))?;
    }

    // Without a selector, anybody may write slices.
    let http = [("http", "TCP", 8080)];
    let dual = by_hand("dual")
        .ports(&http)
        .pod(
            Some("dual-0"),
            Some("dual-0"),
            &["10.0.3.1", "fd00:10::1"],
            true,
        )
        .endpoint(None, UNSAID, true)
        .endpoint(Some("dual-9"), "10.0.3.9", false)
        .endpoint(None, "fd00:10::3", true)
        .endpoint(None, "fd00:10:0:1::", true);
    let metrics = by_hand("dual")
        .ports(&[("metrics", "TCP", 9090)])
        .endpoint(None, "10.0.3.2", true);
    put_parts(cluster, &[dual, metrics])?;
    let unnamed = by_hand("unnamed").all_ports(vec![nameless_port("TCP", 6379)]);
    put_parts(cluster, &[unnamed.endpoint(Some("only"), "10.0.4.1", true)])?;
    let portless = by_hand("portless").all_ports(Vec::new());
    put_parts(
        cluster,
        &[portless.endpoint(Some("only"), "10.0.5.1", true)],
    )?;
    let two = [("http", "TCP", 8080), ("sql", "TCP", 26257)];
    for (name, count) in [("forty", FORTY), ("many", MANY)] {
        let all: Vec<u8> = (1..=count).collect();
        let part = |numbers: &[u8]| {
            let part = by_hand(name).ports(&two);
            numbers.iter().fold(part, |part, n| {
                let (host, address) = (format!("{name}-{n}"), many_address(*n).to_string());
                part.endpoint(Some(&host), &address, true)
            })
        };
        let parts: Vec<Local> = all.chunks(100).map(part).collect();
        put_parts(cluster, &parts)?;
    }
    Ok(())
}

fn many_address(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 100, n)
}

fn by_hand(name: &str) -> Local {
    local(NAMESPACE, name).exported().without_selector()
}

/// A pod of the Service, already scheduled; with a hostname, it is also its name.
fn pod(service: &str, host: Option<&str>) -> Value {
    let local = local(NAMESPACE, service);
    match host {
        Some(host) => local.pod_object(host),
        None => {
            let mut pod = local.pod_object(&format!("{service}-without-hostname"));
            pod["spec"]["hostname"] = Value::Null;
            pod["spec"]["subdomain"] = Value::Null;
            pod
        }
    }
}

/// Writes a Service, and the slices of each of its parts.
fn put_parts(cluster: &Cluster, parts: &[Local]) -> Result<()> {
    cluster.put(&parts[0].service())?;
    for (number, part) in parts.iter().enumerate() {
        for mut slice in part.slices() {
            let name = slice["metadata"]["name"].as_str().unwrap_or_default();
            slice["metadata"]["name"] = json!(format!("{name}-{number}"));
            let endpoints = slice["endpoints"].as_array_mut().into_iter().flatten();
            let unsaid = endpoints.filter(|one| number == 0 && one["addresses"][0] == UNSAID);
            unsaid.for_each(|one| one["conditions"] = json!({}));
            cluster.put(&slice)?;
        }
    }
    Ok(())
}
