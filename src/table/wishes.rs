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
    let mut report = |detail: String| {
        let kind = ConflictKind::Annotation;
        conflicts.push(Conflict {
            kind,
            name: key.to_string(),
            detail,
        });
    };
    let ttls: BTreeSet<u32> = wishes.iter().filter_map(|wishes| wishes.ttl).collect();
    if ttls.len() > 1 {
        report(format!(
            "members ask for TTLs {ttls:?}; the smallest is used"
        ));
    }
    let ttl = ttls.first().map_or(rules.ttl, |ttl| *ttl);
    if !(1..=rules.ttl_max).contains(&ttl) && !ttls.is_empty() {
        report(format!(
            "TTL {ttl} is not between 1 and {}; the nearest is used",
            rules.ttl_max
        ));
    }
    let downs: BTreeSet<GatewayDown> = wishes.iter().filter_map(|w| w.gateway_down).collect();
    if downs.len() > 1 {
        report(
            "members ask for different gateway-down rules; the one that answers most is used"
                .to_owned(),
        );
    }
    let unreadable: BTreeSet<&String> = wishes.iter().flat_map(|w| &w.unreadable).collect();
    for annotation in unreadable {
        report(format!("annotation {annotation} makes no sense"));
    }
    let ttl = if ttls.is_empty() {
        ttl
    } else {
        ttl.clamp(1, rules.ttl_max)
    };
    (ttl, downs.last().copied().unwrap_or(rules.gateway_down))
}
