//! Kubernetes objects, as Linkerd's mirror controller and Kubernetes write them.

use serde_json::{Map, Value, json};

use super::local_objects::{self, LocalService};
use super::mirror_objects::HeadlessMirror;

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

fn annotations(member: &Member<'_>) -> Map<String, Value> {
    let ttl = member.ttl.map(|ttl| json!(ttl.to_string()));
    let ttl = ttl.map(|ttl| ("global-dns/ttl".to_owned(), ttl));
    ttl.into_iter().collect()
}

impl Manifest {
    /// Adds a headless mirror of `cluster` with its endpoint mirrors and their slices.
    pub fn mirror(&mut self, cluster: &str, member: Member<'_>) {
        // Objects are numbered: which names Linkerd would give does not matter, its annotations tell.
        let of_all = HeadlessMirror {
            name: &format!("mirror-{}", self.objects.len()),
            namespace: member.namespace,
            cluster,
            service: member.service,
            ports: &ports(member.ports),
        };
        self.objects.push(of_all.service(annotations(&member)));
        for endpoint in member.endpoints {
            let name = format!("mirror-{}", self.objects.len());
            let host = endpoint.host.as_deref().unwrap();
            let mirror = of_all.endpoint(&name, host, &endpoint.addresses);
            self.objects.push(mirror);
            self.objects.push(of_all.slice(&name, !endpoint.is_dead));
        }
    }

    /// Adds an exported headless Service of this cluster with its slices.
    pub fn local(&mut self, member: Member<'_>) {
        let (namespace, service) = (member.namespace, member.service);
        let of_all = LocalService {
            namespace,
            name: service,
            ports: &ports(member.ports),
        };
        let annotations = Value::from(annotations(&member));
        self.objects.push(of_all.service(true, annotations));
        for (family, is_v6) in [("IPv4", false), ("IPv6", true)] {
            let pods = member.endpoints.iter().enumerate();
            let pods = pods.flat_map(|(index, endpoint)| {
                let own = endpoint.addresses.iter();
                let own = own.filter(move |address| address.contains(':') == is_v6);
                own.map(move |address| {
                    let pod = format!("{service}-{namespace}-{index}");
                    let host = endpoint.host.as_deref();
                    local_objects::endpoint(address, !endpoint.is_dead, host, Some(&pod))
                })
            });
            let name = format!("{service}-{}", family.to_lowercase());
            let slice = of_all.slice(&name, family, pods.collect());
            self.objects.push(slice);
        }
    }

    /// One list; JSON is YAML.
    pub fn text(&self) -> String {
        json!({"apiVersion": "v1", "kind": "List", "items": self.objects}).to_string()
    }
}
