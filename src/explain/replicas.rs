//! The explanations of one name by several replicas, and how they differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::{Serialize, Serializer};

use super::Explanation;
use crate::model::Line;
use crate::report::{EndpointReport, SchemaVersion, Style};

/// The explanation of one replica.
#[derive(Clone, Debug)]
pub struct ReplicaExplanation {
    /// The namespace and name of its pod.
    pub pod: String,
    /// The explanation, or why there is none.
    pub explanation: Result<Explanation, NoExplanation>,
}

/// Why a replica does not explain a name.
#[derive(Clone, Debug)]
pub enum NoExplanation {
    /// Its history begins later.
    BeforeHistory(Line),
    /// It does not respond, or the response is invalid.
    Failed(Line),
}

/// The explanations of all replicas.
#[derive(Clone, Debug)]
pub struct ReplicaExplanations(Vec<ReplicaExplanation>);

/// What must be equal: each fact with its value, for example an endpoint and its state.
type ComparedFacts = BTreeMap<String, String>;

/// The explanations as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplicasReport<'e> {
    schema_version: SchemaVersion,
    equal: bool,
    differences: Vec<Line>,
    replicas: Vec<ReplicaReport<'e>>,
}

#[derive(Serialize)]
struct ReplicaReport<'e> {
    pod: &'e str,
    explanation: Option<&'e Explanation>,
    error: Option<&'e Line>,
}

// === impl ReplicaExplanations ===

impl ReplicaExplanations {
    /// Collects the explanations, sorted by pod.
    pub fn new(mut all: Vec<ReplicaExplanation>) -> Self {
        all.sort_by(|one, other| one.pod.cmp(&other.pod));
        Self(all)
    }

    /// Returns whether the replicas explain the name alike. One whose history does not reach to the time is left out.
    pub fn is_success(&self) -> bool {
        let has_failed =
            |one: &ReplicaExplanation| matches!(one.explanation, Err(NoExplanation::Failed(_)));
        self.differences(Style::default()).is_empty() && !self.0.iter().any(has_failed)
    }

    /// Returns the explanation of most replicas.
    pub fn explanation(&self) -> Option<&Explanation> {
        self.groups()
            .into_iter()
            .next()
            .map(|(_, members)| members[0].1)
    }

    /// Returns a sentence for each replica without an explanation.
    pub fn failures(&self) -> Vec<String> {
        let failed = self
            .0
            .iter()
            .filter_map(|one| Some((&one.pod, one.explanation.as_ref().err()?)));
        failed
            .map(|(pod, failure)| format!("{pod}: {}", failure.reason().as_str()))
            .collect()
    }

    /// Returns the replicas by their facts, the largest group first.
    fn groups(&self) -> Vec<(ComparedFacts, Vec<(&str, &Explanation)>)> {
        let mut groups: Vec<(ComparedFacts, Vec<(&str, &Explanation)>)> = Vec::new();
        for one in &self.0 {
            let Ok(explanation) = &one.explanation else {
                continue;
            };
            let facts = facts(explanation);
            let member = (one.pod.as_str(), explanation);
            match groups.iter_mut().find(|(known, _)| *known == facts) {
                Some((_, members)) => members.push(member),
                None => groups.push((facts, vec![member])),
            }
        }
        groups.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
        groups
    }

    /// Returns a sentence for each fact that differs: which replica says what, and the last change that each one saw.
    pub fn differences(&self, style: Style) -> Vec<Line> {
        let groups = self.groups();
        if groups.len() < 2 {
            return Vec::new();
        }
        let names: BTreeSet<&String> = groups.iter().flat_map(|(facts, _)| facts.keys()).collect();
        let mut lines = Vec::new();
        for name in names {
            let value_of = |facts: &ComparedFacts| {
                facts
                    .get(name)
                    .cloned()
                    .unwrap_or_else(|| "absent".to_owned())
            };
            let values: BTreeSet<String> =
                groups.iter().map(|(facts, _)| value_of(facts)).collect();
            if values.len() < 2 {
                continue;
            }
            let replicas: Vec<String> = groups
                .iter()
                .flat_map(|(facts, members)| {
                    let value = value_of(facts);
                    members.iter().map(move |(pod, explanation)| {
                        format!("{value}{} in {pod}", since_of(explanation, name, style))
                    })
                })
                .collect();
            lines.push(format!("{name}: {}", replicas.join("; ")).into());
        }
        for (_, members) in &groups {
            for (pod, explanation) in members {
                let last = explanation.history.first().map_or_else(
                    || "none since its start".to_owned(),
                    |event| format!("{}, {}", style.time(&event.time), &*event.text),
                );
                lines.push(format!("last change in {pod}: {last}").into());
            }
        }
        lines
    }

