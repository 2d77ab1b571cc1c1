//! A difference: what observers see otherwise, in one sentence, with its cause. All of `fleet` is compared and said here.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::observer::Key;
use crate::check::finding::{Check, Finding, State, list, text};
use crate::check::told::joined;
use crate::model::ProblemKind;

/// The observers by what they see, in the order of the fleet.
pub(super) type Groups<'n> = BTreeMap<String, Vec<&'n str>>;

/// A property that all observers should see alike: its name in sentences, and what to do if it differs.
pub(super) type Aspect = (&'static str, &'static str);

/// The differences, each with the services that differ because of it. The sentence of the finding does not name them.
#[derive(Debug, Default)]
pub(super) struct Differences<'m>(BTreeMap<Finding, BTreeSet<Key<'m>>>);

/// Groups observers by what they see. Several replicas of a cluster that see the same are one.
pub(super) fn group<'n>(seen: impl IntoIterator<Item = (String, &'n str)>) -> Groups<'n> {
    let mut groups = Groups::new();
    for (value, observer) in seen {
        let observers = groups.entry(value).or_default();
        if observers.last() != Some(&observer) {
            observers.push(observer);
        }
    }
    groups
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

/// Makes the finding that observers see something otherwise: `zones: global. in hub and west; none in east`.
pub(super) fn differs(check: Check, what: &str, groups: &Groups<'_>, hint: &str) -> Finding {
    let seen = groups.iter().map(|(value, observers)| {
        let value = if value.is_empty() { "none" } else { value };
        format!("{value} in {}", join(observers))
    });
    let seen: Vec<String> = seen.collect();
    Finding::failing(check, format!("{what}: {}", seen.join("; ")), hint)
}

/// Compares aspects of what observers see, and returns a finding for each that differs. An aspect without a text is not compared.
/// `of`: whose aspects they are, for sentences. All but the first `independent` ones may differ because of something else, so that
/// they count only if nothing before them differs. `is_explained`: something else differs.
pub(super) fn compare<const N: usize>(
    check: Check,
    of: &str,
    aspects: &[Aspect; N],
    independent: usize,
    is_explained: bool,
    seen: &[(&str, [Option<String>; N])],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, (name, hint)) in aspects.iter().enumerate() {
        let told = seen.iter();
        let groups = group(told.filter_map(|(one, texts)| Some((texts[index].clone()?, *one))));
        let is_explained = index >= independent && (is_explained || !findings.is_empty());
        if groups.len() > 1 && !is_explained {
            findings.push(differs(check, &format!("{name}{of}"), &groups, hint));
        }
    }
    findings
}

// === impl Finding ===

impl Finding {
    /// Adds a cause, and what to do about it.
    pub(super) fn because(mut self, reason: &str, hint: &str) -> Self {
        self.sentence = joined(&[&self.sentence, reason]);
        self.hint = hint.to_owned();
        self
    }

    /// Names the kind of problem that is the cause, and what to do about it.
    pub(super) fn of_kind(self, kind: ProblemKind) -> Self {
        Self {
            name: kind.name().to_owned(),
            anchor: kind.anchor(),
            hint: kind.hint(),
            ..self
        }
    }

    /// Adds a problem of an observer as the cause. It may be of a kind that this program does not know.
    pub(super) fn because_of(self, problem: &Value, reason: &str) -> Self {
        let [name, anchor, hint] = ["kind", "anchor", "hint"].map(|field| text(problem, field));
        Self {
            name: name.to_owned(),
            anchor: anchor.to_owned(),
            ..self.because(reason, hint)
        }
    }
}

// === impl Differences ===

impl<'m> Differences<'m> {
    /// Adds differences that concern no service.
    pub(super) fn add(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            self.0.entry(finding).or_default();
        }
    }

    /// Adds differences of a service.
    pub(super) fn add_service(
        &mut self,
        service: Key<'m>,
        findings: impl IntoIterator<Item = Finding>,
    ) {
        for finding in findings {
            self.0.entry(finding).or_default().insert(service);
        }
    }

    /// Returns whether a service differs.
    pub(super) fn has(&self, service: Key<'m>) -> bool {
        self.0.values().any(|services| services.contains(&service))
    }

    /// Returns the findings, each with its services. One that makes services differ is failing.
    pub(super) fn findings(self) -> Vec<Finding> {
        let findings = self.0.into_iter().map(|(mut finding, services)| {
            let names = list(services.iter().map(|service| service.join("/")));
            let names = match services.len() {
                0 => return finding,
                1 => names,
                count => format!("{count} services ({names})"),
            };
            finding.state = State::Failing;
            finding.sentence = joined(&[&names, &finding.sentence]);
            finding
        });
        findings.collect()
    }
}
