//! Mirrors, Endpoints and Links as each version of Linkerd writes them.
//!
//! The versions differ in the labels that a mirror copies from the exported Service, in the number of gateways, in the versions
//! of the kind Link, and in the Lease of the mirror controller. Names, annotations and the three labels of a mirror are the same
//! since 2.11.

use serde_json::{Map, Value, json};

/// A version of Linkerd.
pub struct Linkerd {
    pub name: &'static str,
    /// Versions of the kind Link that are served; the last one is stored.
    link_versions: &'static [&'static str],
    /// Whether endpoint mirrors have the labels of the exported Service (since 2.17).
    labels_endpoint_mirrors: bool,
    /// Whether Endpoints have them (since 2.18).
    labels_endpoints: bool,
    /// Addresses of the gateway. Several since 2.15.
    gateways: &'static [&'static str],
    /// Whether Endpoints show that a gateway is down (since 2.12).
    pub shows_gateways: bool,
    /// Whether a mirror controller has a Lease (since 2.14).
    pub has_lease: bool,
}

pub const VERSIONS: [Linkerd; 4] = [
    Linkerd {
        name: "2.11",
        link_versions: &["v1alpha1"],
        labels_endpoint_mirrors: false,
        labels_endpoints: false,
        gateways: &["198.51.100.10"],
        shows_gateways: false,
        has_lease: false,
    },
    Linkerd {
        name: "2.14",
        link_versions: &["v1alpha1"],
        labels_endpoint_mirrors: false,
        labels_endpoints: false,
        gateways: &["198.51.100.10"],
        shows_gateways: true,
        has_lease: true,
    },
    Linkerd {
        name: "2.18",
        link_versions: &["v1alpha1", "v1alpha2", "v1alpha3"],
        labels_endpoint_mirrors: true,
        labels_endpoints: true,
        gateways: &["198.51.100.10", "198.51.100.11"],
        shows_gateways: true,
        has_lease: true,
    },
    Linkerd {
        name: "2.20",
        link_versions: &["v1alpha2", "v1alpha3"],
        labels_endpoint_mirrors: true,
        labels_endpoints: true,
        gateways: &["198.51.100.10", "198.51.100.11"],
        shows_gateways: true,
        has_lease: true,
    },
];

/// Namespace of Links and Leases.
pub const MULTICLUSTER: &str = "linkerd-multicluster";
/// Namespace of the mirrored services.
pub const NAMESPACE: &str = "prod";
/// The cluster behind the link.
pub const CLUSTER: &str = "east";
/// Hosts and addresses of the headless service `db`.
pub const HOSTS: [(&str, &str); 2] = [("db-0", "10.96.50.1"), ("db-1", "10.96.50.2")];
/// Address of the mirror of the service `web`, which has a cluster IP.
pub const WEB: &str = "10.96.50.9";

// === impl Linkerd ===

