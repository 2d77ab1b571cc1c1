//! What other programs bring along: Linkerd's Links and mirrors of two clusters, a database of this cluster, and CoreDNS; with the
//! right answers of their names.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::{Value, json};
use support::objects::{
    Manifest, cluster_role, link, link_definition, local, mirror, namespace, objects,
};

use super::lab::Lab;

/// The cluster IP of the CoreDNS without a cache.
pub const NO_CACHE: &str = "10.96.0.11";
/// Number of services beside those of namespace `prod`.
const MORE_SERVICES: usize = 20;

/// A question and its only right answer.
#[derive(Clone, Debug)]
pub struct Question {
    /// Name, type and options, as [`support::query`] reads them.
    pub text: String,
    /// The data of its records. `None`: NXDOMAIN.
    pub records: Option<BTreeSet<String>>,
    /// Whether there may also be records of pods of this cluster.
    pub has_pods: bool,
}

/// Writes the objects of Linkerd, and the database `prod/db`. Returns the questions about them.
pub fn write_services(lab: &Lab) -> Result<Vec<Question>> {
    lab.cluster.put(&link_definition())?;
    for name in ["linkerd-multicluster", "prod", "shop", "bulk"] {
        lab.cluster.put(&namespace(name))?;
    }
    for cluster in ["east", "west"] {
        let link = link("linkerd-multicluster", cluster, cluster);
        support::wait::eventually("the definition of Links", || lab.cluster.put(&link))?;
    }
    let more = (0..MORE_SERVICES).map(|number| ("bulk", format!("s{number}"), [3, 3]));
    let of_prod = [("db", [2, 1]), ("etcd", [3, 2])];
    let of_prod = of_prod.map(|(service, members)| ("prod", service.to_owned(), members));
    let mut questions = Vec::new();
    for (number, (namespace, service, members)) in of_prod.into_iter().chain(more).enumerate() {
        let name = format!("{service}.{namespace}.global.");
        let (mut all, mut targets) = (BTreeSet::new(), BTreeSet::new());
        for (half, (cluster, count)) in ["east", "west"].into_iter().zip(members).enumerate() {
            let mut mirror = mirror(namespace, &service, cluster);
            let mut own = BTreeSet::new();
            for host in 0..count {
                let address = format!("10.96.{}.{}", 100 + number, 1 + half * 100 + host);
                let host = format!("{service}-{host}");
                mirror = mirror.endpoint(&host, &[&address]);
                let question = format!("{host}.{cluster}.{name} A +edns");
                questions.push(Question::new(question, [address.clone()].into()));
                targets.insert(format!("0 10 26257 {host}.{cluster}.{name}"));
                own.insert(address);
            }
            for object in mirror.writes() {
                lab.cluster.put(&object)?;
            }
            questions.push(Question::new(
                format!("{cluster}.{name} A +edns"),
                own.clone(),
            ));
            all.extend(own);
        }
        for (question, records) in [
            (format!("{name} A +edns"), all),
            (format!("_sql._tcp.{name} SRV +edns"), targets),
        ] {
            questions.push(Question {
                has_pods: name == "db.prod.global.",
                ..Question::new(question, records)
            });
        }
        questions.push(Question {
            records: None,
            ..Question::new(format!("nope.{name} A"), BTreeSet::new())
        });
    }
    for object in database() {
        lab.cluster.put(&object)?;
    }
    Ok(questions)
}

impl Question {
    /// Makes a question about mirrors.
    pub fn new(text: String, records: BTreeSet<String>) -> Self {
        Self {
            text,
            records: Some(records),
            has_pods: false,
        }
    }
}

/// Returns a headless Service with three pods, which only sleep.
fn database() -> [Value; 2] {
    let labels = json!({"app": "db"});
    let mut service = local("prod", "db").service();
    service["spec"]["selector"] = labels.clone();
    let container = json!({"name": "db", "image": "localhost/tools:1",
        "ports": [{"name": "sql", "containerPort": 26257}]});
    let stateful_set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"namespace": "prod", "name": "db"},
        "spec": {
            "serviceName": "db", "replicas": 3, "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
            },
        },
    });
    [service, stateful_set]
}

/// The Corefile of kubeadm.
const OF_KUBEADM: &str = "\
.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
";

/// Forwards each query. Both pods are on the first node, so that they are there as long as their clients.
const WITHOUT_CACHE: &str =
    "global:53 {\n errors\n forward . 10.96.0.53\n}\n.:53 {\n errors\n ready\n}\n";

/// Returns the CoreDNS of the cluster, as kubeadm installs it, and another one without a cache.
pub fn coredns() -> Manifest {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"namespace": "kube-system", "name": "coredns"}});
    let rules = json!([
        {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "system:coredns"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": "coredns"}],
    });
    let mut without_cache = one_coredns("coredns-without-cache", NO_CACHE, WITHOUT_CACHE);
    let pod = &mut without_cache[1]["spec"]["template"]["spec"];
    pod["nodeSelector"] = json!({"kubernetes.io/hostname": "node-a"});
    // The other node has more room, so that a replica of global-dns is beside the other one unless something keeps them apart.
    pod["containers"][0]["resources"]["requests"]["cpu"] = json!("300m");
    let of_kubeadm = one_coredns("coredns", "10.96.0.10", OF_KUBEADM);
    let all = of_kubeadm.into_iter().chain(without_cache);
    all.fold(objects(), Manifest::with)
        .with(account)
        .with(cluster_role("system:coredns", &rules))
        .with(binding)
}

/// Returns Service, Deployment and ConfigMap of a CoreDNS.
fn one_coredns(name: &str, address: &str, corefile: &str) -> [Value; 3] {
    let labels = json!({ "k8s-app": if name == "coredns" { "kube-dns" } else { name } });
    let object = |version: &str, kind: &str| {
        json!({"apiVersion": version, "kind": kind,
            "metadata": {"namespace": "kube-system", "name": name, "labels": labels}})
    };
    let mut service = object("v1", "Service");
    let port = |name: &str, protocol: &str| json!({"name": name, "port": 53, "protocol": protocol});
    service["spec"] = json!({"clusterIP": address, "selector": labels,
        "ports": [port("dns", "UDP"), port("dns-tcp", "TCP")]});
    let prefers_other_nodes = json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100,
        "podAffinityTerm": {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}}]});
    let container = json!({
        "name": "coredns", "image": "registry.k8s.io/coredns/coredns:v1.12.0",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "resources": {"limits": {"memory": "170Mi"}, "requests": {"cpu": "100m", "memory": "70Mi"}},
        "volumeMounts": [{"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": true}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}},
    });
    let mut deployment = object("apps/v1", "Deployment");
    deployment["spec"] = json!({
        "replicas": 2, "selector": {"matchLabels": labels},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
        "template": {"metadata": {"labels": labels}, "spec": {
            "priorityClassName": "system-cluster-critical",
            "serviceAccountName": if name == "coredns" { name } else { "default" },
            "affinity": {"podAntiAffinity": prefers_other_nodes},
            "dnsPolicy": "Default", "containers": [container],
            "volumes": [{"name": "config-volume", "configMap": {"name": name}}],
        }},
    });
    let mut config = object("v1", "ConfigMap");
    config["data"] = json!({ "Corefile": corefile });
    [service, deployment, config]
}
