//! The server watches the objects of a version of Linkerd, and CoreDNS forwards to it.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::cluster::Cluster;
use support::dig::dig_recursively;
use support::objects::namespace;
use support::process::Process;
use support::repository::repository;
use support::server::Server;
use support::wait::eventually;
use support::wire::Transport;

use crate::kubernetes::Kubernetes;
use crate::linkerd::{CLUSTER, HOSTS, Linkerd, MULTICLUSTER, NAMESPACE, WEB};
use support::node::{CLUSTER_DNS, Node, PODS, dns};

/// Starts the CoreDNS of a version of Kubernetes with its default Corefile and the stanza of the zone.
pub fn start_coredns(kubernetes: &Kubernetes, cluster: &Cluster, node: &Node) -> Result<Process> {
    let etc = node.create_etc("versions")?;
    // Without the cache, CoreDNS shows each change at once.
    let stanza = fs::read_to_string(repository("coredns/Corefile"))?;
    ensure!(stanza.contains("    cache 5\n"), "{stanza}");
    let cluster_local = ".:53 {\n    errors\n    kubernetes cluster.local in-addr.arpa ip6.arpa {\n        pods insecure\n    }\n    loadbalance\n}\n";
    let corefile = cluster_local.to_owned() + &stanza.replace("    cache 5\n", "");
    fs::write(etc.join("coredns/Corefile"), corefile)?;
    let mut coredns =
        node.start_coredns_program(kubernetes.coredns, "coredns-versions", &etc, cluster)?;
    eventually("CoreDNS to answer", || {
        coredns.check()?;
        let output = dig_recursively(
            dns(CLUSTER_DNS),
            Transport::Udp,
            "kubernetes.default.svc.cluster.local",
            "A",
        )?;
        ensure!(output.status == "NOERROR", "{output:?}");
        Ok(())
    })?;
    Ok(coredns)
}

/// Writes the objects, compares the answers, and deletes them.
pub fn check(
    cluster: &Cluster,
    node: &Node,
    coredns: Option<&mut Process>,
    linkerd: &Linkerd,
) -> Result<()> {
    let coredns = coredns.context("CoreDNS does not run")?;
    for name in [MULTICLUSTER, NAMESPACE] {
        cluster.put(&namespace(name))?;
    }
    cluster.put(&linkerd.definition())?;
    let link = linkerd.link();
    eventually("the kind Link", || cluster.put(&link).map(drop))?;
    if let Some(lease) = linkerd.lease() {
        cluster.put(&lease)?;
    }
    let listen = format!("{}:5353", PODS[0]);
    // The mirrors exist before the server for one version, and follow for the others.
    let server = Server::ready_of_cluster(
        &cluster.kubeconfig,
        &["--listen", &listen, "--unlinked-after", "1s"],
    );
    node.set_endpoints(&[0])?;
    let mirrors = linkerd.mirrors();
    for object in &mirrors {
        cluster.put(object)?;
    }
    let checked = check_answers(cluster, &server, linkerd, &mirrors);
    server.with_log(checked)?;
    coredns.check()?;

    for object in mirrors.iter().filter(|object| object["kind"] == "Service") {
        cluster.delete(object)?;
    }
    for name in ["db.prod.global", "web.prod.global"] {
        wait_for(&server, name, "A", &[])?;
    }
    if let Some(lease) = linkerd.lease() {
        cluster.delete(&lease)?;
    }
    cluster.delete(&link)?;
    let definition = linkerd.definition();
    cluster.delete(&definition)?;
    eventually("the end of the kind Link", || {
        ensure!(cluster.get(&definition)?.is_none(), "it still exists");
        Ok(())
    })
}

fn check_answers(
    cluster: &Cluster,
    server: &Server,
    linkerd: &Linkerd,
    mirrors: &[Value],
) -> Result<()> {
    let addresses = HOSTS.map(|(_, address)| address);
    wait_for(server, "db.prod.global", "A", &addresses)?;
    wait_for(server, "east.db.prod.global", "A", &addresses)?;
    wait_for(server, "web.prod.global", "A", &[WEB])?;
    for (host, address) in HOSTS {
        wait_for(
            server,
            &format!("{host}.{CLUSTER}.db.prod.global"),
            "A",
            &[address],
        )?;
    }
    // The port of the Service, not that of the pods or of the gateway.
    let targets: Vec<String> = HOSTS
        .iter()
        .map(|(host, _)| format!("26257 {host}.{CLUSTER}.db.prod.global."))
        .collect();
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    wait_for(server, "_sql._tcp.db.prod.global", "SRV", &targets)?;

    // The Link and, if there is one, the Lease are read.
    eventually("the state of the link", || {
        let linked = server.try_metric("global_dns_clusters{state=\"linked\"}")?;
        ensure!(linked == 1.0, "{linked} clusters are linked");
        Ok(())
    })?;

    if linkerd.shows_gateways {
        let endpoints = mirrors
            .iter()
            .find(|object| object["kind"] == "Endpoints")
            .context("no Endpoints")?;
        cluster.put(&Linkerd::gateway_down(endpoints))?;
        wait_for(server, "db.prod.global", "A", &addresses[1..])?;
        cluster.put(endpoints)?;
        wait_for(server, "db.prod.global", "A", &addresses)?;
    }
    Ok(())
}

/// Waits until the server, and CoreDNS in front of it, have exactly these records.
fn wait_for(server: &Server, name: &str, kind: &str, expected: &[&str]) -> Result<()> {
    let mut expected: Vec<String> = expected.iter().map(|text| (*text).to_owned()).collect();
    expected.sort();
    eventually(&format!("{name} {kind}"), || {
        // Of an SRV record, the port and the target: the weight is that of its step.
        let words = if kind == "SRV" { 2 } else { 1 };
        let records = |lines: Vec<String>| {
            let last = |line: &String| {
                let all: Vec<&str> = line.split(' ').collect();
                all[all.len().saturating_sub(words)..].join(" ")
            };
            let mut records: Vec<String> = lines.iter().map(last).collect();
            records.sort();
            records
        };
        let reply = server.ask(&format!("{name} {kind}"), Transport::Udp);
        let own = records(
            reply
                .answers
                .iter()
                .map(|record| record.data.clone())
                .collect(),
        );
        ensure!(own == expected, "global-dns has {own:?}");
        let output = dig_recursively(dns(CLUSTER_DNS), Transport::Udp, name, kind)?;
        let forwarded = records(output.answer);
        ensure!(forwarded == expected, "CoreDNS has {forwarded:?}");
        Ok(())
    })
}
