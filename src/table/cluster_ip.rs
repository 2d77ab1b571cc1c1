//! What Services with a cluster IP offer: mirrors of whole Services, federated services, and Services of this cluster
//! (kinds `gateway`, `flat`, `federated` and `local`).

use std::collections::BTreeSet;

use super::candidate::Candidate;
use super::context::BuildContext;
use super::endpoint::Rank;
use super::rules::Rules;
use super::store::Store;
use super::{Endpoint, EndpointLiveness, ServiceKind};
use crate::model::{ClusterName, Item, ItemKind, ObjectKey, SliceContent};

/// Makes the candidate of a Service with a cluster IP: its address. A federated service of excluded clusters alone has none.
pub(super) fn candidate<'s>(
    object: &'s ObjectKey,
    item: &'s Item,
    context: BuildContext<'s>,
) -> Option<Candidate<'s>> {
    let BuildContext { store, rules, .. } = context;
    let clusters = clusters(item, rules)?;
    let (rank, endpoint) = if item.kind == ItemKind::Federated {
        let endpoint = Endpoint::of_item(object, item, ServiceKind::Federated);
        (Rank::Federated, endpoint)
    } else {
        let cluster = clusters.first()?.clone();
        (Rank::ClusterIp, endpoint(object, item, cluster, store))
    };
    let (source, links) = ((object, item), &context.timers.links);
    let endpoints = vec![endpoint];
    Some(Candidate::new(source, rank, clusters, endpoints, links))
}

/// Makes the endpoint of the cluster IP of a Service in one cluster.
pub(super) fn endpoint(
    object: &ObjectKey,
    item: &Item,
    cluster: ClusterName,
    store: &Store,
) -> Endpoint {
    let (kind, liveness) = match item.kind {
        // The mesh finds the pods itself.
        ItemKind::FlatMirror => (ServiceKind::Flat, EndpointLiveness::Alive),
        ItemKind::Own(_) => (ServiceKind::Local, liveness(store, object)),
        _ => {
            let liveness = match liveness(store, object) {
                // Linkerd removes the slice if the exported Service has no ready endpoint, and keeps it if the gateway is down.
                EndpointLiveness::NotReady if !store.slices_of(object).is_empty() => {
                    EndpointLiveness::GatewayDown
                }
                other => other,
            };
            (ServiceKind::Gateway, liveness)
        }
    };
    Endpoint {
        cluster: Some(cluster),
        liveness,
        ..Endpoint::of_item(object, item, kind)
    }
}

/// Returns the clusters of an item after aliases, without excluded ones. Returns `None` if all of them are excluded.
fn clusters(item: &Item, rules: &Rules) -> Option<BTreeSet<ClusterName>> {
    let linked = item.linked.iter().map(|link| rules.name_of(link));
    let own = item.has_own.then(|| rules.cluster_name.clone());
    let all: BTreeSet<_> = linked.chain(own).collect();
    // Members of this cluster stay, whatever is excluded.
    if item.own().is_some() {
        return Some(all);
    }
    let rest = &all - &rules.excluded_clusters;
    (all.is_empty() || !rest.is_empty()).then_some(rest)
}

/// Returns the liveness of a cluster IP: whether a slice of its Service has a ready address.
fn liveness(store: &Store, service: &ObjectKey) -> EndpointLiveness {
    let slices = store.slices_of(service);
    let has_ready = slices.iter().any(|(_, slice)| match &slice.content {
        SliceContent::Ready(ready) => *ready == Some(true),
        // A slice that Kubernetes does not manage, of a Service without a selector.
        SliceContent::Endpoints(listed) => listed.entries.iter().any(|endpoint| endpoint.ready),
        SliceContent::Hosts(_) => false,
    });
    if has_ready {
        EndpointLiveness::Alive
    } else {
        EndpointLiveness::NotReady
    }
}
