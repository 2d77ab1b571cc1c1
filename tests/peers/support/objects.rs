//! Kubernetes objects, as Linkerd's mirror controller and Kubernetes write them.

use serde_json::{Value, json};

/// What a file holds.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    objects: Vec<Value>,
}

/// A port: its name, if it has one, its protocol, its number.
pub type Port<'p> = (Option<&'p str>, &'p str, u16);

/// One endpoint of a service.
#[derive(Clone, Debug, Default)]
pub struct Endpoint {
    /// A local pod may have none.
    pub host: Option<String>,
    /// IPv4, IPv6, or one of each.
    pub addresses: Vec<String>,
    /// Its gateway is down, or the pod is not ready.
    pub is_dead: bool,
}

/// A service in a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Member<'m> {
    pub namespace: &'m str,
    pub service: &'m str,
    pub ports: &'m [Port<'m>],
    pub endpoints: &'m [Endpoint],
    /// Annotation `global-dns/ttl`.
    pub ttl: Option<u32>,
}

/// An endpoint that lives.
pub fn endpoint(host: &str, addresses: &[&str]) -> Endpoint {
    Endpoint {
        host: Some(host.to_owned()),
        addresses: addresses.iter().map(|ip| (*ip).to_owned()).collect(),
        is_dead: false,
    }
}

/// A service in a cluster, without a TTL of its own.
pub fn member<'m>(
    (namespace, service): (&'m str, &'m str),
    ports: &'m [Port<'m>],
    endpoints: &'m [Endpoint],
) -> Member<'m> {
    Member {
        namespace,
        service,
        ports,
        endpoints,
        ttl: None,
    }
}

fn ports(ports: &[Port<'_>]) -> Value {
    let ports = ports.iter().map(|(name, protocol, number)| {
        let mut port = json!({"protocol": protocol, "port": number});
        if let Some(name) = name {
            port["name"] = json!(name);
        }
        port
    });
    ports.collect()
}

fn annotations(member: &Member<'_>) -> Value {
    match member.ttl {
        Some(ttl) => json!({"global-dns/ttl": ttl.to_string()}),
        None => json!({}),
    }
}

impl Manifest {
    /// Adds a headless mirror of `cluster` with its endpoint mirrors and their slices.
    pub fn mirror(&mut self, cluster: &str, member: Member<'_>) {
        let (namespace, service) = (member.namespace, member.service);
        // Objects are numbered: which names Linkerd would give does not matter, its annotations tell.
        let parent = format!("mirror-{}", self.objects.len());
        let mut notes = annotations(&member);
        notes["mirror.linkerd.io/remote-svc-fq-name"] =
            json!(format!("{service}.{namespace}.svc.cluster.local"));
        let labels = json!({
            "mirror.linkerd.io/mirrored-service": "true",
            "mirror.linkerd.io/cluster-name": cluster,
        });
        self.objects.push(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": parent, "namespace": namespace, "labels": labels, "annotations": notes},
            "spec": {"clusterIP": "None", "ports": ports(member.ports)},
        }));
        for endpoint in member.endpoints {
            let name = format!("mirror-{}", self.objects.len());
            let host = endpoint.host.as_deref().unwrap();
            let fq_name = format!("{host}.{service}.{namespace}.svc.cluster.local");
            let mut labels = labels.clone();
            labels["mirror.linkerd.io/headless-mirror-svc-name"] = json!(parent);
            self.objects.push(json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {
                    "name": name, "namespace": namespace, "labels": labels,
                    "annotations": {"mirror.linkerd.io/remote-svc-fq-name": fq_name},
                },
                "spec": {
                    "clusterIP": endpoint.addresses[0], "clusterIPs": endpoint.addresses,
                    "ports": ports(member.ports),
                },
            }));
            labels["kubernetes.io/service-name"] = json!(name);
            labels["endpointslice.kubernetes.io/managed-by"] =
                json!("endpointslicemirroring-controller.k8s.io");
            let gateway = json!({
                "addresses": ["198.51.100.10"], "conditions": {"ready": !endpoint.is_dead},
            });
            self.objects.push(json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": format!("{name}-slice"), "namespace": namespace, "labels": labels},
                "addressType": "IPv4",
                "ports": [{"port": 4143, "protocol": "TCP"}],
                "endpoints": [gateway],
            }));
        }
    }

    /// Adds an exported headless Service of this cluster with its slices.
    pub fn local(&mut self, member: Member<'_>) {
        let (namespace, service) = (member.namespace, member.service);
        self.objects.push(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": service, "namespace": namespace, "annotations": annotations(&member),
                "labels": {"mirror.linkerd.io/exported": "true"},
            },
            "spec": {"clusterIP": "None", "ports": ports(member.ports)},
        }));
        for (family, is_v6) in [("IPv4", false), ("IPv6", true)] {
            let pods = member.endpoints.iter().enumerate();
            let pods = pods.flat_map(|(index, endpoint)| {
                let own = endpoint.addresses.iter();
                let own = own.filter(move |address| address.contains(':') == is_v6);
                own.map(move |address| {
                    let mut pod = json!({
                        "addresses": [address], "conditions": {"ready": !endpoint.is_dead},
                        "targetRef": {"kind": "Pod", "uid": format!("{service}-{namespace}-{index}")},
                    });
                    if let Some(host) = &endpoint.host {
                        pod["hostname"] = json!(host);
                    }
                    pod
                })
            });
            let pods: Value = pods.collect();
            self.objects.push(json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {
                    "name": format!("{service}-{}", family.to_lowercase()), "namespace": namespace,
                    "labels": {
                        "kubernetes.io/service-name": service,
                        "service.kubernetes.io/headless": "",
                        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                    },
                },
                "addressType": family, "ports": ports(member.ports), "endpoints": pods,
            }));
        }
    }

    /// One list; JSON is YAML.
    pub fn text(&self) -> String {
        json!({"apiVersion": "v1", "kind": "List", "items": self.objects}).to_string()
    }
}
