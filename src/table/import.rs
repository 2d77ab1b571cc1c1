//! Endpoints of the Multi-Cluster Services API (kind `import`).

use smallvec::smallvec;

use super::members::slice_ref;
use super::merge::{Draft, Source, distinct};
use super::parts::Parts;
use super::rules::Rules;
use super::{Endpoint, ServiceKind};
use crate::mirror::{
    ClusterName, ImportForm, ImportSlice, Kind, ObjectKey, ObjectRef, ServiceImport, ServiceKey,
    Skip, SkipReason, SliceEndpoint,
};

/// Collects the endpoints of the ServiceImport of a service. Skips slices without a ServiceImport, and a ServiceImport
/// without addresses.
pub(super) fn import_drafts(
    key: &ServiceKey,
    parts: &Parts<'_>,
    rules: &Rules,
    skipped: &mut Vec<(ObjectRef, Skip)>,
) -> Vec<Draft> {
    let Some((object, import)) = parts.import else {
        let orphans = parts.import_slices.iter();
        skipped.extend(orphans.map(|(slice, _)| (slice_ref(slice), orphan_skip(key))));
        return Vec::new();
    };
    let reference = ObjectRef {
        kind: Kind::ServiceImport,
        key: object.clone(),
    };
    for (object, slice) in &parts.import_slices {
        let left_out = slice.slice.left_out.iter();
        skipped.extend(left_out.map(|skip| (slice_ref(object), skip.clone())));
    }
    match &import.form {
        ImportForm::ClusterSetIp(addresses) if !addresses.is_empty() => {
            let endpoint = Endpoint {
                objects: smallvec![(Kind::ServiceImport, object.name.clone())],
                ..Endpoint::of_service(object, ServiceKind::Import, addresses, &import.ports)
            };
            vec![Draft::ready(endpoint, Source::Federation)]
        }
        form @ (ImportForm::ClusterSetIp(_) | ImportForm::Headless) => {
            let is_used =
                |slice: &ImportSlice| slice.is_from_submariner || *form == ImportForm::Headless;
            let slices = parts.import_slices.iter();
            let slices: Vec<_> = slices.filter(|(_, slice)| is_used(slice)).collect();
            if slices.is_empty() {
                skipped.push((reference, no_address_skip(import)));
            }
            let drafts = slices.into_iter();
            drafts
                .flat_map(|(object, slice)| slice_drafts(object, slice, form, rules, skipped))
                .collect()
        }
    }
}

/// Makes the drafts of a slice, unless its cluster is excluded.
fn slice_drafts(
    object: &ObjectKey,
    slice: &ImportSlice,
    form: &ImportForm,
    rules: &Rules,
    skipped: &mut Vec<(ObjectRef, Skip)>,
) -> Vec<Draft> {
    let Some(label) = &slice.cluster else {
        return Vec::new(); // listed as skipped
    };
    let cluster = rules.name_of(label);
    if let Some(skip) = rules.exclusion(&cluster) {
        skipped.push((slice_ref(object), skip));
        return Vec::new();
    }
    let endpoints = slice.slice.endpoints.iter();
    endpoints
        .map(|endpoint| draft(object, slice, label, &cluster, endpoint, form, rules))
        .collect()
}

/// Makes the draft of one entry of a slice. The cluster IP of a cluster exists whether it is ready or not, so that a
/// failover order can use it.
fn draft(
    object: &ObjectKey,
    slice: &ImportSlice,
    label: &ClusterName,
    cluster: &ClusterName,
    entry: &SliceEndpoint,
    form: &ImportForm,
    rules: &Rules,
) -> Draft {
    let (hostname, alive, ready) = match form {
        ImportForm::Headless => (Some(entry.hostname.clone()), true, entry.ready),
        ImportForm::ClusterSetIp(_) => (None, entry.ready, true),
    };
    Draft {
        endpoint: Endpoint {
            is_local: *cluster == rules.cluster_name,
            cluster: Some(cluster.clone()),
            hostname,
            addresses: distinct([entry.address]),
            ports: slice.slice.ports.clone(),
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
}

/// Returns the skip of a slice without a ServiceImport.
fn orphan_skip(key: &ServiceKey) -> Skip {
    let detail = format!("ServiceImport {key} does not exist or is skipped");
    Skip::new(SkipReason::NoParent, detail)
}

/// Returns the skip of a ServiceImport without addresses.
fn no_address_skip(import: &ServiceImport) -> Skip {
    let detail = match import.form {
        ImportForm::Headless => "type Headless, but no EndpointSlice of it exists",
        ImportForm::ClusterSetIp(_) => {
            "type ClusterSetIP, but ips is empty and no EndpointSlice of Submariner exists"
        }
    };
    Skip::new(SkipReason::NoSlice, detail)
}
