//! The check of the sizes of answers.

use super::facts::Facts;
use super::finding::{Check, Finding};
use crate::table::Table;
use crate::wire::whole_answer;
use crate::zone::{Name, RecordType, ZoneKind, Zones, answer, read};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    vec![Check::AnswerSizes.check(&facts.table, |table| answer_sizes(table, &facts.zones))]
}

/// Checks the sizes of answers.
fn answer_sizes(table: &Table, zones: &Zones) -> Finding {
    let names = service_names(table, zones).into_iter();
    Check::AnswerSizes.yellow_list(
        names.flat_map(|name| long_answers(&name, table, zones)),
        "every answer fits a message of 65,535 octets",
        "longer than a message of 65,535 octets",
        "clients get only the records that fit, with TC, also over TCP: query the names of single clusters, C.S.N.Z, or \
         split the service",
    )
}

/// Returns the names with the longest answers. Of the names of a service, `S.N.Z` has the most records, and the zone
/// with the longest name has the longest records.
fn service_names(table: &Table, zones: &Zones) -> Vec<String> {
    // The longest zone is the first.
    let mut forward = zones.iter().filter(|zone| zone.kind == ZoneKind::Forward);
    let Some(longest) = forward.next() else {
        return Vec::new();
    };
    let keys = table
        .sorted_services()
        .into_iter()
        .map(|service| &service.key);
    keys.map(|key| format!("{}.{}.{}", key.service, key.namespace, longest.name))
        .collect()
}

/// Returns the answers for a name that do not fit into a message, with their sizes.
fn long_answers(name: &str, table: &Table, zones: &Zones) -> Vec<String> {
    let Some(parsed) = Name::from_text(name) else {
        return Vec::new(); // longer than a query can be
    };
    let long = RecordType::OF_SERVICES.into_iter().filter_map(|rtype| {
        let octets = whole_answer(&answer(read(zones, table, &parsed), rtype), &parsed);
        (octets > usize::from(u16::MAX)).then(|| format!("{name} {rtype} ({octets} octets)"))
    });
    long.collect()
}
