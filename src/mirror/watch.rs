//! Defines the watches: the selectors for the API server, and the same selection for a single object.
//!
//! The watches are disjoint, and the API server filters each of them. One list of requirements gives both the selector
//! in requests and the predicate [`Watch::selects`]. The file source, the recordings, and the fallback for old API
//! servers therefore select the same objects as a watch.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::KubeObject;

/// The labels and annotations that are read.
pub mod key {
    /// `true` on every mirrored object.
    pub const MIRRORED_SERVICE: &str = "mirror.linkerd.io/mirrored-service";
    /// Cluster name of a Link, on all mirrors except federated services.
    pub const CLUSTER_NAME: &str = "mirror.linkerd.io/cluster-name";
    /// Name of the headless mirror, on endpoint mirrors and their slices.
    pub const HEADLESS_MIRROR: &str = "mirror.linkerd.io/headless-mirror-svc-name";
    /// Fully qualified name of the remote Service or endpoint (annotation).
    pub const REMOTE_FQ_NAME: &str = "mirror.linkerd.io/remote-svc-fq-name";
    /// Value of a Service that is exported: `true` (through a gateway) or `remote-discovery` (in a flat network).
    pub const EXPORTED: &str = "mirror.linkerd.io/exported";
    /// Cluster of a flat mirror (label); members of a federated service in other clusters (annotation).
    pub const REMOTE_DISCOVERY: &str = "multicluster.linkerd.io/remote-discovery";
    /// Name of the exported Service, on flat mirrors.
    pub const REMOTE_SERVICE: &str = "multicluster.linkerd.io/remote-service";
    /// Member of a federated service in this cluster (annotation).
    pub const LOCAL_DISCOVERY: &str = "multicluster.linkerd.io/local-discovery";
    /// Present on slices of headless Services with a selector.
    pub const HEADLESS: &str = "service.kubernetes.io/headless";
    /// Name of the Service of a slice.
    pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
    /// Controller that manages a slice.
    pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    /// Name of the service of a slice of the Multi-Cluster Services API (KEP-1645).
    pub const MCS_SERVICE: &str = "multicluster.kubernetes.io/service-name";
    /// Cluster of the endpoints in a slice of the Multi-Cluster Services API or of Cilium Cluster Mesh.
    pub const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";
    /// Namespace of the exported Service, on slices of Submariner. As label or annotation of a ServiceImport, it marks one
    /// that Submariner keeps for its own use.
    pub const SUBMARINER_NAMESPACE: &str = "lighthouse.submariner.io/sourceNamespace";
    /// `true` on slices of Submariner for a Service with `publishNotReadyAddresses` (annotation).
    pub const PUBLISH_NOT_READY: &str = "lighthouse.submariner.io/publish-not-ready-addresses";
    /// Annotation of this server: TTL of the service's records, in seconds.
    pub const TTL: &str = "global-dns/ttl";
    /// Annotation of this server: treatment of endpoints with a gateway that is down.
    pub const GATEWAY_DOWN: &str = "global-dns/gateway-down";
    /// Annotation of this server on a Service of this cluster: its failover order.
    pub const FAILOVER: &str = "global-dns/failover";
    /// Annotation of this server on a Service of this cluster: the clusters that its name waits for.
    pub const EXPECTED_CLUSTERS: &str = "global-dns/expected-clusters";
    /// `true` on a Service of this cluster that is read for its annotations only.
    pub const POLICY: &str = "global-dns/policy";

    /// All labels and annotations.
    pub const ALL: [&str; 20] = [
        MIRRORED_SERVICE,
        CLUSTER_NAME,
        HEADLESS_MIRROR,
        REMOTE_FQ_NAME,
        EXPORTED,
        REMOTE_DISCOVERY,
        REMOTE_SERVICE,
        LOCAL_DISCOVERY,
        HEADLESS,
        SERVICE_NAME,
        MANAGED_BY,
        MCS_SERVICE,
        SOURCE_CLUSTER,
        SUBMARINER_NAMESPACE,
        PUBLISH_NOT_READY,
        TTL,
        GATEWAY_DOWN,
        FAILOVER,
        EXPECTED_CLUSTERS,
        POLICY,
    ];
}

/// Controllers of slices, by the value of label [`key::MANAGED_BY`].
pub mod controller {
    /// The controller of Kubernetes, for Services with a selector.
    pub const KUBERNETES: &str = "endpointslice-controller.k8s.io";
    /// The controller of Cilium Cluster Mesh. It writes endpoints of other clusters to slices of a Service of this
    /// cluster.
    pub const CILIUM_MESH: &str = "endpointslice-mesh-controller.cilium.io";
    /// Submariner's implementation of the Multi-Cluster Services API.
    pub const LIGHTHOUSE: &str = "lighthouse-agent.submariner.io";
}

