//! The endpoints of the table.

use std::collections::BTreeSet;
use std::net::IpAddr;

use smallvec::SmallVec;

use super::ServiceKind;
use super::kind::Rank;
use super::links::Links;
use crate::model::{
    ClusterName, Clusters, Few, Hostname, Item, Kind, Namespace, ObjectKey, ObjectName, ObjectRef,
    Ports, Text,
};

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The cluster of the endpoint, label `C`. `None` for the address of a federated service, which belongs
    /// to no single cluster.
    pub cluster: Option<ClusterName>,
    /// The name of the endpoint within its service and cluster, label `H`. `None` for a cluster IP of a whole Service.
    pub hostname: Option<Hostname>,
    /// Its addresses, sorted, each once.
    pub addresses: Few<Address>,
    /// Its ports, sorted by number, name and protocol.
    pub ports: Ports,
    /// Whether connections can succeed.
    pub liveness: EndpointLiveness,
    /// The kind of the objects that the endpoint comes from.
    pub kind: ServiceKind,
    /// Whether it belongs to this cluster: a pod or a Service of it.
    pub is_local: bool,
    /// Whether the endpoint is one of `S.N.Z`. The others have names of their cluster only (rules K1, K5).
    pub is_selected: bool,
    /// Whether another step of the failover order answers `S.N.Z` (rule K5).
    pub is_standby: bool,
    /// The service that it belongs to, of an alias: zero for the service itself, otherwise the position in
    /// [`Service::alias_of`](super::Service::alias_of), counted from one.
    pub alias_source: u8,
    /// The source objects of the endpoint. They are in the namespace of the service that it belongs to.
    pub objects: Few<(Kind, ObjectName)>,
}

/// Whether connections to an endpoint can succeed, the best state first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointLiveness {
    /// A gateway is up (rule M3), or a cluster IP has a ready endpoint. Pods of this cluster are always alive.
    Alive,
    /// The gateway of its cluster is down.
    GatewayDown,
    /// Nothing is ready behind the cluster IP.
    NotReady,
    /// No Link names its cluster, so that nobody maintains its mirror (rule L3).
    Unlinked,
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

/// An endpoint of one object, before endpoints of one name are merged.
pub(super) struct Draft {
    /// The endpoint.
    pub(super) endpoint: Endpoint,
    /// The source of the object: a link or this cluster.
    pub(super) source: Source,
    /// The rank of its kind, by which each cluster has its best candidates (rule K1).
    pub(super) rank: Rank,
    /// The clusters behind an address that belongs to no single cluster.
    pub(super) shared_by: BTreeSet<ClusterName>,
    /// The UID of a local endpoint's pod. One pod has one endpoint for each address family.
    pub(super) target: Option<Text>,
    /// Whether the endpoint is ready.
    pub(super) ready: bool,
}

/// The source of an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// This cluster.
    Local,
    /// A link.
    Link(ClusterName),
    /// A federation: the clusters of links in it, if it has no others.
    Federation(Box<[ClusterName]>),
}

/// Returns the distinct addresses of an endpoint, sorted.
pub(super) fn distinct(ips: impl IntoIterator<Item = IpAddr>) -> Few<Address> {
    let ips = ips.into_iter();
    let mut addresses: SmallVec<[Address; 1]> = ips
        .map(|ip| Address {
            ip,
            duplicate: Duplicate::default(),
        })
        .collect();
    addresses.sort_unstable_by_key(|address| address.ip);
    addresses.dedup_by_key(|address| address.ip);
    addresses.into_iter().collect()
}

// === impl Endpoint ===

impl Endpoint {
    /// Makes the endpoint of the addresses of an item. It is selected and alive, and belongs to no cluster.
    pub(super) fn of_item(object: &ObjectKey, item: &Item, kind: ServiceKind) -> Self {
        Self {
            cluster: None,
            hostname: None,
            addresses: distinct(item.addresses.iter().copied()),
            ports: item.ports.clone(),
            liveness: EndpointLiveness::Alive,
            kind,
            is_local: kind == ServiceKind::Local,
            is_selected: true,
            is_standby: false,
            alias_source: 0,
            objects: Few::one((Kind::Service, object.name.clone())),
        }
    }

    /// Returns its name within its service: its cluster and hostname. Endpoints of several services of an alias may have the
    /// same.
    pub(super) fn name(&self) -> (&Option<ClusterName>, &Option<Hostname>, u8) {
        (&self.cluster, &self.hostname, self.alias_source)
    }

    /// Returns whether connections can succeed.
    pub fn is_alive(&self) -> bool {
        self.liveness == EndpointLiveness::Alive
    }

    /// Returns references to the source objects of an endpoint. `namespace` is that of the service that it belongs to.
    pub(super) fn object_refs(&self, namespace: &Namespace) -> impl Iterator<Item = ObjectRef> {
        let namespace = namespace.text();
        self.objects.iter().map(move |(kind, name)| ObjectRef {
            kind: *kind,
            key: ObjectKey {
                namespace: namespace.clone(),
                name: name.clone(),
            },
        })
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

// === impl Draft ===

impl Draft {
    /// Makes the draft of a ready endpoint that is not a pod of this cluster.
    pub(super) fn ready(endpoint: Endpoint, source: Source, rank: Rank) -> Self {
        Self {
            endpoint,
            source,
            rank,
            shared_by: BTreeSet::new(),
            target: None,
            ready: true,
        }
    }

    /// Returns whether no Link names its cluster any more (rule L3).
    pub(super) fn is_unlinked(&self) -> bool {
        self.endpoint.liveness == EndpointLiveness::Unlinked
    }
}

// === impl Source ===

impl Source {
    /// Returns the source of an item.
    pub(super) fn of(item: &Item) -> Self {
        match &item.clusters {
            Clusters::Own => Self::Local,
            Clusters::Linked(link) => Self::Link(link.clone()),
            Clusters::Several(several) if several.has_own => Self::Federation(Box::default()),
            Clusters::Several(_) => Self::Federation(item.linked().into()),
        }
    }

    /// Returns the source as part of a sentence.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Local => "this cluster".to_owned(),
            Self::Link(link) => format!("link '{link}'"),
            Self::Federation(_) => "all clusters".to_owned(),
        }
    }

    /// Returns whether no Link names its clusters any more (rule L3).
    pub(super) fn is_unlinked(&self, links: &Links) -> bool {
        match self {
            Self::Link(link) => links.is_unlinked(link),
            Self::Federation(names) => {
                !names.is_empty() && names.iter().all(|name| links.is_unlinked(name))
            }
            Self::Local => false,
        }
    }
}
