//! Resolves the annotations of a service's objects to one setting, and reports those that differ or are invalid.

use std::collections::BTreeSet;

use super::rules::Rules;
use crate::model::{GatewayDown, Line, Problem, ProblemKind, Settings};

/// Resolves the annotations of the members. The smallest TTL applies, and the gateway-down rule that includes the most
/// endpoints. Invalid annotations of `own` are reported, also if it is not a member.
pub(super) fn resolve(
    members: &[&Settings],
    own: Option<&Settings>,
    rules: &Rules,
    problems: &mut Vec<Problem>,
) -> (u32, GatewayDown) {
    let mut details = Vec::new();
    let ttl = smallest_ttl(members, rules, &mut details);
    let gateway_down = gateway_down(members, rules, &mut details);
    let all = members.iter().copied().chain(own);
    let invalid: BTreeSet<&Line> = all.flat_map(|settings| &settings.invalid).collect();
    let invalid = invalid.into_iter();
    details.extend(invalid.map(|annotation| format!("annotation {annotation}")));
    let problem = |detail| Problem::new(ProblemKind::Annotation, detail);
    problems.extend(details.into_iter().map(problem));
    (ttl, gateway_down)
}

/// Returns the smallest TTL of the annotations, within its limits, or the TTL of the rules. Reports what differs.
fn smallest_ttl(members: &[&Settings], rules: &Rules, details: &mut Vec<String>) -> u32 {
    let ttls: BTreeSet<u32> = members.iter().filter_map(|one| one.ttl).collect();
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
fn gateway_down(members: &[&Settings], rules: &Rules, details: &mut Vec<String>) -> GatewayDown {
    let downs: BTreeSet<GatewayDown> = members.iter().filter_map(|one| one.gateway_down).collect();
    if downs.len() > 1 {
        details.push(
            "annotations set different gateway-down rules; the one that includes the most endpoints is used"
                .to_owned(),
        );
    }
    downs.last().copied().unwrap_or(rules.gateway_down)
}