/// The versions of the Multi-Cluster Services API that are read, the newest first. Their ServiceImports are the same.
pub const IMPORT_VERSIONS: [&str; 2] = [
    "multicluster.x-k8s.io/v1beta1",
    "multicluster.x-k8s.io/v1alpha1",
];

/// The kinds of Kubernetes objects that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `v1 Service`.
    Service,
    /// `discovery.k8s.io/v1 EndpointSlice`.
    EndpointSlice,
    /// `multicluster.x-k8s.io ServiceImport` (KEP-1645).
    ServiceImport,
}

/// A watch on the API server. Inputs are kept for each watch: if the labels of an object change, it leaves one watch
/// and appears on another, in either order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Watch {
    /// Services that Linkerd mirrored.
    MirrorServices,
    /// Headless Services of this cluster.
    LocalServices,
    /// Slices of mirrors, with the liveness of gateways and the hosts of headless mirrors.
    MirrorSlices,
    /// Slices of headless Services with a selector, except those with endpoints of other clusters.
    LocalSlices,
    /// Slices of headless Services without a selector, except those with endpoints of other clusters. They have no
    /// headless label. Neither the EndpointSlice controller of Kubernetes nor Linkerd manages them.
    ForeignSlices,
    /// Exported Services of this cluster with a cluster IP.
    ExportedServices,
    /// Slices of exported Services with a cluster IP and a selector. Kubernetes copies the labels of a Service to its
    /// slices.
    ExportedSlices,
    /// Services of this cluster with a cluster IP that are not exported and have label [`key::POLICY`].
    PolicyServices,
    /// ServiceImports of the Multi-Cluster Services API (`--mcs`).
    ServiceImports,
    /// Slices of ServiceImports (`--mcs`).
    ImportSlices,
}

/// Whether services of the Multi-Cluster Services API are read (`--mcs`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mcs {
    /// Their objects are not watched.
    #[default]
    Off,
    /// ServiceImports and their slices are watched.
    On,
}

/// One term of a label selector.
#[derive(Clone, Copy, Debug)]
enum Requirement {
    Exists(&'static str),
    Absent(&'static str),
    Equals(&'static str, &'static str),
    Differs(&'static str, &'static str),
}
use Requirement::{Absent, Differs, Equals, Exists};

// === impl Watch ===

impl Watch {
    /// Every watch, in the order of their discriminants.
    pub const ALL: [Self; 10] = [
        Self::MirrorServices,
        Self::LocalServices,
        Self::MirrorSlices,
        Self::LocalSlices,
        Self::ForeignSlices,
        Self::ExportedServices,
        Self::ExportedSlices,
        Self::PolicyServices,
        Self::ServiceImports,
        Self::ImportSlices,
    ];

    /// Returns the watches that a server opens.
    pub fn enabled(mcs: Mcs) -> impl Iterator<Item = Self> + Clone {
        let all = Self::ALL.into_iter();
        all.filter(move |watch| mcs == Mcs::On || !watch.needs_mcs())
    }

    /// Returns whether only a server with `--mcs` opens the watch.
    pub fn needs_mcs(self) -> bool {
        match self {
            Self::ServiceImports | Self::ImportSlices => true,
            Self::MirrorServices
            | Self::LocalServices
            | Self::MirrorSlices
            | Self::LocalSlices
            | Self::ForeignSlices
            | Self::ExportedServices
            | Self::ExportedSlices
            | Self::PolicyServices => false,
        }
    }

    /// Returns the watch that selects `object`. At most one does.
    pub fn for_object(kind: Kind, object: &KubeObject<'_>) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|watch| watch.kind() == kind && watch.selects(object))
    }

    /// Returns the kind of the watch's objects.
    pub fn kind(self) -> Kind {
        match self {
            Self::MirrorServices
            | Self::LocalServices
            | Self::ExportedServices
            | Self::PolicyServices => Kind::Service,
            Self::MirrorSlices
            | Self::LocalSlices
            | Self::ForeignSlices
            | Self::ExportedSlices
            | Self::ImportSlices => Kind::EndpointSlice,
            Self::ServiceImports => Kind::ServiceImport,
        }
    }

    /// Returns the watch's name in logs, metrics and `/readyz`.
    pub fn name(self) -> &'static str {
        match self {
            Self::MirrorServices => "mirror-services",
            Self::LocalServices => "local-services",
            Self::MirrorSlices => "mirror-slices",
            Self::LocalSlices => "local-slices",
            Self::ForeignSlices => "foreign-slices",
            Self::ExportedServices => "exported-services",
            Self::ExportedSlices => "exported-slices",
            Self::PolicyServices => "policy-services",
            Self::ServiceImports => "service-imports",
            Self::ImportSlices => "import-slices",
        }
    }

    fn requirements(self) -> &'static [Requirement] {
        match self {
            Self::MirrorServices => &[Equals(key::MIRRORED_SERVICE, "true")],
            // An implementation of the Multi-Cluster Services API may make a Service for each ServiceImport (Cilium), with
            // labels of the exported Service.
            Self::LocalServices => &[Absent(key::MIRRORED_SERVICE), Absent(key::MCS_SERVICE)],
            Self::MirrorSlices => &[Equals(key::MIRRORED_SERVICE, "true")],
            Self::LocalSlices => &[
                Exists(key::HEADLESS),
                Absent(key::MIRRORED_SERVICE),
                Absent(key::MCS_SERVICE),
                Absent(key::SOURCE_CLUSTER),
                Differs(key::MANAGED_BY, controller::CILIUM_MESH),
            ],
            Self::ForeignSlices => &[
                Absent(key::HEADLESS),
                Absent(key::MIRRORED_SERVICE),
                Absent(key::MCS_SERVICE),
                Absent(key::SOURCE_CLUSTER),
                Differs(key::MANAGED_BY, controller::KUBERNETES),
                Differs(key::MANAGED_BY, controller::CILIUM_MESH),
            ],
            Self::ExportedServices => &[
                Exists(key::EXPORTED),
                Absent(key::MIRRORED_SERVICE),
                Absent(key::MCS_SERVICE),
            ],
            Self::ExportedSlices => &[
                Exists(key::EXPORTED),
                Absent(key::HEADLESS),
                Absent(key::MIRRORED_SERVICE),
                Absent(key::MCS_SERVICE),
                Absent(key::SOURCE_CLUSTER),
                Equals(key::MANAGED_BY, controller::KUBERNETES),
            ],
            Self::PolicyServices => &[
                Equals(key::POLICY, "true"),
                Absent(key::EXPORTED),
                Absent(key::MIRRORED_SERVICE),
                Absent(key::MCS_SERVICE),
            ],
            Self::ServiceImports => &[],
            Self::ImportSlices => &[Exists(key::MCS_SERVICE), Absent(key::MIRRORED_SERVICE)],
        }
    }

