//! The failover order of a service: the setting that it comes from (rules K5 and K6), and the step that answers (rules K5a and
//! K7), which is the third step of a build.

use std::collections::BTreeSet;
use std::time::Duration;

use super::candidate::{Candidate, Role};
use super::context::BuildContext;
use super::endpoint::{Endpoint, ServiceKind};
use super::failover::{Debounce, Failover, OrderOrigin, Step, StepHealth};
use super::timers::KeptOrder;
use crate::model::{
    ClusterTerm, FailoverOrder, GatewayDown, ObjectKey, Problem, ProblemKind, ServiceSettings,
    most_similar,
};

/// An order with the setting that it comes from.
pub(super) type Order = (FailoverOrder, OrderOrigin);

/// How long the order of a Service that is gone applies. A Service whose type changes is deleted and created again, and must
/// not join the steps meanwhile.
const KEPT: Duration = Duration::from_secs(10);

// === Settings ===

/// Returns the order of the Service of this cluster, or the order that it had until a moment ago. An annotation that is removed
/// from a Service that stays ends at once.
pub(super) fn kept_order(context: BuildContext<'_>) -> Option<KeptOrder> {
    let service = ObjectKey::of_service(context.key);
    if context.own().is_some() || context.store.has_plain_service(&service) {
        let order = context.settings()?.failover.clone()??;
        return Some(KeptOrder { order, end: None });
    }
    let now = context.timers.now;
    let KeptOrder { order, end } = context.last()?.order.clone()?;
    let end = Some(end.unwrap_or(now.after(KEPT)));
    (Some(now) < end).then_some(KeptOrder { order, end })
}

