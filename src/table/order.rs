//! The failover order of a service: the setting that it comes from (rules K5 and K6), and the step that answers (rules K5a and
//! K7), which is the third step of a build.

use std::collections::BTreeSet;
use std::time::Duration;

use super::candidate::Candidate;
use super::context::{BuildContext, KeptOrder};
use super::endpoint::{Endpoint, Role};
use super::failover::{Answering, Debounce, Failover, OrderOrigin, Step, StepHealth, StepMemory};
use crate::model::{
    ClusterTerm, FailoverOrder, GatewayDown, MAX_LISTED, ObjectKey, ObjectRef, Problem,
    ProblemKind, list_some, shorten,
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
    if context.own().is_some() || context.store.has_other_service(&service) {
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
) -> Option<Order> {
    let has_pods = context.has_pods();
    let mut offering = candidates.iter().filter(|one| !one.endpoints.is_empty());
    let (order, origin) = if let Some(kept) = kept {
        (kept.order.clone(), OrderOrigin::Annotation)
    } else if context.settings().is_some_and(|own| own.failover.is_some()) {
        return None; // an empty annotation is no order, whatever the settings say
    } else if let Some(order) = context.rules.order_of(context.key) {
        (order?.clone(), OrderOrigin::ServiceSetting)
    } else {
        // It makes no name that has no member.
        let order = context
            .rules
            .failover
            .clone()
            .filter(|_| offering.clone().next().is_some() && !has_pods)?;
        (order, OrderOrigin::DefaultSetting)
    };
    if offering.clone().next().is_some() && offering.all(Candidate::covers_several) {
        // Nothing but addresses that belong to no single cluster (rule K1).
        let (kind, setting) = match origin {
            OrderOrigin::DefaultSetting => (ProblemKind::IgnoredSetting, "failover.default: "),
            _ => (ProblemKind::SettingWithoutEffect, ""),
        };
        let detail =
            format!("ignored: {setting}{order}: the service has one address for all its clusters");
        context.report([Problem::new(kind, detail)]);
        return None;
    }
    // With one step, nothing moves.
    if has_pods && order.is_auto && order.count() > 1 {
        context.report([Problem::new(ProblemKind::AutoWithPods, order.to_string())]);
    }
    report_terms(&order, context);
    Some((order, origin))
}

/// Reports clusters of an order that nothing here knows or whose name cannot be read, and this cluster if it occurs twice (rules K5,
/// K5a).
fn report_terms(order: &FailoverOrder, context: BuildContext<'_>) {
    let own = &context.rules.cluster_name;
    let text = shorten(&order.to_string());
    let mut unknown = Vec::new();
    let mut unreadable = Vec::new();
    for term in order.terms() {
        match term {
            ClusterTerm::Named(name) if !context.store.knows(name, context.rules) => {
                unknown.push(name.as_str())
            }
            ClusterTerm::Unreadable(text) => unreadable.push(text.as_str()),
            _ => {}
        }
    }
    for (names, reason) in [
        (unknown, "no mirror and no Link names it"),
        (unreadable, "it is not the name of a cluster"),
    ] {
        let Some(first) = names.first() else { continue };
        let listed = list_some(names.iter().map(|name| format!("'{name}'")), MAX_LISTED);
        let detail = format!("counts as a cluster without endpoints, {reason}: {listed} in {text}");
        let problem = Problem::new(ProblemKind::SettingWithoutEffect, detail);
        context.report([problem.of_unknown(first)]);
    }
    if order.terms().filter(|term| term.is(own, own)).count() > 1 {
        let detail = format!("corrected, its first place counts: 'local' and '{own}' in {text}");
        context.report([Problem::new(ProblemKind::SettingWithoutEffect, detail)]);
    }
}

// === The third step of a build ===

/// Decides which step of an order answers, and makes the candidates of the other steps standby. Returns what is remembered of
/// an order that moves by itself.
pub(super) fn order(
    (order, origin): Order,
    context: BuildContext<'_>,
    candidates: &mut [Candidate<'_>],
) -> (Failover, Option<Debounce>) {
    let own = &context.rules.cluster_name;
    let step_of = |one: &Candidate<'_>| order.step_of(one.clusters.first()?, own);
    let mut health = vec![StepHealth::Empty; order.count()];
    let mut always_alive = order.count();
    for one in candidates.iter().filter(|one| one.is_answering()) {
        let Some(step) = step_of(one) else { continue };
        let offered = if one.endpoints.iter().any(Endpoint::is_alive) {
            StepHealth::Alive
        } else {
            StepHealth::Down
        };
        health[step] = health[step].min(offered);
        if one.endpoints.iter().any(Endpoint::is_always_alive) {
            always_alive = step.min(always_alive);
        }
    }
    let debounce = debounced(&order, &health, context);
    let answering = debounce
        .as_ref()
        .and_then(|one| one.answering)
        .map_or(0, |one| one.step);
    let mut standby = BTreeSet::new();
    for one in candidates {
        if one.role == Role::Answers && step_of(one) != Some(answering) {
            one.role = Role::Standby;
            if one.endpoints.iter().any(Endpoint::is_alive) {
                standby.extend(one.clusters.iter().cloned());
            }
        }
    }
    // Behind it, no step answers.
    if order.is_auto && always_alive + 1 < order.count() {
        let step = order.step_text(always_alive);
        let detail = format!(
            "{order}: step {step} is flat or federated, which is alive while its mirror exists"
        );
        context.report([Problem::new(ProblemKind::SettingWithoutEffect, detail)]);
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
    context.report(failover.problem(context.key, &standby, own));
    (failover, debounce)
}

/// Returns what is remembered of the steps of an order that moves by itself, with the one that answers (rule K7). Returns `None` if
/// the first step answers: the order is held, or the service has had no object for `failover.back`.
fn debounced(
    order: &FailoverOrder,
    health: &[StepHealth],
    context: BuildContext<'_>,
) -> Option<Debounce> {
    let rules = context.rules;
    let now = context.timers.now;
    let last = context.last().and_then(|last| last.failover.as_ref());
    let last = last.filter(|last| last.order == *order);
    let end = match context.items {
        [] => Some(last?.end.unwrap_or(now.after(rules.failback_delay))),
        _ => None,
    };
    if !order.is_auto || end.is_some_and(|end| end <= now) {
        return None;
    }
    let is_arriving = context.is_arriving(order);
    let mut steps: Box<[StepMemory]> = match last {
        Some(last) => last.steps.clone(),
        None => health
            .iter()
            .map(|health| StepMemory::new(*health, is_arriving, now))
            .collect(),
    };
    for (step, health) in steps.iter_mut().zip(health) {
        step.note(*health == StepHealth::Alive, now, rules);
    }
    let answering = last.and_then(|last| last.answering);
    Some(Debounce {
        answering: Answering::choose(answering, &steps, health, now),
        order: order.clone(),
        steps,
        end,
    })
}

/// Returns the TTL of a service and its rule for gateways that are down. The annotations of the Service of this cluster decide,
/// else `services` of the settings. The annotations of mirrors may only lower the TTL. Reports those without effect.
pub(super) fn resolve(context: BuildContext<'_>) -> (u32, GatewayDown) {
    let rules = context.rules;
    let own = context.settings();
    let mut set = own.into_iter().chain(rules.services.get(context.key));
    let mut ttl = set.clone().find_map(|one| one.ttl).unwrap_or(rules.ttl);
    let gateway_down = set.find_map(|one| one.gateway_down);
    let unused = own.into_iter().flat_map(|own| own.unused.iter().cloned());
    context.report(unused.map(|one| Problem::new(ProblemKind::SettingWithoutEffect, one)));
    for (object, copy) in context.copied_settings() {
        ttl = copy.ttl.map_or(ttl, |lower| ttl.min(lower));
        let unused = copy
            .unused
            .iter()
            .cloned()
            .map(|one| Problem::new(ProblemKind::IgnoredSetting, one));
        context.report(unused.map(|one| one.of_object(ObjectRef::service(object))));
    }
    (ttl, gateway_down.unwrap_or(rules.gateway_down))
}
