//! The problems of a server, as its API lists them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::finding::{Check, Finding, State, list, text};

/// More addresses than the A records that fit into a message of 65,535 octets. A name with more is truncated, also over TCP.
const MAX_RECORDS: u64 = 4093;

/// Prints the problems of a server, a line for those of one kind in one cluster. Notes are left out: they are intended, or normal for
/// a while.
pub fn findings(problems: &[Value]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut lines: BTreeMap<[&str; 2], Vec<&Value>> = BTreeMap::new();
    let mut order: Vec<[&str; 2]> = Vec::new();
    for problem in problems {
        let line = ["kind", "cluster"].map(|field| text(problem, field));
        let of_line = lines.entry(line).or_default();
        order.extend(of_line.is_empty().then_some(line));
        of_line.push(problem);
    }
    for line in order {
        let problems = &lines[&line];
        let first = problems[0];
        findings.extend(State::of_level(text(first, "level")).map(|state| Finding {
            state,
            name: line[0].to_owned(),
            sentence: match problems.as_slice() {
                [one] => sentence(one),
                several => joined(&[
                    text(first, "sentence"),
                    &list(several.iter().map(|one| subject(one))),
                ]),
            },
            hint: text(first, "hint").to_owned(),
            anchor: text(first, "anchor").to_owned(),
        }));
    }
    findings
}

pub(super) fn joined(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts
        .iter()
        .filter(|part| !part.is_empty())
        .copied()
        .collect();
    parts.join(": ")
}

/// Returns what a problem concerns, with the detail.
pub(super) fn subject(problem: &Value) -> String {
    joined(&["subject", "detail"].map(|field| text(problem, field)))
}

/// Returns a problem as one sentence: what is wrong, where, the detail, and since when.
pub(super) fn sentence(problem: &Value) -> String {
    let sentence = joined(&[text(problem, "sentence"), &subject(problem)]);
    let word = match problem["isOlder"].as_bool() {
        Some(true) => "before",
        _ => "since",
    };
    match text(problem, "since") {
        "" => sentence,
        since => format!("{sentence} ({word} {since})"),
    }
}

/// Reports the services whose names have more records than a message can have.
pub fn answer_sizes(services: &[Value]) -> Finding {
    let long = services.iter().filter_map(|service| {
        let returned = service["returned"]
            .as_u64()
            .filter(|returned| *returned > MAX_RECORDS)?;
        let [namespace, name] = ["namespace", "service"].map(|field| text(service, field));
        Some(format!("{namespace}/{name} ({returned} endpoints)"))
    });
    let texts = [
        "every answer fits into a message",
        "answers longer than a message of 65,535 octets",
        "clients get only the records that fit, with TC, also over TCP: query the names of single clusters, such as \
         west.db.prod.global, or split the service",
    ];
    Finding::list(State::Attention, Check::AnswerSizes, long, texts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_kind_and_unknown_level_are_printed() {
        let problems = [
            json!({"kind": "gateway-down", "level": "warning", "sentence": "Gateway is down", "subject": "prod/db",
                   "detail": "east: 2 of 2", "since": "2026-11-24T03:12:00Z", "hint": "check it", "anchor": "problems.html#gateway-down"}),
            json!({"kind": "tea-cold", "level": "tragedy", "detail": "cup"}),
            json!({"kind": "pod-not-ready", "level": "note"}),
            json!({"kind": "short-name", "level": "error", "isOlder": true, "since": "2026-11-24T03:12:00Z", "subject": "db"}),
        ];
        let lines: Vec<(State, String, String)> = findings(&problems)
            .into_iter()
            .map(|one| (one.state, one.name, one.sentence))
            .collect();
        let line =
            |state, name: &str, sentence: &str| (state, name.to_owned(), sentence.to_owned());
        let since = "2026-11-24T03:12:00Z";
        let expected = [
            line(
                State::Attention,
                "gateway-down",
                &format!("Gateway is down: prod/db: east: 2 of 2 (since {since})"),
            ),
            line(State::Attention, "tea-cold", "cup"),
            line(
                State::Failing,
                "short-name",
                &format!("db (before {since})"),
            ),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn problems_of_one_kind_in_one_cluster_are_one_line() {
        let one = |number: u32| json!({"kind": "no-parent", "level": "warning", "sentence": "Orphan", "subject": number.to_string()});
        let mut problems: Vec<Value> = (0..1000).map(one).collect();
        problems.push(json!({"kind": "no-parent", "level": "warning", "cluster": "east"}));
        let findings = findings(&problems);
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[0].sentence, "Orphan: 0, 1, 2, 3, 4 and 995 more");
    }
}
