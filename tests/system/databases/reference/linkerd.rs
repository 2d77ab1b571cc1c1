//! What `02-linkerd` and `03-links` leave behind: Links, a gateway, and a mirror controller for each Link. And the mirrors that
//! the controllers write.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::multicluster::plan::{ALL, CLUSTERS, Service};
use support::objects::{self, Gateway, link, link_definition, namespace};

use super::site::Site;

/// The namespace of Linkerd's multicluster extension.
pub const NAMESPACE: &str = "linkerd-multicluster";

/// The Service of the example.
pub const ETCD: Service = Service {
    name: "etcd",
    port_numbers: &[("etcd-server", 2380), ("etcd-client", 2379)],
    first: 10,
};

/// The Corefile of kubeadm, with another port of the metrics: all pods of a cluster are in one network here.
const COREFILE: &str = "\
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
    prometheus :9163
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
";

/// Returns the Deployment of the gateway, without its specification.
pub fn gateway() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": NAMESPACE, "name": "linkerd-gateway"}})
}

/// Returns the objects that exist in a cluster before `04-global-dns`.
pub fn fixtures(index: usize) -> Vec<Value> {
    let mut objects = vec![
        namespace("linkerd"),
        namespace(NAMESPACE),
        link_definition(),
    ];
    let pause = json!({"name": "pause", "image": "registry.k8s.io/pause:3.2"});
    let labels = json!({"app": "linkerd-gateway"});
    objects.push(deployment(
        &gateway(),
        &labels,
        &json!({"containers": [pause]}),
    ));
    for other in ALL.into_iter().filter(|&other| other != index) {
        objects.extend(controller(CLUSTERS[other].name));
    }
    objects.extend(coredns());
    objects
}

