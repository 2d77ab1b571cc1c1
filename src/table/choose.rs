//! The choice of the candidates that answer the name of a service (rule K1): the second step of a build.

use std::collections::{BTreeMap, BTreeSet};

use super::candidate::{Candidate, Role};
use super::context::BuildContext;
use super::endpoint::{Rank, ServiceKind};
use crate::model::{ClusterName, ItemKind, MAX_LISTED, Problem, ProblemKind, list_some};

/// Chooses for each cluster the candidates with the best rank, so that a newcomer adds its own cluster and takes none away. Others
/// keep the names of their cluster. With an order, addresses of several clusters are left out before: nobody can void an order by
/// joining a federation.
pub(super) fn choose(candidates: &mut [Candidate<'_>], has_order: bool, context: BuildContext<'_>) {
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
        one.role = match one.is_shared() {
            _ if is_best && !is_left_out(one) => Role::Answers,
            true => Role::Omitted,
            false => Role::ClusterOnly,
        };
    }
    report_sources(candidates, context);
    report_kinds(candidates, context);
}

/// Reports names of clusters with several sources (rule M6).
fn report_sources(candidates: &[Candidate<'_>], context: BuildContext<'_>) {
    // By the link, or none of this cluster.
    let mut sources: BTreeMap<&ClusterName, BTreeSet<Option<&ClusterName>>> = BTreeMap::new();
    let is_used = |one: &&Candidate<'_>| {
        let has_any = !one.endpoints.is_empty() || !one.not_ready.is_empty();
        one.role != Role::Omitted && !one.is_shared() && has_any
    };
    for one in candidates.iter().filter(is_used) {
        for cluster in &one.clusters {
            sources.entry(cluster).or_default().insert(one.item.link());
        }
    }
    let of_link = |link| format!("link '{link}'");
    let describe = |link: Option<_>| link.map_or("this cluster".to_owned(), of_link);
    let ambiguous = sources.into_iter().filter(|(_, sources)| sources.len() > 1);
    context.report(ambiguous.map(|(cluster, sources)| {
        let sources: Vec<String> = sources.into_iter().map(describe).collect();
        let sources = sources.join(" and ");
        let detail = format!("cluster name '{cluster}' stands for {sources}; merged");
        Problem::new(ProblemKind::ClusterName, detail).of_cluster(cluster)
    }));
}

/// Reports a name that returns endpoints of several kinds: their SRV targets and their liveness differ. Reports the clusters
/// with one address where others have pods: their pods have no names.
fn report_kinds(candidates: &[Candidate<'_>], context: BuildContext<'_>) {
    let mut kinds: BTreeMap<&str, BTreeSet<&ClusterName>> = BTreeMap::new();
    let answering = candidates.iter().filter(|one| one.is_answering());
    for one in answering.clone() {
        let kind = match one.rank {
            Rank::Headless => "pods",
            Rank::Federated => "a federated service",
            Rank::ClusterIp if one.item.kind == ItemKind::FlatMirror => "a flat network",
            Rank::ClusterIp => "a cluster IP",
        };
        kinds.entry(kind).or_default().extend(&one.clusters);
    }
    if kinds.len() < 2 {
        return;
    }
    let part =
        |(kind, clusters): (&&str, &BTreeSet<&ClusterName>)| match list_some(clusters, MAX_LISTED)
            .as_str()
        {
            "" => (*kind).to_owned(),
            listed => format!("{kind} in {listed}"),
        };
    let parts: Vec<String> = kinds.iter().map(part).collect();
    context.report([Problem::new(ProblemKind::Kind, parts.join("; "))]);
    if kinds.contains_key("pods") {
        let addresses = answering.filter(|one| one.rank == Rank::ClusterIp);
        context.report(addresses.flat_map(|one| &one.clusters).map(|cluster| {
            let detail = format!("names of hosts in cluster '{cluster}' do not exist");
            Problem::new(ProblemKind::NoHostnames, detail).of_cluster(cluster)
        }));
    }
}

/// Returns the kind of a service: the first of the kinds of its answer, or of its mirrors if it has no answer.
pub(super) fn kind_of(candidates: &[Candidate<'_>], has_mirrors: bool) -> ServiceKind {
    let kind = |one: &Candidate<'_>| match one.rank {
        Rank::Headless if has_mirrors => ServiceKind::Headless,
        _ => one.endpoints[0].kind,
    };
    let none = match has_mirrors {
        true => ServiceKind::Headless,
        false => ServiceKind::Local,
    };
    let answering = candidates.iter().filter(|one| one.is_answering());
    answering.map(kind).min().unwrap_or(none)
}
