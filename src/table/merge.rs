//! Merges the endpoints of one service, so that each cluster and hostname occurs once.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::endpoint::{Draft, Source, distinct};
use super::{Address, Duplicate, Endpoint, EndpointLiveness};
use crate::model::{ClusterName, Problem, ProblemKind, ServiceKey};

/// The merged endpoints of a service.
pub(super) struct MergedEndpoints {
    /// Ready endpoints, sorted by cluster and hostname.
    pub(super) endpoints: Vec<Endpoint>,
    /// Endpoints that are not ready, sorted by cluster and hostname.
    pub(super) not_ready: Vec<Endpoint>,
}

/// Merges the drafts of a service. Reports drafts of one name that are not one dual-stack pod.
pub(super) fn merge_drafts(
    key: &ServiceKey,
    mut drafts: Vec<Draft>,
    problems: &mut Vec<Problem>,
) -> MergedEndpoints {
    let not_ready: Vec<Draft> = drafts.extract_if(.., |draft| !draft.ready).collect();
    let mut endpoints = merge_by_name(key, drafts, problems);
    let not_ready = merge_by_name(key, not_ready, &mut Vec::new());
    let not_ready = without_ready(not_ready, &endpoints);
    mark_duplicates(&mut endpoints);
    MergedEndpoints {
        endpoints,
        not_ready,
    }
}

/// Merges drafts of one cluster and hostname. Reports those that are not one dual-stack pod.
fn merge_by_name(
    key: &ServiceKey,
    mut drafts: Vec<Draft>,
    problems: &mut Vec<Problem>,
) -> Vec<Endpoint> {
    // Drafts of one name keep their order. Most drafts are sorted already, which takes one comparison each.
    drafts.sort_by(|one, other| one.endpoint.name().cmp(&other.endpoint.name()));
    drafts.dedup_by(|draft, first| {
        let is_same = draft.endpoint.name() == first.endpoint.name();
        if is_same {
            // A service of which another one is an alias reports its own.
            if first.endpoint.alias_source == 0 && !is_one_pod(first, draft) {
                problems.push(endpoint_conflict(key, &first.endpoint, &draft.endpoint));
            }
            merge_into(&mut first.endpoint, &mut draft.endpoint);
        }
        is_same
    });
    drafts.into_iter().map(|draft| draft.endpoint).collect()
}

/// Returns whether two drafts represent one pod. A dual-stack pod is in a slice of each address family.
fn is_one_pod(one: &Draft, other: &Draft) -> bool {
    let (ones, others) = (&one.endpoint.addresses, &other.endpoint.addresses);
    let has_common_family = ones.iter().any(|a| {
        let is_same_family = |b: &Address| a.ip.is_ipv4() == b.ip.is_ipv4();
        others.iter().any(is_same_family)
    });
    match (&one.target, &other.target) {
        _ if ones == others => true,
        (Some(one), Some(other)) => one == other,
        // Slices that are written by hand do not name the pod.
        _ => one.source == other.source && !has_common_family,
    }
}

/// Reports two endpoints with one name.
fn endpoint_conflict(key: &ServiceKey, first: &Endpoint, other: &Endpoint) -> Problem {
    let sources = [first, other].into_iter();
    let objects: Vec<String> = sources
        .flat_map(|endpoint| endpoint.object_refs(&key.namespace))
        .map(|object| object.to_string())
        .collect();
    let (endpoint, objects) = (first.describe(), objects.join(" and "));
    let detail = format!("{endpoint} comes from {objects}; merged");
    Problem::new(ProblemKind::Endpoint, detail)
}

/// Merges an endpoint into another endpoint of the same name. Both are of one cluster, so both are selected or standby, or
/// neither is.
fn merge_into(one: &mut Endpoint, other: &mut Endpoint) {
    let is_unlinked = |endpoint: &Endpoint| endpoint.liveness == EndpointLiveness::Unlinked;
    match (is_unlinked(one), is_unlinked(other)) {
        // Nobody maintains the addresses of an unlinked cluster (rule L3).
        (true, false) => std::mem::swap(one, other),
        (false, true) => {}
        (true, true) | (false, false) => {
            let addresses = one.addresses.iter().chain(&other.addresses);
            one.addresses = distinct(addresses.map(|address| address.ip).collect::<Vec<_>>());
            one.ports = one.ports.union(&other.ports);
            one.liveness = one.liveness.min(other.liveness);
        }
    }
    let objects: BTreeSet<_> = one.objects.iter().chain(&other.objects).collect();
    one.objects = objects.into_iter().cloned().collect();
}

/// Removes the endpoints that are ready in another slice. `ready` is sorted.
fn without_ready(mut not_ready: Vec<Endpoint>, ready: &[Endpoint]) -> Vec<Endpoint> {
    not_ready.retain(|e| {
        let same = ready.binary_search_by(|r| r.name().cmp(&e.name()));
        same.map_or(true, |index| ready[index].addresses != e.addresses)
    });
    not_ready
}

/// Marks addresses that an earlier endpoint also has. Endpoints that fewer rules omit come first.
fn mark_duplicates(endpoints: &mut [Endpoint]) {
    let count = endpoints.len();
    let mut in_service = HashSet::with_capacity(count);
    let mut in_cluster = HashSet::with_capacity(count);
    let mut in_order: Vec<&mut Endpoint> = endpoints.iter_mut().collect();
    in_order.sort_by_key(|endpoint| endpoint.liveness);
    for endpoint in in_order {
        let cluster = &endpoint.cluster;
        for address in &mut endpoint.addresses {
            address.duplicate = Duplicate {
                in_service: endpoint.is_selected && !in_service.insert(address.ip),
                in_cluster: !in_cluster.insert((cluster, address.ip)),
            };
        }
    }
}

/// Reports two sources of one cluster name (rule M6).
pub(super) fn cluster_conflicts(drafts: &[Draft]) -> impl Iterator<Item = Problem> {
    let mut sources: BTreeMap<&ClusterName, BTreeSet<&Source>> = BTreeMap::new();
    // A source has one cluster name.
    for alike in drafts.chunk_by(|one, other| one.source == other.source) {
        let Draft {
            endpoint, source, ..
        } = &alike[0];
        if let Some(cluster) = &endpoint.cluster {
            sources.entry(cluster).or_default().insert(source);
        }
    }
    let ambiguous = sources.into_iter().filter(|(_, sources)| sources.len() > 1);
    ambiguous.map(|(cluster, sources)| {
        let sources: Vec<String> = sources.into_iter().map(Source::describe).collect();
        let sources = sources.join(" and ");
        let detail = format!("cluster name '{cluster}' stands for {sources}; merged");
        Problem::new(ProblemKind::ClusterName, detail).of_cluster(cluster)
    })
}
