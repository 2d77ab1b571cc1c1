//! Builders of Kubernetes objects, as Linkerd's mirror controller and Kubernetes write them.

use serde_json::{Map, Value, json};

/// What a file holds.
#[derive(Clone, Debug, Default)]
pub struct Manifest(pub Vec<Value>);

/// A headless mirror with its endpoint mirrors and their slices.
#[derive(Clone, Debug)]
pub struct Mirror {
    namespace: String,
    service: String,
    cluster: String,
    ports: Vec<Value>,
    endpoints: Vec<(String, Vec<String>, Gateway)>,
    annotations: Map<String, Value>,
    created: Option<String>,
}

/// What the slice of an endpoint mirror says of its gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gateway {
    /// There is no slice.
    Unknown,
    /// Ready.
    Up,
    /// Not ready.
    Down,
}

/// A headless Service of this cluster with its slices.
#[derive(Clone, Debug)]
pub struct Local {
    namespace: String,
    service: String,
    exported: bool,
    has_selector: bool,
    ports: Vec<Value>,
    endpoints: Vec<(Option<String>, String, bool)>,
    annotations: Map<String, Value>,
}

/// An empty manifest.
pub fn objects() -> Manifest {
    Manifest::default()
}

/// A headless mirror of `cluster`, with port `sql` 26257 until others are given.
pub fn mirror(namespace: &str, service: &str, cluster: &str) -> Mirror {
    Mirror {
        namespace: namespace.to_owned(),
        service: service.to_owned(),
        cluster: cluster.to_owned(),
        ports: vec![port("sql", "TCP", 26257)],
        endpoints: Vec::new(),
        annotations: Map::new(),
        created: None,
    }
}

/// A headless Service of this cluster, with port `sql` 26257 until others are given.
pub fn local(namespace: &str, service: &str) -> Local {
    Local {
        namespace: namespace.to_owned(),
        service: service.to_owned(),
        exported: false,
        has_selector: true,
        ports: vec![port("sql", "TCP", 26257)],
        endpoints: Vec::new(),
        annotations: Map::new(),
    }
}

/// A port of a Service or a slice.
pub fn port(name: &str, protocol: &str, number: u16) -> Value {
    json!({"name": name, "protocol": protocol, "port": number})
}

// === impl Manifest ===

impl Manifest {
    /// Adds a member, or a bare object.
    #[must_use]
    pub fn with(mut self, part: impl Into<Self>) -> Self {
        self.0.extend(part.into().0);
        self
    }

    /// Several YAML documents; every JSON text is one.
    pub fn text(&self) -> String {
        let documents = self.0.iter().map(|object| format!("---\n{object}\n"));
        documents.collect()
    }
}

impl From<Value> for Manifest {
    fn from(object: Value) -> Self {
        Self(vec![object])
    }
}

// === impl Mirror ===

impl Mirror {
    /// Adds an endpoint mirror whose gateway is up.
    #[must_use]
    pub fn endpoint(self, host: &str, addresses: &[&str]) -> Self {
        self.endpoint_behind(Gateway::Up, host, addresses)
    }

    /// Adds an endpoint mirror.
    #[must_use]
    pub fn endpoint_behind(mut self, gateway: Gateway, host: &str, addresses: &[&str]) -> Self {
        let addresses = addresses
            .iter()
            .map(|address| (*address).to_owned())
            .collect();
        self.endpoints.push((host.to_owned(), addresses, gateway));
        self
    }

    /// Sets the ports.
    #[must_use]
    pub fn ports(mut self, ports: &[(&str, &str, u16)]) -> Self {
        self.ports = ports.iter().map(|(n, r, p)| port(n, r, *p)).collect();
        self
    }

    /// Adds an annotation of the exported Service, which Linkerd copies.
    #[must_use]
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.annotations.insert(name.to_owned(), Value::from(value));
        self
    }

    /// Sets the headless mirror's creation time.
    #[must_use]
    pub fn created(mut self, time: &str) -> Self {
        self.created = Some(time.to_owned());
        self
    }
}

