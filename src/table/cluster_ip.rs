//! Endpoints with a cluster IP of their own: mirrors of whole Services, federated services, and Services of this cluster
//! (kinds `gateway`, `flat`, `federated` and `local`).

use smallvec::smallvec;

use super::inputs::Inputs;
use super::members::service_ref;
use super::merge::{Draft, Source, distinct};
use super::parts::Parts;
use super::rules::{LocalMembers, Rules};
use super::{Endpoint, ServiceKind};
use crate::mirror::{
    ClusterName, Hostname, Kind, LocalService, Object, ObjectKey, ObjectRef, Route, ServiceKey,
    ServiceMirror, Skip,
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
    Draft {
        endpoint: Endpoint {
            cluster: Some(cluster),
            hostname,
            addresses: distinct(mirror.addresses.iter().copied()),
            ports: mirror.ports.clone(),
            alive,
            kind,
            is_selected: true,
            objects: smallvec![(Kind::Service, object.name.clone())],
        },
        source: Source::Link(mirror.cluster.clone()),
        target: None,
        ready: true,
    }
}

/// Collects the federated services. There is at most one in practice, because its name follows from the service's.
pub(super) fn federated_drafts(parts: &Parts<'_>) -> Vec<Draft> {
    let draft = |(object, federated): &(&ObjectKey, &crate::mirror::FederatedService)| Draft {
        endpoint: Endpoint {
            cluster: None,
            hostname: None,
            addresses: distinct(federated.addresses.iter().copied()),
            ports: federated.ports.clone(),
            alive: true,
            kind: ServiceKind::Federated,
            is_selected: true,
            objects: smallvec![(Kind::Service, object.name.clone())],
        },
        source: Source::Federation,
        target: None,
        ready: true,
    };
    parts.federated.iter().map(draft).collect()
}

/// Makes the draft of the Service of this cluster with a cluster IP, if it is a member: it is exported.
pub(super) fn local_draft(
    key: &ServiceKey,
    local: &LocalService,
    inputs: &Inputs,
    rules: &Rules,
) -> Option<Draft> {
    let is_enabled = match rules.local_members {
        LocalMembers::Matching | LocalMembers::Exported => true,
        LocalMembers::Off => false,
    };
    let is_member = is_enabled && !local.is_headless() && local.is_exported_in_any_way();
    let object = ObjectKey::of_service(key);
    is_member.then(|| Draft {
        endpoint: Endpoint {
            cluster: Some(rules.cluster_name.clone()),
            hostname: None,
            addresses: distinct(local.addresses.iter().copied()),
            ports: local.ports.clone(),
            alive: has_ready_slice(inputs, &object),
            kind: ServiceKind::Local,
            is_selected: true,
            objects: smallvec![(Kind::Service, object.name.clone())],
        },
        source: Source::Local,
        target: None,
        ready: true,
    })
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
        | Object::Skipped(_) => false,
    })
}
