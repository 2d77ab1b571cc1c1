//! The endpoints that each kind offers for a service, and the choice of those that answer `S.N.Z` (rule K1).

use std::collections::{BTreeMap, BTreeSet};

use super::endpoint::Draft;
use super::kind::{Rank, ServiceKind, list_clusters};
use crate::model::{ClusterName, Problem, ProblemKind};

/// Selects the candidates that answer `S.N.Z`: for each cluster those with the best rank. A candidate without a cluster counts
/// as a cluster of its own. So a newcomer adds its own cluster and takes none away.
///
/// Candidates that are not selected keep the names of their cluster, except mirrors of an unlinked cluster.
pub(super) fn choose(mut drafts: Vec<Draft>) -> Vec<Draft> {
    // Candidates of an unlinked cluster come after all others (rule L3).
    let place = |draft: &Draft| (draft.is_unlinked(), draft.rank);
    let mut best = BTreeMap::new();
    for draft in drafts.iter().filter(|draft| draft.ready) {
        for cluster in clusters(draft) {
            let best = best.entry(cluster).or_insert(place(draft));
            *best = place(draft).min(*best);
        }
    }
    let is_best = |draft: &Draft| {
        let mut clusters = clusters(draft).peekable();
        let is_alone = clusters.peek().is_none();
        is_alone
            || clusters.any(|cluster| best.get(cluster).is_none_or(|best| *best == place(draft)))
    };
    let verdict = |draft: &Draft| {
        let is_selected = is_best(draft);
        let has_name = draft.endpoint.cluster.is_some();
        // The pods that are selected instead may have the same hostnames.
        let is_kept = is_selected || has_name && !draft.is_unlinked();
        (is_selected, is_kept)
    };
    let verdicts: Vec<(bool, bool)> = drafts.iter().map(verdict).collect();
    let mut verdicts = verdicts.into_iter();
    drafts.retain_mut(|draft| {
        verdicts.next().is_some_and(|(is_selected, is_kept)| {
            draft.endpoint.is_selected = is_selected;
            is_kept
        })
    });
    drafts
}

/// Returns the clusters that a draft covers.
fn clusters(draft: &Draft) -> impl Iterator<Item = &ClusterName> {
    draft.endpoint.cluster.iter().chain(&draft.shared_by)
}

/// Returns the kind of a service with these candidates: the first of those that are selected.
pub(super) fn kind_of(drafts: &[Draft]) -> Option<ServiceKind> {
    let selected = drafts.iter().filter(|d| d.ready && d.endpoint.is_selected);
    let kinds: BTreeSet<ServiceKind> = selected.map(|draft| draft.endpoint.kind).collect();
    kinds.first().copied()
}

/// Reports a name that returns endpoints of several kinds. Their SRV targets and their liveness differ.
pub(super) fn mixed_kinds(drafts: &[Draft]) -> Option<Problem> {
    let kind = |draft: &Draft| match draft.rank {
        Rank::Headless => "pods",
        Rank::Federated => "a federated service",
        Rank::ClusterIp if draft.endpoint.kind == ServiceKind::Flat => "a flat network",
        Rank::ClusterIp => "a cluster IP",
    };
    let selected = drafts.iter().filter(|d| d.ready && d.endpoint.is_selected);
    let first = selected.clone().next()?;
    if selected.clone().all(|draft| kind(draft) == kind(first)) {
        return None;
    }
    let mut kinds: BTreeMap<&str, BTreeSet<&ClusterName>> = BTreeMap::new();
    for draft in selected {
        kinds
            .entry(kind(draft))
            .or_default()
            .extend(clusters(draft));
    }
    let part = |(kind, clusters): (&str, BTreeSet<&ClusterName>)| {
        if clusters.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind} in {}", list_clusters(clusters.into_iter()))
        }
    };
    let parts: Vec<String> = kinds.into_iter().map(part).collect();
    Some(Problem::new(ProblemKind::Kind, parts.join("; ")))
}
