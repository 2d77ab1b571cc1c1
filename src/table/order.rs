//! The failover order of a service: the setting that it comes from (rules K5 and K6), and the step that answers (rules K5a and
//! K7), which is the third step of a build.

use std::collections::BTreeSet;
use std::time::Duration;

use super::candidates::{Candidate, Role};
use super::context::{BuildContext, Items};
use super::endpoint::{Endpoint, ServiceKind};
use super::failover::{Debounce, Failover, OrderOrigin, Step, StepHealth};
use super::timers::KeptOrder;
use crate::model::{
    ClusterTerm, FailoverOrder, GatewayDown, Problem, ProblemKind, ServiceSettings, TTL_RANGE,
    Timestamp, most_similar,
};

/// An order with the setting that it comes from.
pub(super) type Order = (FailoverOrder, OrderOrigin);

/// How long the order of a Service that is gone applies. A Service whose type changes is deleted and created again, and must
/// not join the steps meanwhile.
const KEPT: Duration = Duration::from_secs(10);

// === Settings ===

/// Returns the order of the Service of this cluster, or the order that it had until a moment ago. An annotation that is removed
/// from a Service that stays ends at once.
pub(super) fn kept_order(
    exists: bool,
    own: Option<&ServiceSettings>,
    last: Option<&KeptOrder>,
    now: Timestamp,
) -> Option<KeptOrder> {
    if exists {
        let order = own?.failover.clone()??;
        return Some(KeptOrder { order, end: None });
    }
    let KeptOrder { order, end } = last?.clone();
    let end = Some(end.unwrap_or(now.after(KEPT)));
    (Some(now) < end).then_some(KeptOrder { order, end })
}

/// Returns the order of a service: the first setting that exists (rule K6). `kept` is that of the annotation.
/// `applies_by_default` says whether the default order is for the service: it is known and has no pods.
pub(super) fn order_of(
    own: Option<&ServiceSettings>,
    kept: Option<&KeptOrder>,
    context: BuildContext<'_>,
    applies_by_default: bool,
) -> Option<Order> {
    if let Some(kept) = kept {
        return Some((kept.order.clone(), OrderOrigin::Annotation));
    }
    // An empty annotation is no order, whatever the settings say.
    if own.is_some_and(|own| own.failover.is_some()) {
        return None;
    }
    if let Some(order) = context.rules.order_of(context.key) {
        return Some((order?.clone(), OrderOrigin::ServiceSetting));
    }
    let default = context.rules.failover.clone();
    let order = default.filter(|_| applies_by_default)?;
    Some((order, OrderOrigin::DefaultSetting))
}

