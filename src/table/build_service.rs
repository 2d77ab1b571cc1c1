//! Builds one service: `candidates` → `choose` → `order` → `service`.

use std::collections::BTreeSet;

use super::candidate::Candidate;
use super::candidates::candidates;
use super::choose::{choose, kind_of};
use super::context::{BuildContext, BuiltService};
use super::endpoint::Rank;
use super::failover::{Failover, StepHealth};
use super::gate::Gate;
use super::local::non_member;
use super::merge::{limit_ports, mark_duplicates, merge};
use super::name_index::NameIndex;
use super::order::{kept_order, order, order_of, resolve};
use super::timers::ServiceTimers;
use super::{MissingHost, NameFailure, Service};
use crate::model::{Item, ItemKind, ObjectRef, OwnService, Problem, ProblemKind};

/// Builds one service.
pub(super) fn build_service(context: BuildContext<'_>) -> BuiltService {
    let BuildContext {
        key, rules, timers, ..
    } = context;
    let mut problems = Vec::new();
    let mut candidates = candidates(context, &mut problems);
    // What people decide (rule K6).
    let kept = kept_order(context);
    let written = order_of(kept.as_ref(), &candidates, context, &mut problems);
    let (ttl, gateway_down) = resolve(context, &mut problems);
    let is_set = context.settings().is_some()
        || kept.is_some()
        || rules.order_of(key).flatten().is_some()
        || !rules.aliases.sources_of(key).is_empty();
    // What answers (rules K1, K5, K8).
    choose(&mut candidates, written.is_some(), &mut problems);
    let own = context.own();
    let gate = own.and_then(|own| Gate::new(own, &candidates, rules, timers.wall));
    let ordered = written.map(|written| order(written, context, &mut candidates, &mut problems));
    let (failover, debounce) = ordered.unzip();
    let debounce = debounce.flatten();
    let of_gate = gate.as_ref();
    let wakes = [
        kept.as_ref().and_then(|kept| kept.end),
        of_gate.and_then(|gate| gate.wake(timers.now, timers.wall)),
        debounce.as_ref().and_then(|debounce| debounce.wake),
    ];
    problems.extend(ignored_annotations(context));
    let facts = Service {
        failure: failure(gate.as_ref(), failover.as_ref()),
        failover: failover.map(Box::new),
        gate: gate.map(Box::new),
        ttl,
        gateway_down,
        ..of_candidates(context, &mut candidates)
    };
    let service = service(facts, candidates, rules.has_mcs_zones, problems);
    let is_any = service.is_known || !service.problems.is_empty() || is_set;
    BuiltService {
        service: is_any.then_some(service),
        timers: ServiceTimers {
            failover: debounce,
            order: kept,
            wake: wakes.into_iter().flatten().min(),
        },
        non_member: non_member(context),
    }
}

/// Makes a service with what its candidates say of it, but for their endpoints.
fn of_candidates(context: BuildContext<'_>, candidates: &mut [Candidate<'_>]) -> Service {
    let mut service = Service::new(context.key.clone());
    let own = context.own().and_then(Item::own);
    let own = own.filter(OwnService::is_headless);
    service.is_headless = candidates.is_empty() && own.is_some();
    let mut federated = BTreeSet::new();
    let mut mirrors = BTreeSet::new();
    let mut missing = Vec::new();
    for one in &mut *candidates {
        service.is_headless |= one.rank == Rank::Headless;
        missing.append(&mut one.missing);
        let clusters = one.clusters.iter().cloned();
        if one.item.kind == ItemKind::HeadlessMirror {
            mirrors.extend(clusters.map(|cluster| (cluster, ObjectRef::service(one.object))));
        } else if one.is_shared() {
            federated.extend(clusters);
        }
    }
    let place = |one: &MissingHost| (one.cluster.clone(), one.hostname.clone());
    missing.sort_by_cached_key(place);
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
    if gate.is_some_and(|gate| gate.closes_until.is_some()) {
        return Some(NameFailure::ExpectedClustersMissing);
    }
    (failover?.answering_health() == StepHealth::Empty).then_some(NameFailure::StepWithoutEndpoint)
}

/// Lists the annotations of mirrors that are ignored, with the mirrors.
fn ignored_annotations(context: BuildContext<'_>) -> impl Iterator<Item = Problem> {
    let mirrors = context
        .items
        .iter()
        .filter(|(_, item)| item.own().is_none());
    mirrors.flat_map(|(object, item)| {
        let ignored = item.settings.iter().flat_map(|settings| &settings.ignored);
        ignored.map(move |annotation| {
            let problem = Problem::new(ProblemKind::IgnoredSetting, annotation.clone());
            problem.of_object(ObjectRef::service(object))
        })
    })
}
