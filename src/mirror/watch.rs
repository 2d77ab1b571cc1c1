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
    pub const ALL: [&str; 18] = [
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
}

/// The kinds of Kubernetes objects that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `v1 Service`.
    Service,
    /// `discovery.k8s.io/v1 EndpointSlice`.
    EndpointSlice,
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
    pub const ALL: [Self; 8] = [
        Self::MirrorServices,
        Self::LocalServices,
        Self::MirrorSlices,
        Self::LocalSlices,
        Self::ForeignSlices,
        Self::ExportedServices,
        Self::ExportedSlices,
        Self::PolicyServices,
    ];

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
            Self::MirrorSlices | Self::LocalSlices | Self::ForeignSlices | Self::ExportedSlices => {
                Kind::EndpointSlice
            }
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
        }
    }

    fn requirements(self) -> &'static [Requirement] {
        match self {
            Self::MirrorServices => &[Equals(key::MIRRORED_SERVICE, "true")],
            Self::LocalServices => &[Absent(key::MIRRORED_SERVICE)],
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
            Self::ExportedServices => &[Exists(key::EXPORTED), Absent(key::MIRRORED_SERVICE)],
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
            ],
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
            | Self::ExportedSlices => None,
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
            | Self::ExportedSlices => true,
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
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn watches_have_the_expected_selectors() {
        assert_eq!(
            Watch::MirrorServices.label_selector(),
            "mirror.linkerd.io/mirrored-service=true"
        );
        assert_eq!(
            Watch::LocalServices.label_selector(),
            "!mirror.linkerd.io/mirrored-service"
        );
        assert_eq!(
            Watch::LocalServices.field_selector(),
            Some("spec.clusterIP=None")
        );
        assert_eq!(
            Watch::MirrorSlices.label_selector(),
            "mirror.linkerd.io/mirrored-service=true"
        );
        assert_eq!(
            Watch::LocalSlices.label_selector(),
            "service.kubernetes.io/headless,!mirror.linkerd.io/mirrored-service,\
             !multicluster.kubernetes.io/service-name,!multicluster.kubernetes.io/source-cluster,\
             endpointslice.kubernetes.io/managed-by!=endpointslice-mesh-controller.cilium.io"
        );
        assert_eq!(
            Watch::ForeignSlices.label_selector(),
            "!service.kubernetes.io/headless,!mirror.linkerd.io/mirrored-service,\
             !multicluster.kubernetes.io/service-name,!multicluster.kubernetes.io/source-cluster,\
             endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io,\
             endpointslice.kubernetes.io/managed-by!=endpointslice-mesh-controller.cilium.io"
        );
    }

    #[test]
    fn no_object_is_selected_by_two_watches() {
        let switches = [
            key::EXPORTED,
            key::POLICY,
            key::MIRRORED_SERVICE,
            key::HEADLESS_MIRROR,
            key::HEADLESS,
            key::MCS_SERVICE,
            key::SOURCE_CLUSTER,
        ]
        .map(|k| (k, ["", "true"]));
        let managers = (
            key::MANAGED_BY,
            [controller::KUBERNETES, controller::CILIUM_MESH],
        );
        let switches = [&switches[..], &[managers]].concat();
        for bits in 0..1 << (2 * switches.len()) {
            let mut labels = serde_json::Map::new();
            for (i, (name, values)) in switches.iter().enumerate() {
                if bits >> (2 * i) & 1 == 1 {
                    labels.insert((*name).to_owned(), json!(values[bits >> (2 * i + 1) & 1]));
                }
            }
            let address = ["None", "10.96.0.1"][bits & 1];
            let object = json!({"metadata": {"labels": labels}, "spec": {"clusterIP": address}});
            let object = object.to_string();
            let object = KubeObject::read(&object);
            for kind in [Kind::Service, Kind::EndpointSlice] {
                let selected = Watch::ALL
                    .into_iter()
                    .filter(|w| w.kind() == kind && w.selects(&object))
                    .count();
                assert!(
                    selected <= 1,
                    "{object:?} is selected by {selected} watches"
                );
            }
        }
    }
}