/// Returns whether an order does not apply, because there is nothing but addresses that belong to no single cluster, and
/// reports it (rule K1).
pub(super) fn is_unused(
    (order, origin): &Order,
    candidates: &[Candidate<'_>],
    problems: &mut Vec<Problem>,
) -> bool {
    let mut offering = candidates.iter().filter(|one| !one.endpoints.is_empty());
    if offering.clone().next().is_none() || !offering.all(Candidate::is_shared) {
        return false;
    }
    let (kind, setting) = match origin {
        OrderOrigin::DefaultSetting => (ProblemKind::IgnoredSetting, "failover.default: "),
        _ => (ProblemKind::SettingWithoutEffect, ""),
    };
    let detail = format!("{setting}{order}: the service has one address for all its clusters");
    problems.push(Problem::new(kind, detail));
    true
}

/// Reports what is wrong with an order, whatever its steps have: clusters that nothing here knows or whose name
/// cannot be read, this cluster if it occurs twice, and pods that move by themselves (rules K5, K5a).
pub(super) fn order_problems(
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
    items: &Items<'_>,
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
    let (answering, debounce) = debounced(&order, &health, items, context).unzip();
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
    items: &Items<'_>,
    context: BuildContext<'_>,
) -> Option<(usize, Debounce)> {
    if !order.is_auto {
        return None;
    }
    let (rules, now) = (context.rules, context.timers.now);
    let last = context.last().and_then(|last| last.failover.as_ref());
    let last = last.filter(|last| last.order == *order);
    let end = if items.is_empty() {
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
    own: Option<&ServiceSettings>,
    items: &Items<'_>,
    context: BuildContext<'_>,
    problems: &mut Vec<Problem>,
) -> (u32, GatewayDown) {
    let rules = context.rules;
    let of_settings = rules.services.get(context.key);
    let copies = items.copies(rules);
    let copies: Vec<&ServiceSettings> = copies
        .filter_map(|(_, item)| item.settings.as_deref())
        .collect();
    let of_own = own.into_iter().flat_map(defects);
    let of_own = of_own.map(|one| Problem::new(ProblemKind::SettingWithoutEffect, one));
    let of_copies = copies.iter().copied().flat_map(defects);
    let of_copies = of_copies.map(|one| Problem::new(ProblemKind::IgnoredSetting, one));
    problems.extend(of_own.chain(of_copies));
    let by_settings = of_settings.and_then(|one| one.ttl).unwrap_or(rules.ttl);
    let ttl = own.and_then(|own| own.ttl).map_or(by_settings, in_range);
    let copied = copies.iter().filter_map(|copy| copy.ttl).map(in_range);
    let ttl = copied.fold(ttl, u32::min);
    let gateway_down = own.and_then(|own| own.gateway_down);
    let gateway_down = gateway_down.or_else(|| of_settings?.gateway_down);
    (ttl, gateway_down.unwrap_or(rules.gateway_down))
}

/// Returns what cannot be used of the annotations of a Service.
fn defects(settings: &ServiceSettings) -> impl Iterator<Item = String> {
    let ttl = settings.ttl.and_then(outside_range).into_iter();
    let unreadable = settings.unreadable.iter();
    ttl.chain(unreadable.map(|one| format!("annotation {one}")))
}

/// Returns the nearest TTL that can be set.
fn in_range(ttl: u32) -> u32 {
    ttl.clamp(*TTL_RANGE.start(), *TTL_RANGE.end())
}

/// Returns what is wrong with a TTL that cannot be set.
fn outside_range(ttl: u32) -> Option<String> {
    let (least, most) = (TTL_RANGE.start(), TTL_RANGE.end());
    let counts = in_range(ttl);
    (counts != ttl).then(|| format!("TTL {ttl} is not between {least} and {most}; {counts} counts"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{ObjectKey, ServiceKey};
    use crate::table::Store;
    use crate::testing::{local, rules, service_keys, store};

    fn db() -> ServiceKey {
        service_keys(&["db"]).pop_first().unwrap()
    }

    fn next(store: &Store, last: Option<&KeptOrder>, second: u64) -> Option<KeptOrder> {
        let items = Items::of(&db(), store, &rules());
        let own = items.own_of(&db());
        let exists = own.is_some() || store.has_plain_service(&ObjectKey::of_service(&db()));
        let settings = own.and_then(|own| own.settings.as_deref());
        kept_order(exists, settings, last, Timestamp::from_seconds(second))
    }

    #[test]
    fn order_applies_for_ten_seconds_after_the_service_is_gone() {
        let [mut service, _] = local("prod", "db", &[]);
        let (plain, none) = (store(&[service.clone()]), store(&[]));
        service["metadata"]["annotations"]["global-dns/failover"] = json!("east:west");
        let own = store(&[service]);
        let order = next(&own, None, 90).unwrap();
        assert_eq!(order.end, None);
        let gone = next(&none, Some(&order), 100).unwrap();
        let end = Timestamp::from_seconds(110);
        assert_eq!(gone.end, Some(end));
        // Other builds of the service do not prolong that.
        let later = next(&none, Some(&gone), 109).unwrap();
        assert_eq!((later.end, &later.order), (Some(end), &order.order));
        assert_eq!(next(&none, Some(&later), 110), None);
        // It is back, with the order or without it.
        assert_eq!(next(&own, Some(&later), 109), Some(order));
        assert_eq!(next(&plain, Some(&later), 109), None);
    }
}