impl From<Mirror> for Manifest {
    fn from(mirror: Mirror) -> Self {
        let Mirror {
            namespace,
            service,
            cluster,
            ports,
            endpoints,
            mut annotations,
            created,
        } = mirror;
        let name = format!("{service}-{cluster}");
        let fq_name = |prefix: &str| format!("{prefix}{service}.{namespace}.svc.cluster.local");
        annotations.insert(
            "mirror.linkerd.io/remote-svc-fq-name".to_owned(),
            Value::from(fq_name("")),
        );
        let mut headless = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": name, "namespace": namespace, "annotations": annotations,
                "labels": {
                    "mirror.linkerd.io/mirrored-service": "true",
                    "mirror.linkerd.io/cluster-name": cluster,
                },
            },
            "spec": {"clusterIP": "None", "clusterIPs": ["None"], "ports": ports},
        });
        if let Some(created) = created {
            headless["metadata"]["creationTimestamp"] = Value::from(created);
        }
        let mut manifest = Self(vec![headless]);
        for (host, addresses, gateway) in endpoints {
            let own_name = format!("{host}-{cluster}");
            let labels = json!({
                "mirror.linkerd.io/mirrored-service": "true",
                "mirror.linkerd.io/cluster-name": cluster,
                "mirror.linkerd.io/headless-mirror-svc-name": name,
            });
            manifest.0.push(json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {
                    "name": own_name, "namespace": namespace, "labels": labels,
                    "annotations": {"mirror.linkerd.io/remote-svc-fq-name": fq_name(&format!("{host}."))},
                },
                "spec": {"clusterIP": addresses[0], "clusterIPs": addresses, "ports": ports},
            }));
            if gateway == Gateway::Unknown {
                continue;
            }
            let mut labels = labels;
            labels["kubernetes.io/service-name"] = Value::from(own_name.as_str());
            labels["endpointslice.kubernetes.io/managed-by"] =
                Value::from("endpointslicemirroring-controller.k8s.io");
            manifest.0.push(json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": format!("{own_name}-7xk2p"), "namespace": namespace, "labels": labels},
                "addressType": "IPv4",
                "ports": [port("sql", "TCP", 4143)],
                "endpoints": [{"addresses": ["198.51.100.10"], "conditions": {"ready": gateway == Gateway::Up}}],
            }));
        }
        manifest
    }
}

// === impl Local ===

impl Local {
    /// Adds a pod, or an address behind a Service without a selector.
    #[must_use]
    pub fn endpoint(mut self, host: Option<&str>, address: &str, ready: bool) -> Self {
        self.endpoints
            .push((host.map(str::to_owned), address.to_owned(), ready));
        self
    }

    /// Marks the Service as exported.
    #[must_use]
    pub fn exported(mut self) -> Self {
        self.exported = true;
        self
    }

    /// Takes the selector away: slices come from somebody else and lack the headless label.
    #[must_use]
    pub fn without_selector(mut self) -> Self {
        self.has_selector = false;
        self
    }

    /// Sets the ports.
    #[must_use]
    pub fn ports(mut self, ports: &[(&str, &str, u16)]) -> Self {
        self.ports = ports.iter().map(|(n, r, p)| port(n, r, *p)).collect();
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.annotations.insert(name.to_owned(), Value::from(value));
        self
    }
}

impl From<Local> for Manifest {
    fn from(local: Local) -> Self {
        let Local {
            namespace,
            service,
            exported,
            has_selector,
            ports,
            endpoints,
            annotations,
        } = local;
        let labels = match exported {
            true => json!({"mirror.linkerd.io/exported": "true"}),
            false => json!({}),
        };
        let mut manifest = Self(vec![json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": service, "namespace": namespace, "labels": labels, "annotations": annotations},
            "spec": {"clusterIP": "None", "clusterIPs": ["None"], "ports": ports},
        })]);
        // One slice for each address family.
        for (family, is_v6) in [("IPv4", false), ("IPv6", true)] {
            let of_family = endpoints
                .iter()
                .filter(|(_, address, _)| address.contains(':') == is_v6);
            let of_family: Vec<Value> = of_family
                .map(|(host, address, ready)| {
                    let mut endpoint =
                        json!({"addresses": [address], "conditions": {"ready": ready}});
                    if let Some(host) = host {
                        endpoint["hostname"] = Value::from(host.as_str());
                        endpoint["targetRef"] =
                            json!({"kind": "Pod", "name": host, "uid": format!("uid-of-{host}")});
                    }
                    endpoint
                })
                .collect();
            if of_family.is_empty() {
                continue;
            }
            let mut labels = json!({"kubernetes.io/service-name": service});
            let manager = if has_selector {
                labels["service.kubernetes.io/headless"] = Value::from("");
                "endpointslice-controller.k8s.io"
            } else {
                "somebody-else"
            };
            labels["endpointslice.kubernetes.io/managed-by"] = Value::from(manager);
            manifest.0.push(json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {
                    "name": format!("{service}-{}", family.to_lowercase()), "namespace": namespace, "labels": labels,
                },
                "addressType": family, "ports": ports, "endpoints": of_family,
            }));
        }
        manifest
    }
}
