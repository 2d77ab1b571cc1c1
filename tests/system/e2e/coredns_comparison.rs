//! Compares names of local Services: `S.N.global` from global-dns and `S.N.svc.cluster.local` from CoreDNS, with the
//! same API server.
//!
//! Every Service here is headless, exported and without mirror, so the local cluster is its only cluster. Host names of
//! both servers differ in one label: `H.S.N.svc.cluster.local` is `H.hub.S.N.global`.
//!
//! Where the specifications leave a choice, both servers agree:
//!
//! - An endpoint without hostname is named by its address with dashes (and a zero after a last dash).
//! - A port without name appears only in the SRV records of the Service name.
//! - A Service without ports exists, without SRV records.
//! - A Service without ready endpoints does not exist.
//!
//! These differences are not compared:
//!
//! - SRV weights: CoreDNS divides 100 by the number of records, global-dns returns 10. Equal weights mean the same.
//! - A and AAAA of `_http._tcp.S.N`: CoreDNS returns addresses, global-dns none. The specification defines only SRV.
//! - `_tcp.S.N`: CoreDNS returns NXDOMAIN, global-dns NODATA, because names exist below it (RFC 8020).
//! - An IPv6 address with unusual spelling in the slice: CoreDNS dashes the spelling, global-dns the address.
//! - Several addresses of one endpoint in a slice: CoreDNS uses all, global-dns the first, because Kubernetes defines
//!   only that one.
//! - Host names with a port (`_http._tcp.H.hub.S.N.global`): CoreDNS does not have them.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::commands::{guarded, tool};
use support::objects::{
    Local, cluster_role, cluster_role_binding, local, nameless_port, namespace, node, pod_status,
};
use support::output::print_line;
use support::ports::free_port;
use support::process::Process;
use support::query::query;
use support::server::Server;
use support::steps::Steps;
use support::wait::{TIMEOUT, eventually};
use support::wire::{Transport, try_ask};

const NAMESPACE: &str = "same";
/// An endpoint of `dual` without a ready condition, which counts as ready.
const WITHOUT_CONDITION: &str = "10.0.3.2";
/// Name, type, and the answer of both servers: addresses, hosts with ports, nothing, or a response code. Names are `HOST.SERVICE`,
/// without namespace, cluster and zone.
const CASES: &str = "
# Pods with a hostname, one without, and one not ready; five ports, of these two UDP.
web A 10.0.1.1 10.0.1.2 10.0.1.4
web AAAA
web SRV web-0:8080 web-0:26257 web-0:7946 web-0:5300 web-1:8080 web-1:26257 web-1:7946 web-1:5300 10-0-1-4:8080 \
 10-0-1-4:26257 10-0-1-4:7946 10-0-1-4:5300
_http._tcp.web SRV web-0:8080 web-1:8080 10-0-1-4:8080
_sql._tcp.web SRV web-0:26257 web-1:26257 10-0-1-4:26257
_gossip._udp.web SRV web-0:7946 web-1:7946 10-0-1-4:7946
# One port number with two protocols.
_dns._udp.web SRV web-0:5300 web-1:5300 10-0-1-4:5300
_dns-tcp._tcp.web SRV web-0:5300 web-1:5300 10-0-1-4:5300
_http._udp.web SRV NXDOMAIN
_gossip._tcp.web SRV NXDOMAIN
_smtp._tcp.web SRV NXDOMAIN
web-0.web A 10.0.1.1
web-0.web AAAA
web-0.web SRV web-0:8080 web-0:26257 web-0:7946 web-0:5300
10-0-1-4.web A 10.0.1.4
web-2.web A NXDOMAIN
10-0-1-3.web A NXDOMAIN
# With `publishNotReadyAddresses`.
early A 10.0.2.1 10.0.2.2
early SRV early-0:8080 early-1:8080
_http._tcp.early SRV early-0:8080 early-1:8080
early-1.early A 10.0.2.2
# No pod is ready.
asleep A NXDOMAIN
asleep SRV NXDOMAIN
nowhere A NXDOMAIN
# Hand-written slices of both address families; two slices have the same address.
dual A 10.0.3.1 10.0.3.2
dual AAAA fd00:10::1 fd00:10::3 fd00:10:0:1::
_http._tcp.dual SRV dual-0:8080 10-0-3-2:8080 fd00-10--3:8080 fd00-10-0-1--0:8080
# Each slice has other ports.
dual SRV dual-0:8080 10-0-3-2:8080 fd00-10--3:8080 fd00-10-0-1--0:8080 10-0-3-2:9090
_metrics._tcp.dual SRV 10-0-3-2:9090
dual-0.dual A 10.0.3.1
dual-0.dual AAAA fd00:10::1
fd00-10--3.dual AAAA fd00:10::3
fd00-10--3.dual A
fd00-10-0-1--0.dual AAAA fd00:10:0:1::
# A port without name, and no port.
unnamed A 10.0.4.1
unnamed SRV only:6379
portless A 10.0.5.1
portless SRV
";

