//! What other programs bring along (`objects.yaml`), and Linkerd's Links and mirrors of two clusters; with the right answers.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Result;
use support::node::new_corefile;
use support::objects::{link, link_definition, mirror};
use support::repository::repository;
use support::wait::eventually;

use super::clients::Question;
use super::lab::Lab;

/// Number of services beside `prod/db`.
const MORE_SERVICES: usize = 20;
/// The clusters, each with the number of its pods of a service.
const CLUSTERS: [(&str, usize); 2] = [("east", 2), ("west", 1)];

/// Writes all objects. Returns the questions about the services.
pub fn write(lab: &Lab) -> Result<Vec<Question>> {
    for namespace in ["linkerd-multicluster", "prod", "shop", "bulk"] {
        lab.shell(&format!("kubectl create namespace {namespace}"))?;
    }
    let without_cache = "global:54 {\n errors\n forward . 10.96.0.53\n}";
    let corefile = new_corefile("", "", without_cache)
        .replace("health", "health {\n lameduck 5s\n }")
        // The cluster has a domain of its own.
        .replace("cluster.local", "cluster.local hub.example");
    fs::write(lab.folder.join("Corefile.new"), corefile)?;
    lab.shell(&format!(
        "kubectl create clusterrolebinding coredns --clusterrole=view --serviceaccount=kube-system:default
         kubectl -n kube-system create configmap coredns --from-file=Corefile=Corefile.new
         kubectl apply -f {}
         expose='kubectl -n kube-system expose deployment coredns --protocol UDP --port 53'
         $expose --name kube-dns --cluster-ip 10.96.0.10
         $expose --name without-cache --cluster-ip 10.96.0.11 --target-port 54",
        repository("tests/system/cluster/objects.yaml").display()
    ))?;
    lab.cluster.put(&link_definition())?;
    for (cluster, _) in CLUSTERS {
        let link = link("linkerd-multicluster", cluster, cluster);
        eventually("the definition of Links", || lab.cluster.put(&link))?;
    }
    let mut questions = write_mirrors(lab, "prod", "db", 100)?;
    for number in 1..=MORE_SERVICES {
        questions.extend(write_mirrors(
            lab,
            "bulk",
            &format!("s{number}"),
            100 + number,
        )?);
    }
    Ok(questions)
}

/// Writes the mirrors of a service, with addresses in the network `10.96.NET.0`.
fn write_mirrors(lab: &Lab, namespace: &str, service: &str, net: usize) -> Result<Vec<Question>> {
    let name = format!("{service}.{namespace}.global.");
    let mut questions = Vec::new();
    let (mut addresses, mut targets) = (BTreeSet::new(), BTreeSet::new());
    for (number, (cluster, pods)) in CLUSTERS.into_iter().enumerate() {
        let mut mirror = mirror(namespace, service, cluster);
        let mut of_cluster = BTreeSet::new();
        for pod in 0..pods {
            let address = format!("10.96.{net}.{}", 100 * number + pod + 1);
            let host = format!("{service}-{pod}");
            mirror = mirror.endpoint(&host, &[&address]);
            let owner = format!("{host}.{cluster}.{name}");
            targets.insert(format!("0 10 26257 {owner}"));
            questions.push(Question::new(
                &format!("{owner} A"),
                &[address.clone()].into(),
            ));
            of_cluster.insert(address);
        }
        for object in mirror.writes() {
            lab.cluster.put(&object)?;
        }
        questions.push(Question::new(&format!("{cluster}.{name} A"), &of_cluster));
        addresses.extend(of_cluster);
    }
    questions.push(Question::new(&format!("{name} A"), &addresses));
    questions.push(Question::new(&format!("_sql._tcp.{name} SRV"), &targets));
    questions.push(Question::new(&format!("nope.{name} A"), &BTreeSet::new()));
    Ok(questions)
}
