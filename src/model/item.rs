//! Items: the objects that define services. They are Services that Linkerd mirrored, and Services of this cluster.

use std::net::IpAddr;
use std::num::NonZeroU32;

use smallvec::SmallVec;

use super::{ClusterName, Hostname, Ports, ServiceKey, ServiceSettings, Text};

/// A Service, reduced to the fields that this server uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What the object stands for.
    pub kind: ItemKind,
    /// The service that it belongs to.
    pub service: ServiceKey,
    /// The clusters that it covers.
    pub clusters: Clusters,
    /// The remote endpoint of an [`ItemKind::EndpointMirror`].
    pub host: Option<MirroredHost>,
    /// `spec.clusterIPs`. Empty if the Service is headless.
    pub addresses: SmallVec<[IpAddr; 1]>,
    /// `spec.ports`, which clients in other clusters use. Empty if the mirror is headless.
    pub ports: Ports,
    /// Annotations of this server. Most objects have none, so those that have some keep them in a box.
    pub settings: Option<Box<ServiceSettings>>,
    /// `metadata.creationTimestamp` of a Service of this cluster, in Unix seconds.
    pub created: Option<NonZeroU32>,
}

/// What a Service stands for. The documentation of [`table`](crate::table) describes the kinds of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// The mirror of a headless Service of another cluster (`db-east`), with `clusterIP: None` (rule M2).
    HeadlessMirror,
    /// The mirror of one pod of a headless Service (`db-0-east`), with a cluster IP of its own (rule M1).
    EndpointMirror,
    /// The mirror of a whole Service of another cluster (`web-east`), with a cluster IP. Connections pass through the
    /// gateway of that cluster.
    GatewayMirror,
    /// As [`Self::GatewayMirror`], in a flat network. Connections go directly to the pods.
    FlatMirror,
    /// A Service that balances over the members of a federation (`web-federated`).
    Federated,
    /// A Service of this cluster (rule M5).
    Own(OwnService),
}

/// The clusters that an item covers, before aliases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clusters {
    /// This cluster.
    Own,
    /// The cluster of a link: label `mirror.linkerd.io/cluster-name`.
    Linked(ClusterName),
    /// The clusters of a federated service.
    Several(Box<FederatedClusters>),
}

/// Clusters that share one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FederatedClusters {
    /// Other clusters, sorted, each once.
    pub names: Box<[ClusterName]>,
    /// This cluster, without its name.
    pub has_own: bool,
}

/// The endpoint of another cluster that an endpoint mirror stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroredHost {
    /// Its hostname.
    pub hostname: Hostname,
    /// Label `mirror.linkerd.io/headless-mirror-svc-name`: the name of the headless mirror.
    pub parent: Text,
    /// The ports of its pod, each with the name of a port of the mirror. Those with a `targetPort` that is a name are omitted.
    pub pod_ports: Ports,
}

/// What a Service of this cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnService {
    /// How it is exported.
    pub export: Export,
    /// What its endpoints are.
    pub form: OwnForm,
    /// Whether it has an annotation of this server.
    pub has_settings: bool,
}

/// What the endpoints of a Service of this cluster are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnForm {
    /// Pods: `clusterIP: None`.
    Headless {
        /// Whether `spec.selector` selects pods. Otherwise somebody writes its slices, or it only has settings.
        has_selector: bool,
    },
    /// Its cluster IP.
    ClusterIp,
    /// None, such as those of type `ExternalName`. It only has settings.
    Other,
}

/// The value of label `mirror.linkerd.io/exported` on a Service of this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Export {
    /// The label is absent.
    No,
    /// `true`: exported through a gateway, the only way for a headless Service.
    Gateway,
    /// `remote-discovery`: for flat networks, without gateways.
    RemoteDiscovery,
    /// Another value. By default, no Link selects it. A Link with a custom selector may.
    Other,
}

// === impl Item ===

impl Item {
    /// Makes an item without addresses, ports and settings.
    pub(super) fn new(kind: ItemKind, service: ServiceKey, clusters: Clusters) -> Self {
        Self {
            kind,
            service,
            clusters,
            host: None,
            addresses: SmallVec::new(),
            ports: Ports::interned([]),
            settings: None,
            created: None,
        }
    }

    /// Returns the cluster of the link that made the item. Only mirrors of one cluster have one.
    pub fn link(&self) -> Option<&ClusterName> {
        match &self.clusters {
            Clusters::Linked(cluster) => Some(cluster),
            Clusters::Own | Clusters::Several(_) => None,
        }
    }

    /// Returns the clusters of all links that made the item: of a mirror one, of a federated service several.
    pub fn linked(&self) -> &[ClusterName] {
        match &self.clusters {
            Clusters::Linked(cluster) => std::slice::from_ref(cluster),
            Clusters::Several(set) => &set.names,
            Clusters::Own => &[],
        }
    }

    /// Returns whether it covers this cluster.
    pub fn has_own(&self) -> bool {
        match &self.clusters {
            Clusters::Own => true,
            Clusters::Several(set) => set.has_own,
            Clusters::Linked(_) => false,
        }
    }

    /// Returns what a Service of this cluster is.
    pub fn own(&self) -> Option<OwnService> {
        match self.kind {
            ItemKind::Own(own) => Some(own),
            _ => None,
        }
    }
}

// === impl OwnService ===

impl OwnService {
    /// Returns whether its endpoints are pods.
    pub fn is_headless(&self) -> bool {
        matches!(self.form, OwnForm::Headless { .. })
    }
}

// === impl Export ===

impl Export {
    /// Returns whether Links select the Service by default and mirror it through a gateway, which rule M5 requires.
    pub fn is_through_gateway(self) -> bool {
        self == Self::Gateway
    }

    /// Returns why no Link mirrors a headless Service by default, if none does.
    pub fn defect(self) -> Option<&'static str> {
        match self {
            Self::Gateway => None,
            Self::No => Some("its Service is not exported"),
            Self::RemoteDiscovery => Some(
                "its Service is exported as remote-discovery, which Linkerd does not support for headless Services",
            ),
            Self::Other => Some("label mirror.linkerd.io/exported of its Service is not 'true'"),
        }
    }

    /// Returns whether Links select the Service by default, as a Service with a cluster IP.
    pub fn is_any(self) -> bool {
        matches!(self, Self::Gateway | Self::RemoteDiscovery)
    }
}
