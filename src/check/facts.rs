//! What a server says about itself, its problems first.

use std::collections::BTreeSet;

use serde_json::Value;

use super::finding::{Check, Finding, FindingState, items, key_of, list, text};
use crate::model::{Family, Namespace, ProblemKind, sentence_of};

/// What a server says: items of its API.
#[derive(Default)]
pub struct ServerFacts {
    /// `status`.
    pub status: Value,
    /// `table`, or the selected namespaces of it.
    pub services: Vec<Value>,
    /// `problems` of the server and of the selected namespaces.
    pub problems: Vec<Value>,
    /// The causes of them that the server lists: of one kind at most some, because anybody can invent clusters.
    pub causes: Vec<Value>,
    /// The selected namespaces. Empty: all.
    pub namespaces: Vec<Namespace>,
}

impl ServerFacts {
    /// Returns the lines about the server, its services and its problems: one for each cause that the server lists, and one for the
    /// other problems of each kind. Notes are left out: they are intended, or normal for a while. With `is_about_server`, what is not
    /// about the server alone deserves attention at most: a person who tests an installation may not be in charge of the services.
    pub fn findings(&self, is_about_server: bool) -> Vec<Finding> {
        let [replica, cluster, version] =
            ["replica", "cluster", "version"].map(|field| text(&self.status, field));
        let replica = match replica {
            "" => "the table of the objects",
            replica => replica,
        };
        let services = self.services.len();
        let sentence = format!(
            "{replica} of cluster '{cluster}' answers: version {version}, services: {services}"
        );
        let mut findings = vec![Check::Server.ok(sentence)];
        let cause_of = |one| ["kind", "cluster"].map(|field| text(one, field));
        let causes: BTreeSet<[&str; 2]> = self.causes.iter().map(cause_of).collect();
        // The server lists the worst first.
        let mut lines: Vec<([&str; 2], Vec<&Value>)> = Vec::new();
        for problem in &self.problems {
            let mut cause = cause_of(problem);
            if !causes.contains(&cause) {
                cause = [text(problem, "kind"), ""];
            }
            match lines.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, problems)) => problems.push(problem),
                None => lines.push((cause, vec![problem])),
            }
        }
        let is_of_server = |one: &Finding| {
            let kind = one.name.parse::<ProblemKind>();
            kind.is_ok_and(|kind| kind.row().family == Family::Server)
        };
        let found = lines.iter().filter_map(|(_, problems)| finding(problems));
        let (of_server, of_services): (Vec<_>, Vec<_>) = found.partition(is_of_server);
        findings.extend(of_server);
        let others = findings.len();
        findings.extend(self.failing_services());
        for own in &self.namespaces {
            let mut services = self.services.iter();
            if services.all(|one| text(one, "namespace") != own.as_str()) {
                let sentence = format!("no service in namespace '{own}'");
                let hint = "global-dns table lists the services of all namespaces";
                findings.push(Check::Services.failing(sentence, hint));
            }
        }
        findings.extend(of_services);
        for finding in findings.iter_mut().skip(others).filter(|_| is_about_server) {
            finding.state = finding.state.min(FindingState::Attention);
        }
        findings
    }

    /// Returns the line about services that clients cannot reach, if there are any.
    fn failing_services(&self) -> Option<Finding> {
        let services = self.services.iter();
        let failing = services.filter(|one| one["state"] == "failing");
        let [namespace, service] = key_of(failing.clone().next()?);
        let described = failing.map(|one| {
            let name = key_of(one).join("/");
            let why = match text(one, "problem") {
                "" => text(one, "answer"),
                problem => problem,
            };
            format!("{name} ({why})")
        });
        let described: Vec<String> = described.collect();
        let count = described.len();
        let sentence = format!(
            "clients cannot reach {count} of {}: {}",
            self.services.len(),
            list(described)
        );
        let hint = format!(
            "global-dns explain {service}.{namespace} shows why; global-dns table --state failing lists all"
        );
        Some(Check::Services.failing(sentence, hint))
    }
}

