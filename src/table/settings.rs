//! TTL and rule for gateways of a service: the annotations of the Service of this cluster, then the settings (rule K6).

use super::context::BuildContext;
use super::items::Items;
use crate::model::{GatewayDown, Problem, ProblemKind, ServiceSettings, TTL_RANGE};

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
