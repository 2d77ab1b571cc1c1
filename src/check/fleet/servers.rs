//! The servers of the fleet: the state of each replica, its answers, versions, zones and clocks.

use serde_json::Value;

use super::causes::{describe, group, join};
use super::member::{Replica, Unread};
use super::observer::is_ready;
use crate::check::finding::{Check, Finding, items, text};
use crate::model::ProblemKind;

/// The smallest difference of clocks that is reported, in seconds. A response has its time to the second, and takes some.
const CLOCK_DIFFERENCE: i64 = 10;

const CHECK: Check = Check::FleetServers;

pub(super) fn check(read: &[(&str, &[Replica])]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (context, replicas) in read {
        findings.extend(
            replicas
                .iter()
                .filter_map(|replica| state(context, replica)),
        );
        findings.extend(answers(context, replicas));
    }
    let version = |status: &Value| text(status, "version").to_owned();
    let zones = |status: &Value| {
        let mut zones: Vec<&str> = items(status, "zones").filter_map(Value::as_str).collect();
        zones.sort_unstable();
        zones.join(" ")
    };
    let same_version = "install the same version in every cluster";
    findings.extend(differing(
        read,
        version,
        "versions of global-dns",
        same_version,
    ));
    findings.extend(differing(
        read,
        zones,
        "zones",
        "set the same zones in every cluster",
    ));
    findings.extend(clocks(read));
    let mut statuses = statuses(read).map(|(_, _, status)| status);
    if let (true, Some(first)) = (findings.is_empty(), statuses.next()) {
        let sentence = format!(
            "servers have version {}, zone {} and equal clocks; replicas: {}",
            version(first),
            zones(first),
            statuses.count() + 1
        );
        findings.push(Finding::ok(CHECK, sentence));
    }
    findings
}

/// Returns the status of each replica that answered, with its context.
fn statuses<'m>(
    read: &[(&'m str, &'m [Replica])],
) -> impl Iterator<Item = (&'m str, &'m Replica, &'m Value)> {
    let replicas = read
        .iter()
        .flat_map(|(context, replicas)| replicas.iter().map(move |one| (*context, one)));
    replicas.filter_map(|(context, one)| Some((context, one, one.status.as_ref().ok()?)))
}

/// Returns the finding about a replica without a table, or that does not respond.
fn state(context: &str, Replica { name, status, .. }: &Replica) -> Option<Finding> {
    match status {
        Err(Unread { reason, hint }) => {
            let sentence = format!("{context}: {name} cannot be read: {reason}");
            Some(Finding::failing(CHECK, sentence, hint.as_str()))
        }
        Ok(status) if is_ready(status) => None,
        Ok(_) => {
            let kind = ProblemKind::NoTable;
            let sentence = kind.row().sentence;
            Some(Finding::of_kind(
                kind,
                format!("{context}: {name}: {sentence}"),
            ))
        }
    }
}

/// Returns the finding about replicas of one cluster that answer differently.
fn answers(context: &str, replicas: &[Replica]) -> Option<Finding> {
    let hashes = replicas.iter().filter_map(|replica| {
        let status = replica.status.as_ref().ok().filter(|one| is_ready(one))?;
        let hash = &status["tableHash"];
        (!hash.is_null()).then(|| (hash.to_string(), &replica.name))
    });
    let groups = group(hashes);
    let mut names: Vec<String> = groups.values().map(join).collect();
    names.sort();
    (groups.len() > 1).then(|| {
        Finding::failing(
            CHECK,
            format!(
                "{context}: replicas answer differently: {}",
                names.join(" / ")
            ),
            "if it stays, compare their settings, and restart the older one",
        )
    })
}

/// Returns the finding that a part of the status differs between replicas.
fn differing(
    read: &[(&str, &[Replica])],
    part: impl Fn(&Value) -> String,
    what: &str,
    hint: &str,
) -> Option<Finding> {
    let of_contexts =
        group(statuses(read).map(|(context, one, status)| (context, (part(status), &one.name))));
    let groups = group(of_contexts.into_iter().flat_map(|(context, replicas)| {
        let values = group(replicas);
        let is_same = values.len() == 1;
        values.into_iter().map(move |(value, names)| match is_same {
            true => (value, context.to_owned()),
            false => (value, format!("{context} ({})", join(names))),
        })
    }));
    (groups.len() > 1)
        .then(|| Finding::failing(CHECK, format!("{what} differ: {}", describe(&groups)), hint))
}

/// Returns a finding for each replica whose clock differs from most, of which this machine's is one.
fn clocks(read: &[(&str, &[Replica])]) -> Vec<Finding> {
    let mut all: Vec<i64> = statuses(read)
        .filter_map(|(_, one, _)| one.clock_ahead)
        .collect();
    all.push(0);
    all.sort_unstable();
    let usual = all[(all.len() - 1) / 2];
    let wrong = statuses(read).filter_map(|(context, one, _)| {
        let ahead = one.clock_ahead?.saturating_sub(usual);
        let (seconds, side) = (ahead.abs(), if ahead > 0 { "ahead" } else { "behind" });
        (seconds >= CLOCK_DIFFERENCE).then(|| {
            Finding::failing(
                CHECK,
                format!("{context}: the clock of {} is {seconds} s {side}", one.name),
                "synchronize the clock of its node: times of problems, of the history and of the bootstrap depend on it",
            )
        })
    });
    wrong.collect()
}