/// Returns the order of a service: the first setting that exists (rule K6), and reports what is wrong with it. `kept` is that of the
/// annotation. The default order is for services that are known and have no pods.
pub(super) fn order_of(
    kept: Option<&KeptOrder>,
    candidates: &[Candidate<'_>],
    context: BuildContext<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Order> {
    let has_pods = context.has_pods();
    let is_set = |own: &ServiceSettings| own.failover.is_some();
    let (order, origin) = if let Some(kept) = kept {
        (kept.order.clone(), OrderOrigin::Annotation)
    } else if context.settings().is_some_and(is_set) {
        return None; // an empty annotation is no order, whatever the settings say
    } else if let Some(order) = context.rules.order_of(context.key) {
        (order?.clone(), OrderOrigin::ServiceSetting)
    } else {
        let default = context.rules.failover.clone();
        let order = default.filter(|_| !candidates.is_empty() && !has_pods)?;
        (order, OrderOrigin::DefaultSetting)
    };
    let mut offering = candidates.iter().filter(|one| !one.endpoints.is_empty());
    if offering.clone().next().is_some() && offering.all(Candidate::is_shared) {
        // Nothing but addresses that belong to no single cluster (rule K1).
        let (kind, setting) = match origin {
            OrderOrigin::DefaultSetting => (ProblemKind::IgnoredSetting, "failover.default: "),
            _ => (ProblemKind::SettingWithoutEffect, ""),
        };
        let detail = format!("{setting}{order}: the service has one address for all its clusters");
        problems.push(Problem::new(kind, detail));
        return None;
    }
    problems.extend(order_problems(&order, has_pods, context));
    Some((order, origin))
}

/// Reports what is wrong with an order, whatever its steps have: clusters that nothing here knows or whose name
/// cannot be read, this cluster if it occurs twice, and pods that move by themselves (rules K5, K5a).
fn order_problems(
    order: &FailoverOrder,
    has_pods: bool,
    context: BuildContext<'_>,
) -> Vec<Problem> {
    let BuildContext { known_clusters, .. } = context;
    let own = &context.rules.cluster_name;
    let wrong = order.terms().filter_map(|term| {
        let (defect, cluster) = match term {
            ClusterTerm::Named(name) if known_clusters.contains(name) => return None,
            ClusterTerm::Named(name) => {
                let defect = format!("cluster '{name}' has no mirror and no Link");
                (defect.into(), Some(name))
            }
            term => (term.defect()?, None),
        };
        let known = known_clusters.iter().map(ToString::to_string);
        let nearest = most_similar(&term.to_string(), known);
        let nearest = nearest.map_or(String::new(), |name| {
            format!("; the nearest name is '{name}'")
        });
        let detail = format!("{order}: {defect}{nearest}");
        let problem = Problem::new(ProblemKind::SettingWithoutEffect, detail);
        Some(cluster.into_iter().fold(problem, Problem::of_cluster))
    });
    let mut problems: Vec<Problem> = wrong.collect();
    if order.terms().filter(|term| term.is(own, own)).count() > 1 {
        let detail =
            format!("{order}: 'local' and '{own}' are one cluster; its first place counts");
        problems.push(Problem::new(ProblemKind::SettingWithoutEffect, detail));
    }
    // With one step, nothing moves.
    if has_pods && order.is_auto && order.count() > 1 {
        problems.push(Problem::new(ProblemKind::AutoWithPods, order.to_string()));
    }
    problems
}

// === The third step of a build ===

/// Decides which step of an order answers, and makes the candidates of the other steps standby. Returns what is remembered of
/// an order that moves by itself.
pub(super) fn order(
    (order, origin): Order,
    context: BuildContext<'_>,
    candidates: &mut [Candidate<'_>],
    problems: &mut Vec<Problem>,
) -> (Failover, Option<Debounce>) {
    let own = &context.rules.cluster_name;
    let step_of = |one: &Candidate<'_>| order.step_of(one.clusters.first()?, own);
    let mut health = vec![StepHealth::Empty; order.count()];
    let mut flat = BTreeSet::new();
    for one in candidates.iter().filter(|one| one.is_answering()) {
        let Some(step) = step_of(one) else { continue };
        let offered = if one.endpoints.iter().any(Endpoint::is_alive) {
            StepHealth::Alive
        } else {
            StepHealth::Down
        };
        health[step] = health[step].min(offered);
        let is_flat = |endpoint: &Endpoint| endpoint.kind == ServiceKind::Flat;
        if one.endpoints.iter().any(is_flat) {
            flat.insert(step);
        }
    }
    let (answering, debounce) = debounced(&order, &health, context).unzip();
    let answering = answering.unwrap_or(0);
    for one in candidates
        .iter_mut()
        .filter(|one| one.role == Role::Answers)
    {
        if step_of(one) != Some(answering) {
            one.role = Role::Standby;
        }
    }
    let hides = |step: &&usize| **step + 1 < order.count() && order.is_auto;
    if let Some(step) = flat.first().filter(hides) {
        let step = order.step_text(*step);
        let detail = format!(
            "{order}: step {step} is in a flat network, which is alive while its mirror exists"
        );
        problems.push(Problem::new(ProblemKind::SettingWithoutEffect, detail));
    }
    let steps = health.iter().enumerate().map(|(index, health)| Step {
        health: *health,
        since: debounce.as_ref().and_then(|last| last.steps[index].since()),
    });
    let failover = Failover {
        steps: steps.collect(),
        order,
        origin,
        answering,
    };
    problems.extend(failover.held_step_down(context.key));
    (failover, debounce)
}

/// Returns the step of an order that answers, and what is remembered of its steps. Returns `None` if the first
/// step answers and nothing is remembered: the order is held, or the service has had no object for `failover.back`.
fn debounced(
    order: &FailoverOrder,
    health: &[StepHealth],
    context: BuildContext<'_>,
) -> Option<(usize, Debounce)> {
    if !order.is_auto {
        return None;
    }
    let (rules, now) = (context.rules, context.timers.now);
    let last = context.last().and_then(|last| last.failover.as_ref());
    let last = last.filter(|last| last.order == *order);
    let end = if context.items.is_empty() {
        Some(last?.end.unwrap_or(now.after(rules.failback_delay)))
    } else {
        None
    };
    if end.is_some_and(|end| end <= now) {
        return None;
    }
    let new = || Debounce::new(order, health, context.is_arriving(order), now);
    let mut last = last.cloned().unwrap_or_else(new);
    last.end = end;
    Some(last.next(health, now, rules))
}

/// Returns the TTL of a service and its rule for gateways that are down. The annotations of the Service of this cluster decide,
/// else `services` of the settings. The annotations of mirrors may only lower the TTL. Reports those that cannot be used.
pub(super) fn resolve(
    context: BuildContext<'_>,
    problems: &mut Vec<Problem>,
) -> (u32, GatewayDown) {
    let (rules, own) = (context.rules, context.settings());
    let of_settings = rules.services.get(context.key);
    let of_own = own
        .into_iter()
        .map(|one| (ProblemKind::SettingWithoutEffect, one));
    let of_copies = context.copied_settings();
    let of_copies = of_copies.map(|one| (ProblemKind::IgnoredSetting, one));
    for (kind, settings) in of_own.chain(of_copies) {
        let unreadable = settings.unreadable.iter().cloned();
        problems.extend(unreadable.map(|one| Problem::new(kind, one)));
    }
    let mut set = own.into_iter().chain(of_settings);
    let ttl = set.clone().find_map(|one| one.ttl).unwrap_or(rules.ttl);
    let copied = context.copied_settings().filter_map(|copy| copy.ttl);
    let gateway_down = set.find_map(|one| one.gateway_down);
    (
        copied.fold(ttl, u32::min),
        gateway_down.unwrap_or(rules.gateway_down),
    )
}
