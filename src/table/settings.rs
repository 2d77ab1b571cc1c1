//! Resolves the settings of a service, and reports those that cannot be read (rule K6).

use std::collections::BTreeSet;

use super::own_settings::OwnSettings;
use super::rules::Rules;
use crate::model::{
    GatewayDown, Line, Problem, ProblemKind, ServiceKey, ServiceSettings, TTL_RANGE,
};

/// Returns the TTL of a service and its rule for gateways that are down. The annotations of the Service of this cluster decide, else
/// `services` of the settings. `copies` are
/// the annotations of mirrors, which may only lower the TTL.
pub(super) fn resolve(
    key: &ServiceKey,
    own: Option<&OwnSettings>,
    copies: &[&ServiceSettings],
    rules: &Rules,
    problems: &mut Vec<Problem>,
) -> (u32, GatewayDown) {
    let own = own.map(|own| &own.settings);
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
