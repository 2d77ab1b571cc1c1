//! The endpoints of the table.

use std::net::IpAddr;

use smallvec::SmallVec;

use crate::mirror::{
    ClusterName, Hostname, Kind, Namespace, ObjectKey, ObjectName, ObjectRef, Ports,
};

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The cluster of the endpoint, label `C`.
    pub cluster: ClusterName,
    /// The name of the endpoint within its service and cluster, label `H`.
    pub hostname: Hostname,
    /// Its addresses, sorted, each once.
    pub addresses: SmallVec<[Address; 1]>,
    /// Its ports, sorted by number, name and protocol.
    pub ports: Ports,
    /// Whether a gateway of the endpoint is up (rule M3). Local endpoints need no gateway and are always alive.
    pub alive: bool,
    /// The origin of the endpoint.
    pub origin: Origin,
    /// The source objects of the endpoint. They are in the namespace of its service.
    pub objects: SmallVec<[(Kind, ObjectName); 1]>,
}

/// The origin of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A pod of this cluster, with its own address.
    Local,
    /// An endpoint mirror, with a synthetic endpoint IP. Only meshed clients can use that address.
    Mirror,
}

/// An address of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// IPv4 or IPv6.
    pub ip: IpAddr,
    /// Whether an earlier endpoint has the same address. An RRset contains each record once (RFC 2181 section 5).
    pub duplicate: Duplicate,
}

/// Whether an earlier endpoint has the same address. Endpoints that are alive come before those with a gateway that is
/// down, so that omitting the latter never loses an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicate {
    /// No earlier endpoint has it.
    None,
    /// An earlier endpoint of another cluster has it.
    OtherCluster,
    /// An earlier endpoint of the same cluster has it.
    SameCluster,
}

// === impl Endpoint ===

impl Endpoint {
    /// Returns references to the source objects of an endpoint. `namespace` is that of its service.
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

    /// Returns whether another endpoint has the same cluster and hostname.
    pub fn is_host(&self, other: &Self) -> bool {
        self.cluster == other.cluster && self.hostname == other.hostname
    }

    /// Returns whether the endpoint has a port with this name and protocol.
    pub fn has_port(&self, name: &str, protocol: &str) -> bool {
        self.ports.iter().any(|port| port.is_named(name, protocol))
    }
}
