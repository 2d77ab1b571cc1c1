//! Endpoints of the Multi-Cluster Services API (kind `import`).

use std::collections::BTreeSet;

use super::endpoint::{Draft, Source, distinct};
use super::items::{Items, shared_by};
use super::kind::Rank;
use super::rules::Rules;
use super::{Endpoint, EndpointLiveness, ServiceKind};
use crate::model::{
    Few, ImportEndpoints, ItemKind, Kind, ObjectKey, ObjectRef, Problem, ProblemKind, ServiceKey,
    SliceEndpoint, SliceObjects,
};

/// Collects the endpoints of the ServiceImport of a service. Skips slices without a ServiceImport, and a ServiceImport
/// without addresses.
pub(super) fn import_drafts(
    key: &ServiceKey,
    items: &Items<'_>,
    rules: &Rules,
    problems: &mut Vec<Problem>,
) -> Vec<Draft> {
    let slices = &items.import_slices;
    let Some((object, import)) = items.import() else {
        let orphans = slices.iter().map(|(slice, _)| {
            let detail = format!("ServiceImport {key} does not exist or is skipped");
            Problem::new(ProblemKind::NoParent, detail).of_object(ObjectRef::slice(slice))
        });
        problems.extend(orphans);
        return Vec::new();
    };
    for (object, slice) in slices {
        let left_out = slice.listed.left_out.iter();
        problems.extend(left_out.map(|one| one.clone().of_object(ObjectRef::slice(object))));
    }
    if !import.addresses.is_empty() {
        let endpoint = Endpoint::of_item(object, import, ServiceKind::Import);
        let draft = Draft::ready(endpoint, Source::of(import), Rank::Import);
        let draft = shared_by(import, rules).map(|shared_by| Draft { shared_by, ..draft });
        return draft.into_iter().collect();
    }
    let is_headless = import.kind.is_headless_import();
    let used: Vec<_> = slices
        .iter()
        .filter(|(_, slice)| slice.is_from_submariner || is_headless)
        .collect();
    if used.is_empty() {
        let detail = match import.kind {
            ItemKind::HeadlessImport(SliceObjects::Absent) => {
                "type Headless, but its implementation writes no EndpointSlices here: status.endpointSliceObjects is Absent"
            }
            ItemKind::HeadlessImport(SliceObjects::Expected) => {
                "type Headless, but no EndpointSlice of it exists"
            }
            _ => "type ClusterSetIP, but ips is empty and no EndpointSlice of Submariner exists",
        };
        let problem = Problem::new(ProblemKind::NoSlice, detail);
        problems.push(problem.of_object(ObjectRef::import(object)));
    }
    used.into_iter()
        .flat_map(|(object, slice)| slice_drafts(object, slice, is_headless, rules, problems))
        .collect()
}

/// Makes the drafts of a slice, unless its cluster is excluded.
fn slice_drafts(
    object: &ObjectKey,
    slice: &ImportEndpoints,
    is_headless: bool,
    rules: &Rules,
    problems: &mut Vec<Problem>,
) -> Vec<Draft> {
    let Some(label) = &slice.cluster else {
        return Vec::new(); // listed as skipped
    };
    let cluster = rules.name_of(label);
    if let Some(problem) = rules.exclusion(&cluster) {
        problems.push(problem.of_object(ObjectRef::slice(object)));
        return Vec::new();
    }
    let draft = |entry: &SliceEndpoint| {
        // The cluster IP of a cluster exists whether it is ready or not, so that a failover order can use it.
        let (hostname, liveness, ready) = if is_headless {
            (
                Some(entry.hostname.clone()),
                EndpointLiveness::Alive,
                entry.ready,
            )
        } else if entry.ready {
            (None, EndpointLiveness::Alive, true)
        } else {
            (None, EndpointLiveness::NotReady, true)
        };
        Draft {
            endpoint: Endpoint {
                is_local: cluster == rules.cluster_name,
                cluster: Some(cluster.clone()),
                hostname,
                addresses: distinct([entry.address]),
                ports: slice.listed.ports.clone(),
                liveness,
                kind: ServiceKind::Import,
                is_selected: true,
                is_standby: false,
                alias_source: 0,
                objects: Few::one((Kind::EndpointSlice, object.name.clone())),
            },
            source: Source::Import(label.clone()),
            rank: Rank::Import,
            shared_by: BTreeSet::new(),
            target: entry.target.clone(),
            ready,
        }
    };
    slice.listed.endpoints.iter().map(draft).collect()
}
