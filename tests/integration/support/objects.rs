//! Builders of Kubernetes objects, as Linkerd's mirror controller and Kubernetes write them.

use serde_json::{Map, Value, json};

use super::local_objects::{self, LocalService};
use super::mirror_objects::HeadlessMirror;

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

/// The slice of a headless mirror: the hosts that Linkerd lists, with the addresses of their endpoint mirrors.
pub fn listing(namespace: &str, headless_mirror: &str, hosts: &[(&str, &str)]) -> Value {
    let host = |(host, address): &(&str, &str)| json!({"addresses": [address], "hostname": host, "conditions": {"ready": true}});
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "namespace": namespace, "name": format!("{headless_mirror}-9qz4d"),
            "labels": {
                "mirror.linkerd.io/mirrored-service": "true",
                "mirror.linkerd.io/cluster-name": "east",
                "kubernetes.io/service-name": headless_mirror,
                "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
            },
        },
        "addressType": "IPv4",
        "ports": [{"name": "sql", "protocol": "TCP", "port": 15432}],
        "endpoints": hosts.iter().map(host).collect::<Vec<_>>(),
    })
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
}

impl From<Mirror> for Manifest {
    fn from(mirror: Mirror) -> Self {
        let of_all = HeadlessMirror {
            name: &format!("{}-{}", mirror.service, mirror.cluster),
            namespace: &mirror.namespace,
            cluster: &mirror.cluster,
            service: &mirror.service,
            ports: &Value::from(mirror.ports),
        };
        let mut manifest = Self(vec![of_all.service(mirror.annotations)]);
        for (host, addresses, gateway) in mirror.endpoints {
            let name = format!("{host}-{}", mirror.cluster);
            manifest.0.push(of_all.endpoint(&name, &host, &addresses));
            if gateway != Gateway::Unknown {
                manifest.0.push(of_all.slice(&name, gateway == Gateway::Up));
            }
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
        let of_all = LocalService {
            namespace: &local.namespace,
            name: &local.service,
            ports: &Value::from(local.ports),
        };
        let mut manifest = Self(vec![
            of_all.service(local.exported, Value::from(local.annotations)),
        ]);
        // One slice for each address family.
        for (family, is_v6) in [("IPv4", false), ("IPv6", true)] {
            let endpoints = local.endpoints.iter();
            let of_family = endpoints.filter(|(_, address, _)| address.contains(':') == is_v6);
            let of_family = of_family.map(|(host, address, is_ready)| {
                let host = host.as_deref();
                local_objects::endpoint(address, *is_ready, host, host)
            });
            let of_family: Vec<Value> = of_family.collect();
            if !of_family.is_empty() {
                let name = format!("{}-{}", local.service, family.to_lowercase());
                let mut slice = of_all.slice(&name, family, of_family);
                if !local.has_selector {
                    slice["metadata"]["labels"] = json!({
                        "kubernetes.io/service-name": local.service,
                        "endpointslice.kubernetes.io/managed-by": "somebody-else",
                    });
                }
                manifest.0.push(slice);
            }
        }
        manifest
    }
}
