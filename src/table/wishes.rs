//! What the owners of exported Services ask for by annotation, where they disagree: one rule, and a report.

use std::collections::BTreeSet;

use super::rules::Rules;
use super::{Conflict, ConflictKind};
use crate::mirror::{GatewayDown, ServiceKey, Wishes};

/// Settles what the members ask for by annotation: the smallest TTL, and the gateway rule that answers most.
pub(super) fn agree(
    key: &ServiceKey,
    wishes: &[&Wishes],
    rules: &Rules,
    conflicts: &mut Vec<Conflict>,
) -> (u32, GatewayDown) {
    let mut details = Vec::new();
    let ttl = smallest_ttl(wishes, rules, &mut details);
    let gateway_down = gateway_down(wishes, rules, &mut details);
    let unreadable: BTreeSet<&String> = wishes.iter().flat_map(|w| &w.unreadable).collect();
    let unreadable = unreadable.into_iter();
    details.extend(unreadable.map(|annotation| format!("annotation {annotation} makes no sense")));
    conflicts.extend(details.into_iter().map(|detail| Conflict {
        kind: ConflictKind::Annotation,
        name: key.to_string(),
        detail,
    }));
    (ttl, gateway_down)
}

/// Returns the smallest TTL that members ask for, within its limits, or the usual one; reports what differs from it.
fn smallest_ttl(wishes: &[&Wishes], rules: &Rules, details: &mut Vec<String>) -> u32 {
    let ttls: BTreeSet<u32> = wishes.iter().filter_map(|wishes| wishes.ttl).collect();
    if ttls.len() > 1 {
        details.push(format!(
            "members ask for TTLs {ttls:?}; the smallest is used"
        ));
    }
    let Some(&ttl) = ttls.first() else {
        return rules.ttl;
    };
    if !(1..=rules.ttl_max).contains(&ttl) {
        details.push(format!(
            "TTL {ttl} is not between 1 and {}; the nearest is used",
            rules.ttl_max
        ));
    }
    ttl.clamp(1, rules.ttl_max)
}

/// Returns the gateway rule that members ask for, or the usual one; reports it if they ask for different ones.
fn gateway_down(wishes: &[&Wishes], rules: &Rules, details: &mut Vec<String>) -> GatewayDown {
    let downs: BTreeSet<GatewayDown> = wishes.iter().filter_map(|w| w.gateway_down).collect();
    if downs.len() > 1 {
        details.push(
            "members ask for different gateway-down rules; the one that answers most is used"
                .to_owned(),
        );
    }
    downs.last().copied().unwrap_or(rules.gateway_down)
}
