//! A large table, which is the same in every run.

use support::objects::{
    Gateway, Local, Manifest, Port, local, mirror, nameless_port, objects, port,
};

/// Names of clusters. One is also the name of a service.
const CLUSTERS: [&str; 5] = ["east", "west", "north", "south-1", "db"];

/// Namespaces. Two are also names of services; `dns` is also a label of the name server's name.
const NAMESPACES: [&str; 5] = ["prod", "shop", "kafka", "db", "dns"];

/// Service names that are also other parts of owner names, and the longest possible name.
const SPECIAL: [&str; 18] = [
    "db",
    "kafka",
    "dns",
    "ns",
    "dns-version",
    "prod",
    "shop",
    "east",
    "west",
    "hub",
    "db-east",
    "db-0",
    "a-west-west",
    "svc",
    "global",
    "tcp",
    "x",
    "a-service-whose-name-takes-all-of-the-63-octets-that-a-label-has",
];

const WORDS: [&str; 8] = [
    "web",
    "cache",
    "etcd",
    "mongo",
    "api-v2",
    "queue",
    "search",
    "ledger-eu",
];

const SERVICES: usize = 400;

/// Number of endpoints of a service whose SRV records exceed any message, and of one whose RRsets just fit. The time that a
/// debug build needs for the zone file grows with their square.
const TOO_MANY: usize = 1500;
const NEARLY_TOO_MANY: usize = 900;

/// Names, protocols and numbers of ports. Ports of members are drawn from these.
const PORTS: [(Option<&str>, &str, &[u16]); 8] = [
    (Some("sql"), "TCP", &[26257, 5432]),
    (Some("http"), "TCP", &[80, 8080, 8081]),
    (Some("metrics"), "TCP", &[8080, 9153]),
    (Some("dns"), "UDP", &[53]),
    (Some("dns-tcp"), "TCP", &[53]),
    (Some("gossip"), "UDP", &[7946]),
    (Some("sctp"), "SCTP", &[3868]),
    (None, "TCP", &[7000, 7001]),
];

/// Numbers of services and endpoints of a manifest.
pub struct Size {
    pub services: usize,
    pub endpoints: usize,
}

struct Builder {
    manifest: Manifest,
    rng: fastrand::Rng,
    mirrors: usize,
    endpoints: usize,
}

/// One endpoint of a service.
struct Endpoint {
    /// Hostname; a local pod may have none.
    host: Option<String>,
    /// Addresses: IPv4, IPv6, or both.
    addresses: Vec<String>,
    /// True if its gateway is down or the pod is not ready.
    is_dead: bool,
}

/// Returns the manifest of the table.
pub fn manifest() -> (Manifest, Size) {
    let mut builder = Builder {
        manifest: objects(),
        rng: fastrand::Rng::with_seed(0x0610_ba1d),
        mirrors: 0,
        endpoints: 0,
    };
    for index in 0..SERVICES {
        let (special, namespace) = (
            index / NAMESPACES.len(),
            NAMESPACES[index % NAMESPACES.len()],
        );
        let service = match SPECIAL.get(special) {
            Some(special) => (*special).to_owned(),
            // One in four is in two namespaces.
            None => format!("{}-{}", WORDS[index % WORDS.len()], index - index % 4 / 3),
        };
        builder.service(namespace, &service);
    }
    for (service, count) in [("too-many", TOO_MANY), ("nearly-too-many", NEARLY_TOO_MANY)] {
        let endpoints: Vec<Endpoint> = (0..count)
            .map(|index| builder.endpoint(Some(format!("{service}-{index}")), 1))
            .collect();
        builder.add_local(local("prod", service), &endpoints);
    }
    let size = Size {
        services: SERVICES + 2,
        endpoints: builder.endpoints,
    };
    (builder.manifest, size)
}

