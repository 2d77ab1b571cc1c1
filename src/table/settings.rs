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
    let annotation = |detail| Problem::new(ProblemKind::Annotation, detail);
    let in_range = |ttl: u32| ttl.clamp(*TTL_RANGE.start(), *TTL_RANGE.end());
    let own_ttl = own.and_then(|own| own.ttl);
    let copied: BTreeSet<u32> = copies.iter().filter_map(|copy| copy.ttl).collect();
    let outside = own_ttl.iter().chain(&copied);
    problems.extend(outside.filter(|ttl| in_range(**ttl) != **ttl).map(|ttl| {
        annotation(format!(
            "TTL {ttl} is not between {} and {}; the nearest allowed value counts",
            TTL_RANGE.start(),
            TTL_RANGE.end(),
        ))
    }));
    let of_settings = service.and_then(|service| service.ttl);
    let ttl = own_ttl.map_or(of_settings.unwrap_or(rules.ttl), in_range);
    let lowest = copied.first().map_or(ttl, |copied| in_range(*copied));
    let unreadable = own.into_iter().flat_map(|own| &own.unreadable);
    problems.extend(unreadable.map(|one| {
        let detail = format!("annotation {one}");
        Problem::new(ProblemKind::UnreadableSetting, detail)
    }));
    let copied: BTreeSet<&Line> = copies.iter().flat_map(|copy| &copy.unreadable).collect();
    problems.extend(
        copied
            .into_iter()
            .map(|one| annotation(format!("annotation {one}"))),
    );
    let gateway_down = own.and_then(|own| own.gateway_down);
    let gateway_down = gateway_down.or_else(|| service?.gateway_down);
    (ttl.min(lowest), gateway_down.unwrap_or(rules.gateway_down))
}
