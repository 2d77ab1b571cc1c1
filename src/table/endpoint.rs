//! The endpoints of the table.

use std::net::IpAddr;

use smallvec::{SmallVec, smallvec};

use super::ServiceKind;
use super::merge::distinct;
use crate::mirror::{
    ClusterName, Hostname, Kind, Namespace, ObjectKey, ObjectName, ObjectRef, Ports,
};

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The cluster of the endpoint, label `C`. `None` for an address that belongs to no single cluster: of a
    /// federated service, or of a ServiceImport.
    pub cluster: Option<ClusterName>,
    /// The name of the endpoint within its service and cluster, label `H`. `None` for a cluster IP of a whole Service.
    pub hostname: Option<Hostname>,
    /// Its addresses, sorted, each once.
    pub addresses: SmallVec<[Address; 1]>,
    /// Its ports, sorted by number, name and protocol.
    pub ports: Ports,
    /// Whether connections can succeed: a gateway is up (rule M3), or a cluster IP has a ready endpoint. Pods of this
    /// cluster are always alive.
    pub alive: bool,
    /// The kind of the objects that the endpoint comes from.
    pub kind: ServiceKind,
    /// Whether it belongs to this cluster: a pod or a Service of it, or its part of a ServiceImport.
    pub is_local: bool,
    /// Whether the endpoint is one of `S.N.Z`. The others have names of their cluster only (rules K1, K5).
    pub is_selected: bool,
    /// Whether another step of the failover order answers `S.N.Z` (rule K5).
    pub is_standby: bool,
    /// The source objects of the endpoint. They are in the namespace of its service.
    pub objects: SmallVec<[(Kind, ObjectName); 1]>,
}

/// An address of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// IPv4 or IPv6.
    pub ip: IpAddr,
    /// The names at which an earlier endpoint has the same address.
    pub duplicate: Duplicate,
}

/// The names at which an earlier endpoint has the same address. An RRset contains each record once (RFC 2181 section 5).
/// Endpoints that are alive come first, so that the omission of the others never loses an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Duplicate {
    /// The name of the service. Only selected endpoints count.
    pub in_service: bool,
    /// The name of the cluster.
    pub in_cluster: bool,
}

// === impl Endpoint ===

impl Endpoint {
    /// Makes the endpoint of the cluster IPs of a Service. It is selected and alive, and belongs to no cluster.
    pub(super) fn of_service(
        object: &ObjectKey,
        kind: ServiceKind,
        addresses: &[IpAddr],
        ports: &Ports,
    ) -> Self {
        Self {
            cluster: None,
            hostname: None,
            addresses: distinct(addresses.iter().copied()),
            ports: ports.clone(),
            alive: true,
            kind,
            is_local: kind == ServiceKind::Local,
            is_selected: true,
            is_standby: false,
            objects: smallvec![(Kind::Service, object.name.clone())],
        }
    }

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

    /// Returns whether its addresses are those of a Service, `spec.clusterIPs`.
    pub fn has_cluster_ips(&self) -> bool {
        self.objects.iter().any(|(kind, _)| *kind == Kind::Service)
    }

    /// Returns the labels `H` and `C`. They are empty if the endpoint has none.
    #[inline]
    pub fn labels(&self) -> [&str; 2] {
        [
            self.hostname.as_ref().map_or("", Hostname::as_str),
            self.cluster.as_ref().map_or("", ClusterName::as_str),
        ]
    }

    /// Returns the name of the endpoint as the subject of a sentence.
    pub(super) fn describe(&self) -> String {
        match (&self.hostname, &self.cluster) {
            (Some(hostname), Some(cluster)) => format!("'{hostname}' of cluster '{cluster}'"),
            (_, Some(cluster)) => format!("the cluster IP of cluster '{cluster}'"),
            (_, None) => "the address of all clusters".to_owned(),
        }
    }
}