/// A zone of a server.
#[derive(Clone, Copy)]
pub struct ZoneFacts<'s> {
    /// The absolute name of its apex.
    pub name: &'s str,
    /// What follows the namespace in the names of services.
    pub suffix: &'s str,
    /// The cluster whose names it has. Empty: it has those of all.
    pub cluster: &'s str,
}

/// Returns the zones that a status names. The settings have them in the same order.
pub fn zones(status: &Value) -> impl Iterator<Item = ZoneFacts<'_>> {
    items(status, "zones")
        .filter_map(Value::as_str)
        .enumerate()
        .map(|(index, name)| ZoneFacts {
            name,
            suffix: status["nameSuffixes"][index].as_str().unwrap_or(name),
            cluster: text(&status["settings"]["zones"][index], "cluster"),
        })
}

/// Returns the line for problems of one kind.
fn finding(problems: &[&Value]) -> Option<Finding> {
    let first = *problems.first()?;
    let subjects = list(problems.iter().map(|one| subject(one)));
    let known = problems.iter().filter(|one| one["since"].is_string());
    let oldest = known.min_by_key(|one| text(one, "since")).unwrap_or(&first);
    let word = if oldest["isOlder"] == true {
        "before"
    } else {
        "since"
    };
    let mut sentence = sentence_of(&[text(first, "sentence"), &subjects]);
    if let Some(since) = oldest["since"].as_str() {
        sentence = format!("{sentence} ({word} {since})");
    }
    Some(Finding {
        state: FindingState::of_level(text(first, "level"))?,
        name: text(first, "kind").to_owned(),
        sentence,
        hint: text(first, "hint").to_owned(),
        anchor: text(first, "anchor").to_owned(),
    })
}

/// Returns what a problem concerns, with the detail.
pub(super) fn subject(problem: &Value) -> String {
    sentence_of(&["subject", "detail"].map(|field| text(problem, field)))
}

/// Returns what is wrong, where, and the detail.
pub(super) fn reason(problem: &Value) -> String {
    sentence_of(&[text(problem, "sentence"), &subject(problem)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts(problems: Vec<Value>) -> ServerFacts {
        ServerFacts {
            problems,
            ..ServerFacts::default()
        }
    }

    #[test]
    fn unknown_kind_and_unknown_level_are_printed() {
        let problems = [
            json!({"kind": "gateway-down", "level": "warning", "sentence": "Gateway is down", "subject": "prod/db",
                   "detail": "east: 2 of 2", "since": "2026-11-24T03:12:00Z", "hint": "check it", "anchor": "problems.html#gateway-down"}),
            json!({"kind": "tea-cold", "level": "tragedy", "detail": "cup"}),
            json!({"kind": "pod-not-ready", "level": "note"}),
            json!({"kind": "short-name", "level": "error", "isOlder": true, "since": "2026-11-24T03:12:00Z", "subject": "db"}),
        ];
        let facts = facts(problems.to_vec());
        let lines: Vec<(FindingState, String, String)> = facts
            .findings(false)
            .into_iter()
            .skip(1)
            .map(|one| (one.state, one.name, one.sentence))
            .collect();
        let line = |state, name: &str, text: &str| (state, name.to_owned(), text.to_owned());
        let since = "2026-11-24T03:12:00Z";
        let expected = [
            line(
                FindingState::Attention,
                "gateway-down",
                &format!("Gateway is down: prod/db: east: 2 of 2 (since {since})"),
            ),
            line(FindingState::Attention, "tea-cold", "cup"),
            line(
                FindingState::Failing,
                "short-name",
                &format!("db (before {since})"),
            ),
        ];
        assert_eq!(lines, expected);
    }

    /// Those that the server lists as no cause are together.
    #[test]
    fn problems_of_one_cause_are_one_line() {
        let one = |number: u32| json!({"kind": "unusable-object", "level": "warning", "sentence": "Orphan", "subject": number.to_string()});
        let of_east = json!({"kind": "unusable-object", "level": "warning", "cluster": "east"});
        let mut facts = facts((0..1000).map(one).chain([of_east.clone()]).collect());
        facts.causes.push(of_east);
        let findings = facts.findings(false);
        assert_eq!(findings.len(), 3);
        assert_eq!(findings[1].sentence, "Orphan: 0, 1, 2, 3, 4 and 995 more");
    }
}
