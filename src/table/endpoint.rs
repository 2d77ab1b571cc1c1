//! Endpoints, the rows of the table.

use std::net::IpAddr;

use smallvec::SmallVec;

use crate::mirror::{
    ClusterName, Hostname, Kind, Namespace, ObjectKey, ObjectName, ObjectRef, Ports,
};

/// One endpoint: a row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The cluster that the endpoint runs in, label `C`.
    pub cluster: ClusterName,
    /// The endpoint's name within its service and cluster, label `H`.
    pub hostname: Hostname,
    /// Its addresses, sorted, each once.
    pub addresses: SmallVec<[Address; 1]>,
    /// Its ports, sorted by number, name and protocol.
    pub ports: Ports,
    /// A gateway leads to it (rule M3); local endpoints need none.
    pub alive: bool,
    /// Where the endpoint comes from.
    pub origin: Origin,
    /// The objects that it was read from, which are in the namespace of its service.
    pub objects: SmallVec<[(Kind, ObjectName); 1]>,
}

/// How an endpoint is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A pod of this cluster, by its own address.
    Local,
    /// A synthetic endpoint IP, which only meshed clients can use.
    Mirror,
}

/// An address of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// IPv4 or IPv6.
    pub ip: IpAddr,
    /// Where else it occurs: an RRset holds a record once (RFC 2181 section 5).
    pub repeats: Repeats,
}

/// Whether an endpoint that precedes has the same address. Live endpoints precede those whose gateway is down, so that
/// leaving the latter out never loses an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// The first of its kind.
    Nothing,
    /// An endpoint of another cluster has it.
    Service,
    /// An endpoint of the same cluster has it.
    Cluster,
}

// === impl Endpoint ===

impl Endpoint {
    /// Returns the objects that an endpoint of a service in `namespace` was read from.
    pub fn object_refs(&self, namespace: &Namespace) -> impl Iterator<Item = ObjectRef> {
        let namespace = namespace.text();
        self.objects.iter().map(move |(kind, name)| ObjectRef {
            kind: *kind,
            key: ObjectKey {
                namespace: namespace.clone(),
                name: name.clone(),
            },
        })
    }

    /// Tells whether another endpoint has the same cluster and hostname.
    pub fn is_host(&self, other: &Self) -> bool {
        self.cluster == other.cluster && self.hostname == other.hostname
    }

    /// Tells whether the endpoint has a port of this name and protocol.
    pub fn has_port(&self, name: &str, protocol: &str) -> bool {
        self.ports.iter().any(|port| port.is_named(name, protocol))
    }
}
