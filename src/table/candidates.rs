//! The endpoints that each kind offers for a service, and the choice of the kind that answers `S.N.Z` (rule K1).

use std::collections::{BTreeMap, BTreeSet};

use super::endpoint::Draft;
use super::items::Items;
use super::kind::{Profile, ServiceKind, list_clusters};
use super::rules::Rules;
use crate::model::{ClusterName, Export, Item, ItemKind, Problem, ProblemKind};

/// What one kind offers for a service. The kinds of rule K1, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Pods of headless mirrors.
    Headless,
    /// Federated services.
    Federated,
    /// Mirrors with a cluster IP, and the Service of this cluster with a cluster IP.
    ClusterIp,
    /// Pods of the headless Service of this cluster.
    OwnPods,
    /// Endpoints of the ServiceImport.
    Import,
}

/// The candidates of one service. All are [selected](super::Endpoint::is_selected).
pub(super) struct Candidates {
    drafts: BTreeMap<Rank, Vec<Draft>>,
    /// A headless mirror exists, with or without endpoints.
    has_headless_mirror: bool,
    /// The headless Service of this cluster is exported.
    is_own_exported: bool,
    /// A ServiceImport exists, with or without endpoints.
    has_import: bool,
}

/// The kind that answers, with the drafts of all endpoints that have a name.
pub(super) struct Chosen {
    /// The kind of the service.
    pub(super) kind: ServiceKind,
    /// The endpoints of `S.N.Z` are [selected](super::Endpoint::is_selected). The others have names of their cluster only.
    pub(super) drafts: Vec<Draft>,
}

// === impl Candidates ===

impl Candidates {
    /// Starts without any endpoint.
    pub(super) fn new(
        items: &Items<'_>,
        has_headless_mirror: bool,
        own_pods: Option<&Item>,
    ) -> Self {
        let export = own_pods.and_then(Item::export);
        Self {
            drafts: BTreeMap::new(),
            has_headless_mirror,
            is_own_exported: export.is_some_and(Export::is_through_gateway),
            has_import: items.import().is_some(),
        }
    }

    /// Adds what a kind offers.
    pub(super) fn add(&mut self, rank: Rank, drafts: impl IntoIterator<Item = Draft>) {
        self.drafts.entry(rank).or_default().extend(drafts);
    }

    /// Returns whether no object has an endpoint. Pods of this cluster belong to a Service that counts by itself.
    pub(super) fn is_empty(&self) -> bool {
        let mut offers = self.drafts.iter();
        offers.all(|(rank, drafts)| *rank == Rank::OwnPods || drafts.is_empty())
    }

    /// Chooses the kind that answers the name of the service. A kind without endpoints is not considered.
    pub(super) fn choose(mut self, profile: Profile) -> Chosen {
        let imports = self.drafts.remove(&Rank::Import).unwrap_or_default();
        let is_any_ready = |drafts: &[Draft]| drafts.iter().any(|draft| draft.ready);
        match profile {
            Profile::Global => {
                let others = self.choose_linked();
                if imports.is_empty() || is_any_ready(&others.drafts) {
                    others.with_other_clusters(imports)
                } else {
                    Chosen::import(imports).with_other_clusters(others.drafts)
                }
            }
            // Other kinds than the chosen one have no names there (rule K9).
            Profile::ClusterSet if is_any_ready(&imports) => Chosen::import(imports),
            Profile::ClusterSet => {
                if !self.is_own_exported {
                    self.drafts.remove(&Rank::OwnPods);
                }
                let mut chosen = self.choose_linked();
                chosen.drafts.retain(|draft| draft.endpoint.is_selected);
                chosen
            }
        }
    }

