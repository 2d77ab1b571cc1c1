//! What is served: contradictions, and what had to be left out.

use std::collections::BTreeSet;

use super::objects::Link;
use super::{Check, Facts, Finding, Known, count, some_of};
use crate::mirror::SkipReason;
use crate::table::{Conflict, ConflictKind, Table};
use crate::wire::whole_answer;
use crate::zone::{Name, RecordType, ZoneKind, Zones, answer, read};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let table = match &facts.table {
        Ok(table) => table,
        Err(reason) => {
            return vec![
                Check::ShortNames.not_checked("short names", reason),
                Check::Conflicts.not_checked("other conflicts", reason),
                Check::SkippedObjects.not_checked("skipped objects", reason),
                Check::AnswerSizes.not_checked("sizes of answers", reason),
            ];
        }
    };
    vec![
        short_names(table),
        conflicts(table, &facts.links),
        skipped(table),
        answer_sizes(table, &facts.zones),
    ]
}

/// Nobody answers a contested short name, and any namespace can contest one that is not pinned.
fn short_names(table: &Table) -> Finding {
    let is_contested = |conflict: &&Conflict| conflict.kind == ConflictKind::ShortName;
    let contested: BTreeSet<String> = table
        .conflicts()
        .filter(is_contested)
        .map(|c| format!("'{}' is {}", c.name, c.detail))
        .collect();
    match contested.is_empty() {
        true => Check::ShortNames.green("no short name is contested"),
        false => Check::ShortNames.red(
            some_of(contested),
            "say whose it is, in every cluster the same: --short-name SERVICE=NAMESPACE, --default-namespace, or \
             --short-names pinned",
        ),
    }
}

/// Of a service's names its own has the most records, and in the zone with the longest name they are the longest.
fn answer_sizes(table: &Table, zones: &Zones) -> Finding {
    let mut forward = zones.iter().filter(|zone| zone.kind == ZoneKind::Forward);
    let longest = forward.next(); // they are sorted
    let services = longest.into_iter().flat_map(|zone| {
        let services = table.sorted_services().into_iter();
        services.map(|service| {
            format!(
                "{}.{}.{}",
                service.key.service, service.key.namespace, zone.name
            )
        })
    });
    let mut long = Vec::new();
    for name in services {
        let Some(asked) = Name::from_text(&name) else {
            continue; // longer than any question
        };
        for rtype in RecordType::OF_SERVICES {
            let octets = whole_answer(&answer(read(zones, table, &asked), rtype), &asked);
            if octets > usize::from(u16::MAX) {
                long.push(format!("{name} {rtype} ({octets} octets)"));
            }
        }
    }
    match long.is_empty() {
        true => Check::AnswerSizes.green("every answer fits a message of 65,535 octets"),
        false => Check::AnswerSizes.yellow(
            format!("longer than a message of 65,535 octets: {}", some_of(long)),
            "over TCP, too, clients get what fits, with TC: ask for the names of single clusters, C.S.N.Z, or divide the \
             service",
        ),
    }
}

/// A Link with a selector of its own says that Services are exported by other labels than the usual one, in the other
/// clusters' Links too: who is not exported cannot be told.
fn conflicts(table: &Table, links: &Known<Vec<Link>>) -> Finding {
    let mut links = links.iter().flatten();
    let own_selector = links.find(|link| link.has_own_selector);
    let is_other = |conflict: &&Conflict| match conflict.kind {
        // Checks of their own.
        ConflictKind::ShortName | ConflictKind::Headless | ConflictKind::Identity => false,
        ConflictKind::Shadowed
        | ConflictKind::ClusterName
        | ConflictKind::Endpoint
        | ConflictKind::Annotation => true,
        ConflictKind::NotExported => own_selector.is_none(),
    };
    let conflicts: BTreeSet<&Conflict> = table.conflicts().filter(is_other).collect();
    let words = |c: &&Conflict| format!("{} ({}: {})", c.name, c.kind.name(), c.detail);
    match (conflicts.is_empty(), own_selector) {
        (true, None) => Check::Conflicts.green("nothing else contradicts"),
        (true, Some(link)) => Check::Conflicts.green(format!(
            "nothing else contradicts; the Link of cluster '{}' selects exported Services by other labels, so that \
             not-exported is not judged",
            link.cluster
        )),
        (false, _) => Check::Conflicts.yellow(
            format!(
                "{}: {}",
                count(conflicts.len(), "conflict"),
                some_of(conflicts.iter().map(words))
            ),
            "global-dns table lists them all, global-dns explain NAME those of a name",
        ),
    }
}

fn skipped(table: &Table) -> Finding {
    let is_odd = |reason: SkipReason| match reason {
        SkipReason::NotHeadless | SkipReason::ExcludedCluster => false, // everyday
        SkipReason::Undecodable
        | SkipReason::NoParent
        | SkipReason::NamespaceMismatch
        | SkipReason::BadName
        | SkipReason::BadAddress => true,
    };
    let odd = table.skipped().filter(|(_, skip)| is_odd(skip.reason));
    let odd: BTreeSet<String> = odd
        .map(|(object, skip)| format!("{object} ({})", skip.reason))
        .collect();
    match odd.is_empty() {
        true => Check::SkippedObjects.green("every object can be used"),
        false => Check::SkippedObjects.yellow(
            format!("{} left out: {}", count(odd.len(), "object"), some_of(odd)),
            "global-dns table says in a sentence what is wrong with each",
        ),
    }
}
