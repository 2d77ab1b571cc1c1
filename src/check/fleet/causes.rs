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
    predicate: String,
    hint: String,
    problem: Option<ProblemKind>,
}

/// The services that differ, by their causes.
#[derive(Debug)]
pub(super) struct DifferenceCauses<'m> {
    check: Check,
    services: BTreeMap<DifferenceCause, BTreeSet<Key<'m>>>,
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

// === impl DifferenceCauses ===

impl<'m> DifferenceCauses<'m> {
    pub(super) fn new(check: Check) -> Self {
        Self {
            check,
            services: BTreeMap::new(),
        }
    }

    /// Adds a service that differs.
    pub(super) fn add(&mut self, service: Key<'m>, predicate: String, hint: impl Into<String>) {
        self.add_problem(service, predicate, hint, None);
    }

    /// Adds a service that differs because of a problem.
    pub(super) fn add_problem(
        &mut self,
        service: Key<'m>,
        predicate: String,
        hint: impl Into<String>,
        kind: Option<ProblemKind>,
    ) {
        let cause = DifferenceCause {
            predicate,
            hint: hint.into(),
            problem: kind,
        };
        self.services.entry(cause).or_default().insert(service);
    }

    /// Returns a red finding for each cause.
    pub(super) fn findings(self) -> impl Iterator<Item = Finding> {
        let check = self.check;
        self.services.into_iter().map(move |(cause, services)| {
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
