//! What other programs bring along (`objects.yaml`), and Linkerd's Links and mirrors of two clusters; with the right answers.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};
use support::definitions::define_monitoring;
use support::node::new_corefile;
use support::objects::{link, link_definition, mirror};
use support::repository::repository;
use support::wait::eventually;

use super::clients::Questions;
use super::lab::Lab;

/// Number of services beside `prod/db`.
const MORE_SERVICES: usize = 20;

/// Writes all objects. Returns the questions about the services.
pub fn write(lab: &Lab) -> Result<Questions> {
    let without_cache = "global:54 {\n errors\n forward . 10.96.0.53\n}";
    let corefile = new_corefile("", "", without_cache)
        .replace("health", "health {\n lameduck 5s\n }")
        // The cluster has a domain of its own.
        .replace("cluster.local", "cluster.local hub.example");
    fs::write(lab.cluster.directory().join("Corefile.new"), corefile)?;
    let pods = lab.shell(&format!(
        "{{
        for name in linkerd-multicluster prod shop bulk; do kubectl create namespace $name; done
        kubectl create clusterrolebinding coredns --clusterrole=view --serviceaccount=kube-system:default
        kubectl -n kube-system create configmap coredns --from-file=Corefile=Corefile.new
        kubectl apply -f {}
        expose='kubectl -n kube-system expose deployment coredns --protocol UDP --port 53'
        $expose --name kube-dns --cluster-ip 10.96.0.10
        $expose --name without-cache --cluster-ip 10.96.0.11 --target-port 54
        await_rollout kube-system deployment/coredns
        await_rollout prod statefulset/db
        }} >&2
        kubectl -n prod get pods -l app=db -o jsonpath='{{.items[*].status.podIP}}'",
        repository("tests/system/cluster/objects.yaml").display()
    ))?;
    define_monitoring(&lab.cluster)?;
    lab.cluster.put(&link_definition())?;
    for cluster in ["east", "west"] {
        let link = link("linkerd-multicluster", cluster, cluster);
        eventually("the definition of Links", || lab.cluster.put(&link))?;
    }
    let mut questions = write_mirrors(lab, "db.prod", 100, &pods)?;
    for number in 1..=MORE_SERVICES {
        let service = format!("s{number}.bulk");
        questions.extend(write_mirrors(lab, &service, 100 + number, "")?);
    }
    Ok(questions)
}

/// Writes the mirrors of a service, with addresses in the network `10.96.NET.0`. The service also has these pods in this cluster.
fn write_mirrors(lab: &Lab, name: &str, net: usize, pods: &str) -> Result<Questions> {
    let (service, namespace) = name.split_once('.').context("no namespace")?;
    let mut questions = Questions::new();
    let (mut addresses, mut targets) = (BTreeSet::new(), BTreeSet::new());
    for (number, pod) in pods.split_whitespace().enumerate() {
        addresses.insert(pod.to_owned());
        targets.insert(format!("0 10 26257 {service}-{number}.hub.{name}.global."));
    }
    for (cluster, numbers) in [("east", &[1, 2][..]), ("west", &[101])] {
        let mut mirror = mirror(namespace, service, cluster);
        let mut own = BTreeSet::new();
        for (pod, number) in numbers.iter().enumerate() {
            let (host, address) = (format!("{service}-{pod}"), format!("10.96.{net}.{number}"));
            let owner = format!("{host}.{cluster}.{name}.global.");
            mirror = mirror.endpoint(&host, &[&address]);
            targets.insert(format!("0 10 26257 {owner}"));
            questions.insert(format!("{owner} A"), address.clone());
            own.insert(address);
        }
        for object in mirror.writes() {
            lab.cluster.put(&object)?;
        }
        questions.insert(format!("{cluster}.{name}.global. A"), outcome(&own));
        addresses.extend(own);
    }
    questions.insert(format!("{name}.global. A"), outcome(&addresses));
    questions.insert(format!("_sql._tcp.{name}.global. SRV"), outcome(&targets));
    questions.insert(format!("nope.{name}.global. A"), "NXDOMAIN".to_owned());
    Ok(questions)
}

fn outcome(data: &BTreeSet<String>) -> String {
    Vec::from_iter(data.iter().cloned()).join(" ")
}