/// The two servers that are compared.
struct Pair {
    global_dns: Server,
    coredns: SocketAddr,
    _process: Process,
}

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.forget_failed_prerequisite();
    let mut pair = None;
    steps.prerequisite("coredns_and_global_dns_use_the_same_api_server", || {
        pair = Some(start(cluster)?);
        Ok(())
    });
    let mut step = |fact: &str, check: fn(&Pair) -> Result<()>| {
        let pair = pair.as_ref();
        steps.prerequisite(fact, || {
            let pair = pair.context("the servers did not start")?;
            pair.global_dns.with_log(check(pair))
        });
    };
    step(
        "local_names_have_the_same_addresses_and_ports_as_in_coredns",
        check_cases,
    );
    steps.step("dual_stack_pod_is_not_a_conflict", || {
        let pair = pair.as_ref().context("the servers did not start")?;
        pair.global_dns.with_log(check_no_conflict(pair))
    });
    steps.step("compared_services_are_deleted", || cluster.empty(NAMESPACE));
}

fn check_cases(pair: &Pair) -> Result<()> {
    let lines = CASES.lines().filter(|line| !line.starts_with('#'));
    let cases: Vec<Vec<&str>> = lines.map(|line| line.split(' ').collect()).collect();
    let mut count = 0;
    for case in &cases {
        let [question, kind, expected @ ..] = &case[..] else {
            continue; // an empty line
        };
        let expected = expected.iter().map(|&value| value.to_owned()).collect();
        pair.check_both(question, kind, &expected)?;
        count += 1;
    }
    print_line(&format!(
        "same answers as CoreDNS: {count} queries over TCP"
    ));
    Ok(())
}

/// A dual-stack pod is in two slices, one for each address family. Both refer to the same pod.
fn check_no_conflict(pair: &Pair) -> Result<()> {
    let conflicts = pair.global_dns.try_items("problems?kind=endpoint")?;
    ensure!(conflicts.is_empty(), "{conflicts:?}");
    Ok(())
}

// === impl Pair ===

impl Pair {
    /// Asserts that both servers answer over TCP with exactly these values.
    fn check_both(&self, question: &str, kind: &str, expected: &BTreeSet<String>) -> Result<()> {
        for (program, server, name) in [
            ("CoreDNS", self.coredns, coredns_name(question)),
            ("global-dns", self.global_dns.dns, global_name(question)),
        ] {
            // Each server has its own delay after a write.
            eventually("the answer", || {
                let got = records(server, &name, kind)?;
                ensure!(
                    got == *expected,
                    "{program}: {name} {kind} is {got:?}, expected {expected:?}"
                );
                Ok(())
            })?;
        }
        Ok(())
    }
}

// === Names and records ===

/// Converts `web-0.web` to `web-0.hub.web.same.global`, and `_http._tcp.web` to `_http._tcp.web.same.global`.
fn global_name(question: &str) -> String {
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

/// Returns addresses, `HOST:PORT`, or only the response code.
fn records(server: SocketAddr, name: &str, kind: &str) -> Result<BTreeSet<String>> {
    let question = query(&format!("{name}. {kind}"));
    let reply = try_ask(server, &question, Transport::Tcp, TIMEOUT)?;
    let mut values = BTreeSet::new();
    if reply.rcode != 0 {
        values.insert(reply.status());
    }
    for record in &reply.answers {
        ensure!(
            record.owner == format!("{name}."),
            "{name} {kind}: a record has owner name {}",
            record.owner
        );
        let value = match record.data.split(' ').collect::<Vec<_>>()[..] {
            [_, _, port, target] => format!("{}:{port}", host(target, name)?),
            _ => record.data.clone(),
        };
        ensure!(
            values.insert(value),
            "{name} {kind}: duplicate record {record}"
        );
    }
    Ok(values)
}

/// Returns the host label of an SRV target. The target must belong to the queried Service.
fn host<'a>(target: &'a str, queried: &str) -> Result<&'a str> {
    let (host, rest) = target.split_once('.').context("the target has one label")?;
    let service = rest.trim_end_matches('.').trim_start_matches("hub.");
    ensure!(
        queried == service || queried.ends_with(&format!(".{service}")),
        "{queried} SRV: unexpected target {target}"
    );
    Ok(host)
}

