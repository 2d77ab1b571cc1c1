//! Notes about the kinds of a service's endpoints: the way of a connection to each.

use std::collections::BTreeSet;

use super::Context;
use super::failover::order_note;
use crate::model::ClusterName;
pub(super) use crate::table::list_clusters as list;
use crate::table::{Service, ServiceKind};

/// Returns the notes about the services of a name.
pub(super) fn service_notes(services: &[&Service], context: &Context<'_>) -> Vec<String> {
    let mut notes: Vec<String> = services
        .iter()
        .flat_map(|service| kind_notes(service).chain(order_note(service, context)))
        .collect();
    let mut endpoints = services.iter().flat_map(|service| &service.endpoints);
    if endpoints.any(|endpoint| endpoint.kind.is_mirrored()) {
        notes.push(
            "only meshed clients can use the addresses of other clusters' endpoints".to_owned(),
        );
    }
    notes
}

/// Returns a note for each kind of the endpoints of a service.
fn kind_notes(service: &Service) -> impl Iterator<Item = String> {
    let kinds: BTreeSet<ServiceKind> = service
        .endpoints
        .iter()
        .map(|endpoint| endpoint.kind)
        .collect();
    kinds.into_iter().filter_map(|kind| {
        let clusters = || clusters_of(service, kind);
        Some(match kind {
            ServiceKind::Gateway => format!(
                "gateway: connections pass through the gateway of the cluster ({})",
                clusters()
            ),
            ServiceKind::Flat => format!(
                "flat: connections go directly to pods of the cluster ({}); Linkerd finds the pods, so that these \
                 addresses are always alive here",
                clusters()
            ),
            ServiceKind::Federated => format!(
                "federated: Linkerd balances connections over the members in {}",
                list(service.federated.iter())
            ),
            ServiceKind::Headless | ServiceKind::Local => return None,
        })
    })
}

/// Returns the clusters with endpoints of one kind.
fn clusters_of(service: &Service, kind: ServiceKind) -> String {
    let endpoints = service
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.kind == kind);
    let clusters: BTreeSet<&ClusterName> = endpoints
        .filter_map(|endpoint| endpoint.cluster.as_ref())
        .collect();
    list(clusters.into_iter())
}
