//! Resolves the annotations of a service's members to one setting, and reports those that differ or are invalid.

use std::collections::BTreeSet;

use super::rules::Rules;
use super::{Conflict, ConflictKind};
use crate::mirror::{GatewayDown, Line, Overrides, ServiceKey};

/// Resolves the annotations of the members. The smallest TTL applies, and the gateway-down rule that includes the most
/// endpoints.
pub(super) fn resolve(
    key: &ServiceKey,
    overrides: &[&Overrides],
    rules: &Rules,
    conflicts: &mut Vec<Conflict>,
) -> (u32, GatewayDown) {
    let mut details = Vec::new();
    let ttl = smallest_ttl(overrides, rules, &mut details);
    let gateway_down = gateway_down(overrides, rules, &mut details);
    let invalid: BTreeSet<&Line> = overrides.iter().flat_map(|o| &o.invalid).collect();
    let invalid = invalid.into_iter();
    details.extend(invalid.map(|annotation| format!("annotation {annotation} is invalid")));
    conflicts.extend(details.into_iter().map(|detail| Conflict {
        kind: ConflictKind::Annotation,
        name: key.to_string().into(),
        detail: detail.into(),
    }));
    (ttl, gateway_down)
}

/// Returns the smallest TTL of the annotations, within its limits, or the TTL of the rules. Reports what differs.
fn smallest_ttl(overrides: &[&Overrides], rules: &Rules, details: &mut Vec<String>) -> u32 {
    let ttls: BTreeSet<u32> = overrides
        .iter()
        .filter_map(|overrides| overrides.ttl)
        .collect();
    if ttls.len() > 1 {
        details.push(format!(
            "annotations set different TTLs {ttls:?}; the smallest is used"
        ));
    }
    let Some(&ttl) = ttls.first() else {
        return rules.ttl;
    };
    if !(1..=rules.ttl_max).contains(&ttl) {
        details.push(format!(
            "TTL {ttl} is not between 1 and {}; the nearest allowed value is used",
            rules.ttl_max
        ));
    }
    ttl.clamp(1, rules.ttl_max)
}

/// Returns the gateway-down rule of the annotations, or that of the rules. Reports annotations that differ.
fn gateway_down(overrides: &[&Overrides], rules: &Rules, details: &mut Vec<String>) -> GatewayDown {
    let downs: BTreeSet<GatewayDown> = overrides.iter().filter_map(|o| o.gateway_down).collect();
    if downs.len() > 1 {
        details.push(
            "annotations set different gateway-down rules; the one that includes the most endpoints is used"
                .to_owned(),
        );
    }
    downs.last().copied().unwrap_or(rules.gateway_down)
}
