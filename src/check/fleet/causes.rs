//! The causes of differences, and the words of their sentences.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::observer::Key;
use crate::check::finding::{Check, Finding, list, text};
use crate::check::problems;
use crate::model::ProblemKind;

/// One cause of a difference. Several services may differ because of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cause {
    /// What differs. It follows the services in the sentence.
    predicate: String,
    /// Why. Empty: the predicate says all.
    reason: String,
    hint: String,
    /// The kind of the problem and its section of the manual. Empty: it is none.
    kind: String,
    anchor: String,
}

/// The services that differ, by their causes.
#[derive(Debug, Default)]
pub(super) struct Causes<'m>(BTreeMap<Cause, BTreeSet<Key<'m>>>);

/// Groups values by their keys.
pub(super) fn group<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, Vec<V>> {
    let mut groups: BTreeMap<K, Vec<V>> = BTreeMap::new();
    for (key, value) in pairs {
        groups.entry(key).or_default().push(value);
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

/// Describes observers that differ: `5 in hub and west; 20 in east`.
pub(super) fn describe<T: std::fmt::Display, S: AsRef<str>>(
    groups: &BTreeMap<T, Vec<S>>,
) -> String {
    let groups = groups
        .iter()
        .map(|(value, observers)| format!("{value} in {}", join(observers)));
    groups.collect::<Vec<_>>().join("; ")
}

/// Lists services, with their number if there are several.
pub(super) fn list_services(services: &BTreeSet<Key<'_>>) -> String {
    let listed = list(
        services
            .iter()
            .map(|(namespace, name)| format!("{namespace}/{name}")),
    );
    match services.len() {
        1 => listed,
        count => format!("{count} services ({listed})"),
    }
}

// === impl Cause ===

impl Cause {
    pub(super) fn new(predicate: String, hint: impl Into<String>) -> Self {
        Self::because(&predicate, "", hint)
    }

    pub(super) fn because(predicate: &str, reason: &str, hint: impl Into<String>) -> Self {
        Self {
            predicate: predicate.to_owned(),
            reason: reason.to_owned(),
            hint: hint.into(),
            kind: String::new(),
            anchor: String::new(),
        }
    }

    /// Makes the cause that a problem of this kind usually is.
    pub(super) fn of_kind(predicate: String, kind: ProblemKind) -> Self {
        Self {
            kind: kind.name().to_owned(),
            anchor: kind.anchor(),
            ..Self::new(predicate, kind.hint())
        }
    }

    /// Makes the cause that is this problem of an observer, which may be of a kind that this program does not know.
    pub(super) fn of_problem(predicate: &str, problem: &Value) -> Self {
        let [kind, anchor, hint] = ["kind", "anchor", "hint"].map(|field| text(problem, field));
        Self {
            kind: kind.to_owned(),
            anchor: anchor.to_owned(),
            ..Self::because(predicate, &problems::sentence(problem), hint)
        }
    }

    /// Adds the observers to the predicate.
    pub(super) fn seen_in(mut self, observers: &str) -> Self {
        self.predicate = format!("{} in {observers}", self.predicate);
        self
    }
}

// === impl Causes ===

impl<'m> Causes<'m> {
    /// Adds a service that differs.
    pub(super) fn add(&mut self, service: Key<'m>, cause: Cause) {
        self.0.entry(cause).or_default().insert(service);
    }

    /// Returns the services that differ.
    pub(super) fn services(&self) -> BTreeSet<Key<'m>> {
        self.0.values().flatten().copied().collect()
    }

    /// Returns a failing finding for each cause.
    pub(super) fn findings(&self, check: Check) -> impl Iterator<Item = Finding> {
        self.0.iter().map(move |(cause, services)| {
            let parts = [&list_services(services), &cause.predicate, &cause.reason];
            let mut finding = Finding::failing(
                check,
                problems::joined(&parts.map(String::as_str)),
                &*cause.hint,
            );
            if !cause.kind.is_empty() {
                (finding.name, finding.anchor) = (cause.kind.clone(), cause.anchor.clone());
            }
            finding
        })
    }
}
