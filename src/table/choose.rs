//! The choice of the candidates that answer the name of a service (rule K1): the second step of a build.

use std::collections::{BTreeMap, BTreeSet};

use super::candidate::Candidate;
use super::context::BuildContext;
use super::endpoint::{Rank, Role, ServiceKind};
use crate::model::{ItemKind, MAX_LISTED, Problem, ProblemKind, join_texts, list_some};

impl BuildContext<'_> {
    /// Chooses for each cluster the candidates with the best rank, so that a newcomer adds its own cluster and takes none away. Others
    /// keep the names of their cluster. With an order, addresses of several clusters are left out before: nobody can void an order by
    /// joining a federation.
    pub(super) fn choose(self, candidates: &mut [Candidate<'_>], has_order: bool) {
        // Candidates of an unlinked cluster come after all others (rule L3).
        let place = |one: &Candidate<'_>| (one.is_unlinked, one.rank);
        let is_left_out = |one: &Candidate<'_>| has_order && one.covers_several();
        let mut best = BTreeMap::new();
        let offering = candidates.iter().filter(|one| !one.endpoints.is_empty());
        for one in offering.filter(|one| !is_left_out(one)) {
            for cluster in &one.clusters {
                let best = best.entry(cluster.clone()).or_insert(place(one));
                *best = place(one).min(*best);
            }
        }
        for one in &mut *candidates {
            let is_best = |cluster| best.get(cluster).is_none_or(|best| *best == place(one));
            let is_best = one.clusters.iter().any(is_best);
            one.role = if is_best && !is_left_out(one) {
                Role::Answers
            } else if one.is_shared() {
                Role::Omitted
            } else {
                Role::ClusterOnly
            };
        }
        self.report_sources(candidates);
        self.report_kinds(candidates);
    }

    /// Reports names of clusters with several sources (rule M6): Links, or none for this cluster.
    fn report_sources(self, candidates: &[Candidate<'_>]) {
        let mut sources: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for one in candidates {
            let has_any = !one.endpoints.is_empty() || !one.not_ready.is_empty();
            if has_any && !one.is_shared() {
                for cluster in &one.clusters {
                    let links = sources.entry(cluster).or_default();
                    links.insert(one.source.item.link());
                }
            }
        }
        sources.retain(|_, links| links.len() > 1);
        for (cluster, links) in sources {
            let note = if links.contains(&None) {
                ""
            } else {
                ": the same pods through two gateways, if these are Links to one cluster"
            };
            let names = links.into_iter().map(|link| match link {
                Some(link) => format!("link '{link}'"),
                None => "this cluster".to_owned(),
            });
            let names = join_texts(names, " and ");
            let detail = format!("cluster name '{cluster}' stands for {names}; merged{note}");
            self.report([Problem::new(ProblemKind::ClusterName, detail).of_cluster(cluster)]);
        }
    }

    /// Reports a name that returns endpoints of several kinds: their SRV targets and their liveness differ. Reports the clusters
    /// with one address where others have pods: their pods have no names.
    fn report_kinds(self, candidates: &[Candidate<'_>]) {
        let answering = candidates.iter().filter(|one| one.is_answering());
        let kinds: BTreeSet<&str> = answering.clone().map(describe_kind).collect();
        if kinds.len() < 2 {
            return;
        }
        let mut parts = Vec::new();
        for kind in &kinds {
            let clusters: BTreeSet<_> = answering
                .clone()
                .filter(|one| describe_kind(one) == *kind)
                .flat_map(|one| &one.clusters)
                .collect();
            parts.push(format!("{kind} in {}", list_some(clusters, MAX_LISTED)));
        }
        self.report([Problem::new(ProblemKind::Kind, parts.join("; "))]);
        if kinds.contains(PODS) {
            let addresses = answering.filter(|one| one.rank == Rank::ClusterIp);
            self.report(addresses.flat_map(|one| &one.clusters).map(|cluster| {
                let detail = format!("names of hosts in cluster '{cluster}' do not exist");
                Problem::new(ProblemKind::NoHostnames, detail).of_cluster(cluster)
            }));
        }
    }
}

/// The kind of candidates with pods.
const PODS: &str = "pods";

/// Returns the kind of a candidate in words.
fn describe_kind(candidate: &Candidate<'_>) -> &'static str {
    match candidate.rank {
        Rank::Headless => PODS,
        Rank::Federated => "a federated service",
        Rank::ClusterIp if candidate.source.item.kind == ItemKind::FlatMirror => "a flat network",
        Rank::ClusterIp => "a cluster IP",
    }
}

/// Returns the kind of a service: the first of the kinds of its answer, or of its mirrors if it has no answer.
pub(super) fn kind_of(candidates: &[Candidate<'_>], has_mirrors: bool) -> ServiceKind {
    let answering = candidates.iter().filter(|one| one.is_answering());
    let is_headless = |one: &Candidate<'_>| one.rank == Rank::Headless;
    let has_none = answering.clone().next().is_none();
    if has_mirrors && (has_none || answering.clone().any(is_headless)) {
        return ServiceKind::Headless;
    }
    let kinds = answering.map(|one| one.endpoints[0].kind);
    kinds.min().unwrap_or_default()
}
