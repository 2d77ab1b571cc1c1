//! Endpoints with a cluster IP of their own: mirrors of whole Services, federated services, and Services of this cluster
//! (kinds `gateway`, `flat`, `federated` and `local`).

use super::endpoint::{Draft, Source};
use super::items::{Items, Mirror, shared_by};
use super::kind::Rank;
use super::rules::Rules;
use super::store::Store;
use super::{Endpoint, EndpointLiveness, ServiceKind};
use crate::model::{
    ClusterName, Hostname, Item, ItemKind, ObjectKey, ObjectRef, Problem, SliceContent,
};

/// Collects the mirrors with a cluster IP. Those of excluded clusters are skipped.
pub(super) fn mirror_drafts(
    items: &Items<'_>,
    store: &Store,
    rules: &Rules,
    problems: &mut Vec<Problem>,
) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for Mirror { object, item, link } in items.service_mirrors() {
        let cluster = rules.name_of(link);
        match rules.exclusion(&cluster) {
            Some(problem) => problems.push(problem.of_object(ObjectRef::service(object))),
            None => drafts.push(mirror_draft(object, item, cluster, None, store)),
        }
    }
    drafts
}

/// Makes the draft of a mirror with a cluster IP. With a hostname, it stands for one pod (rule M1b).
pub(super) fn mirror_draft(
    object: &ObjectKey,
    mirror: &Item,
    cluster: ClusterName,
    hostname: Option<Hostname>,
    store: &Store,
) -> Draft {
    let (kind, liveness) = if mirror.kind == ItemKind::FlatMirror {
        // The mesh finds the pods itself.
        (ServiceKind::Flat, EndpointLiveness::Alive)
    } else {
        let liveness = match liveness(store, object) {
            // Linkerd removes the slice if the exported Service has no ready endpoint, and keeps it if the gateway is down.
            EndpointLiveness::NotReady if !store.slices_of(object).is_empty() => {
                EndpointLiveness::GatewayDown
            }
            other => other,
        };
        (ServiceKind::Gateway, liveness)
    };
    let endpoint = Endpoint {
        cluster: Some(cluster),
        hostname,
        liveness,
        ..Endpoint::of_item(object, mirror, kind)
    };
    // A pod with a Service of its own is one of the pods.
    let rank = if endpoint.hostname.is_some() {
        Rank::Headless
    } else {
        Rank::ClusterIp
    };
    Draft::ready(endpoint, Source::of(mirror), rank)
}

/// Collects the federated services. There is at most one in practice, because its name follows from the service's.
pub(super) fn federated_drafts(items: &Items<'_>, rules: &Rules) -> impl Iterator<Item = Draft> {
    let federated = items.of_kind(ItemKind::Federated);
    federated.filter_map(|(object, item)| {
        let endpoint = Endpoint::of_item(object, item, ServiceKind::Federated);
        Some(Draft {
            shared_by: shared_by(item, rules)?,
            ..Draft::ready(endpoint, Source::of(item), Rank::Federated)
        })
    })
}

/// Makes the draft of the Service of this cluster with a cluster IP.
pub(super) fn own_draft(own: &Item, store: &Store, rules: &Rules) -> Draft {
    let object = ObjectKey::of_service(&own.service);
    let endpoint = Endpoint {
        cluster: Some(rules.cluster_name.clone()),
        liveness: liveness(store, &object),
        ..Endpoint::of_item(&object, own, ServiceKind::Local)
    };
    Draft::ready(endpoint, Source::of(own), Rank::ClusterIp)
}

/// Returns the liveness of a cluster IP: whether a slice of its Service has a ready address.
fn liveness(store: &Store, service: &ObjectKey) -> EndpointLiveness {
    let slices = store.slices_of(service);
    let has_ready = slices.iter().any(|(_, slice)| match &slice.content {
        SliceContent::Ready(ready) => *ready == Some(true),
        // A slice that Kubernetes does not manage, of a Service without a selector.
        SliceContent::Endpoints(listed) => listed.endpoints.iter().any(|endpoint| endpoint.ready),
        SliceContent::Hosts(_) => false,
    });
    if has_ready {
        EndpointLiveness::Alive
    } else {
        EndpointLiveness::NotReady
    }
}
