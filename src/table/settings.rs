//! TTL and rule for gateways of a service: the annotations of the Service of this cluster, then the settings (rule K6).

use std::collections::BTreeSet;

use super::context::BuildContext;
use super::items::Items;
use crate::model::{GatewayDown, Line, Problem, ProblemKind, ServiceSettings, TTL_RANGE};

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
    let without_effect = |detail| Problem::new(ProblemKind::SettingWithoutEffect, detail);
    let ignored = |detail| Problem::new(ProblemKind::IgnoredAnnotation, detail);
    let unreadable = |one: &Line| format!("annotation {one}");
    let own_ttl = own.and_then(|own| own.ttl);
    let own_unreadable = own.into_iter().flat_map(|own| &own.unreadable);
    let of_own = own_ttl.and_then(outside_range).into_iter();
    problems.extend(
        of_own
            .chain(own_unreadable.map(unreadable))
            .map(without_effect),
    );
    let copied: BTreeSet<u32> = copies.iter().filter_map(|copy| copy.ttl).collect();
    let copied_unreadable: BTreeSet<&Line> =
        copies.iter().flat_map(|copy| &copy.unreadable).collect();
    let of_copies = copied.iter().copied().filter_map(outside_range);
    let of_copies = of_copies.chain(copied_unreadable.into_iter().map(unreadable));
    problems.extend(of_copies.map(ignored));
    let by_settings = of_settings.and_then(|one| one.ttl).unwrap_or(rules.ttl);
    let ttl = own_ttl.map_or(by_settings, in_range);
    let lowest = copied.first().map_or(ttl, |copied| in_range(*copied));
    let gateway_down = own.and_then(|own| own.gateway_down);
    let gateway_down = gateway_down.or_else(|| of_settings?.gateway_down);
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
