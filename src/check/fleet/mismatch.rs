//! A difference: what observers see otherwise, and why. All of `fleet` is compared and said here.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::check::finding::{Check, Finding, FindingState, list, text};
use crate::model::{Problem, ProblemKind, join_texts, sentence_of};

/// The namespace and the name of a service.
pub(super) type Key<'m> = [&'m str; 2];

/// One difference. Those that differ in their service alone are one line.
pub(super) struct Mismatch<'m> {
    /// The service that differs. `None`: the servers do.
    pub key: Option<Key<'m>>,
    /// What differs, who sees what, the cause, and what to do.
    pub line: Finding,
}

/// Returns who sees what if observers differ: `none in hub; db-0 in east and west`. Replicas of a cluster that see the same are one.
pub(super) fn differs<'n>(seen: impl IntoIterator<Item = (String, &'n str)>) -> Option<String> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (value, observer) in seen {
        let observers = groups.entry(value).or_default();
        if observers.last() != Some(&observer) {
            observers.push(observer);
        }
    }
    let texts = groups.iter().map(|(value, observers)| {
        let value = if value.is_empty() { "none" } else { value };
        format!("{value} in {}", join(observers))
    });
    (groups.len() > 1).then(|| join_texts(texts, "; "))
}

/// Joins names for a sentence: `a`, `a and b`, `a, b and c`.
pub(super) fn join<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let names: Vec<S> = names.into_iter().collect();
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.concat(),
    }
}

/// Makes the findings of all rows, which name their services. One that makes services differ is failing, unless it is intended.
pub(super) fn findings(rows: Vec<Mismatch<'_>>) -> Vec<Finding> {
    let mut lines: BTreeMap<Finding, BTreeSet<String>> = BTreeMap::new();
    for row in rows {
        let services = lines.entry(row.line).or_default();
        services.extend(row.key.map(|key| key.join("/")));
    }
    let findings = lines.into_iter().map(|(mut line, services)| {
        let mut names = list(&services);
        if services.len() > 1 {
            names = format!("{} services ({names})", services.len());
        }
        if !services.is_empty() && line.state == FindingState::Attention {
            line.state = FindingState::Failing;
        }
        line.sentence = sentence_of(&[&names, &line.sentence]);
        line
    });
    findings.collect()
}

/// Makes the line of a difference whose cause is a kind of problem of a service or a cluster.
pub(super) fn of_kind(kind: ProblemKind, key: Option<Key<'_>>, cluster: &str) -> Finding {
    let mut problem = Problem::new(kind, "");
    problem.service = key.and_then(|key| key.join("/").parse().ok());
    problem.cluster = cluster.parse().ok();
    Finding {
        name: kind.name().to_owned(),
        anchor: kind.anchor(),
        ..Finding::failing(Check::FleetServices, kind.row().sentence, problem.hint())
    }
}

/// Makes the line of a difference whose cause is a problem of an observer. It may be of a kind that this program does not know.
pub(super) fn of_problem(problem: &Value, reason: &str) -> Finding {
    Finding {
        name: text(problem, "kind").to_owned(),
        anchor: text(problem, "anchor").to_owned(),
        ..Finding::failing(Check::FleetServices, reason, text(problem, "hint"))
    }
}
