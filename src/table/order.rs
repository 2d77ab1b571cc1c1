//! The failover order of a service: the setting that it comes from (rules K5 and K6), and the step that answers (rules K5a and
//! K7), which is the third step of a build.

use std::collections::BTreeSet;
use std::time::Duration;

use super::candidate::Candidate;
use super::context::{BuildContext, KeptOrder};
use super::endpoint::{Endpoint, Role};
use super::failover::{Answering, Debounce, Failover, OrderOrigin, Step, StepHealth, StepMemory};
use crate::model::{
    ClusterName, ClusterTerm, FailoverOrder, GatewayDown, Line, MAX_LISTED, ObjectKey, ObjectRef,
    Problem, ProblemKind, key, list_some, shorten,
};

/// An order with the setting that it comes from.
pub(super) type Order = (FailoverOrder, OrderOrigin);

/// How long the order of a Service that is gone applies. A Service whose type changes is deleted and created again, and must
/// not join the steps meanwhile.
const KEPT: Duration = Duration::from_secs(10);

/// Maximum number of characters of an order, and of a step, in a sentence.
const MAX_ORDER: usize = 100;

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
        let what =
            format!("ignored, because the service has one address for all its clusters: {order}");
        let mut problem = wrong(origin, &what, "", context);
        if origin == OrderOrigin::DefaultSetting {
            problem.kind = ProblemKind::IgnoredSetting;
            let remedy = "nothing, or export the service so that each cluster has an address";
            problem = problem.with_remedy(remedy);
        }
        context.report([problem]);
        return None;
    }
    // With one step, nothing moves.
    if has_pods && order.is_auto && order.count() > 1 {
        let kind = ProblemKind::AutoWithPods;
        let place = place(origin, context).unwrap_or_default();
        let problem = Problem::new(kind, order.to_string());
        context.report([problem.with_remedy(format!("{}{place}", kind.row().hint))]);
    }
    report_terms(&order, origin, context);
    Some((order, origin))
}

/// Returns where a person changes an order: `: `, and a command or a setting. Returns `None` if its Service is gone.
fn place(origin: OrderOrigin, context: BuildContext<'_>) -> Option<String> {
    let [service, namespace] = context.key.labels();
    match origin {
        OrderOrigin::Annotation if !context.has_own() => None,
        OrderOrigin::Annotation => Some(format!(": kubectl edit service {service} -n {namespace}")),
        _ => Some(format!(": {} in the settings", origin.setting(context.key))),
    }
}

/// Makes the problem of an order that does not do what it says. `other` is another remedy than to correct it.
fn wrong(origin: OrderOrigin, what: &str, other: &str, context: BuildContext<'_>) -> Problem {
    let detail = format!("{}: {what}", origin.setting(context.key));
    let remedy = match place(origin, context) {
        Some(place) => format!("correct it{place}{other}"),
        None => "nothing: its Service is gone, and the order ends within ten seconds".to_owned(),
    };
    Problem::new(ProblemKind::SettingWithoutEffect, detail).with_remedy(remedy)
}