impl Linkerd {
    /// Returns the definition of the kind Link.
    pub fn definition(&self) -> Value {
        let newest = self.link_versions.last();
        let version = |name: &&str| {
            json!({
                "name": name, "served": true, "storage": Some(name) == newest, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            })
        };
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "links.multicluster.linkerd.io"},
            "spec": {
                "group": "multicluster.linkerd.io", "scope": "Namespaced",
                "names": {"plural": "links", "singular": "link", "kind": "Link"},
                "versions": self.link_versions.iter().map(version).collect::<Vec<_>>(),
            },
        })
    }

    /// Returns the Link.
    pub fn link(&self) -> Value {
        let version = self.link_versions.last().copied().unwrap_or_default();
        let mut link = json!({
            "apiVersion": format!("multicluster.linkerd.io/{version}"), "kind": "Link",
            "metadata": {"name": CLUSTER, "namespace": MULTICLUSTER},
            "spec": {
                "targetClusterName": CLUSTER, "targetClusterDomain": "cluster.local",
                "targetClusterLinkerdNamespace": "linkerd", "clusterCredentialsSecret": format!("cluster-credentials-{CLUSTER}"),
                "gatewayAddress": self.gateways.join(","), "gatewayPort": "4143",
                "gatewayIdentity": "linkerd-gateway.linkerd-multicluster.serviceaccount.identity.linkerd.cluster.local",
                "probeSpec": {"path": "/ready", "port": "4191", "period": "3s"},
                "selector": {"matchLabels": {"mirror.linkerd.io/exported": "true"}},
            },
        });
        if self.link_versions.contains(&"v1alpha2") {
            link["spec"]["remoteDiscoverySelector"] =
                json!({"matchLabels": {"mirror.linkerd.io/exported": "remote-discovery"}});
            link["spec"]["federatedServiceSelector"] =
                json!({"matchLabels": {"mirror.linkerd.io/federated": "member"}});
        }
        link
    }

    /// Returns the Lease of the mirror controller.
    pub fn lease(&self) -> Option<Value> {
        self.has_lease.then(|| {
            json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": format!("service-mirror-write-{CLUSTER}"), "namespace": MULTICLUSTER},
                "spec": {"holderIdentity": "mirror-0", "leaseDurationSeconds": 3600, "leaseTransitions": 0,
                    "renewTime": now()},
            })
        })
    }

    /// Returns the objects of the mirrors, in the order in which Linkerd writes them.
    pub fn mirrors(&self) -> Vec<Value> {
        let ports = json!([{"name": "sql", "port": 26257, "protocol": "TCP", "targetPort": 15432}]);
        let parent = format!("db-{CLUSTER}");
        let mut annotations = json!({
            "mirror.linkerd.io/remote-svc-fq-name": "db.prod.svc.cluster.local",
            "mirror.linkerd.io/remote-resource-version": "1201",
            // Linkerd copies all annotations of the exported Service.
            "kubectl.kubernetes.io/last-applied-configuration": "{\"kind\":\"Service\"}\n",
        });
        let mut objects = vec![json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": parent, "namespace": NAMESPACE, "labels": mirror_labels(true, &[]), "annotations": annotations},
            "spec": {"clusterIP": "None", "ports": ports},
        })];
        for (host, address) in HOSTS {
            let further = [(
                "mirror.linkerd.io/headless-mirror-svc-name",
                parent.as_str(),
            )];
            let name = format!("{host}-{CLUSTER}");
            let fq_name = format!("{host}.db.prod.svc.cluster.local");
            objects.push(json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": name, "namespace": NAMESPACE,
                    "labels": mirror_labels(self.labels_endpoint_mirrors, &further),
                    "annotations": {"mirror.linkerd.io/remote-svc-fq-name": fq_name, "mirror.linkerd.io/remote-resource-version": "1305"}},
                "spec": {"clusterIP": address, "ports": ports},
            }));
            objects.push(json!({
                "apiVersion": "v1", "kind": "Endpoints",
                "metadata": {"name": name, "namespace": NAMESPACE,
                    "labels": mirror_labels(self.labels_endpoints, &further), "annotations": {
                        "mirror.linkerd.io/remote-svc-fq-name": fq_name, "mirror.linkerd.io/remote-gateway-identity": "gateway"}},
                "subsets": [{"addresses": self.gateway_addresses(), "ports": [{"name": "sql", "port": 4143, "protocol": "TCP"}]}],
            }));
        }
        let hosts: Vec<Value> = HOSTS
            .iter()
            .map(|(host, address)| json!({"hostname": host, "ip": address}))
            .collect();
        objects.push(json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": parent, "namespace": NAMESPACE, "labels": mirror_labels(self.labels_endpoints, &[]),
                "annotations": {"mirror.linkerd.io/remote-svc-fq-name": "db.prod.svc.cluster.local"}},
            "subsets": [{"addresses": hosts, "ports": [{"name": "sql", "port": 15432, "protocol": "TCP"}]}],
        }));
        // A service with a cluster IP, behind the gateway.
        let web = format!("web-{CLUSTER}");
        annotations["mirror.linkerd.io/remote-svc-fq-name"] = json!("web.prod.svc.cluster.local");
        objects.push(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": web, "namespace": NAMESPACE, "labels": mirror_labels(true, &[]), "annotations": annotations},
            "spec": {"clusterIP": WEB, "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]},
        }));
        objects.push(json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": web, "namespace": NAMESPACE, "labels": mirror_labels(self.labels_endpoints, &[]),
                "annotations": {"mirror.linkerd.io/remote-svc-fq-name": "web.prod.svc.cluster.local"}},
            "subsets": [{"addresses": self.gateway_addresses(), "ports": [{"name": "http", "port": 4143, "protocol": "TCP"}]}],
        }));
        objects
    }

    /// Returns the Endpoints of a mirror whose gateway is down.
    pub fn gateway_down(endpoints: &Value) -> Value {
        let mut down = endpoints.clone();
        let subset = &mut down["subsets"][0];
        subset["notReadyAddresses"] = subset["addresses"].take();
        if let Some(subset) = subset.as_object_mut() {
            subset.remove("addresses");
        }
        down
    }

    fn gateway_addresses(&self) -> Vec<Value> {
        self.gateways.iter().map(|ip| json!({"ip": ip})).collect()
    }
}

/// Returns the labels of a mirror, perhaps with those of the exported Service.
fn mirror_labels(are_copied: bool, further: &[(&str, &str)]) -> Value {
    let mut labels = Map::new();
    if are_copied {
        labels.extend([
            ("app".to_owned(), json!("db")),
            ("app.kubernetes.io/part-of".to_owned(), json!("shop")),
        ]);
    }
    labels.insert(
        "mirror.linkerd.io/mirrored-service".to_owned(),
        json!("true"),
    );
    labels.insert("mirror.linkerd.io/cluster-name".to_owned(), json!(CLUSTER));
    for (key, value) in further {
        labels.insert((*key).to_owned(), json!(value));
    }
    Value::Object(labels)
}

/// Returns the current time as in a Lease.
fn now() -> String {
    let now = jiff::Timestamp::now();
    format!("{now:.6}")
}
