//! The servers of the fleet: the state of each replica, its answers, versions and zones.

use serde_json::Value;

use super::difference::{Aspect, Differences, compare, group, join};
use super::observer::{Replica, is_ready};
use crate::check::finding::{Check, Finding, items, text};
use crate::model::ProblemKind;

const CHECK: Check = Check::FleetServers;

/// What all servers should have alike.
const ASPECTS: [Aspect; 2] = [
    (
        "versions of global-dns",
        "install the same version in every cluster",
    ),
    ("zones", "set the same zones in every cluster"),
];

/// Returns the texts of [`ASPECTS`] in a status.
fn texts(status: &Value) -> [Option<String>; ASPECTS.len()] {
    let mut zones: Vec<&str> = items(status, "zones").filter_map(Value::as_str).collect();
    zones.sort_unstable();
    [
        Some(text(status, "version").to_owned()),
        Some(zones.join(" ")),
    ]
}

/// Compares the servers of the clusters.
pub(super) fn compare_servers(read: &[(&str, &[Replica])], found: &mut Differences<'_>) {
    let mut servers = Vec::new();
    for (context, replicas) in read {
        found.add(answers(context, replicas));
        servers.extend(replicas.iter().map(|one| (*context, one)));
    }
    let states = servers.iter();
    found.add(states.filter_map(|(context, one)| state(context, one)));
    let texts = |(context, one): &(_, &Replica)| Some((*context, texts(one.status.as_ref().ok()?)));
    let seen: Vec<_> = servers.iter().filter_map(texts).collect();
    found.add(compare(CHECK, "", &ASPECTS, ASPECTS.len(), false, &seen));
}

/// Returns the finding about a replica without a table, or that does not respond.
fn state(context: &str, Replica { name, status, .. }: &Replica) -> Option<Finding> {
    let failing = |what: &str| {
        let hint = "check the pod of the server and the network to it";
        Finding::failing(CHECK, format!("{context}: {name}: {what}"), hint)
    };
    match status {
        Err(why) => Some(failing(&format!("cannot be read: {why}"))),
        Ok(status) if is_ready(status) => None,
        Ok(_) => Some(failing(ProblemKind::NoTable.row().sentence).of_kind(ProblemKind::NoTable)),
    }
}

/// Returns the finding about replicas of one cluster that answer differently.
fn answers(context: &str, replicas: &[Replica]) -> Option<Finding> {
    let groups = group(replicas.iter().filter_map(|replica| {
        let status = replica.status.as_ref().ok().filter(|one| is_ready(one))?;
        let hash = &status["tableHash"];
        (!hash.is_null()).then(|| (hash.to_string(), replica.name.as_str()))
    }));
    let mut names: Vec<String> = groups.values().map(join).collect();
    names.sort();
    let sentence = format!(
        "{context}: replicas answer differently: {}",
        names.join(" / ")
    );
    let hint = "if it stays, compare their settings, and restart the older one";
    (groups.len() > 1).then(|| Finding::failing(CHECK, sentence, hint))
}
