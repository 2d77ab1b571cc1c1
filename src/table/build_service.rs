//! Builds one service: `candidates` → `choose` → `order` → `service`.

use std::collections::BTreeSet;

use super::candidate::Candidate;
use super::candidates::candidates;
use super::choose::{choose, kind_of};
use super::context::{BuildContext, BuiltService};
use super::failover::{Failover, OrderContext, StepHealth, order};
use super::gate::Gate;
use super::items::Items;
use super::kind::Rank;
use super::local::non_member;
use super::merge::{limit_ports, mark_duplicates, merge};
use super::own_settings::KeptOrder;
use super::settings::Decided;
use super::timers::ServiceTimers;
use super::{NameFailure, NameIndex, Service};
use crate::model::{ItemKind, ObjectRef, Problem, ProblemKind, ServiceKey};

/// Builds one service.
pub(super) fn build_service(key: &ServiceKey, context: BuildContext<'_>) -> BuiltService {
    let mut problems = Vec::new();
    let items = Items::of(key, context.store, context.rules);
    let mut candidates = candidates(key, &items, context, &mut problems);
    let mut decided = Decided::of(key, &items, &candidates, context, &mut problems);
    choose(&mut candidates, decided.order.is_some(), &mut problems);
    let gate = gate(&candidates, &decided, context);
    let mut timers = ServiceTimers {
        order: decided.kept.take(),
        ..ServiceTimers::default()
    };
    timers.wake_at(timers.order.as_ref().and_then(KeptOrder::end));
    timers.wake_at(gate.as_ref().and_then(|gate| gate.closes_until));
    let failover = decided.order.take().map(|written| {
        let context = OrderContext {
            key,
            has_pods: decided.has_pods,
            has_items: !items.is_empty(),
            last: context
                .timers
                .of(key)
                .and_then(|last| last.failover.as_ref()),
            is_arriving: context.is_arriving(&written.0),
            rules: context.rules,
            now: context.timers.now,
        };
        let (failover, debounce, wake) = order(written, context, &mut candidates, &mut problems);
        timers.failover = debounce;
        timers.wake_at(wake);
        failover
    });
    problems.extend(ignored_annotations(&items));
    let facts = Service {
        failure: failure(gate.as_ref(), failover.as_ref()),
        failover: failover.map(Box::new),
        gate: gate.map(Box::new),
        ttl: decided.ttl,
        gateway_down: decided.gateway_down,
        ..of_candidates(key, &mut candidates)
    };
    let service = service(facts, candidates, context.rules.has_mcs_zones, problems);
    let is_any = service.is_known || !service.problems.is_empty() || decided.is_set;
    BuiltService {
        service: is_any.then_some(service),
        timers,
        non_member: non_member(key, &items, context.rules),
    }
}

/// Returns the gate of a service (rule K8). A cluster has an endpoint also if another candidate answers for it.
fn gate(
    candidates: &[Candidate<'_>],
    decided: &Decided,
    context: BuildContext<'_>,
) -> Option<Gate> {
    let present = candidates.iter().filter(|one| !one.endpoints.is_empty());
    let present = present.flat_map(|one| one.clusters.iter().cloned());
    let (rules, now) = (context.rules, context.timers.now);
    Gate::new(decided.own.as_ref(), &present.collect(), rules, now)
}

/// Makes a service with what its candidates say of it, but for their endpoints.
fn of_candidates(key: &ServiceKey, candidates: &mut [Candidate<'_>]) -> Service {
    let mut service = Service::new(key.clone());
    let mut federated = BTreeSet::new();
    let mut mirrors = BTreeSet::new();
    let mut missing = Vec::new();
    for one in &mut *candidates {
        service.is_headless |= one.rank == Rank::Headless;
        service.has_member |= one.rank == Rank::Headless && one.item.own().is_some();
        missing.append(&mut one.missing);
        let clusters = one.clusters.iter().cloned();
        if one.item.kind == ItemKind::HeadlessMirror {
            mirrors.extend(clusters.map(|cluster| (cluster, ObjectRef::service(one.object))));
        } else if one.is_shared() {
            federated.extend(clusters);
        }
    }
    missing.sort_by(|one, other| one.labels().cmp(&other.labels()));
    Service {
        kind: kind_of(candidates, !mirrors.is_empty()),
        is_known: !candidates.is_empty(),
        mirrors: mirrors.into_iter().collect(),
        federated: federated.into_iter().collect(),
        missing: missing.into(),
        ..service
    }
}

/// Completes a service: merges the endpoints of its candidates, and sorts its problems.
fn service(
    service: Service,
    candidates: Vec<Candidate<'_>>,
    has_mcs_zones: bool,
    mut problems: Vec<Problem>,
) -> Service {
    let (mut endpoints, not_ready) = merge(candidates, &mut problems);
    limit_ports(&mut endpoints, &mut problems);
    mark_duplicates(&mut endpoints);
    let is_missing = endpoints.is_empty() && !service.missing.is_empty();
    let mut service = Service {
        failure: service
            .failure
            .or(is_missing.then_some(NameFailure::EndpointMirrorsMissing)),
        names: NameIndex::new(&endpoints, service.gateway_down, has_mcs_zones),
        endpoints: endpoints.into(),
        not_ready: not_ready.into(),
        ..service
    };
    service.add_state_problems(&mut problems);
    for problem in &mut problems {
        problem.service = Some(service.key.clone());
    }
    problems.sort();
    problems.dedup();
    service.problems = problems.into();
    service
}

/// Returns why the name of a service fails, if it does (rules K5, K8).
fn failure(gate: Option<&Gate>, failover: Option<&Failover>) -> Option<NameFailure> {
    if gate.is_some_and(|gate| !gate.missing_clusters().is_empty()) {
        return Some(NameFailure::ExpectedClustersMissing);
    }
    (failover?.answering_health() == StepHealth::Empty).then_some(NameFailure::StepWithoutEndpoint)
}

/// Lists the annotations of mirrors that are ignored, with the mirrors.
fn ignored_annotations(items: &Items<'_>) -> impl Iterator<Item = Problem> {
    items
        .iter()
        .filter(|(_, item)| item.own().is_none())
        .flat_map(|(object, item)| {
            let ignored = item.settings.iter().flat_map(|settings| &settings.ignored);
            ignored.map(move |annotation| {
                let problem = Problem::new(ProblemKind::IgnoredAnnotation, annotation.clone());
                problem.of_object(ObjectRef::service(object))
            })
        })
}
