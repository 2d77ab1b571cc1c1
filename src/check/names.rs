//! Checks of the names that are served: conflicts, skipped objects, sizes of answers.

use std::collections::BTreeSet;

use super::objects::Link;
use super::{Check, Fact, Facts, Finding, count, list_some};
use crate::model::{Problem, ProblemKind};
use crate::table::Table;
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
                Check::AnswerSizes.not_checked("answer sizes", reason),
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

/// Checks short names. A contested one is NXDOMAIN, and any namespace can contest one that is not pinned.
fn short_names(table: &Table) -> Finding {
    let is_contested = |problem: &&Problem| problem.kind == ProblemKind::ShortName;
    let contested: BTreeSet<String> = table
        .conflicts()
        .filter(is_contested)
        .map(|c| format!("'{}' is {}", c.subject(), c.detail))
        .collect();
    if contested.is_empty() {
        Check::ShortNames.green("no short name is contested")
    } else {
        Check::ShortNames.red(
            list_some(contested),
            "set the owner with the same flags in every cluster: --short-name SERVICE=NAMESPACE, --default-namespace, or \
             --short-names pinned",
        )
    }
}

/// Checks the sizes of answers.
fn answer_sizes(table: &Table, zones: &Zones) -> Finding {
    let names = service_names(table, zones).into_iter();
    let long: Vec<String> = names
        .flat_map(|name| long_answers(&name, table, zones))
        .collect();
    if long.is_empty() {
        Check::AnswerSizes.green("every answer fits a message of 65,535 octets")
    } else {
        Check::AnswerSizes.yellow(
            format!("longer than a message of 65,535 octets: {}", list_some(long)),
            "clients get only the records that fit, with TC, also over TCP: query the names of single clusters, C.S.N.Z, or \
             split the service",
        )
    }
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

/// Checks conflicts without a check of their own. If a Link has its own selector, other labels export Services, so
/// `not-exported` conflicts are unreliable.
fn conflicts(table: &Table, links: &Fact<Vec<Link>>) -> Finding {
    let mut links = links.iter().flatten();
    let own_selector = links.find(|link| link.has_own_selector);
    let is_checked = |conflict: &&Problem| {
        let is_unknown = conflict.kind == ProblemKind::NotExported && own_selector.is_some();
        !is_unknown && !has_own_check(conflict.kind)
    };
    let conflicts: BTreeSet<&Problem> = table.conflicts().filter(is_checked).collect();
    let describe = |c: &&Problem| format!("{} ({}: {})", c.subject(), c.kind.name(), c.detail);
    match (conflicts.is_empty(), own_selector) {
        (true, None) => Check::Conflicts.green("there are no other conflicts"),
        (true, Some(link)) => Check::Conflicts.green(format!(
            "there are no other conflicts; not-exported is not checked, because the Link of cluster '{}' selects exported \
             Services by other labels",
            link.cluster
        )),
        (false, _) => Check::Conflicts.yellow(
            format!(
                "{}: {}",
                count(conflicts.len(), "conflict"),
                list_some(conflicts.iter().map(describe))
            ),
            "global-dns table lists all conflicts, and global-dns explain NAME those of one name",
        ),
    }
}

/// Returns whether another check reports conflicts of this kind.
fn has_own_check(kind: ProblemKind) -> bool {
    matches!(
        kind,
        ProblemKind::ShortName | ProblemKind::Kind | ProblemKind::Identity
    )
}

/// Checks skipped objects.
fn skipped(table: &Table) -> Finding {
    let problems = table.skipped().filter(|problem| problem.is_serious());
    let problems: BTreeSet<String> = problems
        .map(|problem| format!("{} ({})", problem.subject(), problem.kind))
        .collect();
    if problems.is_empty() {
        Check::SkippedObjects.green("no object is skipped")
    } else {
        Check::SkippedObjects.yellow(
            format!(
                "{} skipped: {}",
                count(problems.len(), "object"),
                list_some(problems)
            ),
            "global-dns table describes the problem of each object",
        )
    }
}
