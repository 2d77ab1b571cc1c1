//! Defines the watches: the selectors for the API server, and the same selection for a single object.
//!
//! Each watch is one row of `ROWS`. The watches are disjoint. Slices change often, so the API server filters them: one list
//! of requirements gives both the selector in requests and the predicate [`Watch::selects`]. Services change rarely, so
//! one watch has all of them. Most belong to this cluster and have no setting; only the time of their creation is kept. An
//! object therefore has one copy, whatever happens to its labels. The file source and the recordings select the same objects as a watch.

use std::fmt;

use super::keys::Kind;
use super::{KubeObject, key, linkerd, local};

/// Controllers of slices, by the value of label [`key::MANAGED_BY`].
pub mod controller {
    /// The controller of Kubernetes, for Services with a selector.
    pub const KUBERNETES: &str = "endpointslice-controller.k8s.io";
    /// The controller of Cilium Cluster Mesh. It writes endpoints of other clusters to slices of a Service of this
    /// cluster.
    pub const CILIUM_MESH: &str = "endpointslice-mesh-controller.cilium.io";
}

/// The versions of Links that are read, the newest first. Their names and their clusters are the same.
pub const LINK_VERSIONS: [&str; 3] = [
    "multicluster.linkerd.io/v1alpha3",
    "multicluster.linkerd.io/v1alpha2",
    "multicluster.linkerd.io/v1alpha1",
];

/// A watch on the API server. Objects are kept for each watch: if the labels of a slice change, it leaves one watch and
/// appears on another, in either order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watch {
    /// Services that Linkerd mirrored, and Services of this cluster. A mirror that also belongs to the Multi-Cluster Services
    /// API is skipped.
    Services,
    /// Slices of mirrors, with the liveness of gateways and the hosts of headless mirrors.
    MirrorSlices,
    /// Slices of headless Services with a selector, except those with endpoints of other clusters.
    LocalSlices,
    /// Slices of headless Services without a selector, except those with endpoints of other clusters. They have no
    /// headless label. Neither the EndpointSlice controller of Kubernetes nor Linkerd manages them.
    ForeignSlices,
    /// Slices of exported Services with a cluster IP and a selector. Kubernetes copies the labels of a Service to its
    /// slices.
    ExportedSlices,
    /// Links, in the namespaces of `links.namespaces` (rule L1). A table does not need them.
    Links,
}

/// The row of a watch.
struct WatchRow {
    watch: Watch,
    /// Its name in logs and `/readyz`: the resource and the selector in words.
    name: &'static str,
    /// The kind of its objects.
    kind: Kind,
    /// The terms of its label selector.
    labels: &'static [Requirement],
    /// Whether a table needs its objects.
    is_needed: bool,
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

/// The watches, in the order of their discriminants.
static ROWS: [WatchRow; 6] = [
    WatchRow {
        watch: Watch::Services,
        name: "Services",
        kind: Kind::Service,
        labels: &[],
        is_needed: true,
    },
    WatchRow {
        watch: Watch::MirrorSlices,
        name: "EndpointSlices of mirrors",
        kind: Kind::EndpointSlice,
        labels: &[
            Equals(key::MIRRORED_SERVICE, "true"),
            Absent(key::MCS_SERVICE),
        ],
        is_needed: true,
    },
    WatchRow {
        watch: Watch::LocalSlices,
        name: "EndpointSlices of headless Services",
        kind: Kind::EndpointSlice,
        labels: &[
            Exists(key::HEADLESS),
            Absent(key::MIRRORED_SERVICE),
            Absent(key::MCS_SERVICE),
            Absent(key::SOURCE_CLUSTER),
            Differs(key::MANAGED_BY, controller::CILIUM_MESH),
        ],
        is_needed: true,
    },
    WatchRow {
        watch: Watch::ForeignSlices,
        name: "EndpointSlices of other controllers",
        kind: Kind::EndpointSlice,
        labels: &[
            Absent(key::HEADLESS),
            Absent(key::MIRRORED_SERVICE),
            Absent(key::MCS_SERVICE),
            Absent(key::SOURCE_CLUSTER),
            Differs(key::MANAGED_BY, controller::KUBERNETES),
            Differs(key::MANAGED_BY, controller::CILIUM_MESH),
        ],
        is_needed: true,
    },
    WatchRow {
        watch: Watch::ExportedSlices,
        name: "EndpointSlices of exported Services",
        kind: Kind::EndpointSlice,
        labels: &[
            Exists(key::EXPORTED),
            Absent(key::HEADLESS),
            Absent(key::MIRRORED_SERVICE),
            Absent(key::MCS_SERVICE),
            Absent(key::SOURCE_CLUSTER),
            Equals(key::MANAGED_BY, controller::KUBERNETES),
        ],
        is_needed: true,
    },
    WatchRow {
        watch: Watch::Links,
        name: "Links",
        kind: Kind::Link,
        labels: &[],
        is_needed: false,
    },
];

// === impl Watch ===

impl Watch {
    /// Every watch, in the order of their discriminants.
    pub const ALL: [Self; ROWS.len()] = {
        let mut all = [Self::Services; ROWS.len()];
        let mut index = 0;
        while index < ROWS.len() {
            all[index] = ROWS[index].watch;
            assert!(all[index] as usize == index, "rows are in another order");
            index += 1;
        }
        all
    };

    fn row(self) -> &'static WatchRow {
        &ROWS[self as usize]
    }

    /// Returns the watches that a table needs.
    pub fn needed() -> impl Iterator<Item = Self> + Clone {
        Self::ALL.into_iter().filter(|watch| watch.is_needed())
    }

    /// Returns whether a table needs the objects of the watch. Without Links, the states of clusters are unknown, and answers
    /// do not depend on them.
    pub fn is_needed(self) -> bool {
        self.row().is_needed
    }

    /// Returns the watch that selects `object`. At most one does.
    pub fn for_object(kind: Kind, object: &KubeObject<'_>) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|watch| watch.kind() == kind && watch.selects(object))
    }

    /// Returns the kind of the watch's objects.
    pub fn kind(self) -> Kind {
        self.row().kind
    }

    /// Returns the watch's name in logs and `/readyz`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the `labelSelector` of the watch's requests.
    pub fn label_selector(self) -> String {
        let terms: Vec<String> = self.row().labels.iter().map(ToString::to_string).collect();
        terms.join(",")
    }

    /// Returns whether the watch has `object` and it matters.
    pub fn selects(self, object: &KubeObject<'_>) -> bool {
        let mut labels = self.row().labels.iter();
        labels.all(|requirement| requirement.is_met_by(object))
            && (self != Self::Services || linkerd::is_mirror(object) || local::is_own(object))
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

#[cfg(test)]
mod tests;
