//! The kinds of services.

use strum::{Display, IntoStaticStr, VariantArray};

use crate::model::{ClusterName, list_some};

/// The way in which a service of the clusters reaches this cluster. The documentation of [`table`](super) describes
/// each kind. Kinds that are united have the first of their kinds in this order.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
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

// === impl ServiceKind ===

impl ServiceKind {
    /// All kinds, for metrics that include zeros.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns the name of the kind in reports and metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Maximum number of clusters in one sentence. An annotation of 200 KB may name thousands.
const MAX_LISTED: usize = 30;

/// Lists names of clusters in a sentence.
pub fn list_clusters<'c>(clusters: impl Iterator<Item = &'c ClusterName>) -> String {
    list_some(clusters, MAX_LISTED)
}
