//! The endpoints of the table.

use std::net::IpAddr;

use smallvec::SmallVec;
use strum::{Display, IntoStaticStr, VariantArray};

use crate::model::{
    ClusterName, Few, Hostname, Item, ObjectKey, ObjectRef, Ports, ProblemKind, ServiceKey,
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
    /// Which names it answers.
    pub role: Role,
    /// The source objects of the endpoint, sorted. Those of an alias are in the namespaces of its sources.
    pub objects: Few<ObjectRef>,
}

/// Which names the endpoints of a candidate answer, most names first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The name of the service and those of its cluster.
    Answers,
    /// Those of its cluster. Another step of the order answers the name of the service (rule K5).
    Standby,
    /// Those of its cluster. A better candidate answers the name of the service (rule K1).
    ClusterOnly,
    /// None. No endpoint of a table has this.
    Omitted,
}

/// An item with the key of its object.
#[derive(Clone, Copy)]
pub struct Source<'s> {
    /// The key.
    pub object: &'s ObjectKey,
    /// The item.
    pub item: &'s Item,
}

impl Source<'_> {
    /// Returns the service that the item belongs to.
    pub(super) fn service(&self) -> ServiceKey {
        self.object.service(&self.item.service)
    }
}

/// Whether connections to an endpoint can succeed, the best state first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointLiveness {
    /// A gateway is up (rule M3), a cluster IP has a ready endpoint, or a pod of this cluster is ready.
    Alive,
    /// The gateway of its cluster is down.
    GatewayDown,
    /// Nothing is ready behind the cluster IP.
    NotReady,
    /// The pod of this cluster is not ready. It is never returned.
    PodNotReady,
    /// No Link names its cluster, so that nobody maintains its mirror (rule L3).
    Unlinked,
}

/// An address of an endpoint. An RRset contains each record once (RFC 2181 section 5). Endpoints that are alive come first, so that the
/// omission of the others never loses an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// IPv4 or IPv6.
    pub ip: IpAddr,
    /// Whether an earlier endpoint has it at the name of the service. Only selected endpoints count.
    pub repeats_in_service: bool,
    /// Whether an earlier endpoint has it at the name of the cluster.
    pub repeats_in_cluster: bool,
}

/// Returns the distinct addresses of an endpoint, sorted.
pub(super) fn distinct(ips: impl IntoIterator<Item = IpAddr>) -> Few<Address> {
    let ips = ips.into_iter();
    let mut addresses: SmallVec<[Address; 2]> = ips
        .map(|ip| Address {
            ip,
            repeats_in_service: false,
            repeats_in_cluster: false,
        })
        .collect();
    addresses.sort_unstable_by_key(|address| address.ip);
    addresses.dedup_by_key(|address| address.ip);
    addresses.into_iter().collect()
}

// === impl EndpointLiveness ===

impl EndpointLiveness {
    /// Returns the kind of the problem that endpoints are not alive. That of an unlinked one is the problem of its cluster.
    pub fn problem(self) -> Option<ProblemKind> {
        match self {
            Self::Alive => None,
            Self::GatewayDown => Some(ProblemKind::GatewayDown),
            Self::NotReady => Some(ProblemKind::ServiceNotReady),
            Self::PodNotReady => Some(ProblemKind::PodNotReady),
            Self::Unlinked => Some(ProblemKind::Unlinked),
        }
    }
}

// === impl Endpoint ===

impl Endpoint {
    /// Makes the endpoint of the addresses of an item. It is selected and alive, and belongs to no cluster.
    pub(super) fn of_item(source: Source<'_>, kind: ServiceKind) -> Self {
        Self {
            cluster: None,
            hostname: None,
            addresses: distinct(source.item.addresses.iter().copied()),
            ports: source.item.ports.clone(),
            liveness: EndpointLiveness::Alive,
            kind,
            role: Role::Answers,
            objects: Few::One(ObjectRef::service(source.object)),
        }
    }

    /// Returns its name within its service: its cluster and hostname. Endpoints are sorted by it.
    pub fn name(&self) -> (&Option<ClusterName>, &Option<Hostname>) {
        (&self.cluster, &self.hostname)
    }

    /// Returns whether it is one of `S.N.Z`.
    pub fn is_selected(&self) -> bool {
        self.role == Role::Answers
    }

    /// Returns whether it is a pod or a Service of this cluster.
    pub fn is_local(&self) -> bool {
        self.kind == ServiceKind::Local
    }

    /// Returns whether it is alive as long as its mirror exists, because the mesh finds the pods itself.
    pub(super) fn is_always_alive(&self) -> bool {
        matches!(self.kind, ServiceKind::Flat | ServiceKind::Federated)
    }

    /// Returns whether connections can succeed.
    pub fn is_alive(&self) -> bool {
        self.liveness == EndpointLiveness::Alive
    }

    /// Returns the labels `H` and `C`. They are empty if the endpoint has none.
    #[inline]
    pub fn labels(&self) -> [&str; 2] {
        [
            self.hostname.as_ref().map_or("", Hostname::as_str),
            self.cluster.as_ref().map_or("", ClusterName::as_str),
        ]
    }

    /// Returns whether another endpoint has the same name, ports and addresses.
    pub(super) fn has_same_data(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|one| one.addresses.iter().map(|address| address.ip));
        self.labels() == other.labels() && self.ports == other.ports && own.eq(others)
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

/// A host that a headless mirror lists, of a cluster that is neither excluded nor unlinked, without a usable endpoint mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingHost {
    /// The cluster of the host, after aliases.
    pub cluster: ClusterName,
    /// Its hostname.
    pub hostname: Hostname,
    /// The address in the list. It may belong to another Service now.
    pub address: Option<IpAddr>,
    /// The endpoint mirror that Linkerd should have made.
    pub expected: ObjectKey,
}

// === impl MissingHost ===

impl MissingHost {
    /// Returns the labels `H` and `C`.
    pub(super) fn labels(&self) -> [&str; 2] {
        [self.hostname.as_str(), self.cluster.as_str()]
    }

    /// Returns the reason for which its name fails, as part of a sentence, and for clients (RFC 8914, EXTRA-TEXT).
    pub fn reason(&self) -> String {
        format!("endpoint mirror {} is missing", self.expected.name)
    }
}

/// The way in which a service of the clusters reaches this cluster. The documentation of [`table`](super) describes
/// each kind. Kinds that are united have the first of their kinds in this order.
#[derive(Display, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceKind {
    /// Headless mirrors, with one endpoint for each remote pod.
    Headless,
    /// A federated service, with one address for all its clusters.
    Federated,
    /// Mirrors with a cluster IP. Connections pass through the gateway of the other cluster.
    Gateway,
    /// Mirrors with a cluster IP in a flat network. Connections go directly to the pods.
    Flat,
    /// Services of this cluster.
    #[default]
    Local,
}

/// The rank of what a kind offers, the best first. Each cluster is answered by its best candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Pods: of headless mirrors, and of the Service of this cluster.
    Headless,
    /// Federated services.
    Federated,
    /// Mirrors with a cluster IP, and the Service of this cluster with a cluster IP.
    ClusterIp,
}