impl Builder {
    fn service(&mut self, namespace: &str, service: &str) {
        let ttl = self.one_in(4).then(|| self.rng.u32(1..=30));
        let families = self.rng.u8(1..=3);
        let is_empty = self.one_in(16);
        let mut clusters = CLUSTERS.to_vec();
        self.rng.shuffle(&mut clusters);
        let count = self.rng.usize(1..=clusters.len());
        for cluster in &clusters[..count] {
            let is_dead = self.one_in(5);
            let endpoints = self.endpoints(service, families, is_dead, is_empty, false);
            let mirror = mirror(namespace, service, cluster).all_ports(self.ports());
            let mirror = match ttl {
                Some(ttl) => mirror.annotation("global-dns/ttl", &ttl.to_string()),
                None => mirror,
            };
            // Object names are numbered, because Kubernetes would reject some names.
            self.mirrors += 1;
            let mirror = mirror.named(&format!("mirror-{}", self.mirrors));
            let mirror = endpoints.iter().fold(mirror, |mirror, endpoint| {
                let gateway = if endpoint.is_dead {
                    Gateway::Down
                } else {
                    Gateway::Up
                };
                let host = endpoint.host.as_deref().unwrap();
                mirror.endpoint_behind(gateway, host, &endpoint.addresses())
            });
            self.manifest.0.extend(Manifest::from(mirror).0);
        }
        if self.one_in(3) {
            let endpoints = self.endpoints(service, families, false, is_empty, true);
            let local = local(namespace, service).all_ports(self.ports());
            let local = match ttl {
                Some(ttl) => local.annotation("global-dns/ttl", &ttl.to_string()),
                None => local,
            };
            self.add_local(local, &endpoints);
        }
    }

    /// Adds an exported headless Service of this cluster.
    fn add_local(&mut self, local: Local, endpoints: &[Endpoint]) {
        let pods = endpoints.iter().enumerate();
        let local = pods.fold(local.exported(), |local, (index, endpoint)| {
            let (pod, host) = (format!("pod-{index}"), endpoint.host.as_deref());
            local.pod(Some(&pod), host, &endpoint.addresses(), !endpoint.is_dead)
        });
        self.manifest.0.extend(Manifest::from(local).0);
    }

    fn endpoints(
        &mut self,
        service: &str,
        families: u8,
        is_dead: bool,
        is_empty: bool,
        is_local: bool,
    ) -> Vec<Endpoint> {
        let most = if is_empty { 0 } else { 4 };
        let count = self.rng.usize(0..=most);
        let stem = &service[..service.len().min(60)];
        let endpoints = (0..count).map(|index| {
            let host = if is_local && self.one_in(3) {
                None // gets the dashed address as its name
            } else if self.one_in(12) {
                Some("node-a".to_owned()) // possibly a duplicate
            } else {
                Some(format!("{stem}-{index}"))
            };
            let mut endpoint = self.endpoint(host, families);
            endpoint.is_dead = is_dead || self.one_in(10);
            endpoint
        });
        endpoints.collect()
    }

    /// `families`: 1 is IPv4, 2 is IPv6, 3 is both.
    fn endpoint(&mut self, host: Option<String>, families: u8) -> Endpoint {
        self.endpoints += 1;
        // Some addresses are used twice.
        let back = if self.one_in(40) { 1 } else { 0 };
        let number = self.endpoints - back;
        let v4 = format!(
            "10.{}.{}.{}",
            64 + (number >> 16),
            number >> 8 & 0xff,
            number & 0xff
        );
        let v6 = format!("2001:db8::{:x}:{:x}", number >> 4, number & 0xf);
        let addresses = match families {
            1 => vec![v4],
            2 => vec![v6],
            _ => vec![v4, v6],
        };
        Endpoint {
            host,
            addresses,
            is_dead: false,
        }
    }

    fn ports(&mut self) -> Vec<Port> {
        let count = self.rng.usize(0..=4);
        let mut kinds = PORTS.to_vec();
        self.rng.shuffle(&mut kinds);
        let chosen = kinds[..count].iter();
        chosen
            .map(|(name, protocol, numbers)| {
                let number = numbers[self.rng.usize(..numbers.len())];
                match name {
                    Some(name) => port(name, protocol, number),
                    None => nameless_port(protocol, number),
                }
            })
            .collect()
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.rng.u32(..count) == 0
    }
}

impl Endpoint {
    fn addresses(&self) -> Vec<&str> {
        self.addresses.iter().map(String::as_str).collect()
    }
}