// === Servers and objects ===

fn start(cluster: &Cluster) -> Result<Pair> {
    let program = tool("coredns")?;
    write_objects(cluster)?;
    let global_dns = Server::ready_of_cluster(&cluster.kubeconfig, &[]);
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
    eventually("CoreDNS to answer", || {
        process.check()?;
        let name = coredns_name("web");
        let reply = try_ask(
            coredns,
            &query(&format!("{name}. A")),
            Transport::Tcp,
            TIMEOUT,
        )?;
        ensure!(reply.rcode == 0, "{name}: {}", reply.status());
        Ok(())
    })
    .with_context(|| process.log_tail())?;
    Ok(Pair {
        global_dns,
        coredns,
        _process: process,
    })
}

fn write_objects(cluster: &Cluster) -> Result<()> {
    let rules = json!([
        {"apiGroups": [""], "resources": ["namespaces", "services"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]);
    cluster.put(&cluster_role("coredns", &rules))?;
    cluster.put(&cluster_role_binding("coredns", "coredns"))?;
    cluster.put(&namespace(NAMESPACE))?;
    cluster.put(&node("node-0"))?;

    // For pods, Kubernetes writes the slices.
    let http = json!({"name": "http", "port": 80, "targetPort": 8080});
    let ports = json!([
        http,
        {"name": "sql", "port": 26257},
        {"name": "gossip", "port": 7946, "protocol": "UDP"},
        {"name": "dns", "port": 53, "targetPort": 5300, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "targetPort": 5300},
    ]);
    let service_of_pods = |name: &str, ports: &Value| {
        let mut service = local(NAMESPACE, name).exported().service();
        service["spec"]["selector"] = json!({"app": name});
        service["spec"]["ports"] = ports.clone();
        service
    };
    cluster.put(&service_of_pods("web", &ports))?;
    let http = json!([http]);
    let mut early = service_of_pods("early", &http);
    early["spec"]["publishNotReadyAddresses"] = json!(true);
    cluster.put(&early)?;
    cluster.put(&service_of_pods("asleep", &http))?;
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

    // For a Service without selector, the test writes the slices.
    let http = [("http", "TCP", 8080)];
    let dual = hand_written("dual")
        .ports(&http)
        .pod(
            Some("dual-0"),
            Some("dual-0"),
            &["10.0.3.1", "fd00:10::1"],
            true,
        )
        .endpoint(None, WITHOUT_CONDITION, true)
        .endpoint(Some("dual-9"), "10.0.3.9", false)
        .endpoint(None, "fd00:10::3", true)
        .endpoint(None, "fd00:10:0:1::", true);
    let metrics = hand_written("dual")
        .ports(&[("metrics", "TCP", 9090)])
        .endpoint(None, "10.0.3.2", true);
    put_parts(cluster, &[dual, metrics])?;
    let unnamed = hand_written("unnamed").all_ports(vec![nameless_port("TCP", 6379)]);
    put_parts(cluster, &[unnamed.endpoint(Some("only"), "10.0.4.1", true)])?;
    let portless = hand_written("portless").all_ports(Vec::new());
    put_parts(
        cluster,
        &[portless.endpoint(Some("only"), "10.0.5.1", true)],
    )?;
    Ok(())
}

fn hand_written(name: &str) -> Local {
    local(NAMESPACE, name).exported().without_selector()
}

/// Returns a scheduled pod of the Service. If it has a hostname, that is also its name.
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

/// Writes a Service, and the slices of all its parts.
fn put_parts(cluster: &Cluster, parts: &[Local]) -> Result<()> {
    cluster.put(&parts[0].service())?;
    for (number, part) in parts.iter().enumerate() {
        for mut slice in part.slices() {
            let name = slice["metadata"]["name"].as_str().unwrap_or_default();
            slice["metadata"]["name"] = json!(format!("{name}-{number}"));
            let endpoints = slice["endpoints"].as_array_mut().into_iter().flatten();
            let unset =
                endpoints.filter(|one| number == 0 && one["addresses"][0] == WITHOUT_CONDITION);
            unset.for_each(|one| one["conditions"] = json!({}));
            cluster.put(&slice)?;
        }
    }
    Ok(())
}
