//! Who has which address: clusters, Services, members, and the rules that lead from one to another.

/// One of the clusters.
#[derive(Debug)]
pub struct Site {
    pub name: &'static str,
    /// The only address of it that the others reach.
    pub gateway: &'static str,
}

pub const EAST: usize = 0;
pub const WEST: usize = 1;
pub const NORTH: usize = 2;
pub const CLUSTERS: [Site; 3] = [
    Site {
        name: "east",
        gateway: "198.51.100.10",
    },
    Site {
        name: "west",
        gateway: "198.51.100.20",
    },
    Site {
        name: "north",
        gateway: "198.51.100.30",
    },
];

/// Their numbers.
pub const ALL: [usize; 3] = [EAST, WEST, NORTH];

pub const NAMESPACE: &str = "prod";

/// A headless Service that every cluster exports.
#[derive(Debug, PartialEq, Eq)]
pub struct Service {
    pub name: &'static str,
    /// Name and number of each port, the same on Service and pod.
    pub port_numbers: &'static [(&'static str, u16)],
    /// The last octet of its first pod's address.
    first: u8,
}

// The old etcd asks for the name with `-ssl`, and for no other unless that exists.
pub const ETCD: Service = Service {
    name: "etcd",
    port_numbers: &[("etcd-server-ssl", 2380), ("etcd-client", 2379)],
    first: 10,
};
pub const NATS: Service = Service {
    name: "nats",
    port_numbers: &[("cluster", 6222), ("client", 4222), ("monitor", 8222)],
    first: 20,
};
pub const SERVICES: [Service; 2] = [ETCD, NATS];

/// A pod of a database.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub service: &'static Service,
    pub cluster: usize,
    /// Its number within its StatefulSet.
    pub ordinal: u8,
}

/// CoreDNS and global-dns of a cluster, at the cluster IPs that the recipes name.
pub const CLUSTER_DNS: &str = "10.96.0.10";
pub const GLOBAL_DNS: &str = "10.96.0.53";

// === impl Service, impl Member ===

impl Service {
    pub fn ports(&self) -> Vec<(&'static str, &'static str, u16)> {
        let ports = self.port_numbers.iter();
        ports.map(|(name, port)| (*name, "TCP", *port)).collect()
    }
}

impl Member {
    pub fn host(&self) -> String {
        format!("{}-{}", self.service.name, self.ordinal)
    }

    /// The same name in every cluster.
    pub fn global_name(&self) -> String {
        let (cluster, service) = (CLUSTERS[self.cluster].name, self.service.name);
        format!("{}.{cluster}.{service}.{NAMESPACE}.global", self.host())
    }

    pub fn is_of(&self, service: &Service, cluster: usize) -> bool {
        self.service == service && self.cluster == cluster
    }

    pub fn pod_address(&self) -> String {
        format!("10.244.0.{}", self.number())
    }

    /// Where another cluster finds it.
    pub fn synthetic_address(&self, viewer: usize) -> String {
        format!(
            "10.96.{}.{}",
            100 + 10 * viewer + self.cluster,
            self.number()
        )
    }

    /// Its pod address at home, its synthetic address elsewhere.
    pub fn address_in(&self, viewer: usize) -> String {
        if viewer == self.cluster {
            self.pod_address()
        } else {
            self.synthetic_address(viewer)
        }
    }

    fn number(&self) -> u8 {
        self.service.first + self.ordinal
    }

    /// Linkerd's gateway tells services apart by what the client's proxy says; here each port has one of its own.
    pub fn gateway_port(&self, port: usize) -> usize {
        20_000 + 10 * usize::from(self.number()) + port
    }
}

/// kube-proxy, as far as DNS goes, and a gateway that lets nothing in yet. Members add their rules.
pub fn rules(site: &Site) -> String {
    let gateway = site.gateway;
    format!(
        "table ip proxy {{
            chain output {{
                type nat hook output priority -100
                ip daddr {GLOBAL_DNS} udp dport 53 dnat to 10.244.0.53:5353
                ip daddr {GLOBAL_DNS} tcp dport 53 dnat to 10.244.0.53:5353
            }}
        }}
        table ip gateway {{
            chain prerouting {{
                type nat hook prerouting priority -100
            }}
            # The member sees the gateway of its own cluster, as it does behind a proxy.
            chain source {{
                type nat hook input priority 100
                iifname eth0 ct status dnat snat to 10.244.0.1
            }}
            chain guard {{
                type filter hook input priority 0
                iifname eth0 ct state established,related accept
                iifname eth0 ip daddr 10.244.0.0/24 ct status dnat accept
                iifname eth0 icmp type echo-request ip daddr {gateway} accept
                iifname eth0 drop
            }}
        }}"
    )
}
