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

/// Reports answers that no message can hold.
fn answer_sizes(table: &Table, zones: &Zones) -> Finding {
    let names = service_names(table, zones).into_iter();
    let long: Vec<String> = names
        .flat_map(|name| long_answers(&name, table, zones))
        .collect();
    match long.is_empty() {
        true => Check::AnswerSizes.green("every answer fits a message of 65,535 octets"),
        false => Check::AnswerSizes.yellow(
            format!("longer than a message of 65,535 octets: {}", some_of(long)),
            "over TCP, too, clients get what fits, with TC: ask for the names of single clusters, C.S.N.Z, or divide the \
             service",
        ),
    }
}

/// Returns the names with the longest answers: of a service's names its own has the most records, and in the zone with
/// the longest name they are the longest.
fn service_names(table: &Table, zones: &Zones) -> Vec<String> {
    // Sorted, the longest first.
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

/// Returns the answers for a name that no message can hold, with their lengths.
fn long_answers(name: &str, table: &Table, zones: &Zones) -> Vec<String> {
    let Some(asked) = Name::from_text(name) else {
        return Vec::new(); // longer than any question
    };
    let long = RecordType::OF_SERVICES.into_iter().filter_map(|rtype| {
        let octets = whole_answer(&answer(read(zones, table, &asked), rtype), &asked);
        (octets > usize::from(u16::MAX)).then(|| format!("{name} {rtype} ({octets} octets)"))
    });
    long.collect()
}

/// A Link with a selector of its own says that Services are exported by other labels than the usual one, in the other
/// clusters' Links too: who is not exported cannot be told.
fn conflicts(table: &Table, links: &Known<Vec<Link>>) -> Finding {
    let mut links = links.iter().flatten();
    let own_selector = links.find(|link| link.has_own_selector);
    let is_judged = |conflict: &&Conflict| {
        let is_unknown = conflict.kind == ConflictKind::NotExported && own_selector.is_some();
        !is_unknown && !has_own_check(conflict.kind)
    };
    let conflicts: BTreeSet<&Conflict> = table.conflicts().filter(is_judged).collect();
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

/// Tells whether a check of its own reports conflicts of a kind.
fn has_own_check(kind: ConflictKind) -> bool {
    match kind {
        ConflictKind::ShortName | ConflictKind::Headless | ConflictKind::Identity => true,
        ConflictKind::Shadowed
        | ConflictKind::ClusterName
        | ConflictKind::Endpoint
        | ConflictKind::Annotation
        | ConflictKind::NotExported => false,
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
