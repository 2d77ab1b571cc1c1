//! The names that operators ask for, over mirrors of Linkerd: the questions of the page `databases.md` of the manual, asked with
//! `dig` in a pod, through a real CoreDNS with the stanzas of the manual.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::dig::dig_recursively;
use support::manual::Section;
use support::objects::{Local, Mirror, gateway_mirror, local, mirror, namespace, node, pod_status};
use support::process::Process;
use support::repository::repository;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;
use support::wire::Transport;

use crate::e2e::manual::Shell;
use crate::e2e::recipes::start;
use support::node::{CLUSTER_DNS, Node, dns};

const PAGE: &str = "databases.md";
/// The zones of the page.
const FLAGS: [&str; 4] = ["--zone", "global", "--zone", "clusterset.local=mcs"];

pub fn run(steps: &mut Steps, cluster: &Cluster, node: &Node) {
    steps.forget_failed_prerequisite();
    let mut bed: Option<(Server, Process, Shell<'_>)> = None;
    steps.prerequisite("coredns_forwards_the_zones_of_operators", || {
        write_objects(cluster)?;
        let server = start(cluster, 0, &FLAGS);
        node.set_endpoints(&[0])?;
        let coredns = start_coredns(cluster, node)?;
        let kubeconfig = cluster.kubeconfig.display().to_string();
        let shell = Shell::new(node, &kubeconfig, &server)?;
        bed = Some((server, coredns, shell));
        Ok(())
    });
    for (fact, heading) in [
        (
            "names_of_the_chart_of_yugabytedb_are_answered",
            "YugabyteDB",
        ),
        (
            "names_of_perconas_operator_are_answered",
            "Percona Operator for MongoDB",
        ),
        ("names_of_strimzi_are_answered", "Strimzi"),
        ("names_of_the_tidb_operator_are_answered", "TiDB Operator"),
    ] {
        steps.step(fact, || {
            let (server, _, shell) = bed.as_ref().context("nothing runs")?;
            let section = Section::read(PAGE, heading)?;
            server.with_log(shell.run_all(&section))
        });
    }
    steps.step("names_of_operators_have_no_data_of_other_types", || {
        let (server, ..) = bed.as_ref().context("nothing runs")?;
        server.with_log(check_other_types())
    });
}

/// The databases ask for AAAA records, too. Without an address of that family, the name must not be NXDOMAIN: resolvers would
/// forget its A records.
fn check_other_types() -> Result<()> {
    for name in [
        "yb-master-0.east.yb-masters.yb.svc.clusterset.local",
        "yb-master-0.hub.yb-masters.yb.svc.clusterset.local",
        "main-rs0-0.psmdb.svc.clusterset.local",
        "my-cluster-broker-0.east.my-cluster-kafka-brokers.kafka.svc.clusterset.local",
        "my-cluster-kafka-bootstrap.kafka.svc.clusterset.local",
        "basic-pd-0.basic-pd-peer.tidb.svc.east.tidb.example.com",
        "basic-pd.tidb.svc.east.tidb.example.com",
        "basic-pd-peer.tidb.svc.hub.tidb.example.com",
    ] {
        for kind in ["AAAA", "TXT"] {
            let output = dig_recursively(dns(CLUSTER_DNS), Transport::Udp, name, kind)?;
            ensure!(
                output.status == "NOERROR" && output.answer.is_empty(),
                "{name} {kind}: {output:?}"
            );
        }
    }
    // A pod that does not exist, and a cluster that is not linked.
    for name in [
        "yb-master-9.east.yb-masters.yb.svc.clusterset.local",
        "yb-master-0.south.yb-masters.yb.svc.clusterset.local",
        "other-rs0-0.psmdb.svc.clusterset.local",
        "basic-pd-0.basic-pd-peer.tidb.svc.south.tidb.example.com",
        "basic-pd.tidb.svc.south.tidb.example.com",
    ] {
        let output = dig_recursively(dns(CLUSTER_DNS), Transport::Udp, name, "A")?;
        ensure!(output.status == "NXDOMAIN", "{name}: {output:?}");
    }
    Ok(())
}

/// Starts CoreDNS with three stanzas of the repository and the manual: the zone, the zone of the API, and the rewrite for TiDB.
fn start_coredns(cluster: &Cluster, node: &Node) -> Result<Process> {
    let stanza = fs::read_to_string(repository("coredns/Corefile"))?;
    let of_api = Section::read("names.md", "Multi-Cluster Services API")?.texts("")?;
    let of_tidb = Section::read(PAGE, "TiDB Operator")?.texts("corefile")?;
    let etc = node.create_etc("operators")?;
    fs::write(
        etc.join("coredns/Corefile"),
        [vec![stanza], of_api, of_tidb].concat().join("\n"),
    )?;
    let mut coredns = node.start_coredns("coredns-operators", &etc, cluster)?;
    eventually("CoreDNS to answer", || {
        coredns.check()?;
        for zone in ["global", "clusterset.local"] {
            let output = dig_recursively(dns(CLUSTER_DNS), Transport::Udp, zone, "SOA")?;
            ensure!(output.status == "NOERROR", "{output:?}");
        }
        Ok(())
    })?;
    Ok(coredns)
}

// === Objects ===

fn write_objects(cluster: &Cluster) -> Result<()> {
    let put = |object: &Value| cluster.put(object).map(drop);
    for name in ["yb", "psmdb", "kafka", "tidb"] {
        put(&namespace(name))?;
    }
    put(&node("node-0"))?;
    let write = |mirror: Mirror| mirror.writes().iter().try_for_each(put);
    // YugabyteDB, with its ports. A master runs here.
    let masters = [("http-ui", "TCP", 7000), ("tcp-rpc-port", "TCP", 7100)];
    let tservers = [
        ("tcp-rpc-port", "TCP", 9100),
        ("tcp-ysql-port", "TCP", 5433),
    ];
    write(
        mirror("yb", "yb-masters", "east")
            .ports(&masters)
            .endpoint("yb-master-0", &["10.96.71.1"]),
    )?;
    write(
        mirror("yb", "yb-tservers", "east")
            .ports(&tservers)
            .endpoint("yb-tserver-0", &["10.96.71.2"]),
    )?;
    write(
        mirror("yb", "yb-tservers", "west")
            .ports(&tservers)
            .endpoint("yb-tserver-0", &["10.96.72.2"]),
    )?;
    write_member(
        cluster,
        local("yb", "yb-masters").ports(&masters),
        "yb-master-0",
        "10.244.7.1",
    )?;
    // Percona's operator: a Service for each pod, and the headless one, all exported. Linkerd then makes no endpoint mirror.
    let mongodb = [("mongodb", "TCP", 27017)];
    for (pod, cluster_name, address) in [
        ("main-rs0-0", "east", "10.96.71.11"),
        ("replica-rs0-0", "west", "10.96.72.11"),
    ] {
        for mut object in gateway_mirror("psmdb", pod, cluster_name, address).writes() {
            if object["kind"] == "Service" {
                object["spec"]["ports"] =
                    json!([{"name": "mongodb", "port": 27017, "protocol": "TCP"}]);
            }
            put(&object)?;
        }
    }
    let headless = mirror("psmdb", "main-rs0", "east")
        .ports(&mongodb)
        .service();
    put(&headless)?;
    put(&json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "namespace": "psmdb", "name": headless["metadata"]["name"], "labels": headless["metadata"]["labels"],
        },
        "subsets": [{
            "addresses": [{"ip": "10.96.71.11", "hostname": "main-rs0-0"}],
            "ports": [{"name": "mongodb", "port": 27017, "protocol": "TCP"}],
        }],
    }))?;
    // Strimzi: the brokers of two clusters.
    let brokers = [("tcp-replication", "TCP", 9091), ("tcp-plain", "TCP", 9092)];
    for (cluster_name, pod, address) in [
        ("east", "my-cluster-broker-0", "10.96.71.21"),
        ("west", "my-cluster-broker-1", "10.96.72.21"),
    ] {
        let mirror = mirror("kafka", "my-cluster-kafka-brokers", cluster_name).ports(&brokers);
        write(mirror.endpoint(pod, &[address]))?;
    }
    let bootstrap = gateway_mirror("kafka", "my-cluster-kafka-bootstrap", "east", "10.96.71.22");
    bootstrap.writes().iter().try_for_each(put)?;
    // TiDB: PD in east, and here.
    let of_east = gateway_mirror("tidb", "basic-pd", "east", "10.96.71.32");
    of_east.writes().iter().try_for_each(put)?;
    let mut of_hub = local("tidb", "basic-pd").exported().service();
    of_hub["spec"]["clusterIP"] = json!("10.96.71.33");
    of_hub["spec"]["clusterIPs"] = json!(["10.96.71.33"]);
    put(&of_hub)?;
    let pd = [
        ("tcp-peer-2380", "TCP", 2380),
        ("tcp-peer-2379", "TCP", 2379),
    ];
    write(
        mirror("tidb", "basic-pd-peer", "east")
            .ports(&pd)
            .endpoint("basic-pd-0", &["10.96.71.31"]),
    )?;
    write_member(
        cluster,
        local("tidb", "basic-pd-peer").ports(&pd),
        "basic-pd-0",
        "10.244.7.31",
    )
}

/// Writes an exported Service of this cluster with a pod that is not ready, as at the start of a database.
fn write_member(cluster: &Cluster, local: Local, pod: &str, address: &str) -> Result<()> {
    let local = local.exported();
    let mut service = local.service();
    let name = service["metadata"]["name"].clone();
    service["spec"]["selector"] = json!({"app": name});
    service["spec"]["publishNotReadyAddresses"] = json!(true);
    cluster.put(&service)?;
    let pod = local.pod_object(pod);
    cluster.put(&pod)?;
    cluster
        .put_status(&pod, &pod_status(address, false))
        .map(drop)
}
