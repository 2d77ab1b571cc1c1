//! The check of the sizes of answers.

use super::facts::Facts;
use super::finding::{Check, Finding};
use crate::model::ServiceKey;
use crate::table::{Grammar, Table};
use crate::wire::whole_answer;
use crate::zone::{Name, RecordType, Zones, answer, read};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let check = Check::AnswerSizes;
    vec![check.check(&facts.table, |table| {
        check.yellow_list(
            long_answers(table, &facts.zones),
            "every answer fits a message of 65,535 octets",
            "longer than a message of 65,535 octets",
            "clients get only the records that fit, with TC, also over TCP: query the names of single clusters, such as \
             west.db.prod.global, or split the service",
        )
    })]
}

/// Returns the answers that do not fit into a message, with their sizes. Of the names of a service, `S.N.Z` has the most
/// records, and the zone with the longest name has the longest records.
fn long_answers(table: &Table, zones: &Zones) -> Vec<String> {
    let mut long = Vec::new();
    // The longest zone is the first.
    let Some(zone) = zones.iter().find(|zone| zone.grammar == Grammar::Global) else {
        return long;
    };
    for service in table.sorted_services() {
        let ServiceKey { namespace, service } = &service.key;
        let text = format!("{service}.{namespace}.{}", zone.name);
        let Some(name) = Name::from_text(&text) else {
            continue; // longer than a query can be
        };
        for rtype in RecordType::OF_SERVICES {
            let octets = whole_answer(&answer(read(zones, table, &name), rtype), &name);
            if octets > usize::from(u16::MAX) {
                long.push(format!("{text} {rtype} ({octets} octets)"));
            }
        }
    }
    long
}
