//! The addresses of clusters, Services and members, and the packet filter rules between them.

/// A cluster.
#[derive(Debug)]
pub struct Site {
    /// The name of the cluster.
    pub name: &'static str,
    /// The only address that other clusters can reach.
    pub gateway: &'static str,
}

/// The index of the cluster with an API server, in which tests run.
pub const EAST: usize = 0;
/// The index of the second cluster.
pub const WEST: usize = 1;
/// The index of the third cluster.
pub const NORTH: usize = 2;
/// All clusters.
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

/// The indexes of all clusters.
pub const ALL: [usize; 3] = [EAST, WEST, NORTH];

/// The namespace of all Services.
pub const NAMESPACE: &str = "prod";

/// A headless Service that every cluster exports.
#[derive(Debug, PartialEq, Eq)]
pub struct Service {
    /// The name of the Service.
    pub name: &'static str,
    /// Name and number of each port. Service and pod have the same ports.
    pub port_numbers: &'static [(&'static str, u16)],
    /// The last octet of the address of the first pod. Each pod takes one of the next numbers. The next address of its mirrors
    /// has a number that is larger by `NEXT_ADDRESS`.
    pub first: u8,
}

/// Distance between two synthetic addresses of a member, which has at most three one after the other.
const NEXT_ADDRESS: u8 = 70;

/// A pod of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The Service of the pod.
    pub service: &'static Service,
    /// The index of the cluster of the pod.
    pub cluster: usize,
    /// The ordinal in the StatefulSet.
    pub ordinal: u8,
    /// How often its mirrors have got another synthetic address.
    pub renumbered: u8,
}

/// The cluster IP of CoreDNS.
pub const CLUSTER_DNS: &str = "10.96.0.10";
/// The cluster IP of global-dns, as in the recipes.
pub const GLOBAL_DNS: &str = "10.96.0.53";

// === impl Site, impl Service, impl Member ===

impl Site {
    /// Returns the domain of the cluster, which is its own.
    pub fn domain(&self) -> String {
        format!("{}.example", self.name)
    }
}

impl Service {
    /// Returns a pod of the Service.
    pub fn member(&'static self, cluster: usize, ordinal: u8) -> Member {
        Member {
            service: self,
            cluster,
            ordinal,
            renumbered: 0,
        }
    }

    /// Returns name, protocol and number of each port.
    pub fn ports(&self) -> Vec<(&'static str, &'static str, u16)> {
        let ports = self.port_numbers.iter();
        ports.map(|(name, port)| (*name, "TCP", *port)).collect()
    }
}

impl Member {
    /// Returns the host name of the pod.
    pub fn host(&self) -> String {
        format!("{}-{}", self.service.name, self.ordinal)
    }

    /// Returns the global name, which is the same in every cluster.
    pub fn global_name(&self) -> String {
        let (cluster, service) = (CLUSTERS[self.cluster].name, self.service.name);
        format!("{}.{cluster}.{service}.{NAMESPACE}.global", self.host())
    }

    /// Returns Kubernetes' own name of the pod, below the domain of its cluster.
    pub fn own_name(&self) -> String {
        let (host, service) = (self.host(), self.service.name);
        let domain = CLUSTERS[self.cluster].domain();
        format!("{host}.{service}.{NAMESPACE}.svc.{domain}")
    }

    /// Returns whether this is the same pod, perhaps with other addresses.
    pub fn is_same(&self, other: &Self) -> bool {
        self.is_of(other.service, other.cluster) && self.ordinal == other.ordinal
    }

    /// Returns whether this is a pod of a Service in a cluster.
    pub fn is_of(&self, service: &Service, cluster: usize) -> bool {
        self.service == service && self.cluster == cluster
    }

    /// Returns the address of the pod in its own cluster.
    pub fn pod_address(&self) -> String {
        format!("10.244.0.{}", self.number())
    }

    /// Returns the synthetic cluster IP of the member in another cluster.
    pub fn synthetic_address(&self, viewer: usize) -> String {
        format!(
            "10.96.{}.{}",
            100 + 10 * viewer + self.cluster,
            self.number() + NEXT_ADDRESS * self.renumbered
        )
    }

    /// Returns the pod address in the member's own cluster, the synthetic address in others.
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

    /// Returns the gateway port for a port of the member. Linkerd's proxies name the service instead, over one port.
    pub fn gateway_port(&self, port: usize) -> usize {
        20_000 + 10 * usize::from(self.number()) + port
    }

    /// Returns the rules of kube-proxy in another cluster, which translate the synthetic address of the member.
    pub fn proxy_rules(&self, viewer: usize) -> String {
        let (synthetic, gateway) = (
            self.synthetic_address(viewer),
            CLUSTERS[self.cluster].gateway,
        );
        let ports = self.service.port_numbers.iter().enumerate();
        let ports = ports.filter(|_| viewer != self.cluster);
        let rule = |(index, (_, port)): (usize, &(&str, u16))| {
            let gateway_port = self.gateway_port(index);
            format!(
                "add rule ip proxy output ip daddr {synthetic} tcp dport {port} dnat to {gateway}:{gateway_port}\n"
            )
        };
        ports.map(rule).collect()
    }
}

/// Returns the rules of kube-proxy for DNS, and of a gateway that drops all packets. Members add their rules.
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
            # The member sees the gateway of its own cluster as the client, as behind a proxy.
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