    /// Returns the explanation of most replicas, and the differences.
    pub fn to_text(&self, style: Style) -> String {
        let mut text = String::new();
        let differences = self.differences(style);
        let groups = self.groups();
        if let Some((_, members)) = groups.first() {
            let pods: Vec<&str> = members.iter().map(|(pod, _)| *pod).collect();
            // Writing to a `String` cannot fail.
            let _ = writeln!(
                text,
                "answered alike by {} of {} replicas: {}",
                pods.len(),
                self.0.len(),
                pods.join(", ")
            );
            for failure in self.failures() {
                let _ = writeln!(text, "not answered by {}", Line::from(failure).as_str());
            }
            text += &members[0].1.to_text(style);
        }
        if !differences.is_empty() {
            text += "\ndifferences\n";
        }
        for line in differences {
            let _ = writeln!(text, "  {}", line.as_str());
        }
        text
    }
}

impl Serialize for ReplicaExplanations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let differences = self.differences(Style::default());
        ReplicasReport {
            schema_version: SchemaVersion,
            equal: differences.is_empty(),
            differences,
            replicas: self.0.iter().map(ReplicaReport::from).collect(),
        }
        .serialize(serializer)
    }
}

impl<'e> From<&'e ReplicaExplanation> for ReplicaReport<'e> {
    fn from(one: &'e ReplicaExplanation) -> Self {
        Self {
            pod: &one.pod,
            explanation: one.explanation.as_ref().ok(),
            error: one.explanation.as_ref().err().map(NoExplanation::reason),
        }
    }
}

// === impl NoExplanation ===

impl NoExplanation {
    fn reason(&self) -> &Line {
        match self {
            Self::BeforeHistory(reason) | Self::Failed(reason) => reason,
        }
    }
}

/// Returns what must be equal. Times differ by nature, and so do records of weighted clusters and of the server itself.
fn facts(explanation: &Explanation) -> ComparedFacts {
    let exists = if explanation.exists {
        "it exists"
    } else {
        "it does not exist"
    };
    let mut facts = ComparedFacts::from([("the name".to_owned(), exists.to_owned())]);
    for answer in &explanation.answers {
        let reason = answer.reason.iter().map(|reason| format!(", {reason}"));
        let ttl = answer.ttl.iter().map(|ttl| format!(", TTL {ttl}"));
        let parts: String = ttl.chain(reason).collect();
        facts.insert(answer.rtype.clone(), format!("{}{parts}", answer.result));
    }
    for endpoint in &explanation.endpoints {
        let returned = if endpoint.returned {
            "returned"
        } else {
            "left out"
        };
        let mut addresses: Vec<String> =
            endpoint.addresses.iter().map(ToString::to_string).collect();
        addresses.sort_unstable();
        let state = endpoint.state.name();
        let value = format!("{state}, {returned}, {}", addresses.join(" "));
        facts.insert(name_of(endpoint), value);
    }
    facts
}

/// Returns the name of an endpoint as a fact.
fn name_of(endpoint: &EndpointReport) -> String {
    let labels: Vec<&str> = [
        &endpoint.hostname,
        &endpoint.cluster,
        &endpoint.service,
        &endpoint.namespace,
    ]
    .into_iter()
    .map(String::as_str)
    .filter(|label| !label.is_empty())
    .collect();
    format!("endpoint {}", labels.join("."))
}

/// Returns since when an endpoint is down or not ready, as an addition to its value.
fn since_of(explanation: &Explanation, fact: &str, style: Style) -> String {
    let mut endpoints = explanation.endpoints.iter();
    let endpoint = endpoints.find(|endpoint| name_of(endpoint) == fact);
    style.since(endpoint.and_then(|endpoint| endpoint.since.as_deref()))
}
