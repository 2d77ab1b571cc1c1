//! Objects as the readers return them, and items: the objects that define services. They are Services that Linkerd mirrored, and
//! Services of this cluster.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::{
    ClusterName, Few, Hostname, Ports, Problem, ServiceName, ServiceSettings, Slice, Text,
};

/// A Kubernetes object, reduced to the fields that this server uses. Items are boxed, because there may be some hundred
/// thousand objects and slices are smaller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A Service.
    Item(Box<Item>),
    /// An EndpointSlice.
    Slice(Slice),
    /// A Service of this cluster without settings, which matters only because it exists (rule K6).
    Plain,
    /// A Link. There are few, so that it is boxed.
    Link(Box<Link>),
    /// An object that cannot or must not be used (rule M9).
    Skipped(Arc<Problem>),
}

/// A Link, reduced to what it says about its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// `spec.targetClusterName`.
    pub cluster: ClusterName,
    /// `spec.targetClusterDomain`, below which the cluster has its own names, such as `cluster.local`.
    pub domain: Text,
}

/// A Service, reduced to the fields that this server uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What the object stands for.
    pub kind: ItemKind,
    /// The name of the service that it belongs to, in the namespace of the object (rule M1).
    pub service: ServiceName,
    /// The clusters of the links that it comes from, before aliases, sorted, each once: that of label
    /// `mirror.linkerd.io/cluster-name`; of a federated service, those of its members.
    pub linked: Few<ClusterName>,
    /// Whether it covers this cluster.
    pub has_own: bool,
    /// The remote endpoint of an [`ItemKind::EndpointMirror`].
    pub host: Option<MirroredHost>,
    /// `spec.clusterIPs`. Empty if the Service is headless.
    pub addresses: Few<IpAddr>,
    /// `spec.ports`, which clients in other clusters use. Empty if the mirror is headless.
    pub ports: Ports,
    /// Annotations of this server, or that look like one. Most objects have none, so those that have some keep them in a box.
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
}

/// What the endpoints of a Service of this cluster are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnForm {
    /// Pods: `clusterIP: None`.
    Headless {
        /// Whether `spec.selector` selects pods. Otherwise somebody writes its slices, or it only has settings.
        has_selector: bool,
    },
    /// Its cluster IPs. Without one, such as of type `ExternalName`, it only has settings.
    ClusterIp,
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
    /// A headless Service is a member of a federated service (label `mirror.linkerd.io/federated`), which only one with a cluster IP can
    /// be.
    Federated,
    /// Almost one of the values, such as `True`.
    Misspelt,
    /// Another value. By default, no Link selects it. A Link with a custom selector may.
    Other,
}

// === impl Object ===

impl Object {
    /// Returns the item, if the object is one.
    pub fn item(&self) -> Option<&Item> {
        match self {
            Self::Item(item) => Some(item),
            Self::Slice(_) | Self::Plain | Self::Link(_) | Self::Skipped(_) => None,
        }
    }

    /// Returns the name of the service that the object belongs to. Slices have that of their owner.
    pub fn service(&self) -> Option<&ServiceName> {
        Some(&self.item()?.service)
    }

    /// Returns the name of the Service that owns the object, if it is a slice.
    pub fn owner(&self) -> Option<&Text> {
        Some(self.slice()?.owner())
    }

    /// Returns the slice, if the object is one.
    pub fn slice(&self) -> Option<&Slice> {
        match self {
            Self::Slice(slice) => Some(slice),
            Self::Item(_) | Self::Plain | Self::Link(_) | Self::Skipped(_) => None,
        }
    }
}

impl From<Item> for Object {
    fn from(item: Item) -> Self {
        Self::Item(Box::new(item))
    }
}

// === impl Item ===

impl Item {
    /// Makes an item without links, addresses, ports or settings.
    pub(super) fn new(kind: ItemKind, service: ServiceName) -> Self {
        Self {
            kind,
            service,
            linked: Few::default(),
            has_own: false,
            host: None,
            addresses: Few::default(),
            ports: Ports::interned([]),
            settings: None,
            created: None,
        }
    }

    /// Returns the cluster of the link of a mirror, before aliases. A federated service has no single one.
    pub fn link(&self) -> Option<&ClusterName> {
        let is_of_one = self.kind != ItemKind::Federated;
        self.linked.first().filter(|_| is_of_one)
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
    /// Returns why no Link mirrors a headless Service by default, if none does.
    pub fn defect(self) -> Option<&'static str> {
        match self {
            Self::Gateway => None,
            Self::No => Some("its Service is not exported"),
            Self::RemoteDiscovery => Some(
                "label mirror.linkerd.io/exported of its Service is remote-discovery, which Linkerd does not read for a headless one: set true",
            ),
            Self::Federated => Some(
                "label mirror.linkerd.io/federated of its Service has no effect on a headless one, for which Linkerd reads \
                mirror.linkerd.io/exported: true",
            ),
            Self::Misspelt => Some(
                "label mirror.linkerd.io/exported of its Service is almost true or remote-discovery: Linkerd reads exactly these",
            ),
            Self::Other => Some("label mirror.linkerd.io/exported of its Service is not 'true'"),
        }
    }

    /// Returns whether Links select the Service by default, as a Service with a cluster IP.
    pub fn is_any(self) -> bool {
        matches!(self, Self::Gateway | Self::RemoteDiscovery)
    }
}
