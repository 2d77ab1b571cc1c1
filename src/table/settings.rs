//! What persons decide for a service: the annotations of the Service of this cluster, then the settings (rule K6).

use std::collections::BTreeSet;

use super::candidate::Candidate;
use super::context::BuildContext;
use super::failover::{Order, OrderOrigin, order_of, order_problems};
use super::items::Items;
use super::own_settings::{KeptOrder, OwnSettings, has_pods};
use super::rules::Rules;
use crate::model::{
    GatewayDown, ItemKind, Line, Problem, ProblemKind, ServiceKey, ServiceSettings, TTL_RANGE,
};

/// What persons decide for a service.
pub(super) struct Decided {
    /// What its Service of this cluster says.
    pub(super) own: Option<OwnSettings>,
    /// The order of that Service, also a moment after it is gone.
    pub(super) kept: Option<KeptOrder>,
    /// The order that applies (rule K5).
    pub(super) order: Option<Order>,
    /// Whether clients hold a member of a database (rule K5a).
    pub(super) has_pods: bool,
    /// TTL of the records, seconds.
    pub(super) ttl: u32,
    /// The treatment of endpoints with a gateway that is down (rule M4).
    pub(super) gateway_down: GatewayDown,
    /// Whether the service exists although no object belongs to it.
    pub(super) is_set: bool,
}

// === impl Decided ===

impl Decided {
    /// Reads the settings of a service, and reports those that cannot be used.
    pub(super) fn of(
        key: &ServiceKey,
        items: &Items<'_>,
        candidates: &[Candidate<'_>],
        context: BuildContext<'_>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let BuildContext {
            store,
            rules,
            timers,
            ..
        } = context;
        let own = OwnSettings::of(key, items, store);
        let last = timers.of(key).and_then(|last| last.order.as_ref());
        let kept = KeptOrder::next(own.as_ref(), last, timers.now);
        let has_mirrors = candidates
            .iter()
            .any(|one| one.item.kind == ItemKind::HeadlessMirror);
        let has_pods = has_pods(items, has_mirrors, store);
        let applies_by_default = !candidates.is_empty() && !has_pods;
        let order = order_of(key, own.as_ref(), kept.as_ref(), rules, applies_by_default);
        let (ttl, gateway_down) = resolve(key, own.as_ref(), items, rules, problems);
        let order = order.filter(|order| !is_unused(order, candidates, problems));
        if let Some((order, _)) = &order {
            problems.extend(order_problems(order, context.known_clusters, rules));
        }
        Self {
            is_set: own
                .as_ref()
                .is_some_and(|own| own.settings != ServiceSettings::default())
                || kept.is_some()
                || rules.order_of(key).flatten().is_some()
                || !rules.aliases.sources_of(key).is_empty(),
            own,
            kept,
            order,
            has_pods,
            ttl,
            gateway_down,
        }
    }
}

/// Returns whether an order does not apply, because there is nothing but addresses that belong to no single cluster, and
/// reports it (rule K1).
fn is_unused(
    (order, origin): &Order,
    candidates: &[Candidate<'_>],
    problems: &mut Vec<Problem>,
) -> bool {
    let mut offering = candidates
        .iter()
        .filter(|one| !one.endpoints.is_empty())
        .peekable();
    if offering.peek().is_none() || !offering.all(|one| one.is_shared()) {
        return false;
    }
    let kind = match origin {
        OrderOrigin::Annotation | OrderOrigin::ServiceSetting => ProblemKind::SettingWithoutEffect,
        OrderOrigin::DefaultSetting => ProblemKind::UnusedOrder,
    };
    let detail = format!("{order}: the service has one address for all its clusters");
    problems.push(Problem::new(kind, detail));
    true
}

/// Returns the TTL of a service and its rule for gateways that are down. The annotations of the Service of this cluster decide,
/// else `services` of the settings. The annotations of mirrors may only lower the TTL.
fn resolve(
    key: &ServiceKey,
    own: Option<&OwnSettings>,
    items: &Items<'_>,
    rules: &Rules,
    problems: &mut Vec<Problem>,
) -> (u32, GatewayDown) {
    let own = own.map(|own| &own.settings);
    let copies = items
        .copies(rules)
        .filter_map(|(_, item)| item.settings.as_deref());
    let copies: Vec<&ServiceSettings> = copies.collect();
    let service = rules.services.get(key);
    let without_effect = |detail| Problem::new(ProblemKind::SettingWithoutEffect, detail);
    let ignored = |detail| Problem::new(ProblemKind::IgnoredAnnotation, detail);
    let own_ttl = own.and_then(|own| own.ttl);
    let copied: BTreeSet<u32> = copies.iter().filter_map(|copy| copy.ttl).collect();
    problems.extend(own_ttl.and_then(outside_range).map(without_effect));
    problems.extend(
        copied
            .iter()
            .copied()
            .filter_map(outside_range)
            .map(ignored),
    );
    let of_settings = service.and_then(|service| service.ttl);
    let ttl = own_ttl.map_or(of_settings.unwrap_or(rules.ttl), in_range);
    let lowest = copied.first().map_or(ttl, |copied| in_range(*copied));
    let unreadable = own.into_iter().flat_map(|own| &own.unreadable);
    problems.extend(unreadable.map(|one| without_effect(format!("annotation {one}"))));
    let copied: BTreeSet<&Line> = copies.iter().flat_map(|copy| &copy.unreadable).collect();
    problems.extend(
        copied
            .into_iter()
            .map(|one| ignored(format!("annotation {one}"))),
    );
    let gateway_down = own.and_then(|own| own.gateway_down);
    let gateway_down = gateway_down.or_else(|| service?.gateway_down);
    (ttl.min(lowest), gateway_down.unwrap_or(rules.gateway_down))
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