/// Reports clusters of an order that nothing here knows or whose name cannot be read, and this cluster if it occurs twice (rules K5,
/// K5a).
fn report_terms(order: &FailoverOrder, origin: OrderOrigin, context: BuildContext<'_>) {
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
    let link = unknown
        .first()
        .map(|first| format!("; or link cluster {first}"));
    for (names, reason, other) in [
        (unknown, "no mirror and no Link names it", link.as_deref()),
        (unreadable, "it is not the name of a cluster", None),
    ] {
        let Some(first) = names.first() else { continue };
        let listed = list_some(names.iter().map(|name| format!("'{name}'")), MAX_LISTED);
        let what = format!("counts as a cluster without endpoints, {reason}: {listed} in {text}");
        let problem = wrong(origin, &what, other.unwrap_or_default(), context);
        context.report([problem.of_unknown(first)]);
    }
    if order.terms().filter(|term| term.is(own, own)).count() > 1 {
        let what = format!("corrected, its first place counts: 'local' and '{own}' in {text}");
        context.report([wrong(origin, &what, "", context)]);
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
        let what = format!(
            "no step behind {step} answers, which is flat or federated and alive while its mirror exists: {order}"
        );
        context.report([wrong(origin, &what, "", context)]);
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
    context.report(problem_of_step(&failover, &standby, context));
    (failover, debounce)
}

/// Returns what is wrong with the step that answers, if something is. `standby` are the clusters that are alive and do not answer. Of
/// an order that is held, the detail has the command that makes one of them answer, unless it is too long.
fn problem_of_step(
    failover: &Failover,
    standby: &BTreeSet<ClusterName>,
    context: BuildContext<'_>,
) -> Option<Problem> {
    let order = &failover.order;
    let [whole, step] = [order.to_string(), failover.answering_text()]
        .map(|text| Line::from(text).truncated(MAX_ORDER));
    let detail = format!("step {} of {whole}, {step}", failover.answering + 1);
    let (kind, detail) = match failover.answering_health() {
        StepHealth::Empty => (ProblemKind::StepWithoutEndpoint, detail),
        StepHealth::Down if !order.is_auto => {
            let detail = format!("{detail}: no other takes over");
            (ProblemKind::HeldStepDown, detail)
        }
        _ if failover.answering > 0 => (ProblemKind::StandbyAnswers, detail),
        _ => return None,
    };
    if kind == ProblemKind::StandbyAnswers {
        return Some(Problem::new(kind, detail));
    }
    let detail = match list_some(standby, MAX_LISTED).as_str() {
        _ if order.is_auto => detail,
        "" => format!("{detail}; no other cluster is alive"),
        alive => format!("{detail}; alive: {alive}"),
    };
    let command = takeover(failover, standby, context).unwrap_or_default();
    let whole = Problem::new(kind, format!("{detail}; {command}"));
    let hint = kind.row().hint;
    if !command.is_empty() && whole.detail.ends_with(&command) {
        let other = "or let another step answer with the command in the detail";
        return Some(whole.with_remedy(format!("{hint}; {other}")));
    }
    let problem = Problem::new(kind, detail);
    Some(match place(failover.origin, context) {
        Some(place) if kind == ProblemKind::StepWithoutEndpoint => {
            problem.with_remedy(format!("{hint}; or change the order{place}"))
        }
        _ => problem,
    })
}

/// Says what makes the first of the clusters that are alive answer in place of the first step of an order that is held. An annotation
/// wins over the settings (rule K6). Returns `None` if the order moves by itself or no valid one does it, or if its Service is gone.
fn takeover(
    failover: &Failover,
    standby: &BTreeSet<ClusterName>,
    context: BuildContext<'_>,
) -> Option<String> {
    if failover.order.is_auto {
        return None;
    }
    let own = &context.rules.cluster_name;
    let is_known = |name: &ClusterName| context.store.knows(name, context.rules);
    let place = |one: &&ClusterName| failover.order.step_of(one, own).unwrap_or(usize::MAX);
    let first = standby.iter().min_by_key(place)?;
    let order = failover.order.led_by(first, own, &is_known)?;
    let [service, namespace] = context.key.labels();
    let command = match failover.origin {
        _ if context.has_own() => format!(
            "kubectl annotate service {service} -n {namespace} --overwrite '{}={order}'",
            key::FAILOVER
        ),
        OrderOrigin::Annotation => return None,
        _ => {
            let setting = OrderOrigin::ServiceSetting.setting(context.key);
            format!("set {setting} to {order} in the settings")
        }
    };
    Some(format!("to let {} answer: {command}", order.step_text(0)))
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
    let remedy = format!(
        "correct it{}",
        place(OrderOrigin::Annotation, context).unwrap_or_default()
    );
    let kind = ProblemKind::SettingWithoutEffect;
    context.report(unused.map(|one| Problem::new(kind, one).with_remedy(&*remedy)));
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
