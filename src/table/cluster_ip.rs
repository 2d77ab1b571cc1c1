//! Endpoints with a cluster IP of their own: mirrors of whole Services, federated services, and Services of this cluster
//! (kinds `gateway`, `flat`, `federated` and `local`).

use super::inputs::Inputs;
use super::members::service_ref;
use super::merge::{Draft, Source};
use super::parts::Parts;
use super::rules::Rules;
use super::{Endpoint, ServiceKind};
use crate::mirror::{
    ClusterName, Hostname, LocalService, Object, ObjectKey, ObjectRef, Route, ServiceMirror, Skip,
};

/// Collects the mirrors with a cluster IP. Those of excluded clusters are skipped.
pub(super) fn mirror_drafts(
    parts: &Parts<'_>,
    inputs: &Inputs,
    rules: &Rules,
    skipped: &mut Vec<(ObjectRef, Skip)>,
) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for (object, mirror) in &parts.mirrors {
        let cluster = rules.name_of(&mirror.cluster);
        match rules.exclusion(&cluster) {
            Some(skip) => skipped.push((service_ref(object), skip)),
            None => drafts.push(mirror_draft(object, mirror, cluster, None, inputs)),
        }
    }
    drafts
}

/// Makes the draft of a mirror with a cluster IP. With a hostname, it stands for one pod (rule M1b).
pub(super) fn mirror_draft(
    object: &ObjectKey,
    mirror: &ServiceMirror,
    cluster: ClusterName,
    hostname: Option<Hostname>,
    inputs: &Inputs,
) -> Draft {
    let (kind, alive) = match mirror.route {
        // Without a slice, the exported Service has no ready endpoint.
        Route::Gateway => (ServiceKind::Gateway, has_ready_slice(inputs, object)),
        // The mesh finds the pods itself.
        Route::Flat => (ServiceKind::Flat, true),
    };
    let endpoint = Endpoint {
        cluster: Some(cluster),
        hostname,
        alive,
        ..Endpoint::of_service(object, kind, &mirror.addresses, &mirror.ports)
    };
    Draft::ready(endpoint, Source::Link(mirror.cluster.clone()))
}

/// Collects the federated services. There is at most one in practice, because its name follows from the service's.
pub(super) fn federated_drafts(parts: &Parts<'_>) -> Vec<Draft> {
    let federated = parts.federated.iter();
    let endpoints = federated.map(|(object, federated)| {
        let (addresses, ports) = (&federated.addresses, &federated.ports);
        Endpoint::of_service(object, ServiceKind::Federated, addresses, ports)
    });
    endpoints
        .map(|endpoint| Draft::ready(endpoint, Source::Federation))
        .collect()
}

/// Makes the draft of the Service of this cluster with a cluster IP.
pub(super) fn local_draft(local: &LocalService, inputs: &Inputs, rules: &Rules) -> Draft {
    let object = ObjectKey::of_service(&local.service);
    let endpoint = Endpoint {
        cluster: Some(rules.cluster_name.clone()),
        alive: has_ready_slice(inputs, &object),
        ..Endpoint::of_service(&object, ServiceKind::Local, &local.addresses, &local.ports)
    };
    Draft::ready(endpoint, Source::Local)
}

/// Returns whether a slice of a Service has a ready address.
fn has_ready_slice(inputs: &Inputs, service: &ObjectKey) -> bool {
    inputs.slices_of(service).any(|(_, slice)| match slice {
        Object::ReadySlice(slice) => slice.ready == Some(true),
        // A slice that Kubernetes does not manage, of a Service without a selector.
        Object::Slice(slice) => slice.endpoints.iter().any(|endpoint| endpoint.ready),
        Object::HeadlessMirror(_)
        | Object::EndpointMirror(_)
        | Object::ServiceMirror(_)
        | Object::FederatedService(_)
        | Object::LocalService(_)
        | Object::ListedHosts(_)
        | Object::ServiceImport(_)
        | Object::ImportSlice(_)
        | Object::Skipped(_) => false,
    })
}
