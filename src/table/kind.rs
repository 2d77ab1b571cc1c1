//! The kinds of services, and the choice of the kind that answers `S.N.Z` (rule K1).

use std::collections::BTreeSet;
use std::fmt;

use super::merge::Draft;
use super::rules::Rules;
use super::{Conflict, ConflictKind};
use crate::mirror::{ClusterName, FederatedService, ServiceKey};

/// The way in which a service of the clusters reaches this cluster. The documentation of [`table`](super) describes
/// each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// The drafts of one service, by kind.
#[derive(Default)]
pub(super) struct Candidates {
    /// Endpoints of headless mirrors.
    pub(super) headless: Vec<Draft>,
    /// A headless mirror exists, with or without endpoints.
    pub(super) has_headless_mirror: bool,
    /// Federated services.
    pub(super) federated: Vec<Draft>,
    /// Mirrors with a cluster IP.
    pub(super) mirrors: Vec<Draft>,
    /// The Service of this cluster with a cluster IP.
    pub(super) local_service: Option<Draft>,
    /// Pods of the headless Service of this cluster.
    pub(super) local_pods: Vec<Draft>,
    /// The headless Service of this cluster is exported.
    pub(super) is_local_exported: bool,
}

/// The chosen kind, with the drafts of all endpoints that have a name.
pub(super) struct Chosen {
    /// The kind of the service.
    pub(super) kind: ServiceKind,
    /// The endpoints of `S.N.Z` are [selected](super::Endpoint::is_selected). The others have names of their cluster only.
    pub(super) drafts: Vec<Draft>,
}

// === impl ServiceKind ===

impl ServiceKind {
    /// All kinds, for metrics that include zeros.
    pub const ALL: [Self; 5] = [
        Self::Headless,
        Self::Federated,
        Self::Gateway,
        Self::Flat,
        Self::Local,
    ];

    /// Returns the name of the kind in reports and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Headless => "headless",
            Self::Federated => "federated",
            Self::Gateway => "gateway",
            Self::Flat => "flat",
            Self::Local => "local",
        }
    }
}

impl fmt::Display for ServiceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// === impl Candidates ===

impl Candidates {
    /// Chooses the kind that answers `S.N.Z`. A kind without endpoints is not considered (rule K1).
    pub(super) fn choose(self) -> Chosen {
        let local: Vec<Draft> = self.local_service.into_iter().collect();
        let (kind, selected, others) = if !self.headless.is_empty() {
            let others = join([self.mirrors, local]);
            (
                ServiceKind::Headless,
                join([self.headless, self.local_pods]),
                others,
            )
        } else if !self.federated.is_empty() {
            let others = join([self.mirrors, local, self.local_pods]);
            (ServiceKind::Federated, self.federated, others)
        } else if !self.mirrors.is_empty() || !local.is_empty() {
            let mut selected = join([self.mirrors, local]);
            let kind = selected.iter().map(|draft| draft.endpoint.kind).min();
            // Headless mirroring is off by default. All other clusters then have mirrors with a cluster IP.
            let others = match self.is_local_exported {
                true => {
                    selected.extend(self.local_pods);
                    Vec::new()
                }
                false => self.local_pods,
            };
            (kind.unwrap_or(ServiceKind::Local), selected, others)
        } else {
            let kind = match self.has_headless_mirror {
                true => ServiceKind::Headless,
                false => ServiceKind::Local,
            };
            (kind, self.local_pods, Vec::new())
        };
        let mark = |is_selected| {
            move |mut draft: Draft| {
                draft.endpoint.is_selected = is_selected;
                draft
            }
        };
        let selected = selected.into_iter().map(mark(true));
        let drafts = selected
            .chain(others.into_iter().map(mark(false)))
            .collect();
        Chosen { kind, drafts }
    }
}

// === impl Chosen ===

impl Chosen {
    /// Reports the clusters that `S.N.Z` omits because another kind answers it. A federated service includes the
    /// clusters of its annotations.
    pub(super) fn kind_conflict(
        &self,
        key: &ServiceKey,
        federated: &[&FederatedService],
        rules: &Rules,
    ) -> Option<Conflict> {
        let clusters = |is_selected: bool| -> BTreeSet<&ClusterName> {
            let drafts = self.drafts.iter();
            let drafts = drafts.filter(|draft| draft.endpoint.is_selected == is_selected);
            drafts
                .filter_map(|draft| draft.endpoint.cluster.as_ref())
                .collect()
        };
        let mut included: BTreeSet<ClusterName> = clusters(true).into_iter().cloned().collect();
        if self.kind == ServiceKind::Federated {
            included.extend(federated_clusters(federated, rules));
        }
        let mut omitted = clusters(false);
        omitted.retain(|cluster| !included.contains(*cluster));
        (!omitted.is_empty()).then(|| Conflict {
            kind: ConflictKind::Kind,
            name: key.to_string(),
            detail: format!(
                "{} in {}, but of another kind in {}: omitted from the name of the service",
                self.kind,
                list(included.iter()),
                list(omitted.into_iter()),
            ),
        })
    }
}

/// Joins lists of drafts.
fn join<const N: usize>(lists: [Vec<Draft>; N]) -> Vec<Draft> {
    lists.into_iter().flatten().collect()
}

/// Returns the clusters of the members of federated services.
pub(super) fn federated_clusters(
    federated: &[&FederatedService],
    rules: &Rules,
) -> BTreeSet<ClusterName> {
    let members = federated.iter().flat_map(|service| &service.members);
    let mut clusters: BTreeSet<ClusterName> = members
        .map(|member| rules.name_of(&member.cluster))
        .collect();
    if federated.iter().any(|service| service.has_local_member) {
        clusters.insert(rules.cluster_name.clone());
    }
    clusters
}

fn list<'c>(clusters: impl Iterator<Item = &'c ClusterName>) -> String {
    let names: Vec<&str> = clusters.map(ClusterName::as_str).collect();
    names.join(", ")
}