/// Returns a Deployment with one pod.
fn deployment(named: &Value, labels: &Value, spec: &Value) -> Value {
    let mut object = named.clone();
    object["metadata"]["labels"] = labels.clone();
    object["spec"] = json!({
        // All pods of a cluster are in one network, so the new one starts when the old one has ended.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    });
    object
}

/// Returns the Link to a cluster, and the objects of its mirror controller with the names and labels of Linkerd's chart.
fn controller(target: &str) -> Vec<Value> {
    let name = format!("controller-{target}");
    let labels = json!({"component": "controller", "mirror.linkerd.io/cluster-name": target});
    let object = |version: &str, kind: &str, name: &str| {
        json!({"apiVersion": version, "kind": kind, "metadata":
            {"namespace": NAMESPACE, "name": name, "labels": labels}})
    };
    let account = object("v1", "ServiceAccount", &name);
    let mut service = object("v1", "Service", &format!("probe-{target}"));
    service["spec"] = json!({"ports": [{"name": "mc-probe", "port": 30191}]});
    let container = json!({"name": "controller", "image": "cr.l5d.io/linkerd/controller:edge", "args": ["service-mirror", target]});
    // The test writes the mirrors, so this container needs no token.
    let spec = json!({"containers": [container], "automountServiceAccountToken": false});
    let deployment = deployment(&object("apps/v1", "Deployment", &name), &labels, &spec);
    let credentials = [NAMESPACE, "linkerd"].map(|namespace| {
        json!({"apiVersion": "v1", "kind": "Secret", "type": "mirror.linkerd.io/remote-kubeconfig",
            "metadata": {"namespace": namespace, "name": format!("cluster-credentials-{target}")}})
    });
    let link = link(NAMESPACE, target, target);
    let mut objects = vec![account, service, deployment, link];
    objects.extend(credentials);
    objects
}

/// Returns the objects of CoreDNS, as kubeadm creates them.
fn coredns() -> Vec<Value> {
    let object = |version: &str, kind: &str, name: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"namespace": "kube-system", "name": name}});
    let mut map = object("v1", "ConfigMap", "coredns");
    map["data"] = json!({"Corefile": COREFILE});
    let container = json!({
        "name": "coredns", "image": "registry.k8s.io/coredns/coredns:v1.12.0",
        "args": ["-conf", "/run/coredns/Corefile"],
        "ports": [{"name": "ready", "containerPort": 8181}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "ready"}},
        "volumeMounts": [{"name": "config", "mountPath": "/run/coredns"}],
    });
    let spec = json!({
        "serviceAccountName": "coredns", "dnsPolicy": "Default", "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    });
    let labels = json!({"k8s-app": "kube-dns"});
    let deployment = deployment(&object("apps/v1", "Deployment", "coredns"), &labels, &spec);
    let rules = json!([
        {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]);
    let role = objects::cluster_role("system:coredns", &rules);
    let binding = objects::cluster_role_binding(
        "system:coredns",
        "system:serviceaccount:kube-system:coredns",
    );
    let account = object("v1", "ServiceAccount", "coredns");
    vec![
        namespace("kube-system"),
        account,
        role,
        binding,
        map,
        deployment,
    ]
}

/// The mirror controllers of all clusters.
#[derive(Default)]
pub struct Controllers {
    /// For each viewing cluster and target, what was written last: the objects by kind, namespace and name.
    written: BTreeMap<(usize, usize), BTreeMap<String, Value>>,
}

// === impl Controllers ===

impl Controllers {
    /// Writes the mirrors that have changed, as each controller with a Link does.
    pub fn tick(&mut self, sites: &[Site]) -> Result<()> {
        for target in sites {
            let gateway = if target.has_gateway()? {
                Gateway::Up
            } else {
                Gateway::Down
            };
            let exported =
                target
                    .api
                    .objects("v1", "Service", "mirror.linkerd.io/exported=true")?;
            for viewer in sites.iter().filter(|viewer| viewer.index != target.index) {
                // Without its Link, a controller leaves everything as it is.
                let link = link(NAMESPACE, target.name(), target.name());
                let has_controller = viewer.is_ready(&format!("controller-{}-", target.name()));
                if !has_controller || viewer.api.get(&link)?.is_none() {
                    continue;
                }
                let mut wanted = BTreeMap::new();
                for service in &exported {
                    for object in mirrors(viewer, target, service, gateway)? {
                        wanted.insert(identity(&object), object);
                    }
                }
                self.write(viewer, target.index, wanted)?;
            }
        }
        Ok(())
    }

    fn write(
        &mut self,
        viewer: &Site,
        target: usize,
        wanted: BTreeMap<String, Value>,
    ) -> Result<()> {
        let written = self.written.entry((viewer.index, target)).or_default();
        for (identity, object) in &wanted {
            if written.get(identity) != Some(object) {
                viewer.api.put(object)?;
            }
        }
        for (identity, object) in &*written {
            // Kubernetes deletes Endpoints with their Service.
            if !wanted.contains_key(identity) && object["kind"] == "Service" {
                viewer.api.delete(object)?;
            }
        }
        *written = wanted;
        Ok(())
    }
}

/// Returns the mirrors of an exported Service in a cluster.
fn mirrors(viewer: &Site, target: &Site, service: &Value, gateway: Gateway) -> Result<Vec<Value>> {
    let text = |field: &str| service["metadata"][field].as_str().unwrap_or_default();
    let (of_namespace, name) = (text("namespace"), text("name"));
    if viewer.api.get(&namespace(of_namespace))?.is_none() {
        return Ok(Vec::new());
    }
    ensure!(
        name == ETCD.name && service["spec"]["clusterIP"] == "None",
        "no support for {service}"
    );
    let mut hosts = BTreeSet::new();
    for slice in target.api.slices(of_namespace, name)? {
        for endpoint in slice.data["endpoints"].as_array().into_iter().flatten() {
            let host = endpoint["hostname"].as_str();
            if let Some(host) = host.filter(|_| endpoint["conditions"]["ready"] == true) {
                hosts.insert(host.to_owned());
            }
        }
    }
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let ports = ports.map(|port| {
        let number = port["port"]
            .as_u64()
            .and_then(|number| u16::try_from(number).ok());
        let name = port["name"].as_str();
        Ok((
            name.context("no name")?,
            "TCP",
            number.context("no number")?,
        ))
    });
    let ports = ports.collect::<Result<Vec<_>>>()?;
    let mirror = objects::mirror(of_namespace, name, target.name())
        .gateway(CLUSTERS[target.index].gateway)
        .ports(&ports);
    let member = ETCD.member(target.index, 0);
    let mirror = hosts.iter().try_fold(mirror, |mirror, host| {
        ensure!(*host == member.host(), "no address for {host}");
        let address = member.synthetic_address(viewer.index);
        Ok(mirror.endpoint_behind(gateway, host, &[&address]))
    });
    Ok(mirror?.writes())
}

fn identity(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!(
        "{}/{}/{}",
        object["kind"], metadata["namespace"], metadata["name"]
    )
}
