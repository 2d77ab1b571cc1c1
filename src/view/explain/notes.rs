//! Notes about a service: the way of a connection to its endpoints, and its failover order.

use std::collections::BTreeSet;

use crate::model::ClusterName;
use crate::table::failover::{OrderOrigin, StepHealth};
pub(super) use crate::table::list_clusters as list;
use crate::table::{Service, ServiceKind};

/// Returns the notes about the services of a name.
pub(super) fn service_notes(services: &[&Service]) -> Vec<String> {
    let mut notes: Vec<String> = services
        .iter()
        .flat_map(|service| kind_notes(service).chain(order_note(service)))
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
/// Returns the order of a service, the step that answers, and the state of the others.
fn order_note(service: &Service) -> Option<String> {
    let failover = service.failover.as_ref()?;
    let order = &failover.order;
    let mut note = format!(
        "failover order {order} ({}){}: answering step {} of {}, {}",
        describe_origin(failover.origin),
        if order.is_auto { "" } else { ", held" },
        failover.answering + 1,
        order.count(),
        failover.answering_text()
    );
    for (index, step) in failover.steps.iter().enumerate() {
        let name = order.step_text(index);
        let since = step.since.map(|time| format!(" since {}", time.to_text()));
        let since = since.unwrap_or_default();
        note += &match step.health {
            StepHealth::Down => format!("; {name} has been down{since}"),
            StepHealth::Empty if since.is_empty() => format!("; {name} has no endpoint"),
            StepHealth::Empty => format!("; {name} has had no endpoint{since}"),
            StepHealth::Alive if index < failover.answering => {
                format!("; {name} has been alive{since}, and answers again after failover.back")
            }
            StepHealth::Alive => continue,
        };
    }
    Some(note)
}

/// Returns the setting that an order comes from.
fn describe_origin(origin: OrderOrigin) -> &'static str {
    match origin {
        OrderOrigin::Annotation => "annotation global-dns/failover of the Service of this cluster",
        OrderOrigin::ServiceSetting => "services in the settings",
        OrderOrigin::DefaultSetting => "failover.default in the settings",
    }
}