    /// Returns the `labelSelector` of the watch's requests.
    pub fn label_selector(self) -> String {
        let terms: Vec<String> = self
            .requirements()
            .iter()
            .map(ToString::to_string)
            .collect();
        terms.join(",")
    }

    /// Returns the `fieldSelector` of the watch's requests. API servers before Kubernetes 1.31 reject it.
    pub fn field_selector(self) -> Option<&'static str> {
        match self {
            Self::LocalServices => Some("spec.clusterIP=None"),
            Self::ExportedServices | Self::PolicyServices => Some("spec.clusterIP!=None"),
            Self::MirrorServices
            | Self::MirrorSlices
            | Self::LocalSlices
            | Self::ForeignSlices
            | Self::ExportedSlices
            | Self::ServiceImports
            | Self::ImportSlices => None,
        }
    }

    /// Returns whether the watch's selectors match `object`.
    pub fn selects(self, object: &KubeObject<'_>) -> bool {
        let mut requirements = self.requirements().iter();
        requirements.all(|requirement| requirement.is_met_by(object))
            && self.is_field_met_by(object)
    }

    /// Returns whether the watch's field selector matches `object`.
    fn is_field_met_by(self, object: &KubeObject<'_>) -> bool {
        match self {
            Self::LocalServices => object.is_headless(),
            Self::ExportedServices | Self::PolicyServices => !object.is_headless(),
            Self::MirrorServices
            | Self::MirrorSlices
            | Self::LocalSlices
            | Self::ForeignSlices
            | Self::ExportedSlices
            | Self::ServiceImports
            | Self::ImportSlices => true,
        }
    }
}

impl fmt::Display for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// === impl Requirement ===

impl Requirement {
    fn is_met_by(self, object: &KubeObject<'_>) -> bool {
        match self {
            Exists(key) => object.label(key).is_some(),
            Absent(key) => object.label(key).is_none(),
            Equals(key, value) => object.label(key) == Some(value),
            Differs(key, value) => object.label(key) != Some(value),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exists(key) => f.write_str(key),
            Absent(key) => write!(f, "!{key}"),
            Equals(key, value) => write!(f, "{key}={value}"),
            Differs(key, value) => write!(f, "{key}!={value}"),
        }
    }
}

// === impl Kind ===

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::ServiceImport => "ServiceImport",
        })
    }
}

#[cfg(test)]
mod tests;