    /// Chooses among the kinds of Linkerd and of this cluster.
    fn choose_linked(mut self) -> Chosen {
        let has = |rank| {
            self.drafts
                .get(&rank)
                .is_some_and(|drafts| !drafts.is_empty())
        };
        let least = |rank| {
            let drafts = self.drafts.get(&rank).into_iter().flatten();
            drafts.map(|draft| draft.endpoint.kind).min()
        };
        let (kind, selected, others): (_, &[Rank], &[Rank]) = if has(Rank::Headless) {
            let selected = &[Rank::Headless, Rank::OwnPods];
            (ServiceKind::Headless, selected, &[Rank::ClusterIp])
        } else if has(Rank::Federated) {
            let others = &[Rank::ClusterIp, Rank::OwnPods];
            (ServiceKind::Federated, &[Rank::Federated], others)
        } else if let Some(kind) = least(Rank::ClusterIp) {
            // Headless mirroring is off by default. All other clusters then have mirrors with a cluster IP.
            if self.is_own_exported {
                (kind, &[Rank::ClusterIp, Rank::OwnPods], &[])
            } else {
                (kind, &[Rank::ClusterIp], &[Rank::OwnPods])
            }
        } else if self.has_headless_mirror {
            (ServiceKind::Headless, &[Rank::OwnPods], &[])
        } else if self.has_import && !has(Rank::OwnPods) {
            (ServiceKind::Import, &[], &[])
        } else {
            (ServiceKind::Local, &[Rank::OwnPods], &[])
        };
        let mut take = |rank: &Rank| self.drafts.remove(rank).unwrap_or_default();
        let mut drafts: Vec<Draft> = selected.iter().flat_map(&mut take).collect();
        drafts.extend(others.iter().flat_map(take).map(Draft::unselected));
        Chosen { kind, drafts }
    }
}

// === impl Chosen ===

impl Chosen {
    fn import(drafts: Vec<Draft>) -> Self {
        let kind = ServiceKind::Import;
        Self { kind, drafts }
    }

    /// Adds endpoints of other kinds in clusters that have none yet. A ServiceImport and mirrors may list the same pods.
    /// They have names of their cluster only.
    fn with_other_clusters(mut self, others: Vec<Draft>) -> Self {
        let own = self.drafts.iter().map(|draft| &draft.endpoint.cluster);
        let own: BTreeSet<Option<ClusterName>> = own.cloned().chain([None]).collect();
        let others = others.into_iter();
        let others = others.filter(|draft| !own.contains(&draft.endpoint.cluster));
        self.drafts.extend(others.map(Draft::unselected));
        self
    }

    /// Reports the clusters that `S.N.Z` omits because another kind answers it.
    pub(super) fn kind_conflict(&self, items: &Items<'_>, rules: &Rules) -> Option<Problem> {
        let mut included = self.clusters(true);
        let mut omitted = self.clusters(false);
        // Their addresses belong to no single cluster.
        for (kind, of_item) in [
            (ServiceKind::Federated, ItemKind::Federated),
            (ServiceKind::Import, ItemKind::ClusterSetImport),
        ] {
            let clusters = items.shared_clusters(of_item, rules);
            if kind == self.kind {
                included.extend(clusters);
            } else {
                omitted.extend(clusters);
            }
        }
        omitted.retain(|cluster| {
            !included.contains(cluster) && !rules.excluded_clusters.contains(cluster)
        });
        if omitted.is_empty() {
            return None;
        }
        let mut chosen = self.kind.to_string();
        if !included.is_empty() {
            chosen = format!("{chosen} in {}", list_clusters(included.iter()));
        }
        let detail = format!(
            "{chosen}, but of another kind in {}: omitted from the name of the service",
            list_clusters(omitted.iter()),
        );
        Some(Problem::new(ProblemKind::Kind, detail))
    }

    /// Returns the clusters of the endpoints that are in the name of the service, or of those that are not. An endpoint
    /// that is not ready is in no name.
    fn clusters(&self, is_selected: bool) -> BTreeSet<ClusterName> {
        let drafts = self.drafts.iter();
        let drafts = drafts.filter(|d| d.ready && d.endpoint.is_selected == is_selected);
        drafts
            .filter_map(|draft| draft.endpoint.cluster.clone())
            .collect()
    }
}
