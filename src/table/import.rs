//! Endpoints of the Multi-Cluster Services API (kind `import`).

use smallvec::smallvec;

use super::endpoint::{Draft, Source, distinct};
use super::items::Items;
use super::rules::Rules;
use super::{Endpoint, ServiceKind, SkippedObjects};
use crate::model::{
    ImportEndpoints, ItemKind, Kind, ObjectKey, ObjectRef, ServiceKey, Skip, SkipReason,
    SliceEndpoint,
};

/// Collects the endpoints of the ServiceImport of a service. Skips slices without a ServiceImport, and a ServiceImport
/// without addresses.
pub(super) fn import_drafts(
    key: &ServiceKey,
    items: &Items<'_>,
    rules: &Rules,
    skipped: &mut SkippedObjects,
) -> Vec<Draft> {
    let slices = &items.import_slices;
    let Some((object, import)) = items.import() else {
        let orphans = slices.iter();
        skipped.extend(orphans.map(|(slice, _)| (ObjectRef::slice(slice), orphan_skip(key))));
        return Vec::new();
    };
    for (object, slice) in slices {
        let left_out = slice.listed.left_out.iter();
        skipped.extend(left_out.map(|skip| (ObjectRef::slice(object), skip.clone())));
    }
    if !import.addresses.is_empty() {
        let endpoint = Endpoint::of_item(object, import, ServiceKind::Import);
        return vec![Draft::ready(endpoint, Source::of(import))];
    }
    let is_headless = import.kind == ItemKind::HeadlessImport;
    let used = slices.iter();
    let used: Vec<_> = used
        .filter(|(_, slice)| slice.is_from_submariner || is_headless)
        .collect();
    if used.is_empty() {
        skipped.push((ObjectRef::import(object), no_address_skip(is_headless)));
    }
    used.into_iter()
        .flat_map(|(object, slice)| slice_drafts(object, slice, is_headless, rules, skipped))
        .collect()
}

/// Makes the drafts of a slice, unless its cluster is excluded.
fn slice_drafts(
    object: &ObjectKey,
    slice: &ImportEndpoints,
    is_headless: bool,
    rules: &Rules,
    skipped: &mut SkippedObjects,
) -> Vec<Draft> {
    let Some(label) = &slice.cluster else {
        return Vec::new(); // listed as skipped
    };
    let cluster = rules.name_of(label);
    if let Some(skip) = rules.exclusion(&cluster) {
        skipped.push((ObjectRef::slice(object), skip));
        return Vec::new();
    }
    let draft = |entry: &SliceEndpoint| {
        // The cluster IP of a cluster exists whether it is ready or not, so that a failover order can use it.
        let (hostname, alive, ready) = if is_headless {
            (Some(entry.hostname.clone()), true, entry.ready)
        } else {
            (None, entry.ready, true)
        };
        Draft {
            endpoint: Endpoint {
                is_local: cluster == rules.cluster_name,
                cluster: Some(cluster.clone()),
                hostname,
                addresses: distinct([entry.address]),
                ports: slice.listed.ports.clone(),
                alive,
                kind: ServiceKind::Import,
                is_selected: true,
                is_standby: false,
                objects: smallvec![(Kind::EndpointSlice, object.name.clone())],
            },
            source: Source::Import(label.clone()),
            target: entry.target.clone(),
            ready,
        }
    };
    slice.listed.endpoints.iter().map(draft).collect()
}

/// Returns the skip of a slice without a ServiceImport.
fn orphan_skip(key: &ServiceKey) -> Skip {
    let detail = format!("ServiceImport {key} does not exist or is skipped");
    Skip::new(SkipReason::NoParent, detail)
}

/// Returns the skip of a ServiceImport without addresses.
fn no_address_skip(is_headless: bool) -> Skip {
    let detail = if is_headless {
        "type Headless, but no EndpointSlice of it exists"
    } else {
        "type ClusterSetIP, but ips is empty and no EndpointSlice of Submariner exists"
    };
    Skip::new(SkipReason::NoSlice, detail)
}
