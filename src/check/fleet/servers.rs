//! The servers of the fleet: the state of each replica, its answers, versions, zones and clocks.

use serde_json::Value;

use super::difference::{Aspect, Differences, compare, differs, group, join};
use super::member::Replica;
use super::observer::is_ready;
use crate::check::finding::{Check, Finding, items, text};
use crate::model::ProblemKind;

/// The smallest difference of clocks that is reported, in seconds. A response has its time to the second, and takes some.
const CLOCK_DIFFERENCE: i64 = 10;

const CHECK: Check = Check::FleetServers;

/// What all servers should have alike.
const ASPECTS: [Aspect; 2] = [
    Aspect {
        name: "versions of global-dns",
        hint: "install the same version in every cluster",
        is_consequence: false,
    },
    Aspect {
        name: "zones",
        hint: "set the same zones in every cluster",
        is_consequence: false,
    },
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
    for (context, replicas) in read {
        for one in *replicas {
            states(context, one)
                .into_iter()
                .for_each(|one| found.add(one));
        }
        answers(context, replicas)
            .into_iter()
            .for_each(|one| found.add(one));
    }
    let servers = read
        .iter()
        .flat_map(|(context, replicas)| replicas.iter().map(|one| (*context, one)));
    let seen: Vec<_> = servers
        .clone()
        .filter_map(|(context, one)| Some((context, texts(one.status.as_ref().ok()?))))
        .collect();
    for (aspect, groups) in compare(&ASPECTS, &seen, false) {
        found.add(differs(CHECK, aspect.name, &groups, aspect.hint));
    }
    // The clock that most have, of which that of this machine is one.
    let mut clocks: Vec<i64> = servers
        .clone()
        .filter_map(|(_, one)| one.clock_ahead)
        .collect();
    clocks.push(0);
    clocks.sort_unstable();
    let usual = clocks[(clocks.len() - 1) / 2];
    for (
        context,
        Replica {
            name, clock_ahead, ..
        },
    ) in servers
    {
        let ahead = clock_ahead.unwrap_or(usual).saturating_sub(usual);
        let (seconds, side) = (ahead.abs(), if ahead > 0 { "ahead" } else { "behind" });
        if seconds >= CLOCK_DIFFERENCE {
            found.add(Finding::failing(
                CHECK,
                format!("{context}: the clock of {name} is {seconds} s {side}"),
                "synchronize the clock of its node: times of problems, of the history and of the bootstrap depend on it",
            ));
        }
    }
}

/// Returns the finding about a replica without a table, or that does not respond.
fn states(context: &str, Replica { name, status, .. }: &Replica) -> Option<Finding> {
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
