//! The servers of the fleet: the state of each replica, versions, zones and clocks.

use std::collections::BTreeMap;

use super::causes::{describe, group, join};
use super::document::ReplicaStatus;
use super::member::{MemberFacts, ReplicaFacts};
use crate::check::{Check, Finding};
use crate::model::ProblemKind;

/// The smallest difference of clocks that is reported, in seconds. A response has its time to the second, and takes some.
const CLOCK_DIFFERENCE: i64 = 10;

const CHECK: Check = Check::FleetServers;

pub(super) fn check(read: &[(&str, &MemberFacts)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (context, facts) in read {
        findings.extend(
            facts
                .replicas
                .iter()
                .filter_map(|replica| state(context, replica)),
        );
        findings.extend(answers(context, facts));
    }
    let zones = |status: &ReplicaStatus| {
        let mut zones = status.zones.clone();
        zones.sort_unstable();
        zones.join(" ")
    };
    let same_version = "install the same version in every cluster";
    findings.extend(differing(
        read,
        |status| status.version.clone(),
        "versions of global-dns",
        same_version,
    ));
    let same_zones = "set the same --zone in every cluster";
    findings.extend(differing(read, zones, "zones", same_zones));
    findings.extend(clocks(read));
    if findings.is_empty()
        && let Some((_, first)) = read.first()
    {
        let count: usize = read.iter().map(|(_, facts)| facts.replicas.len()).sum();
        let ReplicaStatus { version, zones, .. } = &first.status;
        let sentence = format!(
            "servers have version {version}, zone {} and equal clocks; replicas: {count}",
            zones.join(" ")
        );
        findings.push(CHECK.green(sentence));
    }
    findings
}

/// Returns the finding about a replica whose table is not confirmed, or that does not respond.
fn state(context: &str, replica: &ReplicaFacts) -> Option<Finding> {
    let name = &replica.name;
    let status = match &replica.status {
        Ok(status) => status,
        Err(reason) => {
            let sentence = format!("{context}: {name} cannot be read: {}", reason.reason);
            return Some(CHECK.red(sentence, reason.hint.clone()));
        }
    };
    let kind = match status.state.as_str() {
        "loading" => ProblemKind::NoTable,
        _ => return None,
    };
    let since = status.since.iter();
    let since: String = since.map(|since| format!(", since {since}")).collect();
    let sentence = format!("{context}: {name}: {}{since}", kind.row().sentence);
    Some(CHECK.red_problem(kind, sentence))
}

/// Returns the finding about replicas of one cluster that answer differently.
fn answers(context: &str, facts: &MemberFacts) -> Option<Finding> {
    let groups = group(facts.replicas.iter().filter_map(|replica| {
        let current = replica
            .status
            .as_ref()
            .ok()
            .filter(|one| one.is_current())?;
        Some((current.table_hash?, &replica.name))
    }));
    (groups.len() > 1).then(|| {
        let groups: Vec<String> = groups.values().map(join).collect();
        CHECK.red(
            format!(
                "{context}: replicas answer differently: {}",
                groups.join(" / ")
            ),
            "if it stays, compare their flags and restart the older one",
        )
    })
}

/// Groups the replicas of the fleet by a part of their status: the contexts, with the replicas where those of a context
/// differ.
fn groups<T: Ord>(
    read: &[(&str, &MemberFacts)],
    part: impl Fn(&ReplicaStatus) -> T,
) -> BTreeMap<T, Vec<String>> {
    let mut groups: BTreeMap<T, Vec<String>> = BTreeMap::new();
    for (context, facts) in read {
        let replicas = facts.replicas.iter();
        let of_context =
            group(replicas.filter_map(|one| Some((part(one.status.as_ref().ok()?), &one.name))));
        let is_same = of_context.len() == 1;
        for (value, names) in of_context {
            let name = if is_same {
                (*context).to_owned()
            } else {
                format!("{context} ({})", join(names))
            };
            groups.entry(value).or_default().push(name);
        }
    }
    groups
}

/// Returns the finding that a part of the status differs.
fn differing(
    read: &[(&str, &MemberFacts)],
    part: impl Fn(&ReplicaStatus) -> String,
    what: &str,
    hint: &str,
) -> Option<Finding> {
    let groups = groups(read, part);
    (groups.len() > 1).then(|| CHECK.red(format!("{what} differ: {}", describe(&groups)), hint))
}

/// Returns a finding for each cluster whose clock differs from most, of which this machine's is one.
fn clocks(read: &[(&str, &MemberFacts)]) -> Vec<Finding> {
    let replicas = read.iter().flat_map(|(_, facts)| &facts.replicas);
    let mut all: Vec<i64> = replicas.filter_map(|one| one.clock_ahead).collect();
    all.push(0);
    all.sort_unstable();
    let usual = all[(all.len() - 1) / 2];
    let mut findings = Vec::new();
    for (context, facts) in read {
        for ReplicaFacts {
            name, clock_ahead, ..
        } in &facts.replicas
        {
            let Some(ahead) = clock_ahead.map(|ahead| ahead.saturating_sub(usual)) else {
                continue;
            };
            if ahead.abs() >= CLOCK_DIFFERENCE {
                let (seconds, side) = (ahead.abs(), if ahead > 0 { "ahead" } else { "behind" });
                findings.push(CHECK.red(
                    format!("{context}: the clock of {name} is {seconds} s {side}"),
                    "synchronize the clock of its node: times of problems, of the history and of the bootstrap depend on it",
                ));
            }
        }
    }
    findings
}
