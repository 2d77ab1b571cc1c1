//! The five watches, as data: which objects the API server is asked for, and the same question asked of an object.
//!
//! The watches are disjoint, and each is filtered by the server. One table of requirements makes both the selector
//! that is sent and the predicate [`Watch::selects`], so the file source, the recordings and the fallback for old API
//! servers can never see other objects than a live watch does.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::KubeObject;

/// Labels and annotations that we read, and nothing else.
pub mod key {
    /// `true` on every mirrored object.
    pub const MIRRORED_SERVICE: &str = "mirror.linkerd.io/mirrored-service";
    /// Cluster name of a Link; on all mirrors except federated ones.
    pub const CLUSTER_NAME: &str = "mirror.linkerd.io/cluster-name";
    /// Name of the headless mirror; on endpoint mirrors and their slices.
    pub const HEADLESS_MIRROR: &str = "mirror.linkerd.io/headless-mirror-svc-name";
    /// Fully qualified name of the remote Service or endpoint (annotation).
    pub const REMOTE_FQ_NAME: &str = "mirror.linkerd.io/remote-svc-fq-name";
    /// `true` on a Service that is exported through a gateway.
    pub const EXPORTED: &str = "mirror.linkerd.io/exported";
    /// On flat mirrors (label) and federated services (annotation).
    pub const REMOTE_DISCOVERY: &str = "multicluster.linkerd.io/remote-discovery";
    /// On slices that belong to a headless Service with a selector.
    pub const HEADLESS: &str = "service.kubernetes.io/headless";
    /// Name of the Service that a slice belongs to.
    pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
    /// Controller that writes a slice.
    pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    /// On slices of the Multi-Cluster Services API (KEP-1645): the service that they belong to, in every cluster.
    pub const MCS_SERVICE: &str = "multicluster.kubernetes.io/service-name";
    /// On slices of the Multi-Cluster Services API, and of Cilium's cluster mesh: the cluster whose endpoints they list.
    pub const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";
    /// Our annotation: TTL of the service's records, in seconds.
    pub const TTL: &str = "global-dns/ttl";
    /// Our annotation: what becomes of endpoints whose gateway is down.
    pub const GATEWAY_DOWN: &str = "global-dns/gateway-down";

    /// All of them.
    pub const ALL: [&str; 13] = [
        MIRRORED_SERVICE,
        CLUSTER_NAME,
        HEADLESS_MIRROR,
        REMOTE_FQ_NAME,
        EXPORTED,
        REMOTE_DISCOVERY,
        HEADLESS,
        SERVICE_NAME,
        MANAGED_BY,
        MCS_SERVICE,
        SOURCE_CLUSTER,
        TTL,
        GATEWAY_DOWN,
    ];
}

/// Controllers that write slices, by their label [`key::MANAGED_BY`].
pub mod controller {
    /// Kubernetes' own, for Services with a selector.
    pub const KUBERNETES: &str = "endpointslice-controller.k8s.io";
    /// Cilium's cluster mesh: endpoints of other clusters, in slices of a Service of this one, with its labels.
    pub const CILIUM_MESH: &str = "endpointslice-mesh-controller.cilium.io";
}

/// The kinds of Kubernetes objects that we read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `v1 Service`.
    Service,
    /// `discovery.k8s.io/v1 EndpointSlice`.
    EndpointSlice,
}

/// One connection to the API server. Inputs are kept per watch: an object whose labels change leaves one watch and
/// appears on another, in either order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Watch {
    /// Services that Linkerd mirrored.
    MirrorServices,
    /// Headless Services of this cluster.
    LocalServices,
    /// Slices of mirrors: gateway liveness, and which hosts a headless mirror lists.
    MirrorSlices,
    /// Slices of headless Services with a selector, but for those that list endpoints of other clusters.
    LocalSlices,
    /// Slices that neither Kubernetes' own EndpointSlice controller manages nor Linkerd mirrored: of headless Services
    /// without a selector, which lack the headless label. Those that list endpoints of other clusters are left out.
    ForeignSlices,
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
    pub const ALL: [Self; 5] = [
        Self::MirrorServices,
        Self::LocalServices,
        Self::MirrorSlices,
        Self::LocalSlices,
        Self::ForeignSlices,
    ];

    /// Returns the watch that selects `object`, if any does; no two do.
    pub fn of(kind: Kind, object: &KubeObject<'_>) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|watch| watch.kind() == kind && watch.selects(object))
    }

    /// Returns what kind of objects the watch is for.
    pub fn kind(self) -> Kind {
        match self {
            Self::MirrorServices | Self::LocalServices => Kind::Service,
            Self::MirrorSlices | Self::LocalSlices | Self::ForeignSlices => Kind::EndpointSlice,
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

    /// Returns the `fieldSelector` of the watch's requests. API servers before Kubernetes 1.31 refuse it.
    pub fn field_selector(self) -> Option<&'static str> {
        match self {
            Self::LocalServices => Some("spec.clusterIP=None"),
            Self::MirrorServices | Self::MirrorSlices | Self::LocalSlices | Self::ForeignSlices => {
                None
            }
        }
    }

    /// Tells whether the watch's selectors match `object`.
    pub fn selects(self, object: &KubeObject<'_>) -> bool {
        let mut requirements = self.requirements().iter();
        requirements.all(|requirement| requirement.is_met_by(object))
            && (self.field_selector().is_none() || object.is_headless())
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
    fn selectors_are_what_the_design_asks_of_the_api_server() {
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
    fn no_object_is_selected_twice() {
        let switches = [
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
            let object = json!({"metadata": {"labels": labels}, "spec": {"clusterIP": "None"}});
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
