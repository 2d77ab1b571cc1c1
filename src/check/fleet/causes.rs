//! The causes of differences, and the words of their sentences.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::finding::list_some;
use crate::check::{Check, Finding};
use crate::model::ProblemKind;
use crate::report::{ProblemReport, ServiceReport};

/// The namespace and the name of a service.
pub(super) type Key<'m> = (&'m str, &'m str);

/// One cause of a difference. Several services may differ because of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DifferenceCause {
    /// What follows the services in the sentence.
    pub(super) predicate: String,
    hint: String,
    problem: Option<ProblemKind>,
}

/// The services that differ, by their causes.
#[derive(Debug)]
pub(super) struct DifferenceCauses<'m> {
    check: Check,
    causes: BTreeMap<DifferenceCause, BTreeSet<Key<'m>>>,
}

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

/// Returns the verb form for a number of subjects.
pub(super) fn verb<'v>(count: usize, one: &'v str, several: &'v str) -> &'v str {
    if count == 1 { one } else { several }
}

/// Describes clusters that differ: `5 in hub and west; 20 in east`.
pub(super) fn describe<T: std::fmt::Display, S: AsRef<str>>(
    groups: &BTreeMap<T, Vec<S>>,
) -> String {
    let groups = groups
        .iter()
        .map(|(value, clusters)| format!("{value} in {}", join(clusters)));
    groups.collect::<Vec<_>>().join("; ")
}

// === impl DifferenceCause ===

impl DifferenceCause {
    pub(super) fn new(predicate: String, hint: impl Into<String>) -> Self {
        Self {
            predicate,
            hint: hint.into(),
            problem: None,
        }
    }

    /// Makes the cause that is a problem of this kind.
    pub(super) fn of_kind(predicate: String, kind: ProblemKind) -> Self {
        Self {
            problem: Some(kind),
            ..Self::new(predicate, kind.hint())
        }
    }
}

// === impl DifferenceCauses ===

impl<'m> DifferenceCauses<'m> {
    pub(super) fn new(check: Check) -> Self {
        Self {
            check,
            causes: BTreeMap::new(),
        }
    }

    /// Adds a service that differs.
    pub(super) fn add(&mut self, service: Key<'m>, cause: DifferenceCause) {
        self.causes.entry(cause).or_default().insert(service);
    }

    /// Returns the services that differ.
    pub(super) fn services(&self) -> BTreeSet<Key<'m>> {
        self.causes.values().flatten().copied().collect()
    }

    /// Returns a red finding for each cause.
    pub(super) fn findings(self) -> impl Iterator<Item = Finding> {
        let check = self.check;
        self.causes.into_iter().map(move |(cause, services)| {
            let sentence = format!("{}: {}", list_services(&services), cause.predicate);
            Finding {
                problem: cause.problem,
                ..check.red(sentence, cause.hint)
            }
        })
    }
}

/// Lists services, with their number if there are several.
pub(super) fn list_services(services: &BTreeSet<Key<'_>>) -> String {
    let names = services
        .iter()
        .map(|(namespace, name)| format!("{namespace}/{name}"));
    let listed = list_some(names);
    match services.len() {
        1 => listed,
        count => format!("{count} services ({listed})"),
    }
}

/// Returns the key of a service.
pub(super) fn key_of(service: &ServiceReport) -> Key<'_> {
    (&service.namespace, &service.service)
}

/// Returns whether a problem concerns a service.
pub(super) fn concerns(problem: &ProblemReport, (namespace, service): Key<'_>) -> bool {
    let name = problem
        .service
        .as_deref()
        .and_then(|name| name.split_once('/'));
    name == Some((namespace, service))
}
