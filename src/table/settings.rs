//! Resolves the annotations of a service's objects, and reports those that cannot be read (rule K6).

use std::collections::BTreeSet;

use super::own_settings::OwnSettings;
use super::rules::Rules;
use crate::model::{GatewayDown, Line, Problem, ProblemKind, Settings};

/// Returns the TTL of a service and its rule for gateways that are down. The Service of this cluster decides. `copies` are
/// the annotations of mirrors, which may only lower the TTL.
pub(super) fn resolve(
    own: Option<&OwnSettings>,
    copies: &[&Settings],
    rules: &Rules,
    problems: &mut Vec<Problem>,
) -> (u32, GatewayDown) {
    let own = own.map(|own| &own.settings);
    let annotation = |detail| Problem::new(ProblemKind::Annotation, detail);
    let in_range = |ttl: u32| ttl.clamp(1, rules.ttl_max);
    let own_ttl = own.and_then(|own| own.ttl);
    let copied: BTreeSet<u32> = copies.iter().filter_map(|copy| copy.ttl).collect();
    let outside = own_ttl.iter().chain(&copied);
    problems.extend(outside.filter(|ttl| in_range(**ttl) != **ttl).map(|ttl| {
        annotation(format!(
            "TTL {ttl} is not between 1 and {}; the nearest allowed value counts",
            rules.ttl_max
        ))
    }));
    let ttl = own_ttl.map_or(rules.ttl, in_range);
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
    (ttl.min(lowest), gateway_down.unwrap_or(rules.gateway_down))
}
